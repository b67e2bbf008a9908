"""What the scripts beside it share: options, processes, buffers, turns and records.

How they measure

- Contestants take turns in one process, each round in a new random order, so that a change of the machine's bandwidth
  or a neighbour hits all alike. With more than one thread there is a pause before each turn, in which the threads of
  OpenMP and the like stop spinning, and then calls for 30 ms that are not timed: a core of a virtual machine that has
  slept is slow for 10 ms and more, and a second thread no help until then, which is nobody's kernel. In records made
  before 24 November 2026, 23:00 UTC, it was 5 ms or one call, and short cells with two threads took as long as with one.
- What is read comes from rings: arenas of 1 GiB on huge pages, cut into slots. Every turn takes the next slot, so
  what it reads is in no cache: between two uses of a slot, gigabytes have gone by.
- There is a process for each number of threads, pinned to so many cores before any library is loaded. The caller's
  thread is one of them, with us as with OpenMP; in records made before 23 November 2026, 20:00 UTC, our calls woke up
  another.
- Some libraries allocate what they return, and how long that takes depends on malloc: so everything happens twice, in
  processes with malloc as it comes and in ones with huge pages and no trimming, the best that a user can ask glibc for.
- Answers are compared before anything is timed.
"""
import argparse
import ctypes
import datetime
import importlib
import json
import math
import mmap
import os
import platform
import random
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARENA_BYTES = 1 << 30
HUGE_PAGE = 2 << 20
PAUSE_S, WARM_UP_S = 0.015, 0.03
# Serve everything from a heap on huge pages, and keep what is freed.
HUGE_MALLOC = ":".join(
    ["glibc.malloc.hugetlb=1"]
    + [f"glibc.malloc.{name}={1 << 34}" for name in ("mmap_threshold", "trim_threshold")]
    + [f"glibc.malloc.top_pad={64 << 20}"]
)
MALLOCS = {"default": {}, "huge pages": {"GLIBC_TUNABLES": HUGE_MALLOC}}


def option_parser(description, shapes):
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", default="1,2", help="comma-separated numbers of threads")
    parser.add_argument("--shapes", default=",".join(f"{rows}x{cols}" for rows, cols in shapes))
    parser.add_argument("--library", help="our library; by default cargo builds it")
    parser.add_argument("--records", type=Path, default=ROOT / "benches" / "records")
    parser.add_argument("--note", default="", help="a sentence for the record, e.g. what else the machine was doing")
    parser.add_argument("--dry-run", action="store_true", help="write no record")
    parser.add_argument("--report", type=Path, help="print the table of a record again, and do nothing else")
    parser.add_argument("--child", type=int, metavar="THREADS", help=argparse.SUPPRESS)
    return parser


def run(options, name, measure, report):
    """Measures in a process for each malloc and number of threads, prints the report, and writes the record.

    `measure(options, library, shapes)` returns cells and the modules whose versions count; `report(record)` the text.
    """
    if options.child:
        return child(options, measure)
    if options.report:
        return print(report(json.loads(options.report.read_text())), end="")
    library = options.library or build(f"{name}_ffi")
    results = {}
    for malloc, settings in MALLOCS.items():
        parts = []
        for threads in options.threads.split(","):
            env = dict(os.environ, **settings)
            env.update({name: threads for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")})
            print(f"malloc {malloc}, {threads} threads", file=sys.stderr)
            command = [sys.executable, *sys.argv, "--library", library, "--child", threads]
            parts.append(json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout))
        results[malloc] = {**parts[0], "cells": [cell for part in parts for cell in part["cells"]]}
    record = {"machine": machine(), "command": shlex.join(["python", f"benches/peers/{name}.py", *sys.argv[1:]]),
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "note": options.note,
              "versions": results["default"]["versions"], "rounds": options.rounds, "results": results}
    text = report(record)
    print(text)
    if not options.dry_run:
        options.records.mkdir(parents=True, exist_ok=True)
        stem = options.records / f"{record['date'][:10]}-{name.replace('_', '-')}-{record['versions']['isa']}-peers"
        stem.with_suffix(".md").write_text(text)
        stem.with_suffix(".json").write_text(json.dumps(record) + "\n")
        print(f"wrote {stem}.md and .json", file=sys.stderr)


def build(example):
    subprocess.run(["cargo", "build", "--release", "-p", "tribunal-kernels", "--example", example],
                   cwd=ROOT, check=True, stdout=sys.stderr)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "release" / "examples" / f"lib{example}.so")


def machine():
    cpu = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    cpu = {key.strip(): value.strip() for key, value in cpu.items()}
    caches = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        if kind != "Instruction":
            caches[f"L{level}"] = size
    return {"cpu": cpu.get("model name", platform.machine()),
            "family": cpu.get("cpu family"), "model": cpu.get("model"),
            "cores": os.cpu_count(), "caches": caches, "kernel": platform.release(),
            "huge pages": Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text().strip()}


# ---------------------------------------------------------------- the child, which measures

def child(options, measure):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.child])
    library = ctypes.CDLL(options.library)
    library.tribunal_isa.restype = ctypes.c_char_p
    if library.tribunal_set_threads(ctypes.c_size_t(options.child)):
        sys.exit(f"no pool of {options.child} threads is to be had")
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes.split(",")]
    cells, modules = measure(options, library, shapes)
    versions = {"python": platform.python_version(),
                **{name: importlib.import_module(name).__version__ for name in modules},
                "isa": library.tribunal_isa().decode(), "glibc": platform.libc_ver()[1],
                "rustc": subprocess.run(["rustc", "-V"], capture_output=True, text=True).stdout.strip()}
    json.dump({"cells": cells, "versions": versions}, sys.stdout)


def huge(count, dtype):
    """Room for so many numbers, on huge pages, and as soon as they are written in memory."""
    import numpy as np
    size = count * np.dtype(dtype).itemsize
    room = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = np.frombuffer(room, np.uint8)
    start = -whole.ctypes.data % HUGE_PAGE
    room.madvise(mmap.MADV_HUGEPAGE)
    return whole[start:start + size].view(dtype)


class Arena:
    """One GiB on huge pages, cut into slots of a shape."""

    def __init__(self, seed):
        import numpy as np
        self.floats = huge(ARENA_BYTES // 4, np.float32)
        block = np.random.default_rng(seed).standard_normal(1 << 24, dtype=np.float32)
        for i in range(0, len(self.floats), len(block)):
            self.floats[i:i + len(block)] = block

    def slots(self, shape):
        rows, cols = shape
        count = len(self.floats) // (rows * cols)
        return self.floats[:count * rows * cols].reshape(count, rows, cols)


def aligned(values):
    """A copy of a small array that starts on a cache line, as PyTorch's own would."""
    import numpy as np
    raw = np.empty(values.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start:start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[:] = values
    return copy


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def race(calls, slots, rounds, patience=math.inf):
    """The seconds of each contestant in each round; `calls` maps names to functions of a slot's number. Who has taken
    `patience` seconds sits out the rounds that are left, but not the first."""
    order, pause = random.Random(1), PAUSE_S if len(os.sched_getaffinity(0)) > 1 else 0
    seconds = {name: [] for name in calls}
    slot = 0
    for round_ in range(rounds + 1):  # the one before the first warms up
        for name in order.sample(list(calls), len(calls)):
            if sum(seconds[name]) > patience:
                continue
            call = calls[name]
            if pause:
                time.sleep(pause)
                warm = time.perf_counter() + WARM_UP_S
                while time.perf_counter() < warm:
                    call(slot)
                    slot = (slot + 1) % slots
            start = time.perf_counter()
            result = call(slot)
            elapsed = time.perf_counter() - start
            slot = (slot + 1) % slots
            del result
            if round_:
                seconds[name].append(elapsed)
    return seconds


def onnxruntime_session(model, threads):
    """A session of onnxruntime for an ONNX model."""
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
    # Threads spin within a run, as they do by default; but not for the 35 ms after it, into others' turns.
    settings.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])


# ---------------------------------------------------------------- the report

def heading(title, record):
    """The lines above the table: where, when and how it was measured."""
    machine, versions = record["machine"], record["versions"]
    caches = ", ".join(f"{level} {size}" for level, size in machine["caches"].items())
    lines = [f"# {title}, {record['date'][:10]}", "",
             f"- machine: {machine['cpu']} (family {machine['family']}, model {machine['model']}), {machine['cores']} cores,"
             f" {caches}; Linux {machine['kernel']}, huge pages {machine['huge pages']}",
             f"- versions: {', '.join(f'{name} {version}' for name, version in versions.items())}",
             f"- command: `{record['command']}`, {record['date']}, {record['rounds']} rounds"]
    return lines + ([f"- note: {record['note']}"] if record["note"] else [])


def cells(record):
    """The first cell of each measurement, and the seconds of all processes that made it."""
    for same in zip(*(result["cells"] for result in record["results"].values())):
        yield same[0], [cell["seconds"] for cell in same]


def lead(processes, name, by="ours"):
    """How many times as long `name` takes as ours, or as another: minimum by minimum, and the median over rounds, each of
    the process where it is smallest."""
    pairs = [(seconds[name], seconds[by]) for seconds in processes]
    return (min(min(of) / min(by) for of, by in pairs),
            min(statistics.median(a / b for a, b in zip(of, by)) for of, by in pairs))


def fastest(processes, name):
    """The least seconds of a contestant in any process."""
    return min(min(seconds[name]) for seconds in processes)


def table(alignment, titles):
    """The head of a table; `alignment` has an `l` or an `r` for each column."""
    return [row(*titles), "|" + "".join({"l": "---|", "r": "--:|"}[side] for side in alignment)]


def row(*values):
    return "| " + " | ".join(map(str, values)) + " |"
