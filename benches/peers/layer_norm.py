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

How it measures: see `common.py`. Further

- The rings are three: x, dy, output. PyTorch has no operator that writes layer norm to a given buffer without a copy,
  so it allocates its output, and that is part of its time.
- The floor is the best of three ways to move the compulsory bytes (plain stores, streaming stores, streaming stores
  with prefetch): a copy for forward, a triad for backward.

What the numbers favour: large shapes whose outputs nobody reads at once. With outputs that fit a cache and are read
next, streaming stores are the wrong choice.
"""
import ctypes
import statistics
import sys

from common import Arena, aligned, cells, heading, lead, option_parser, pointer, race, row, run, table

SHAPES = [(8192, 768), (4096, 1024), (2048, 4096), (1024, 8192)]
EPS = 1e-5
WAYS = ["plain", "nt", "nt + prefetch"]


def main():
    run(option_parser(__doc__, SHAPES).parse_args(), "layer_norm", measure, report)


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


def measure(options, library, shapes):
    import torch
    torch.set_grad_enabled(False)
    arenas = [Arena(seed) for seed in range(3)]
    numba_pair = numba_kernels()
    measured = []
    for shape in shapes:
        passes, slots = contestants(library, numba_pair, shape, arenas, options.child)
        for name, calls in passes.items():
            print(f"{name} {shape}", file=sys.stderr)
            measured.append({"pass": name, "rows": shape[0], "cols": shape[1], "threads": options.child,
                             "seconds": race(calls, slots, options.rounds)})
    return measured, ["torch", "numba", "numpy"]


# ---------------------------------------------------------------- the report

def floors(seconds):
    """The best probe of each round."""
    return [min(round_) for round_ in zip(*(times for name, times in seconds.items() if name.startswith("floor")))]


def report(record):
    lines = heading("Layer normalisation beside its peers", record)
    lines += ["- f32; three rings of 1 GiB on huge pages; times in ms; method in the docstring of `benches/peers/layer_norm.py`",
              "- floor, ours, GB/s: from that of the two processes in which the floor was lower; peers: the minimum, `torch + huge` from"
              " the process with huge-page malloc, `numba` the better of both",
              "- `/ floor`: ours by the best probe, minimum by minimum; in brackets the median over rounds of ours by the best probe"
              " of the same round",
              "- `best peer / ours`: minimum by minimum of one process, the smallest over peers and processes; in brackets the same"
              " with the median over rounds of the ratio in one round", ""]
    lines += table("llrrrrrrrrrr", ["pass", "shape", "threads", "floor", "GB/s", "ours min", "ours median", "/ floor",
                                    "torch", "torch + huge", "numba", "best peer / ours"])
    for cell, processes in cells(record):
        seconds = min(processes, key=lambda seconds: min(floors(seconds)))
        ours, floor = seconds["ours"], min(floors(seconds))
        paired = statistics.median(a / b for a, b in zip(ours, floors(seconds)))
        by_minimum, by_round = map(min, zip(*(lead(processes, name) for name in ("torch", "numba"))))
        minima = [min(processes[0]["torch"]), min(processes[1]["torch"]),
                  min(min(seconds["numba"]) for seconds in processes)]
        moved = (2 if cell["pass"] == "forward" else 3) * 4 * cell["rows"] * cell["cols"]
        lines.append(row(
            cell["pass"], f"{cell['rows']} x {cell['cols']}", cell["threads"],
            f"{floor * 1e3:.2f}", f"{moved / floor / 1e9:.1f}",
            f"{min(ours) * 1e3:.2f}", f"{statistics.median(ours) * 1e3:.2f}", f"{min(ours) / floor:.2f} ({paired:.2f})",
            *(f"{seconds * 1e3:.2f}" for seconds in minima), f"{by_minimum:.2f} ({by_round:.2f})"))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
