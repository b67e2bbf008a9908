#!/usr/bin/env python3
"""Layer normalisation on CPU: our kernels, PyTorch, numba and the memory floor, side by side in one process.

Install (Linux on x86-64, Python 3.11 or newer, gcc, binutils; 540 MB to download):

    python3 -m venv peers-venv && . peers-venv/bin/activate
    pip install numpy numba
    pip install --no-deps torch && pip install typing_extensions filelock sympy networkx jinja2 fsspec
    python benches/peers/torch_without_cuda.py     # not needed for a CPU build of torch

Run (two to three minutes on an idle machine of two cores; needs 5 GB of memory):

    python benches/peers/layer_norm.py             # builds our library with cargo, writes to benches/records/
    python benches/peers/layer_norm.py --rounds 8 --threads 1 --dry-run

How it measures

- Contestants take turns in one process, each round in a new random order, so that a change of the machine's bandwidth or
  a neighbour hits all alike. Before each turn there is a pause, in which PyTorch's OpenMP threads stop spinning.
- All read from and, where they can, write to the same rings: three arenas of 1 GiB (x, dy, output), on huge pages. Every turn
  takes the next slot, so what it reads is in no cache: between two uses of a slot, gigabytes have gone by.
- PyTorch has no operator that writes layer norm to a given buffer without a copy, so it allocates its output, and that is part
  of its time. How much depends on malloc: the whole run happens twice, in a process with malloc as it comes and in one with
  huge pages and no trimming, which is the best that a user can ask glibc for.
- The floor is the best of three ways to move the compulsory bytes (plain stores, streaming stores, streaming stores with
  prefetch): a copy for forward, a triad for backward.
- Answers are compared before anything is timed.

What the numbers favour: large shapes whose outputs nobody reads at once. With outputs that fit a cache and are read next,
streaming stores are the wrong choice.
"""
import argparse
import ctypes
import datetime
import json
import mmap
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHAPES = [(8192, 768), (4096, 1024), (2048, 4096), (1024, 8192)]
ARENA_BYTES = 1 << 30
HUGE_PAGE = 2 << 20
EPS = 1e-5
PAUSE_S = 0.015
WAYS = ["plain", "nt", "nt + prefetch"]
# Serve everything from a heap on huge pages, and keep what is freed.
HUGE_MALLOC = ":".join(
    ["glibc.malloc.hugetlb=1"]
    + [f"glibc.malloc.{name}={1 << 34}" for name in ("mmap_threshold", "trim_threshold")]
    + [f"glibc.malloc.top_pad={64 << 20}"]
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", default="1,2", help="comma-separated numbers of threads")
    parser.add_argument("--shapes", default=",".join(f"{r}x{c}" for r, c in SHAPES))
    parser.add_argument("--library", help="our library; by default cargo builds it")
    parser.add_argument("--records", type=Path, default=ROOT / "benches" / "records")
    parser.add_argument("--note", default="", help="a sentence for the record, e.g. what else the machine was doing")
    parser.add_argument("--dry-run", action="store_true", help="write no record")
    parser.add_argument("--report", type=Path, help="print the table of a record again, and do nothing else")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    if options.report:
        return print(report(json.loads(options.report.read_text())), end="")
    options.library = options.library or build()
    results = {}
    for malloc in ("default", "huge pages"):
        env = dict(os.environ)
        if malloc == "huge pages":
            env["GLIBC_TUNABLES"] = HUGE_MALLOC
        threads = max(options.threads.split(","), key=int)
        env.update({name: threads for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")})
        command = [sys.executable, __file__, "--child", malloc, "--library", options.library]
        command += ["--rounds", str(options.rounds), "--threads", options.threads, "--shapes", options.shapes]
        results[malloc] = json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout)
    record = {"machine": machine(), "command": "python " + " ".join(["benches/peers/layer_norm.py", *sys.argv[1:]]),
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "note": options.note,
              "versions": results["default"]["versions"], "rounds": options.rounds, "results": results}
    text = report(record)
    print(text)
    if not options.dry_run:
        options.records.mkdir(parents=True, exist_ok=True)
        stem = options.records / f"{record['date'][:10]}-layer-norm-{record['versions']['isa']}-peers"
        stem.with_suffix(".md").write_text(text)
        stem.with_suffix(".json").write_text(json.dumps(record) + "\n")
        print(f"wrote {stem}.md and .json", file=sys.stderr)


def build():
    subprocess.run(["cargo", "build", "--release", "-p", "tribunal-kernels", "--example", "layer_norm_ffi"],
                   cwd=ROOT, check=True, stdout=sys.stderr)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "release" / "examples" / "liblayer_norm_ffi.so")


def machine():
    cpu = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    cpu = {key.strip(): value.strip() for key, value in cpu.items()}
    caches = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        if kind != "Instruction":
            caches[f"L{level}"] = size
    return {"cpu": cpu.get("model name", platform.machine()), "family": cpu.get("cpu family"), "model": cpu.get("model"),
            "cores": os.cpu_count(), "caches": caches, "kernel": platform.release(),
            "huge pages": Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text().strip()}


# ---------------------------------------------------------------- the child, which measures

class Arena:
    """One GiB on huge pages, cut into slots of a shape."""

    def __init__(self, seed):
        import numpy as np
        self.map = mmap.mmap(-1, ARENA_BYTES + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        whole = np.frombuffer(self.map, np.uint8)
        start = -whole.ctypes.data % HUGE_PAGE
        self.map.madvise(mmap.MADV_HUGEPAGE)
        self.floats = whole[start:start + ARENA_BYTES].view(np.float32)
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
    copy = raw[start:start + values.nbytes].view(values.dtype)
    copy[:] = values
    return copy


def numba_kernels():
    import numba
    import numpy as np

    @numba.njit(parallel=True, fastmath=True)
    def forward(x, gamma, beta, y, mean, rstd):
        n = np.float32(x.shape[1])
        for i in numba.prange(x.shape[0]):
            total = np.float32(0)
            for j in range(x.shape[1]):
                total += x[i, j]
            m = total / n
            squares = np.float32(0)
            for j in range(x.shape[1]):
                squares += (x[i, j] - m) * (x[i, j] - m)
            r = np.float32(1) / np.sqrt(squares / n + np.float32(EPS))
            for j in range(x.shape[1]):
                y[i, j] = (x[i, j] - m) * r * gamma[j] + beta[j]
            mean[i] = m
            rstd[i] = r

    @numba.njit(parallel=True, fastmath=True)
    def backward(dy, x, mean, rstd, gamma, dx, partial, dgamma, dbeta):
        rows, cols = x.shape
        blocks = partial.shape[0]
        n = np.float32(cols)
        for b in numba.prange(blocks):
            partial[b] = 0
            for i in range(b * rows // blocks, (b + 1) * rows // blocks):
                m, r = mean[i], rstd[i]
                c1, c2 = np.float32(0), np.float32(0)
                for j in range(cols):
                    xhat = (x[i, j] - m) * r
                    g = dy[i, j] * gamma[j]
                    c1 += g
                    c2 += g * xhat
                    partial[b, 0, j] += dy[i, j] * xhat
                    partial[b, 1, j] += dy[i, j]
                c1, c2 = c1 / n, c2 / n
                for j in range(cols):
                    dx[i, j] = r * (dy[i, j] * gamma[j] - c1 - (x[i, j] - m) * r * c2)
        for j in numba.prange(cols):
            a, b = np.float32(0), np.float32(0)
            for k in range(blocks):
                a += partial[k, 0, j]
                b += partial[k, 1, j]
            dgamma[j] = a
            dbeta[j] = b

    return forward, backward


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def contestants(library, numba_pair, shape, arenas, threads):
    """{pass: {name: call on a slot}}, after checking that all agree."""
    import numpy as np
    import torch
    rows, cols = shape
    rng = np.random.default_rng(7)
    gamma, beta = (aligned(rng.standard_normal(cols, dtype=np.float32)) for _ in range(2))
    xs, dys, outs = (arena.slots(shape) for arena in arenas)
    mean, rstd = aligned(np.zeros(rows, np.float32)), aligned(np.zeros(rows, np.float32))
    dgamma, dbeta = aligned(np.zeros(cols, np.float32)), aligned(np.zeros(cols, np.float32))
    partial = np.zeros((4 * threads, 2, cols), np.float32)
    t_xs, t_dys, t_gamma, t_beta = (torch.from_numpy(a) for a in (xs, dys, gamma, beta))
    size, eps = ctypes.c_size_t, ctypes.c_double(EPS)
    r, c, n = size(rows), size(cols), size(rows * cols)
    p = {name: pointer(a) for name, a in dict(gamma=gamma, beta=beta, mean=mean, rstd=rstd, dgamma=dgamma, dbeta=dbeta).items()}
    x_at, dy_at, out_at = ([pointer(slot) for slot in slots] for slots in (xs, dys, outs))

    def ours_forward(i):
        library.tribunal_layer_norm_forward(r, c, x_at[i], p["gamma"], p["beta"], eps, out_at[i], p["mean"], p["rstd"])

    def ours_backward(i):
        library.tribunal_layer_norm_backward(
            r, c, dy_at[i], x_at[i], p["mean"], p["rstd"], p["gamma"], out_at[i], p["dgamma"], p["dbeta"])

    def torch_forward(i):
        return torch.native_layer_norm(t_xs[i], (cols,), t_gamma, t_beta, EPS)

    t_mean, t_rstd = torch.from_numpy(mean)[:, None], torch.from_numpy(rstd)[:, None]

    def torch_backward(i):
        return torch.ops.aten.native_layer_norm_backward(
            t_dys[i], t_xs[i], [cols], t_mean, t_rstd, t_gamma, t_beta, [True, True, True])

    numba_forward, numba_backward = numba_pair
    forward = {"ours": ours_forward, "torch": torch_forward,
               "numba": lambda i: numba_forward(xs[i], gamma, beta, outs[i], mean, rstd)}
    backward = {"ours": ours_backward, "torch": torch_backward,
                "numba": lambda i: numba_backward(dys[i], xs[i], mean, rstd, gamma, outs[i], partial, dgamma, dbeta)}
    for way, name in enumerate(WAYS):
        forward["floor: " + name] = lambda i, way=size(way): library.tribunal_probe(way, n, x_at[i], None, out_at[i])
        backward["floor: " + name] = lambda i, way=size(way): library.tribunal_probe(way, n, x_at[i], dy_at[i], out_at[i])

    def agree(what, got, expected):
        scale = float(np.abs(expected).max())
        distance = float(np.abs(got - expected).max())
        assert distance <= 1e-5 * scale, f"{what} at {shape}: off by {distance} of {scale}"

    y, t_mean_0, _ = torch_forward(0)
    for name in ("numba", "ours"):
        outs[0] = 0
        forward[name](0)
        agree(f"{name} y", outs[0], y.numpy())
        agree(f"{name} mean", mean, t_mean_0.numpy()[:, 0])
    dx, t_dgamma, t_dbeta = torch_backward(0)
    for name in ("numba", "ours"):
        outs[0] = 0
        backward[name](0)
        agree(f"{name} dx", outs[0], dx.numpy())
        agree(f"{name} dgamma", dgamma, t_dgamma.numpy())
        agree(f"{name} dbeta", dbeta, t_dbeta.numpy())
    return {"forward": forward, "backward": backward}, len(xs)


def child(options):
    import numba
    import numpy
    import torch
    torch.set_grad_enabled(False)
    library = ctypes.CDLL(options.library)
    library.tribunal_isa.restype = ctypes.c_char_p
    arenas = [Arena(seed) for seed in range(3)]
    numba_pair = numba_kernels()
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes.split(",")]
    order = random.Random(1)
    cells = []
    for threads in map(int, options.threads.split(",")):
        library.tribunal_set_threads(ctypes.c_size_t(threads))
        torch.set_num_threads(threads)
        numba.set_num_threads(threads)
        for shape in shapes:
            passes, slots = contestants(library, numba_pair, shape, arenas, threads)
            for name, calls in passes.items():
                print(f"malloc {options.child}: {name} {shape}, {threads} threads", file=sys.stderr)
                cells.append({"pass": name, "rows": shape[0], "cols": shape[1], "threads": threads,
                              "seconds": race(calls, slots, options.rounds, order)})
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numba": numba.__version__,
                "numpy": numpy.__version__, "isa": library.tribunal_isa().decode(),
                "glibc": platform.libc_ver()[1], "rustc": subprocess.run(["rustc", "-V"], capture_output=True, text=True).stdout.strip()}
    json.dump({"cells": cells, "versions": versions}, sys.stdout)


def race(calls, slots, rounds, order):
    seconds = {name: [] for name in calls}
    slot = 0
    for round_ in range(rounds + 1):  # the first warms up
        for name in order.sample(list(calls), len(calls)):
            slot = (slot + 1) % slots
            call = calls[name]
            time.sleep(PAUSE_S)
            start = time.perf_counter()
            result = call(slot)
            elapsed = time.perf_counter() - start
            del result
            if round_:
                seconds[name].append(elapsed)
    return seconds


# ---------------------------------------------------------------- the report

def floors(seconds):
    """The best probe of each round."""
    return [min(round_) for round_ in zip(*(times for name, times in seconds.items() if name.startswith("floor")))]


def report(record):
    lines = [f"# Layer normalisation beside its peers, {record['date'][:10]}", ""]
    machine, versions = record["machine"], record["versions"]
    caches = ", ".join(f"{level} {size}" for level, size in machine["caches"].items())
    lines += [f"- machine: {machine['cpu']} (family {machine['family']}, model {machine['model']}), {machine['cores']} cores, {caches};"
              f" Linux {machine['kernel']}, huge pages {machine['huge pages']}",
              f"- versions: {', '.join(f'{name} {version}' for name, version in versions.items())}",
              f"- command: `{record['command']}`, {record['date']}, {record['rounds']} rounds"]
    lines += [f"- note: {record['note']}"] if record["note"] else []
    lines += ["- f32; three rings of 1 GiB on huge pages; times in ms; method in the docstring of `benches/peers/layer_norm.py`",
              "- floor, ours, GB/s: from that of the two processes in which the floor was lower; peers: the minimum, `torch + huge` from"
              " the process with huge-page malloc, `numba` the better of both",
              "- `/ floor`: ours by the best probe, minimum by minimum; in brackets the median over rounds of ours by the best probe"
              " of the same round",
              "- `best peer / ours`: minimum by minimum of one process, the smallest over peers and processes; in brackets the same"
              " with the median over rounds of the ratio in one round", ""]
    lines += ["| pass | shape | threads | floor | GB/s | ours min | ours median | / floor | torch | torch + huge | numba | best peer / ours |",
              "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for pair in zip(*(result["cells"] for result in record["results"].values())):
        processes = [cell["seconds"] for cell in pair]
        cell, seconds = pair[0], min(processes, key=lambda seconds: min(floors(seconds)))
        ours, floor = seconds["ours"], min(floors(seconds))
        paired = statistics.median(a / b for a, b in zip(ours, floors(seconds)))
        peers = [(seconds[name], seconds["ours"]) for seconds in processes for name in ("torch", "numba")]
        lead = min(min(peer) / min(own) for peer, own in peers)
        lead_paired = min(statistics.median(a / b for a, b in zip(peer, own)) for peer, own in peers)
        minima = [min(processes[0]["torch"]), min(processes[1]["torch"]), min(min(seconds["numba"]) for seconds in processes)]
        moved = (2 if cell["pass"] == "forward" else 3) * 4 * cell["rows"] * cell["cols"]
        row = [cell["pass"], f"{cell['rows']} x {cell['cols']}", cell["threads"], f"{floor * 1e3:.2f}", f"{moved / floor / 1e9:.1f}",
               f"{min(ours) * 1e3:.2f}", f"{statistics.median(ours) * 1e3:.2f}", f"{min(ours) / floor:.2f} ({paired:.2f})",
               *(f"{seconds * 1e3:.2f}" for seconds in minima), f"{lead:.2f} ({lead_paired:.2f})"]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
