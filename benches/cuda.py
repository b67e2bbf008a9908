#!/usr/bin/env python3
"""The bar's CUDA kernels on an NVIDIA GPU: beside a copy, PyTorch, torch.compile and Triton, in one run.

Needs Linux, Python 3.11 or newer, an NVIDIA driver for CUDA 12 or newer, and PyTorch; Triton where it is installed.

    python benches/cuda.py --out DIR          # all cells; DIR/cuda.json has every summary
    python benches/cuda.py --quick            # fewer shapes, no torch.compile, no Triton
    python benches/cuda.py --sweep --out DIR  # launch settings of our kernels against each other
    python benches/cuda.py --multiprocessors 64  # as on a smaller GPU: nothing runs on more multiprocessors than that
    python benches/cuda.py --nvcc             # the sources by nvcc for this GPU, not the PTX that is committed
    python benches/cuda.py --list             # the cells; needs no GPU
    python benches/cuda.py --report DIR/cuda.json

How it measures

- Layer norm and softmax are launched as the manifests of their submissions say (`specimens/*/cuda-reference/tribunal.toml`), paged
  decoding by `decode_setting` below.
- Every contestant of a row rotates through as many sets of inputs and outputs as make more than four times the L2 cache, at least
  256 MB, so that each launch finds the cache cold. The launches over all sets are captured in a CUDA graph: nobody pays for Python,
  and gaps between launches are the GPU's own. What cannot be captured is launched from Python and marked with `~`.
- Contestants take turns, in a new random order each round; a sample is one replay between two events. Medians, and p10 to p90.
- Bytes are those that must be moved: inputs once, outputs once. `ws` is the share of what a copy moves (reads and writes counted) in
  the same run over as many bytes a launch; the better of cudaMemcpy and an elementwise kernel. `big` is the share of a copy of 1 GiB.
- A peer's number is its time over ours: above 1 ours is faster.
- Outputs are poisoned and compared with float64, computed on the GPU, before anything is timed. `err` is ||out - ref|| / ||ref|| of the
  worst output, for softmax the largest relative error of a probability; `!` after it: above what rounding explains, or a wrong index.

What the numbers favour: PyTorch's softmax with top-k writes and reads the probabilities between two launches, within the cache where
it can. Its backward of layer norm is called as autograd calls it. `sdpa` attends over contiguous keys, ours over pages
of 16 tokens in random order. It reads the same bytes, and takes queries of the same type as keys.
"""
import argparse
import contextlib
import ctypes
import datetime
import functools
import gc
import importlib
import json
import math
import os
import platform
import random
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUBMISSIONS = {"layer_norm": "layer_norm_backward", "softmax_topk": "fused_softmax_topk"}
SOURCES = ["layer_norm", "softmax_topk", "paged_decode"]
EPS = 1e-5
HEADS, KV_HEADS, HEAD_DIM, PAGE = 32, 8, 128, 16
MOST_BYTES = 20e9
SAMPLES = 11
SAMPLE_S = 1e-3
MOST_NODES = 4096
# Sets of a sample, where there are many: samples take turns with windows of the sets.
WINDOW = 128
COMPILE_S = 20
CELL_S = 40
# Ends a child whose context is lost; the next goes on with the cell after.
CONTEXT_LOST = 75

DEVICE = "cuda"
torch = triton = tl = driver = None
# Those that launches are planned for.
multiprocessors = None


# ---------------------------------------------------------------- cells

def cells(options):
    """(id, function, arguments), those that say most first."""
    found = []
    quick, sweep = options.quick, options.sweep

    def add(rank, family, *arguments):
        name = " ".join([family] + ["x".join(map(str, a)) if isinstance(a, tuple) else str(a) for a in arguments])
        found.append((rank, name, family, arguments))

    shapes = [(8192, 768), (8192, 4096), (2048, 768), (4096, 2048), (1024, 8192), (32768, 1024), (16384, 768), (4096, 8192)]
    for n, shape in enumerate(shapes[:3] if quick else shapes):
        for direction in ("fwd", "bwd"):
            add(n > 2, "layer_norm", direction, "f32", shape)
    if not quick:
        for direction in ("fwd", "bwd"):
            add(1, "layer_norm", direction, "f64", (8192, 768))

    shapes = [(64, 128256, 50), (64, 32000, 50), (1, 128256, 50), (512, 50257, 50), (16, 151936, 50), (64, 128256, 256),
              (256, 32000, 50), (1024, 32000, 1), (4, 1 << 20, 50), (4096, 128256, 50), (8192, 32000, 50)]
    for n, shape in enumerate(shapes[:4] if quick else shapes):
        for dtype in ("f32", "f16") if quick or sweep else ("f32", "f16", "bf16"):
            add(n > 1 or dtype == "bf16", "softmax_topk", dtype, shape)

    batches, contexts = ((1, 16), (1024, 8192)) if quick else ((1, 4, 16, 64), (1024, 8192, 32768))
    for batch in batches:
        for context in contexts:
            for form in ("f32", "f16", "bf16", "int8", "int4"):
                if form == "bf16" and (quick or sweep) or form == "int4" and quick:
                    continue
                core = context == 8192 and batch in (1, 16)
                add((0 if core else 2) if form != "bf16" else 3, "paged_decode", form, (batch, context))
    found = [cell for cell in found if not options.only or re.search(options.only, cell[1])]
    return [cell[1:] for cell in sorted(found, key=lambda cell: cell[0])]


# ---------------------------------------------------------------- manifests

def ceil_div(a, b):
    return -(-a // b)


def expression(text):
    """A manifest's expression in Python."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "?" and depth == 0:
            nested = 0
            for j in range(i + 1, len(text)):
                depth += (text[j] == "(") - (text[j] == ")")
                if depth == 0 and text[j] == "?":
                    nested += 1
                elif depth == 0 and text[j] == ":":
                    if nested == 0:
                        yes, no = expression(text[i + 1:j]), expression(text[j + 1:])
                        return f"(({yes}) if ({expression(text[:i])}) else ({no}))"
                    nested -= 1
    # Of a choice within brackets.
    if "?" in text:
        start = next(i for i, c in enumerate(text) if c == "(" and "?" in text[i:closing(text, i)])
        end = closing(text, start)
        return expression(text[:start]) + "(" + expression(text[start + 1:end]) + ")" + expression(text[end + 1:])
    text = text.replace("&&", " and ").replace("||", " or ").replace("/", "//")
    return re.sub(r"!(?!=)", " not ", text).strip()


def closing(text, start):
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    raise ValueError(f"no end of {text[start:]}")


def evaluate(text, names, dtypes):
    known = {"ceil_div": ceil_div, "min": min, "max": max, "dtype": lambda name: dtypes[name]}
    known.update({name: name for name in ("float16", "bfloat16", "float32", "float64", "int32", "int64")})
    known.update({name: name for name in dtypes if name not in names})
    return eval(expression(str(text)), {"__builtins__": {}}, {**known, **names})  # noqa: S307 -- the repository's own manifests


class Manifest:
    def __init__(self, source):
        path = ROOT / "specimens" / SUBMISSIONS[source] / "cuda-reference" / "tribunal.toml"
        self.operations = tomllib.loads(path.read_text())["operation"]

    def plan(self, operation, names, dtypes, earlier=()):
        """The launches of an operation, (kernel, grid, block, shared bytes, [(type or None, argument)]), its scratch in
        elements by name, and how its launch is written in a table."""
        names = {"multiprocessors": multiprocessors, **names}
        for other in (*earlier, operation):
            for name, text in self.operations[other].get("let", {}).items():
                names[name] = evaluate(text, names, dtypes)
        launches = []
        for launch in self.operations[operation]["launch"]:
            if not evaluate(launch.get("when", "True"), names, dtypes):
                continue
            arguments = [tuple(map(str.strip, text.split(":"))) if ":" in text else (None, text) for text in launch["arguments"]]
            grid, block = ([int(evaluate(n, names, dtypes)) for n in launch[what]] for what in ("grid", "block"))
            launches.append((launch["kernel"], grid, block, int(evaluate(launch.get("shared", 0), names, dtypes)), arguments))
        scratch = {name: (what["dtype"], evaluate(what["elements"], names, dtypes))
                   for name, what in self.operations[operation].get("scratch", {}).items()}
        return launches, scratch, names, "+".join(f"{launch[1][0]}x{launch[2][0]}" for launch in launches)


# ---------------------------------------------------------------- the driver

class Driver:
    """The driver's interface, on the context that PyTorch made."""

    REGISTERS, LOCAL, STATIC, BINARY, DYNAMIC = 4, 3, 1, 6, 8

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.library.cuLaunchKernel.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
        self.modules, self.functions, self.failed, self.seconds, self.room = {}, {}, {}, {}, {}
        self.context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(self.context))

    def call(self, name, *arguments):
        rc = getattr(self.library, name)(*arguments)
        if rc != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(rc, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'error').decode()} ({rc})")

    def version(self):
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return f"{version.value // 1000}.{version.value % 1000 // 10}"

    def load(self, images):
        """Modules at once: the driver takes seconds for each."""
        def one(source, image):
            start = time.time()
            try:
                self.call("cuCtxSetCurrent", self.context)
                module = ctypes.c_void_p()
                self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image))
                self.modules[source] = module
            except Exception as error:
                self.failed[source] = str(error)
            self.seconds[source] = round(time.time() - start, 2)
        threads = [threading.Thread(target=one, args=pair) for pair in images.items()]
        for thread in threads:
            thread.start()
        return threads

    def function(self, source, name):
        if name not in self.functions:
            if source not in self.modules:
                raise RuntimeError(f"{source} is not loaded: {self.failed.get(source)}")
            function = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(function), self.modules[source], name.encode())
            self.functions[name] = function
        return self.functions[name]

    def allow(self, source, name, shared):
        """Lets a function have as much dynamic shared memory, or more if it was let have more before."""
        if shared > self.room.get(name, 0):
            self.call("cuFuncSetAttribute", self.function(source, name), self.DYNAMIC, ctypes.c_int(shared))
            self.room[name] = shared

    def about(self, source, name, block, shared):
        function, value, told = self.function(source, name), ctypes.c_int(), {}
        for what, number in (("registers", self.REGISTERS), ("local", self.LOCAL), ("static", self.STATIC), ("sm", self.BINARY)):
            self.call("cuFuncGetAttribute", ctypes.byref(value), number, function)
            told[what] = value.value
        self.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(value), function, block, ctypes.c_size_t(shared))
        return {"kernel": name, "block": block, "shared": shared, "blocks_per_sm": value.value, **told}


CTYPES = {"int32": ctypes.c_int, "int64": ctypes.c_longlong, "float32": ctypes.c_float, "float64": ctypes.c_double}


class Launch:
    """A kernel with all it is launched with. Called, it goes to the stream that is PyTorch's at the moment."""

    about = {}

    def __init__(self, source, kernel, grid, block, shared, arguments):
        self.function = driver.function(source, kernel)
        driver.allow(source, kernel, shared)
        key = f"{kernel}/{block[0]}"
        if key not in self.about:
            self.about[key] = driver.about(source, kernel, math.prod(block), shared)
        self.sizes = [*grid, 1, 1][:3] + [*block, 1, 1][:3] + [shared]
        # Tensors are kept: pointers do not keep them.
        self.tensors = [a for a in arguments if torch.is_tensor(a)]
        self.values = [ctypes.c_void_p(a.data_ptr()) if torch.is_tensor(a) else a for a in arguments]
        self.pointers = (ctypes.c_void_p * len(self.values))(*[ctypes.addressof(value) for value in self.values])

    def __call__(self):
        stream = torch.cuda.current_stream().cuda_stream
        driver.call("cuLaunchKernel", self.function, *self.sizes, stream, ctypes.addressof(self.pointers), None)


def i32(n):
    return ctypes.c_int(n)


def i64(n):
    return ctypes.c_longlong(n)


def launches(source, plan, known):
    """A plan's launches. `known`: tensors and numbers by name."""
    made = []
    for kernel, grid, block, shared, arguments in plan:
        values = []
        for kind, name in arguments:
            value = known[name]
            if not torch.is_tensor(value):
                value = CTYPES[kind or ("float32" if isinstance(value, float) else "int32")](value)
            values.append(value)
        made.append(Launch(source, kernel, grid, block, shared, values))
    return lambda: [launch() for launch in made]


# ---------------------------------------------------------------- measuring

class Contestant:
    """`run(i)` works on set i; what it returns is kept until the set's next turn, so that outputs do not share memory."""

    def __init__(self, name, run, check=None):
        self.name, self.run, self.check = name, run, check


@contextlib.contextmanager
def time_limit(seconds):
    def over(*_):
        raise TimeoutError(f"more than {seconds} s")
    before, handler = signal.getitimer(signal.ITIMER_REAL)[0], signal.signal(signal.SIGALRM, over)
    start = time.time()
    signal.setitimer(signal.ITIMER_REAL, min(seconds, before) if before else seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, max(before - (time.time() - start), 0.01) if before else 0)


def short(error):
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{type(error).__name__}: {text}"[:300]


def ring(compulsory):
    """How many sets are more than the cache holds, four times over."""
    cache = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) if DEVICE == "cuda" else 0
    return max(1, math.ceil(max(256e6, 4.2 * cache) / compulsory))


def capture(contestant, chosen, laps, stream):
    # torch.cuda.graph collects garbage and empties the cache of memory each time, which takes longer than the measurement.
    graph, kept = torch.cuda.CUDAGraph(), {}
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for _ in range(laps):
                for i in chosen:
                    kept[i] = contestant.run(i)
        finally:
            graph.capture_end()
    return graph, kept


def measure(contestants, sets, compulsory, samples=SAMPLES):
    """Seconds of a launch by contestant: median, p10 and p90; or the error."""
    windows = max(1, sets // WINDOW)
    chosen = [range(sets * w // windows, sets * (w + 1) // windows) for w in range(windows)]
    laps = 1 if windows > 1 else max(1, min(MOST_NODES // sets, math.ceil(SAMPLE_S / (sets * max(compulsory / 2.5e12, 3e-6)))))
    results, ready, stream = {}, [], torch.cuda.Stream()
    for contestant in contestants:
        result = results[contestant.name] = {}
        try:
            if contestant.check:
                result["err"], result["bad"] = contestant.check()
            for i in range(min(sets, 2)):
                contestant.run(i)
            torch.cuda.synchronize()
        except Exception as error:
            result["error"] = short(error)
            sound()
            continue
        try:
            graphs = [capture(contestant, part, laps, stream) for part in chosen]
            for graph, _ in graphs:
                graph.replay()
            torch.cuda.synchronize()
            ready.append((contestant.name, [graph.replay for graph, _ in graphs], laps, graphs))
        except Exception as error:
            result["uncaptured"] = short(error)
            sound()

            def replay(part, run=contestant.run):
                for i in part:
                    run(i)
            ready.append((contestant.name, [functools.partial(replay, part) for part in chosen], 1, None))
    times = {name: [] for name, *_ in ready}
    turn = 0
    # The first round is not counted: clocks are up after it.
    for sample in range(samples + 1):
        marks = []
        for turns in random.sample(ready, len(ready)):
            name, replays, count, _ = turns
            # The next window for whoever is next: what it reads was last read when all others were.
            window, turn = turn % windows, turn + 1
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            try:
                replays[window]()
            except Exception as error:
                results[name]["error"] = short(error)
                sound()
                ready.remove(turns)
                continue
            end.record()
            marks.append((name, start, end, count * len(chosen[window])))
        torch.cuda.synchronize()
        for name, start, end, count in marks:
            if sample > 0:
                times[name].append(start.elapsed_time(end) / 1e3 / count)
    for name, seconds in ((name, seconds) for name, seconds in times.items() if seconds):
        results[name].update(summary(seconds))
    return results


def summary(seconds):
    ordered = sorted(seconds)

    def at(share):
        place = share * (len(ordered) - 1)
        low = int(place)
        return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)
    return {"s": statistics.median(ordered), "p10": at(0.1), "p90": at(0.9), "samples": len(ordered)}


class ContextLost(Exception):
    pass


def sound():
    """Raises if the context is lost, as it is after a fault of a kernel."""
    try:
        torch.cuda.synchronize()
        torch.ones(1, device=DEVICE).item()
    except Exception as error:
        raise ContextLost(short(error)) from error


def copies(sets, compulsory):
    """A copy of so many bytes, reads and writes together."""
    count = max(int(compulsory) // 8 // 4 * 4, 4)
    source, target = (torch.empty(sets, count, device=DEVICE) for _ in range(2))
    source.normal_()
    return [Contestant("memcpy", lambda i: target[i].copy_(source[i])),
            Contestant("elementwise", lambda i: torch.neg(source[i], out=target[i]))]


def large():
    """Bytes a second of copies of 1 GiB and of a reading sum."""
    count = 1 << 28
    source, target = (torch.empty(count, device=DEVICE) for _ in range(2))
    source.normal_()
    ways = [Contestant("memcpy", lambda i: target.copy_(source)), Contestant("elementwise", lambda i: torch.neg(source, out=target)),
            Contestant("sum", lambda i: torch.sum(source))]
    results = measure(ways, 1, 8 * count)
    for name, result in results.items():
        if "s" in result:
            result["bytes_per_s"] = (4 if name == "sum" else 8) * count / result["s"]
    return results


def norm_error(got, expected):
    got, expected = got.double(), expected.double()
    error = ((got - expected).norm() / expected.norm()).item()
    return error if math.isfinite(error) else math.inf


def compiled(function, call):
    """A torch.compile of `function`, with the first call, which compiles, under a limit of time."""
    importlib.import_module("torch._dynamo").reset()
    made = torch.compile(function, dynamic=False)

    def first():
        with time_limit(COMPILE_S):
            call(made)
            torch.cuda.synchronize()
        return None, False
    return Contestant("compile", None), made, first


def with_compile(contestants, options, function, call):
    """Adds what torch.compile makes of `function`, where there is time; `call(f, i)` calls it on set i."""
    if options.quick or time.time() > options.compile_until:
        return
    contestant, made, first = compiled(function, lambda f: call(f, 0))
    contestant.run = lambda i: call(made, i)
    contestant.check = first
    contestants.append(contestant)


def with_triton(contestants, options, *added):
    if not options.quick and triton is not None:
        contestants.extend(added)


# ---------------------------------------------------------------- Triton

def define_triton():
    """Kernels as its tutorials write them."""
    global ln_forward, ln_backward, ln_columns, row_lse, decode_split, decode_merge

    @triton.jit
    def ln_forward(x, gamma, beta, y, mean, rstd, cols, eps, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        c = tl.arange(0, BLOCK)
        has = c < cols
        v = tl.load(x + row * cols + c, mask=has, other=0.0)
        m = tl.sum(v, 0) / cols
        d = tl.where(has, v - m, 0.0)
        r = 1 / tl.sqrt(tl.sum(d * d, 0) / cols + eps)
        g = tl.load(gamma + c, mask=has, other=0.0)
        b = tl.load(beta + c, mask=has, other=0.0)
        tl.store(y + row * cols + c, d * r * g + b, mask=has)
        tl.store(mean + row, m)
        tl.store(rstd + row, r)

    @triton.jit
    def ln_backward(x, dy, gamma, mean, rstd, dx, parts_g, parts_b, rows, cols, BLOCK: tl.constexpr):
        first = tl.program_id(0)
        c = tl.arange(0, BLOCK)
        has = c < cols
        g = tl.load(gamma + c, mask=has, other=0.0)
        dg = tl.zeros_like(g)
        db = tl.zeros_like(g)
        for row in range(first, rows, tl.num_programs(0)):
            v = tl.load(x + row * cols + c, mask=has, other=0.0)
            d = tl.load(dy + row * cols + c, mask=has, other=0.0)
            m = tl.load(mean + row)
            r = tl.load(rstd + row)
            xhat = tl.where(has, (v - m) * r, 0.0)
            dg += d * xhat
            db += d
            wg = d * g
            mean_g = tl.sum(wg, 0) / cols
            mean_gx = tl.sum(wg * xhat, 0) / cols
            tl.store(dx + row * cols + c, r * (wg - mean_g - xhat * mean_gx), mask=has)
        tl.store(parts_g + first * cols + c, dg, mask=has)
        tl.store(parts_b + first * cols + c, db, mask=has)

    @triton.jit
    def ln_columns(parts_g, parts_b, dgamma, dbeta, parts, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
        c = tl.program_id(0) * COLS + tl.arange(0, COLS)
        p = tl.arange(0, ROWS)
        dg = tl.zeros((ROWS, COLS), dtype=tl.float32)
        db = tl.zeros((ROWS, COLS), dtype=tl.float32)
        for start in range(0, parts, ROWS):
            has = (start + p < parts)[:, None] & (c < cols)[None, :]
            place = (start + p)[:, None] * cols + c[None, :]
            dg += tl.load(parts_g + place, mask=has, other=0.0)
            db += tl.load(parts_b + place, mask=has, other=0.0)
        tl.store(dgamma + c, tl.sum(dg, 0), mask=c < cols)
        tl.store(dbeta + c, tl.sum(db, 0), mask=c < cols)

    @triton.jit
    def row_lse(x, lse, vocab, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        c = tl.arange(0, BLOCK)
        m = tl.full((BLOCK,), -1e30, dtype=tl.float32)
        s = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, vocab, BLOCK):
            v = tl.load(x + row * vocab + start + c, mask=start + c < vocab, other=-1e30).to(tl.float32)
            most = tl.maximum(m, v)
            s = s * tl.exp(m - most) + tl.exp(v - most)
            m = most
        most = tl.max(m, 0)
        tl.store(lse + row, most + tl.log(tl.sum(s * tl.exp(m - most), 0)))

    @triton.jit
    def decode_split(q, k, v, partial, lse, context, split_len, scale, GROUP: tl.constexpr, D: tl.constexpr, N: tl.constexpr):
        split = tl.program_id(0)
        splits = tl.num_programs(0)
        plane = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
        h = tl.arange(0, 16)
        d = tl.arange(0, D)
        n = tl.arange(0, N)
        heads = plane * GROUP + h
        mine = h < GROUP
        query = tl.load(q + heads[:, None] * D + d[None, :], mask=mine[:, None], other=0.0)
        base = plane.to(tl.int64) * context * D
        begin = split * split_len
        end = tl.minimum(begin + split_len, context)
        m = tl.full((16,), -1e30, dtype=tl.float32)
        s = tl.zeros((16,), dtype=tl.float32)
        out = tl.zeros((16, D), dtype=tl.float32)
        for start in range(begin, end, N):
            has = start + n < end
            place = base + (start + n)[:, None] * D + d[None, :]
            keys = tl.load(k + place, mask=has[:, None], other=0.0)
            scores = tl.dot(query, tl.trans(keys)) * scale
            scores = tl.where(has[None, :], scores, -1e30)
            most = tl.maximum(m, tl.max(scores, 1))
            p = tl.exp2(scores - most[:, None])
            down = tl.exp2(m - most)
            s = s * down + tl.sum(p, 1)
            values = tl.load(v + place, mask=has[:, None], other=0.0)
            out = out * down[:, None] + tl.dot(p.to(values.dtype), values)
            m = most
        tl.store(partial + (heads * splits + split)[:, None] * D + d[None, :], out / s[:, None], mask=mine[:, None])
        tl.store(lse + heads * splits + split, m + tl.log2(s), mask=mine)

    @triton.jit
    def decode_merge(partial, lse, out, splits, D: tl.constexpr, SPLITS: tl.constexpr):
        head = tl.program_id(0)
        d = tl.arange(0, D)
        p = tl.arange(0, SPLITS)
        weights = tl.load(lse + head * splits + p, mask=p < splits, other=-1e30)
        most = tl.max(weights, 0)
        total = tl.sum(tl.exp2(weights - most), 0)
        o = tl.zeros((D,), dtype=tl.float32)
        for split in range(0, splits):
            weight = tl.exp2(tl.load(lse + head * splits + split) - most)
            o += weight * tl.load(partial + (head * splits + split) * D + d)
        tl.store(out + head * D + d, o / total)


def power_of_two(n):
    return 1 << max(n - 1, 0).bit_length()


# ---------------------------------------------------------------- layer norm

def layer_norm_reference(x, gamma, beta, dy):
    """(y, mean, rstd), (dx, dgamma, dbeta) in float64."""
    x, gamma, beta, dy = (t.double() for t in (x, gamma, beta, dy))
    mean = x.mean(-1)
    rstd = (x.var(-1, unbiased=False) + EPS).rsqrt()
    xhat = (x - mean[:, None]) * rstd[:, None]
    g = dy * gamma
    dx = rstd[:, None] * (g - g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True))
    return (xhat * gamma + beta, mean, rstd), (dx, (dy * xhat).sum(0), dy.sum(0))


def layer_norm_settings(rows, plan):
    """Plans with other numbers of blocks, and of threads where columns are added up: (label, blocks, plan)."""
    found = []
    (kernel, (now,), block, shared, arguments), *last = plan
    warps = block[0] // 32 if re.search(r"_(768|1024)$", kernel) else 1
    of_device = [n * multiprocessors for n in (1, 2, 4, 5, 6, 8, 16)]
    for blocks in sorted({min(b, ceil_div(rows, warps)) for b in (now, *of_device, rows // 8, rows // 4)}):
        # A multiple of 8 goes with any number of columns.
        if last and blocks > 8 * multiprocessors or kernel[-3] == "_" and blocks % 8:
            continue
        for threads in (256, 512) if last else (0,):
            steps = [(kernel, [blocks], block, shared, arguments)] + [(k, grid, [threads], s, a) for k, grid, _, s, a in last]
            found.append((f"{blocks}x{block[0]}" + (f"+{threads}" if last else ""), blocks, steps))
    return found


def layer_norm(options, direction, form, shape):
    rows, cols = shape
    dtype = {"f32": torch.float32, "f64": torch.float64}[form]
    name = {"f32": "float32", "f64": "float64"}[form]
    size = dtype.itemsize
    forward = direction == "fwd"
    compulsory = size * ((2 if forward else 3) * rows * cols + (2 if forward else 3) * cols + 2 * rows)
    sets = ring(compulsory)

    def empty(*dims):
        return torch.empty(*dims, device=DEVICE, dtype=dtype)
    x, gamma, beta = empty(sets, rows, cols).normal_(0.3, 1.5), empty(cols).normal_(1, 0.2), empty(cols).normal_(0, 0.2)
    names = {"rows": rows, "D": cols, "eps": EPS}
    dtypes = {"x": name, "gamma": name, "beta": name, "dy": name, "dx": name}
    manifest = Manifest("layer_norm")
    plan, scratch, env, written = manifest.plan("forward" if forward else "backward", names, dtypes, () if forward else ("forward",))
    if forward:
        outputs = {"y": empty(sets, rows, cols), "mean": empty(sets, rows), "rstd": empty(sets, rows)}
        inputs = {"x": x}
        dy = x
    else:
        dy = empty(sets, rows, cols).normal_()
        outputs = {"dx": empty(sets, rows, cols), "dgamma": empty(sets, cols), "dbeta": empty(sets, cols)}
        inputs = {"x": x, "dy": dy, "mean": x.mean(-1), "rstd": (x.var(-1, unbiased=False) + EPS).rsqrt()}
    references = []

    def check():
        if not references:
            references.append(layer_norm_reference(x[0], gamma, beta, dy[0])[0 if forward else 1])
        worst = max(norm_error(output[0], ref) for output, ref in zip(outputs.values(), references[0]))
        return worst, not worst < (2e-6 if form == "f32" else 1e-14)

    def contestant(label, plan, scratch_sizes, extra):
        rooms = {n: empty(sets, elements) for n, elements in scratch_sizes.items()}

        def known(i):
            return {**extra, "gamma": gamma, "beta": beta, **{n: t[i] for n, t in (inputs | outputs | rooms).items()}}
        runs = [launches("layer_norm", plan, known(i)) for i in range(sets)]

        def checked():
            for output in (outputs | rooms).values():
                output[0].fill_(math.nan)
            runs[0]()
            return check()
        return Contestant(label, lambda i: runs[i](), checked)

    ours = contestant("ours", plan, {n: elements for n, (_, elements) in scratch.items()}, env)
    row = {"kernel": f"ln {direction}", "form": form, "shape": f"{rows}x{cols}", "bytes": compulsory, "sets": sets, "setting": written}
    if options.sweep:
        made = [ours]
        for label, blocks, steps in layer_norm_settings(rows, plan):
            rooms = {n: blocks * cols for n in scratch}
            made.append(contestant(label, steps, rooms, {**env, "parts": blocks}))
        return row, made, sets

    made = [ours]
    functional = torch.nn.functional
    if forward:
        def eager(x):
            return functional.layer_norm(x, (cols,), gamma, beta, EPS)

        def call(f, i):
            return f(x[i])
    else:
        def eager(dy, x, mean, rstd):
            return torch.ops.aten.native_layer_norm_backward(dy, x, [cols], mean, rstd, gamma, beta, [True, True, True])
        mean, rstd = (inputs[n][..., None] for n in ("mean", "rstd"))

        def call(f, i):
            return f(dy[i], x[i], mean[i], rstd[i])
    made.append(Contestant("torch", lambda i: call(eager, i)))
    with_compile(made, options, eager, call)
    block, parts = power_of_two(cols), min(rows, 2 * multiprocessors)
    warps = min(max(block // 256, 1), 16)
    if forward:
        def run(i):
            ln_forward[(rows,)](x[i], gamma, beta, outputs["y"][i], outputs["mean"][i], outputs["rstd"][i], cols, EPS, BLOCK=block,
                                num_warps=warps)
    else:
        rooms = [empty(sets, parts, cols) for _ in range(2)] if triton is not None and not options.quick else None

        def run(i):
            ln_backward[(parts,)](x[i], dy[i], gamma, inputs["mean"][i], inputs["rstd"][i], outputs["dx"][i], rooms[0][i], rooms[1][i],
                                  rows, cols, BLOCK=block, num_warps=warps)
            ln_columns[(ceil_div(cols, 32),)](rooms[0][i], rooms[1][i], outputs["dgamma"][i], outputs["dbeta"][i], parts, cols, ROWS=32,
                                              COLS=32)

    def checked():
        for output in outputs.values():
            output[0].fill_(math.nan)
        run(0)
        return check()
    if form == "f32":
        with_triton(made, options, Contestant("triton", run, checked))
    return row, made, sets


# ---------------------------------------------------------------- softmax and top-k

def topk_error(logits, probs, indices, k):
    """The largest relative error of a probability, and whether an index is wrong; ties go to the smaller index."""
    values, order = torch.sort(logits.float(), dim=-1, descending=True, stable=True)
    expected = torch.exp(values[:, :k].double() - torch.logsumexp(logits.double(), -1, keepdim=True))
    error = ((probs.double() - expected).abs() / expected).max().item()
    return error if math.isfinite(error) else math.inf, not torch.equal(indices, order[:, :k])


def softmax_settings(rows, vocab, k):
    """(splits or 0, threads)"""
    splits = [0]
    if k <= 256:
        parts = sorted({2, 3, 4, 6, 8, 12, 16, 32, 64, multiprocessors})
        splits += [n for n in parts if rows * n <= 8 * multiprocessors and vocab // n >= 4096]
    return [(s, t) for s in splits for t in (128, 256, 512)]


def softmax_topk(options, form, shape):
    rows, vocab, k = shape
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[form]
    name = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[form]
    compulsory = rows * vocab * dtype.itemsize + rows * k * 12
    sets = ring(compulsory)
    logits = torch.empty(sets, rows, vocab, device=DEVICE, dtype=dtype).normal_(0, 2)
    probs = torch.empty(sets, rows, k, device=DEVICE)
    indices = torch.empty(sets, rows, k, device=DEVICE, dtype=torch.int64)
    names = {"rows": rows, "V": vocab, "k": k}
    plan, scratch, env, written = Manifest("softmax_topk").plan("softmax_topk", names, {"logits": name})

    def contestant(label, plan, scratch, extra):
        # Scratch is kept apart by set, as inputs are.
        kinds = {"float32": torch.float32, "int32": torch.int32, "int64": torch.int64}
        # Counters are left at zero by every launch.
        rooms = {n: torch.zeros(sets, elements, device=DEVICE, dtype=kinds[kind]) for n, (kind, elements) in scratch.items() if elements}

        def known(i):
            return {**extra, "logits": logits[i], "probs": probs[i], "indices": indices[i], **{n: t[i] for n, t in rooms.items()}}
        runs = [launches("softmax_topk", plan, known(i)) for i in range(sets)]

        def checked():
            probs[0].fill_(math.nan)
            indices[0].fill_(-7)
            runs[0]()
            error, wrong = topk_error(logits[0], probs[0], indices[0], k)
            return error, wrong or not error < 2e-5
        return Contestant(label, lambda i: runs[i](), checked)

    ours = contestant("ours", plan, scratch, env)
    row = {"kernel": "softmax", "form": form, "shape": f"{rows}x{vocab} k{k}", "bytes": compulsory, "sets": sets, "setting": written}
    if options.sweep:
        made = [ours]
        for splits, threads in softmax_settings(rows, vocab, k):
            shared = 160 * threads + 8 * (4 * min(k, 256) + 64)
            if splits == 0:
                args = [(None, a) for a in ("logits", "probs", "indices", "rows", "V", "k")]
                blocks = min(rows, multiprocessors * (1024 // threads))
                steps, rooms = [(f"softmax_topk_{form}", [blocks], [threads], shared, args)], {}
            else:
                args = [(None, a) for a in ("logits", "totals", "keys", "counters", "probs", "indices", "V", "k", "splits")]
                steps = [(f"softmax_topk_split_{form}", [splits, rows], [threads], shared, args)]
                rooms = {"totals": ("int32", 4 * rows * splits),
                         "keys": ("int64", rows * splits * (k + 96)), "counters": ("int64", rows)}
            made.append(contestant(f"s{splits}x{threads}", steps, rooms, {**names, "splits": splits}))
        return row, made, sets

    def eager(x):
        return torch.topk(torch.softmax(x, -1), k)

    def by_lse(x):
        values, places = torch.topk(x, k)
        return torch.exp(values.float() - torch.logsumexp(x, -1, keepdim=True).float()), places

    def call(f, i):
        return f(logits[i])
    made = [ours, Contestant("torch", lambda i: call(eager, i)), Contestant("lse", lambda i: call(by_lse, i)),
            Contestant("topk", lambda i: torch.topk(logits[i], k)),
            # What does no more than read the logits.
            Contestant("amax", lambda i: torch.amax(logits[i], -1))]
    if form != "bf16":
        with_compile(made, options, eager, call)
    lse = torch.empty(sets, rows, device=DEVICE)

    def run(i):
        row_lse[(rows,)](logits[i], lse[i], vocab, BLOCK=4096, num_warps=8)
        values, places = torch.topk(logits[i], k)
        return torch.exp(values.float() - lse[i][:, None]), places

    def checked():
        found, _ = run(0)
        values = torch.topk(logits[0], k)[0]
        expected = torch.exp(values.double() - torch.logsumexp(logits[0].double(), -1, keepdim=True))
        return ((found.double() - expected).abs() / expected).max().item(), False
    with_triton(made, options, Contestant("triton", run, checked))
    return row, made, sets


# ---------------------------------------------------------------- paged decoding

BITS = {"f32": 32, "f16": 16, "bf16": 16, "int8": 8, "int4": 4}


# Tokens of a warp's tile in shared memory, and bytes of a warp's tiles.
DECODE_TILE = {"f32": 8, "f16": 16, "bf16": 16, "int8": 32, "int4": 32}
DECODE_WARP = {"f32": 24576, "f16": 24576, "bf16": 24576, "int8": 25344, "int4": 13056}


def decode_setting(form, batch, context):
    """(splits, split_len, threads): a block for each multiprocessor. Putting parts together takes longer than a wave that is not
    full. Blocks of int4, which is more to compute than to read, are of 8 warps if there is work for them; where
    blocks are many, two of 4 warps share a multiprocessor."""
    splits = max(1, min(multiprocessors // (batch * KV_HEADS), context // 64))
    wide = form == "int4" and batch * KV_HEADS * splits <= multiprocessors and context // splits >= 1024
    return decode_split_into(form, context, splits, 256 if wide else 128)


def decode_split_into(form, context, splits, threads):
    step = threads // 32 * DECODE_TILE[form]
    split_len = ceil_div(ceil_div(context, splits), step) * step
    return ceil_div(context, split_len), split_len, threads


def lanes_setting(batch, context):
    """As the manifest has it."""
    splits = max(min(ceil_div(2 * multiprocessors, KV_HEADS * batch), context // 256), 1)
    split_len = 32 * ceil_div(context, 32 * splits)
    return splits, split_len, 32 * min(split_len // 32, 4)


def decode_settings(form, batch, context):
    found = {}
    for threads in (64, 128, 256):
        for splits in (1, 2, 4, 8, 16, 32, 64, 128):
            if splits > 1 and (context // splits < 64 or batch * KV_HEADS * splits > 2048):
                continue
            if batch * KV_HEADS * splits < 64 and splits < context // 256:
                continue
            found[decode_split_into(form, context, splits, threads)] = None
    return list(found)


def widen(form, plane, scales):
    """Values in float64 of [..., row bytes or elements]."""
    if form == "int8":
        return plane.view(torch.int8).double() * scales.double()[..., None]
    if form == "int4":
        codes = torch.stack([plane & 0xf, plane >> 4], -1).flatten(-2)
        return (codes.double() - 8) * scales.double()[..., None]
    return plane.double()


def attend(q, keys, values):
    """[heads, D], [context, kv_heads, D] twice -> [heads, D], in float64."""
    q = q.double().view(keys.shape[1], -1, q.shape[-1])
    scores = torch.einsum("ghd,tgd->ght", q, keys) / math.sqrt(q.shape[-1])
    return torch.einsum("ght,tgd->ghd", torch.softmax(scores, -1), values).reshape(-1, q.shape[-1])


def paged_decode(options, form, shape):
    batch, context = shape
    scaled, bits = form.startswith("int"), BITS[form]
    per_token = KV_HEADS * (2 * HEAD_DIM * bits // 8 + (8 if scaled else 0))
    table_len = ceil_div(context, PAGE)
    compulsory = batch * (context * per_token + 4 * table_len + 4 + 8 * HEADS * HEAD_DIM)
    sets = ring(compulsory)
    # As much again is for the copy beside it.
    if sets * compulsory > MOST_BYTES:
        raise RuntimeError("too large")
    pages = batch * table_len

    def plane():
        if scaled:
            words = torch.empty(sets, pages, KV_HEADS, PAGE, HEAD_DIM * bits // 32, device=DEVICE, dtype=torch.int32)
            return words.random_(-(1 << 31), (1 << 31) - 1).view(torch.uint8)
        dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[form]
        return torch.empty(sets, pages, KV_HEADS, PAGE, HEAD_DIM, device=DEVICE, dtype=dtype).normal_()
    keys, values = plane(), plane()
    unit = {"int8": 0.02, "int4": 0.3}.get(form, 1)
    scale_dims = (sets, pages, KV_HEADS, PAGE) if scaled else (sets, 4)
    key_scales, value_scales = (torch.empty(*scale_dims, device=DEVICE).uniform_(0.5 * unit, unit) for _ in range(2))
    q = torch.empty(sets, batch, HEADS, HEAD_DIM, device=DEVICE).normal_()
    out = torch.empty_like(q)
    table = torch.stack([torch.randperm(pages, device=DEVICE).to(torch.int32) for _ in range(sets)]).view(sets, batch, table_len)
    lengths = torch.full((batch,), context, device=DEVICE, dtype=torch.int32)
    references = {}

    def check():
        """The first sequence and the last."""
        worst = 0.0
        for b in {0, batch - 1}:
            if b not in references:
                chosen = table[0, b].long()

                def rows(plane, scales):
                    wide = widen(form, plane[0][chosen], scales[0][chosen] if scaled else None)
                    return wide.transpose(1, 2).reshape(-1, KV_HEADS, HEAD_DIM)[:context]
                references[b] = attend(q[0, b], rows(keys, key_scales), rows(values, value_scales))
            worst = max(worst, norm_error(out[0, b], references[b]))
        return worst, not worst < 1e-5

    def contestant(label, splits, split_len, threads, lanes=False):
        warps = threads // 32
        shared = warps * 32 * (HEAD_DIM * 2 + 40) if lanes else HEAD_DIM * (48 if form == "bf16" else 32) + warps * DECODE_WARP[form]
        kernel = f"paged_decode_{form}_{'g8' if lanes else 'd128'}"
        # Without parts, of these nothing is read or written.
        partial = torch.empty(sets, batch, HEADS, splits, HEAD_DIM if splits > 1 else 1, device=DEVICE)
        lse = torch.empty(sets, batch, HEADS, splits, device=DEVICE)
        counters = torch.zeros(sets, batch, KV_HEADS, device=DEVICE, dtype=torch.int32)
        tail = [i32(n) for n in (HEADS, KV_HEADS, HEAD_DIM, PAGE, table_len, split_len)]
        runs = []
        for i in range(sets):
            scale = (key_scales[i], value_scales[i])
            runs.append(Launch("paged_decode", kernel, [splits, KV_HEADS, batch], [threads], shared,
                               [q[i], keys[i], values[i], *scale, table[i], lengths, out[i], partial[i], lse[i], counters[i], *tail]))

        def checked():
            out[0].fill_(math.nan)
            lse[0].fill_(math.nan)
            partial[0].fill_(math.nan)
            runs[0]()
            return check()
        return Contestant(label, lambda i: runs[i](), checked)

    splits, split_len, threads = decode_setting(form, batch, context)
    ours = contestant("ours", splits, split_len, threads)
    row = {"kernel": "decode", "form": form, "shape": f"{batch}x{context}", "bytes": compulsory, "sets": sets,
           "setting": f"s{splits}x{threads}"}
    if options.sweep:
        return row, [ours] + [contestant(f"s{s}x{t}", s, n, t) for s, n, t in decode_settings(form, batch, context)], sets
    made = [ours]
    if scaled:
        return row, made, sets
    if form == "f32":
        made.append(contestant("lanes", *lanes_setting(batch, context), lanes=True))

    importlib.import_module("torch.nn.attention")
    # The same memory as if it were contiguous: other numbers, as many.
    half = q.to(keys.dtype)
    flat_keys, flat_values = (t.view(sets, batch, KV_HEADS, table_len * PAGE, HEAD_DIM) for t in (keys, values))
    attention, kernel = torch.nn.functional.scaled_dot_product_attention, torch.nn.attention.sdpa_kernel
    backends = torch.nn.attention.SDPBackend

    def sdpa(backend, grouped):
        def run(i):
            with kernel(backend) if backend is not None else contextlib.nullcontext():
                if grouped:
                    return attention(half[i][:, :, None], flat_keys[i], flat_values[i], enable_gqa=True)
                # Query heads of a group as rows that attend to the same keys.
                return attention(half[i].view(batch, KV_HEADS, -1, HEAD_DIM), flat_keys[i], flat_values[i])
        return run

    def checked_by(run):
        def check():
            got = run(0)[0].reshape(HEADS, HEAD_DIM)
            wide = [t[0, 0].transpose(0, 1).double() for t in (flat_keys, flat_values)]
            error = norm_error(got, attend(half[0, 0], *wide))
            return error, not error < 2e-2
        return check
    ways = [("sdpa", None, True), ("flash", backends.FLASH_ATTENTION, True), ("cudnn", backends.CUDNN_ATTENTION, True),
            ("rows", backends.FLASH_ATTENTION, False), ("rows-cudnn", backends.CUDNN_ATTENTION, False)]
    if form == "f32":
        ways = [("sdpa", None, True), ("rows", backends.EFFICIENT_ATTENTION, False)]
    for label, backend, grouped in ways:
        # Without a backend that groups, PyTorch repeats keys and values.
        if backend is not None or compulsory < 1e9:
            run = sdpa(backend, grouped)
            made.append(Contestant(label, run, checked_by(run)))
    parts = max(1, min(ceil_div(528, batch * KV_HEADS), context // 256))
    parts, part_len, _ = decode_split_into(form, context, parts, 128)
    if triton is not None and not options.quick and form != "f32":
        partial = torch.empty(sets, batch, HEADS, parts, HEAD_DIM, device=DEVICE)
        lse = torch.empty(sets, batch, HEADS, parts, device=DEVICE)
        scale = math.log2(math.e) / math.sqrt(HEAD_DIM)

        def run(i):
            decode_split[(parts, KV_HEADS, batch)](half[i], flat_keys[i], flat_values[i], partial[i], lse[i], table_len * PAGE, part_len,
                                                   scale, GROUP=HEADS // KV_HEADS, D=HEAD_DIM, N=64, num_warps=4, num_stages=3)
            decode_merge[(batch * HEADS,)](partial[i], lse[i], out[i], parts, D=HEAD_DIM, SPLITS=power_of_two(parts), num_warps=4)

        def result(i):
            out[0].fill_(math.nan)
            run(i)
            return out[i]
        made.append(Contestant("triton", run, checked_by(result)))
    return row, made, sets


FAMILIES = {"layer_norm": layer_norm, "softmax_topk": softmax_topk, "paged_decode": paged_decode}


# ---------------------------------------------------------------- the child, which measures

def images(options):
    """What the driver loads, by source."""
    folder = options.kernels or ROOT / "crates" / "kernels" / "cuda"
    if not options.nvcc:
        return {source: (folder / f"{source}.ptx").read_bytes() for source in SOURCES}
    major, minor = torch.cuda.get_device_capability()
    with tempfile.TemporaryDirectory() as to:
        builds = {source: subprocess.Popen(["nvcc", "-std=c++17", "-O3", f"-arch=sm_{major}{minor}", "-cubin", "-o", f"{to}/{source}",
                                            str(folder / f"{source}.cu")], stderr=subprocess.PIPE, text=True) for source in SOURCES}
        found = {}
        for source, build in builds.items():
            _, text = build.communicate()
            if build.returncode == 0:
                found[source] = Path(to, source).read_bytes()
            else:
                print(f"nvcc: {source}: {text[-2000:]}", flush=True)
        return found


def restrict(count):
    """Has all that is launched from here on run on so many multiprocessors. Streams belong to the context in which they are made:
    this comes before the first."""
    try:
        from torch.cuda.green_contexts import GreenContext
        context = GreenContext.create(num_sms=count, device_id=0)
        context.set_context()
    except Exception as error:
        sys.exit(f"--multiprocessors {count}: PyTorch {torch.__version__} made no such green context: {short(error)}")
    return context


def child(options):
    global torch, triton, tl, driver, multiprocessors
    started = time.time()
    # Compiled in this process: workers take longer to start than there is to compile.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    import torch as imported
    torch = imported
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    random.seed(1)
    torch.zeros(1, device=DEVICE)
    properties = torch.cuda.get_device_properties(0)
    multiprocessors = options.multiprocessors or properties.multi_processor_count
    # Lasts as long as it is held.
    restricted = restrict(multiprocessors) if options.multiprocessors else None  # noqa: F841
    done, begun = set(), set()
    for line in options.child.read_text().splitlines() if options.child.exists() else []:
        entry = json.loads(line)
        begun.add(entry.get("begin"))
        done.add(entry.get("id"))
    part = options.child.open("a")

    def tell(**entry):
        part.write(json.dumps(entry) + "\n")
        part.flush()

    driver = Driver()
    loading = driver.load(images(options))
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version(),
                "driver_cuda": driver.version()}
    if not options.quick and not options.sweep:
        try:
            import triton as imported
            import triton.language as language
            triton, tl = imported, language
            define_triton()
            versions["triton"] = triton.__version__
        except Exception as error:
            triton = None
            tell(trouble=f"triton: {short(error)}")
    for thread in loading:
        thread.join()
    tell(device={"name": properties.name, "multiprocessors": multiprocessors, "memory": properties.total_memory,
                 "l2": getattr(properties, "L2_cache_size", None), "capability": f"{properties.major}.{properties.minor}"},
         versions=versions, load_s=driver.seconds, load_failed=driver.failed, ready_s=round(time.time() - started, 1))
    known = 0
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        if "large" not in begun:
            tell(begin="large")
            tell(id="large", large=large())
        for name, family, arguments in cells(options):
            if name in done or name in begun:
                continue
            if time.time() > options.deadline:
                tell(id=name, error="no time left")
                continue
            tell(begin=name)
            start = time.time()
            entry = {"id": name}
            try:
                with time_limit(CELL_S):
                    row, contestants, sets = FAMILIES[family](options, *arguments)
                    contestants += copies(sets, row["bytes"])
                    entry.update(row, results=measure(contestants, sets, row["bytes"]))
                    del contestants
            except ContextLost as error:
                tell(**entry, error=f"context lost: {error}")
                raise
            except Exception as error:
                traceback.print_exc()
                entry["error"] = short(error)
                sound()
            gc.collect()
            torch.cuda.empty_cache()
            tell(**entry, took_s=round(time.time() - start, 2))
            if len(Launch.about) > known:
                known = len(Launch.about)
                tell(kernels=Launch.about)
    except ContextLost as error:
        print(f"context lost: {error}", flush=True)
        os._exit(CONTEXT_LOST)


# ---------------------------------------------------------------- the record and the table

def parent(options):
    started = time.time()
    # With room for the cell that is in the way when time is over.
    deadline = started + options.limit - 12
    with tempfile.TemporaryDirectory() as folder:
        part, log = Path(folder, "part"), Path(options.out or folder, "cuda.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        code = None
        with log.open("w") as text:
            for _ in range(6):
                command = [sys.executable, __file__, *sys.argv[1:], "--child", str(part), "--deadline", str(deadline), "--compile-until",
                           str(started + 0.6 * options.limit)]
                process = subprocess.Popen(command, stdout=text, stderr=subprocess.STDOUT)
                try:
                    code = process.wait(timeout=max(started + options.limit - time.time(), 1))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    code = "killed at the limit of time"
                    break
                except KeyboardInterrupt:
                    process.kill()
                    raise
                # Of a child that could not even start nothing more is to be had.
                if code == 0 or not part.exists() or time.time() > deadline:
                    break
        lines = part.read_text().splitlines() if part.exists() else []
        tail = log.read_text()[-1500:] if code != 0 else ""
    record = {"command": shlex.join(["python", "benches/cuda.py", *sys.argv[1:]]), "exit": code,
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "note": options.note,
              "nvidia_smi": nvidia_smi(), "commit": commit(), "sweep": options.sweep, "cells": [], "troubles": []}
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if "trouble" in entry:
            record["troubles"].append(entry["trouble"])
        elif "device" in entry:
            record.update(entry)
        elif "kernels" in entry:
            record.setdefault("kernels", {}).update(entry["kernels"])
        elif "large" in entry:
            record["large"] = entry["large"]
        elif "id" in entry:
            record["cells"].append(entry)
    told = {cell["id"] for cell in record["cells"]}
    record["cells"] += [{"id": name, "error": "did not come back"} for name, *_ in cells(options) if name not in told]
    record["took_s"] = round(time.time() - started, 1)
    if options.out:
        Path(options.out, "cuda.json").write_text(json.dumps(record, indent=1) + "\n")
    if tail:
        print(f"the measuring process ended with {code}; its output ended:\n{tail}\n")
    print(report(record))


def nvidia_smi():
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit,temperature.gpu",
             "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=20).stdout.strip()
    except Exception as error:
        return short(error)


def commit():
    try:
        command = ["git", "describe", "--always", "--dirty"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20).stdout.strip()
    except Exception:
        return ""


def copy_rate(results, compulsory):
    rates = [compulsory // 8 * 8 / results[n]["s"] for n in ("memcpy", "elementwise") if "s" in results.get(n, {})]
    return max(rates, default=math.nan)


def report(record):
    device = record.get("device", {})
    lines = [f"{device.get('name', 'no device')}, {device.get('multiprocessors')} SMs, L2 {(device.get('l2') or 0) / 1e6:.0f} MB; "
             f"{record.get('versions')}", f"{record['nvidia_smi']}; commit {record['commit']}; load {record.get('load_s')} s; "
             f"{record['took_s']} s in all"]
    large = {name: result.get("bytes_per_s", math.nan) for name, result in record.get("large", {}).items()}
    big = max((large.get(n, math.nan) for n in ("memcpy", "elementwise")), default=math.nan)
    lines.append("1 GiB, GB/s: " + ", ".join(f"{name} {rate / 1e9:.0f}" for name, rate in large.items()))
    about = record.get("kernels", {})
    if not record["sweep"]:
        lines.append("registers(+local bytes)/blocks an SM: " + ", ".join(
            f"{name} {k['registers']}{'+' + str(k['local']) if k['local'] else ''}/{k['blocks_per_sm']}" for name, k in about.items()))
    errors = {}
    for failed, text in record.get("load_failed", {}).items():
        errors.setdefault(text, []).append(failed)
    for text in record["troubles"]:
        errors.setdefault(text, []).append("-")
    names = ["layer_norm", "softmax_topk", "paged_decode"]
    order = sorted(record["cells"], key=lambda cell: (names.index(cell["id"].split()[0]), cell["id"].split()[1:2],
                                                       [int(n) for n in re.findall(r"\d+", cell.get("shape", ""))]))
    if not record["sweep"]:
        lines.append(f"{'':31}{'us':>8} {'p10-p90':>8} {'GB/s':>5} {'ws':>4} {'big':>4} {'err':>6}  peers' time over ours")
    for cell in order:
        if "results" not in cell:
            errors.setdefault(cell.get("error", "?"), []).append(cell["id"])
            continue
        results = cell["results"]
        for name, result in results.items():
            for what in ("error", "uncaptured"):
                if what in result:
                    errors.setdefault(result[what], []).append(f"{cell['id']}: {name} {what}")
        if record["sweep"]:
            lines.append(sweep_line(cell))
            continue
        head = f"{cell['kernel']} {cell['form']} {cell['shape']}"
        ours = results["ours"]
        if "s" not in ours:
            lines.append(f"{head:31}failed")
            continue
        rate = cell["bytes"] / ours["s"]
        spread = (ours["p90"] - ours["p10"]) / ours["s"]
        peers = []
        for name, result in results.items():
            if name not in ("ours", "memcpy", "elementwise") and "s" in result:
                marks = ("~" if "uncaptured" in result else "") + ("!" if result.get("bad") else "")
                peers.append(f"{name}{marks} {result['s'] / ours['s']:.2f}")
        lines.append(f"{head:31}{ours['s'] * 1e6:8.1f} {spread:8.1%} {rate / 1e9:5.0f} {percent(rate / copy_rate(results, cell['bytes']))} "
                     f"{percent(rate / big)} {ours.get('err', math.nan):6.0e}{'!' if ours.get('bad') else ' '} "
                     f"{', '.join(peers)}")
    if errors:
        lines.append("errors (all in the record):")
        for text, where in sorted(errors.items(), key=lambda pair: -len(pair[1]))[:12]:
            lines.append(f"  {len(where)}x, {where[0]}: {text[:110]}")
    return "\n".join(lines)


def percent(share):
    return f"{share:4.0%}" if math.isfinite(share) else "   -"


def sweep_line(cell):
    """The best settings, in us; that of the manifest first."""
    results = cell["results"]
    timed = {n: r for n, r in results.items() if "s" in r and n not in ("ours", "memcpy", "elementwise")}
    best = sorted(timed, key=lambda name: timed[name]["s"])[:6]
    share = percent(cell["bytes"] / timed[best[0]]["s"] / copy_rate(results, cell["bytes"])) if best else "-"

    def told(result):
        return f"{result.get('s', math.nan) * 1e6:.1f}{'!' if result.get('bad') else ''}"
    return (f"{cell['kernel']} {cell['form']} {cell['shape']}: now {cell['setting']} {told(results['ours'])} | "
            f"{' '.join(f'{name}={told(timed[name])}' for name in best)} |{share} ws")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="folder for cuda.json and the measuring process's output")
    parser.add_argument("--quick", action="store_true", help="fewer shapes, without torch.compile and Triton")
    parser.add_argument("--sweep", action="store_true", help="launch settings of our kernels, and no peers")
    parser.add_argument("--only", help="cells whose names this regular expression finds, e.g. 'layer_norm bwd'")
    parser.add_argument("--kernels", type=Path, help="folder of the kernels; by default that of the repository")
    parser.add_argument("--multiprocessors", type=int, metavar="N", help="run on N multiprocessors only, a multiple of 8")
    parser.add_argument("--nvcc", action="store_true", help="compile the sources with nvcc for this GPU")
    parser.add_argument("--limit", type=float, default=150, help="seconds after which cells are left out")
    parser.add_argument("--note", default="", help="a sentence for the record")
    parser.add_argument("--list", action="store_true", help="print the names of the cells, and do nothing else")
    parser.add_argument("--report", type=Path, help="print the table of a record again, and do nothing else")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, default=math.inf, help=argparse.SUPPRESS)
    parser.add_argument("--compile-until", type=float, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.multiprocessors is not None and (options.multiprocessors < 8 or options.multiprocessors % 8):
        parser.error("--multiprocessors: from compute capability 9.0 on, GPUs are divided into eights of multiprocessors")
    if options.report:
        print(report(json.loads(options.report.read_text())))
    elif options.list:
        print("\n".join(name for name, *_ in cells(options)))
    elif options.child:
        child(options)
    else:
        parent(options)


if __name__ == "__main__":
    main()
