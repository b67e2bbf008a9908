"""Layer norm in Triton 3.9, whose sums of squares are made tile by tile. `python kernels.py` writes kernels.ptx, which needs no GPU."""

import re
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def forward(x, gamma, beta, y, mean, rstd, D, eps, BLOCK: tl.constexpr):
    """A program for each row."""
    row = tl.program_id(0)
    x += row.to(tl.int64) * D
    y += row.to(tl.int64) * D
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, D, BLOCK):
        c = start + tl.arange(0, BLOCK)
        sums += tl.load(x + c, mask=c < D, other=0.0)
    m = tl.sum(sums, axis=0) / D
    squares = 0.0
    for start in range(0, D, BLOCK):
        c = start + tl.arange(0, BLOCK)
        centred = tl.where(c < D, tl.load(x + c, mask=c < D, other=0.0) - m, 0.0)
        squares += tl.sum(centred * centred, axis=0)
    r = 1 / tl.sqrt(squares / D + eps)
    for start in range(0, D, BLOCK):
        c = start + tl.arange(0, BLOCK)
        inside = c < D
        value = (tl.load(x + c, mask=inside) - m) * r
        tl.store(y + c, tl.load(gamma + c, mask=inside) * value + tl.load(beta + c, mask=inside), mask=inside)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)


@triton.jit
def backward(dy, x, gamma, mean, rstd, dx, shares, rows, D, BLOCK: tl.constexpr):
    """A program for each share of the rows."""
    share = tl.program_id(0)
    dgamma = shares + share.to(tl.int64) * 2 * D
    dbeta = dgamma + D
    for start in range(0, D, BLOCK):
        c = start + tl.arange(0, BLOCK)
        tl.store(dgamma + c, 0.0, mask=c < D)
        tl.store(dbeta + c, 0.0, mask=c < D)
    for row in range(share, rows, tl.num_programs(0)):
        at = row.to(tl.int64) * D
        m = tl.load(mean + row)
        r = tl.load(rstd + row)
        sums = tl.zeros([BLOCK], dtype=tl.float32)
        projections = tl.zeros([BLOCK], dtype=tl.float32)
        for start in range(0, D, BLOCK):
            c = start + tl.arange(0, BLOCK)
            inside = c < D
            g = tl.load(dy + at + c, mask=inside, other=0.0) * tl.load(gamma + c, mask=inside, other=0.0)
            sums += g
            projections += g * ((tl.load(x + at + c, mask=inside, other=0.0) - m) * r)
        total = tl.sum(sums, axis=0) / D
        projection = tl.sum(projections, axis=0) / D
        for start in range(0, D, BLOCK):
            c = start + tl.arange(0, BLOCK)
            inside = c < D
            d = tl.load(dy + at + c, mask=inside)
            xhat = (tl.load(x + at + c, mask=inside) - m) * r
            g = d * tl.load(gamma + c, mask=inside)
            tl.store(dx + at + c, r * (g - total - xhat * projection), mask=inside)
            tl.store(dgamma + c, tl.load(dgamma + c, mask=inside) + d * xhat, mask=inside)
            tl.store(dbeta + c, tl.load(dbeta + c, mask=inside) + d, mask=inside)


@triton.jit
def reduce(shares, dgamma, dbeta, count, D, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A program for each few columns."""
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    sum_gamma = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    sum_beta = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(0, count, ROWS):
        share = start + tl.arange(0, ROWS)
        at = share.to(tl.int64)[:, None] * 2 * D + c[None, :]
        inside = (share[:, None] < count) & (c[None, :] < D)
        sum_gamma += tl.load(shares + at, mask=inside, other=0.0)
        sum_beta += tl.load(shares + at + D, mask=inside, other=0.0)
    tl.store(dgamma + c, tl.sum(sum_gamma, axis=0), mask=c < D)
    tl.store(dbeta + c, tl.sum(sum_beta, axis=0), mask=c < D)


def compiled(kernel, types, constants, warps):
    """The kernel's PTX. Buffers begin at multiples of 256 bytes; nothing is known of sizes."""
    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else types[i] for i, name in enumerate(names)}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if signature[name][0] == "*"}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": warps})
    print(f"{kernel.__name__}: block = [{32 * warps}], shared = {made.metadata.shared}, "
          f"scratch for each program: {made.metadata.global_scratch_size}")
    return made.asm["ptx"]


def joined(modules):
    """One module of several: one header, one list of files, one declaration of shared memory, nothing for debuggers."""
    seen, lines = set(), []
    for module in modules:
        module = re.sub(r"\.section\s+\.debug\w+\s*\{.*?\n\t?\}", "", module, flags=re.S)
        for line in module.splitlines():
            once = re.match(r"\.(version|target|address_size)|\s*\.file|\.extern \.shared|\.global", line)
            if once and line in seen:
                continue
            seen.add(line)
            # A line of the source is kept, and neither into which function it was put nor in which folder.
            line = re.sub(r"(\.loc[^,]*),.*", r"\1", line)
            lines.append(re.sub(r'(\.file[^"]*")[^"]*/', r"\1", line))
    return "\n".join(line for line in lines if line.strip()) + "\n"


if __name__ == "__main__":
    f, i = "*fp32", "i32"
    Path("kernels.ptx").write_text(joined([
        compiled(forward, [f, f, f, f, f, f, i, "fp32"], {"BLOCK": 128}, 4),
        compiled(backward, [f, f, f, f, f, f, f, i, i], {"BLOCK": 128}, 4),
        compiled(reduce, [f, f, f, i, i], {"ROWS": 16, "COLUMNS": 32}, 4),
    ]))
