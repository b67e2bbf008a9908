#!/usr/bin/env python3
"""Decoding over a KV cache on CPU: our kernel, PyTorch, onnxruntime, OpenVINO, numpy and the floor.

Install (Linux on x86-64, Python 3.11 or newer, gcc, binutils; 700 MB to download):

    python3 -m venv peers-venv && . peers-venv/bin/activate
    pip install numpy onnx onnxruntime openvino
    pip install --no-deps torch && pip install typing_extensions filelock sympy networkx jinja2 fsspec
    python benches/peers/torch_without_cuda.py     # not needed for a CPU build of torch

Run (ten minutes on an idle machine of two cores; needs 14 GB of memory):

    python benches/peers/decode.py                 # builds our library with cargo, writes to benches/records/
    python benches/peers/decode.py --rounds 5 --threads 1 --shapes 1x8192 --formats f32,int8 --dry-run
    python benches/peers/decode.py --shapes 16x32768 --formats f32,int8,int4     # in all formats it needs more than 24 GB

What is measured: one new token of each sequence of a batch, 32 query heads over 8 heads of keys and values of 128, after
`context` tokens, itself among them. A shape is batch x context. How it measures: see `common.py`. Further

- All formats are in one race, so that what one gains over another is measured within a round. A contestant which has
  taken half a second in a cell sits out the rounds that are left.
- Caches are rings of at least 512 MiB for each library and format, and no slot is read again before the others of its
  ring. All are on huge pages. In records made before 24 November 2026, 11:30 UTC, most had 128 MiB, which an L3 of 260 MB
  holds in part.
- Ours, onnxruntime and OpenVINO append the token and attend; PyTorch and numpy find it in its place. `attention` is ours
  without appending, to compare with the probe, which writes nothing either.
- Ours is contiguous, with `--block` paged as well. OpenVINO's caches are paged, in its blocks of 32, in order.
- `matmul` and `sdpa folded` give the four queries which share a head of keys to one product; `sdpa gqa` is PyTorch's own
  way.
- int8 and int4 are each library's own. Ours has a scale for each token and head; OpenVINO one for each channel of the
  keys of 32 tokens, and for the values as ours; onnxruntime one for each channel of all tokens, found beforehand.
- The probe reads as many bytes as our format has, from a ring of its own, and adds them up. In records made before
  25 November 2026, 11:30 UTC, it read the front of the slots in f32, which an L3 held in part.
- Everybody's answer is compared with numpy's in f64 over keys and values that were not rounded, see `tolerance`.
"""
import ctypes
import math
import statistics
import sys
from itertools import cycle

from common import (aligned, cells, fastest, heading, huge, lead, onnxruntime_session, option_parser, pointer, race, row,
                    run, table)

SHAPES = [(1, 1024), (1, 8192), (1, 32768), (4, 1024), (4, 8192), (4, 32768), (16, 1024), (16, 8192)]
HEADS, KV_HEADS, DIM = 32, 8, 128
GROUP = HEADS // KV_HEADS
# As the library numbers them, with what a rounding to them may be off by, in parts of what is rounded. A step of the
# integers is ten standard deviations by the number of codes, and what is off is uniform within it.
FORMATS = {"f32": None, "f16": 2**-11, "bf16": 2**-8,
           "int8": 10 / 2**8 / math.sqrt(12), "int4": 10 / 2**4 / math.sqrt(12)}
RING_BYTES = 512 << 20
PATIENCE_S = 0.5
# With more tokens than this it takes up to 1.3 s in f16 and bf16, fifty times as long as we do: it would only hold up
# the others.
NOT_SDPA_GQA = 1 << 15
# A sequence starts so many tokens behind the one before it, in tokens that all share.
APART = 7 * 32
ATTENTION, IN_F32 = "ours, attention", "own f32"
# How many times a read of as many bytes our attention means to take at most, how far ahead of OpenVINO we mean to be, and
# attention of itself in f32.
GOALS = {name: {"probe": 1.25} for name in ("f32", "f16", "bf16")}
GOALS |= {"int8": {"probe": 2, "openvino": 4, IN_F32: 2}, "int4": {"probe": 2, "openvino": 4, IN_F32: 2.5}}


def main():
    parser = option_parser(__doc__, SHAPES)
    parser.set_defaults(rounds=10)
    parser.add_argument("--formats", default=",".join(FORMATS), help="comma-separated formats of the cache")
    parser.add_argument("--block", type=int, help="time our paged cache too, in blocks of so many tokens")
    run(parser.parse_args(), "decode", measure, report)


def tolerance(format):
    """What an answer may be off by, in root mean squares and parts of that of the answer.

    Entries are normal and scores have a variance of one, so a rounding of keys by `d` parts is one of weights by `d`
    parts, and with that of values the answer is off by `sqrt(2) d`. The rest is for what a library rounds in between.
    In f32 sums of as many terms as there are tokens are what counts."""
    return 2 * FORMATS[format] if FORMATS[format] else 1e-5


class Tokens:
    """What sequences are cut from: keys and values, `[2, heads, tokens, width]`, twice in a row."""

    def __init__(self, values):
        import numpy as np
        self.count = values.shape[2]
        self.twice = np.concatenate([values, values], axis=2)

    def sequence(self, number, context):
        start = number * APART % self.count
        return self.twice[:, :, start:start + context]

    def ring(self, name, batch, context, ring_bytes, dtype):
        """Slots of `[2, batch, heads, context, width]`, all with the same sequences."""
        import numpy as np
        _, heads, _, width = self.twice.shape
        shape = (2, batch, heads, context, width)
        count = slots_of(ring_bytes, math.prod(shape) * np.dtype(dtype).itemsize)
        ring = room(name, count * math.prod(shape), dtype).reshape(count, *shape)
        for number in range(batch):
            ring[0][:, number] = self.sequence(number, context)
        ring[1:] = ring[0]
        return ring


ROOMS = {}


def room(name, count, dtype):
    """As `huge`, but what a name had in the last cell it has again: finding memory takes longer than filling it."""
    import numpy as np
    size = count * np.dtype(dtype).itemsize
    if name not in ROOMS or len(ROOMS[name]) < size:
        ROOMS[name] = huge(size, np.uint8)
    return ROOMS[name][:size].view(dtype)


def slots_of(ring_bytes, slot_bytes):
    return -(-ring_bytes // slot_bytes)


def row_bytes(library, format):
    return library.tribunal_row_bytes(ctypes.c_size_t(list(FORMATS).index(format)), ctypes.c_size_t(DIM))


class Cell:
    """The tokens, the batch's newest, and the answer."""

    def __init__(self, tokens, batch, context, rounds, threads):
        import numpy as np
        self.tokens, self.batch, self.context, self.rounds, self.threads = tokens, batch, context, rounds, threads
        self.rows = 2 * batch * KV_HEADS * context
        self.q = aligned(np.random.default_rng(1).standard_normal((batch, HEADS, DIM), dtype=np.float32))
        self.plain = tokens.ring("f32", batch, context, RING_BYTES, np.float32)
        self.turns = cycle(range(len(self.plain)))
        self.newest = [aligned(part[:, :, -1]) for part in self.plain[0]]

    def right(self):
        import numpy as np
        answer = np.empty((self.batch, KV_HEADS, GROUP, DIM))
        for number, head in np.ndindex(self.batch, KV_HEADS):
            k, v = self.tokens.sequence(number, self.context)[:, head].astype(np.float64)
            q = self.q.reshape(answer.shape)[number, head].astype(np.float64)
            weights = np.exp(q @ k.T / math.sqrt(DIM))
            answer[number, head] = weights @ v / weights.sum(-1, keepdims=True)
        return answer


# Each of these takes a cell and a format, and gives calls by name, of the number of a slot, returning the answer; and the
# slots, each of which is for who has the next turn.

def ours(library, cell, format, block):
    import numpy as np
    size = ctypes.c_size_t
    count = slots_of(RING_BYTES, cell.rows * row_bytes(library, format))
    # Each call that appends leaves a slot a token longer: two in a round where there is one slot, and what a warm-up adds,
    # which at 500 GB/s goes round the ring five times.
    max_len = cell.context + 8 * (cell.rounds + 2)
    sizes = [size(n) for n in (list(FORMATS).index(format), count, cell.batch, KV_HEADS, DIM, max_len, block or 0)]
    cache = Cache(library, sizes)
    k, v = (pointer(part) for part in cell.plain[0])
    for slot in range(count):
        cache.append(size(slot), size(cell.context), size(cell.context - 1), k, v)
    out = aligned(np.zeros((cell.batch, HEADS, DIM), np.float32))
    slots, one, heads = [size(slot) for slot in range(count)], size(1), size(HEADS)
    k, v, q, answer = (pointer(array) for array in (*cell.newest, cell.q, out))

    def attend(i):
        cache.attend(slots[i], heads, q, answer)
        return out

    def append_and_attend(i):
        cache.append(slots[i], one, one, k, v)
        return attend(i)

    if block:
        return {f"ours, blocks of {block}": append_and_attend}, cycle(range(count))
    return {"ours": append_and_attend, ATTENTION: attend}, cycle(range(count))


class Cache:
    """One of our library's, freed with this object."""

    def __init__(self, library, sizes):
        library.tribunal_cache_new.restype = ctypes.c_void_p
        self.library, self.cache = library, ctypes.c_void_p(library.tribunal_cache_new(*sizes))
        assert self.cache, "refused to make a cache"

    def __del__(self):
        self.library.tribunal_cache_free(self.cache)

    def append(self, *arguments):
        assert self.library.tribunal_append(self.cache, *arguments) == 0, "refused to append"

    def attend(self, *arguments):
        assert self.library.tribunal_attend(self.cache, *arguments) == 0, "refused to attend"


class Probes:
    """Calls like the others', but their answers are sums. Each reads what lies behind what the last one read, whatever its
    format, so that nothing is read again before all of the ring."""

    def __init__(self, library, cell):
        import numpy as np
        self.library, self.cell = library, cell
        self.floats = room("probe", max(RING_BYTES, cell.plain[0].nbytes) // 4, np.float32)
        self.floats[:] = 1
        self.behind = 0

    def call(self, format):
        import numpy as np
        length = self.cell.rows * row_bytes(self.library, format) // 4
        total, without_exp = aligned(np.zeros(1, np.float32)), ctypes.c_size_t(0)
        out = pointer(total)

        def read():
            if self.behind + length > len(self.floats):
                self.behind = 0
            floats = self.floats[self.behind:self.behind + length]
            # To a multiple of the 64 bytes of a line.
            self.behind += -(-length // 16) * 16
            return self.library.tribunal_read_probe(without_exp, ctypes.c_size_t(length), pointer(floats), out)

        return read


def on_tensors(cell, format, codes):
    """Those that take keys and values as tensors; `codes` are the tokens in the formats of integers, and their scales."""
    if format in codes:
        tokens, scales = codes[format]
        slots = tokens.ring(format, cell.batch, cell.context, RING_BYTES, tokens.twice.dtype)
        return onnxruntime_calls(cell, slots, scales), cycle(range(len(slots)))
    slots, turns = cell.plain, cell.turns
    if format != "f32":
        slots = half_ring(cell, format)
        turns = cycle(range(len(slots)))
    calls = torch_calls(cell, slots, format)
    if format == "f32":
        calls |= numpy_calls(cell, slots)
    if format != "bf16":
        calls |= onnxruntime_calls(cell, slots)
    return calls, turns


def half_ring(cell, format):
    """In f16 or bf16; as numpy knows no bf16, that is f16 to it."""
    import numpy as np
    import torch
    shape = cell.plain.shape[1:]
    count = slots_of(RING_BYTES, 2 * math.prod(shape))
    ring = room(format, count * math.prod(shape), np.float16).reshape(count, *shape)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[format]
    torch.from_numpy(ring[0]).view(dtype).copy_(torch.from_numpy(cell.plain[0]))
    ring[1:] = ring[0]
    return ring


def torch_calls(cell, slots, format):
    import torch
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[format]
    tensors = torch.from_numpy(slots).view(dtype)
    q = torch.from_numpy(cell.q).to(dtype)
    one, folded = q[:, :, None], q.reshape(cell.batch, KV_HEADS, GROUP, DIM)
    scaled, sdpa = folded / math.sqrt(DIM), torch.nn.functional.scaled_dot_product_attention

    def matmul(i):
        k, v = tensors[i]
        return torch.matmul(torch.softmax(torch.matmul(scaled, k.mT), -1), v)

    calls = {"torch matmul": matmul, "torch sdpa folded": lambda i: sdpa(folded, *tensors[i])}
    if format == "f32" or cell.batch * cell.context <= NOT_SDPA_GQA:
        calls["torch sdpa gqa"] = lambda i: sdpa(one, *tensors[i], enable_gqa=True)
    return calls


def numpy_calls(cell, slots):
    import numpy as np
    scaled = cell.q.reshape(cell.batch, KV_HEADS, GROUP, DIM) / np.float32(math.sqrt(DIM))

    def call(i):
        k, v = slots[i]
        scores = scaled @ k.swapaxes(-1, -2)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights @ v / weights.sum(-1, keepdims=True)

    return {"numpy": call}


def onnxruntime_calls(cell, slots, scales=None):
    """Its operator writes the newest token into the cache it reads."""
    import numpy as np
    import onnxruntime
    from onnx import helper
    batch, context = cell.batch, cell.context
    values = {name: array.reshape(batch, 1, -1).astype(slots.dtype if scales is None else np.float32)
              for name, array in zip("qkv", (cell.q, *cell.newest))}
    values |= {"last": np.full(batch, context - 1, np.int32), "total": np.array(context, np.int32)}
    answer = aligned(np.zeros_like(values["q"]))
    names = ["q", "k", "v", "keys", "values", "last", "total"]
    attributes = {}
    if scales is not None:
        values |= {"key scales": scales[0], "value scales": scales[1]}
        names += [""] * 5 + ["key scales", "value scales"]
        attributes = {"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL",
                      "kv_cache_bit_width": 8 * slots.shape[-1] // DIM}
    node = helper.make_node("GroupQueryAttention", names, ["answer", "new keys", "new values"], domain="com.microsoft",
                            num_heads=HEADS, kv_num_heads=KV_HEADS, **attributes)

    def infos(arrays):
        return [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in arrays.items()]

    k, v = slots[0]
    graph = helper.make_graph([node], "decode", infos(values | {"keys": k, "values": v}),
                              infos({"answer": answer, "new keys": k, "new values": v}))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime_session(model, cell.threads)
    wrap = onnxruntime.OrtValue.ortvalue_from_numpy
    constants = {name: wrap(array) for name, array in (values | {"answer": answer}).items()}
    bindings = []
    for slot in slots:
        binding = session.io_binding()
        k, v = map(wrap, slot)
        for name, value in {**constants, "keys": k, "values": v}.items():
            if name != "answer":
                binding.bind_ortvalue_input(name, value)
        for name, value in {"answer": constants["answer"], "new keys": k, "new values": v}.items():
            binding.bind_ortvalue_output(name, value)
        bindings.append(binding)

    def call(i):
        session.run_with_iobinding(bindings[i])
        return answer

    return {"onnxruntime": call}


def quantise(tokens, bits):
    """Tokens as codes, two to a byte if they have four bits, and scales: `[2, heads x dim]`."""
    import numpy as np
    values, most = tokens.twice[:, :, :tokens.count], 2 ** (bits - 1) - 1
    scales = np.abs(values).max(axis=2) / most
    codes = np.rint(values / scales[:, :, None]).astype(np.int8)
    if bits == 4:
        codes = (codes + 8).view(np.uint8)
        codes = codes[..., ::2] | codes[..., 1::2] << 4
    return Tokens(codes), scales.reshape(2, -1)


class PagedAttention:
    """OpenVINO's operator, and the tokens as it stores them in one format."""

    def __init__(self, tokens, format, threads):
        import numpy as np
        import openvino
        from openvino import opset15 as ops
        from openvino.op import _PagedAttentionExtension
        f32, i32, u8 = np.float32, np.int32, np.uint8

        def parameter(name, shape, dtype):
            node = ops.parameter(openvino.PartialShape(shape), dtype)
            node.output(0).get_tensor().set_names({name})
            return node

        def nothing(dtype, shape=(0,)):
            return ops.constant(np.zeros(shape, dtype))

        q, k, v = (parameter(name, [-1, heads * DIM], f32)
                   for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)))
        # The plugin gives caches their type and shape, and knows them by these names.
        caches = [parameter(name, [-1] * 4, openvino.Type.dynamic) for name in ("key_cache.0", "value_cache.0")]
        tables = [parameter(name, [-1], i32) for name in ("past", "starts", "blocks", "block_starts")]
        longest = parameter("longest", [], i32)
        scale, window, no_slopes = ops.constant(f32(1 / math.sqrt(DIM))), nothing(i32, ()), nothing(f32)
        # The scores, rotated blocks, sparse attention, sinks, evicted blocks, kinds of tokens and trees of tokens that it
        # could do too. Were the first of these a number and not empty, it would not compute batches, and not say so.
        others = [nothing(i32), nothing(i32), nothing(i32, (0, 0)), nothing(f32, (0, 0)), nothing(f32), nothing(i32, ()),
                  nothing(i32, ()), nothing(f32, (0,) * 4), nothing(i32, ()), *(nothing(i32) for _ in range(4)),
                  nothing(u8), nothing(i32)]
        inputs = [q, k, v, *caches, *tables, scale, window, no_slopes, longest, *others]
        node = _PagedAttentionExtension([one.output(0) for one in inputs])
        for part in "kv":
            node.get_rt_info()[f"num_{part}_heads"], node.get_rt_info()[f"{part}_head_size"] = KV_HEADS, DIM
        model = openvino.Model([node.output(0)], [q, k, v, *caches, *tables, longest], "decode")
        self.compiled = openvino.Core().compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "bf16" if format == "bf16" else "f32",
            "KV_CACHE_PRECISION": {"int8": "u8", "int4": "u4"}.get(format, format)})
        # Keys and values alike: blocks, heads, and what it makes of the tokens of a block and their scales.
        self.block_shapes = [[size.get_length() for size in list(port.partial_shape)[1:]]
                             for port in self.compiled.inputs[3:5]]
        self.types = [port.element_type for port in self.compiled.inputs[3:5]]
        self.format, self.block_len = format, 32
        self.tokens = self.stored(tokens)

    def block_bytes(self):
        return [math.prod(shape) * type_.bitwidth // 8 for shape, type_ in zip(self.block_shapes, self.types)]

    def bound(self, pools, arrays):
        """A call with these pools of blocks, as bytes, and what else the operator takes; it sees what is written."""
        import openvino
        request = self.compiled.create_infer_request()
        q, k, v, *tables = arrays
        wrapped = [openvino.Tensor(pool, [len(pool), *shape], type_)
                   for pool, shape, type_ in zip(pools, self.block_shapes, self.types)]
        others = [openvino.Tensor(array, shared_memory=True) for array in (q, k, v, *tables)]
        for i, tensor in enumerate([*others[:3], *wrapped, *others[3:]]):
            request.set_input_tensor(i, tensor)

        def call():
            request.infer()
            return request.get_output_tensor(0).data

        call.reads = pools, arrays  # which tensors do not keep
        return call

    def stored(self, tokens):
        """Each block of tokens is made a sequence of its own, some at a time, so that there is hardly any attention."""
        import numpy as np
        per, step = self.block_len, 64
        pools = [np.zeros((tokens.count // per, size), np.uint8) for size in self.block_bytes()]
        for first in range(0, tokens.count // per, step):
            blocks = np.arange(first, min(first + step, tokens.count // per), dtype=np.int32)
            count = len(blocks)
            k, v = (np.ascontiguousarray(part.swapaxes(0, 1)).reshape(count * per, -1)
                    for part in tokens.twice[:, :, per * first:per * (first + count)])
            starts = np.arange(count + 1, dtype=np.int32)
            q, past = np.zeros((count * per, HEADS * DIM), np.float32), np.zeros(count, np.int32)
            self.bound(pools, [q, k, v, past, per * starts, blocks, starts, np.array(per, np.int32)])()
        return pools

    def calls(self, cell):
        import numpy as np
        batch, per = cell.batch, cell.context // self.block_len
        count = slots_of(RING_BYTES, batch * per * sum(self.block_bytes()))
        pools = []
        for part, stored in zip("kv", self.tokens):
            pool = room(f"openvino {self.format} {part}", count * batch * per * stored.shape[1], np.uint8)
            pool = pool.reshape(count, batch, per, -1)
            for number in range(batch):
                start = number * APART // self.block_len
                pool[0, number] = np.take(stored, range(start, start + per), axis=0, mode="wrap")
            pool[1:] = pool[0]
            pools.append(pool.reshape(count * batch * per, -1))
        tables = np.arange(count * batch * per, dtype=np.int32).reshape(count, -1)
        blocks, starts = tables[0].copy(), np.arange(batch + 1, dtype=np.int32)
        infer = self.bound(pools, [
            *(array.reshape(batch, -1) for array in (cell.q, *cell.newest)), np.full(batch, cell.context - 1, np.int32),
            starts, blocks, per * starts, np.array(cell.context, np.int32)])

        def call(i):
            blocks[:] = tables[i]
            return infer()

        return {"openvino": call}, cycle(range(count))


def check(calls, turns, right, format):
    """Compares all answers on one slot."""
    import numpy as np
    slot = next(turns)
    for name, call in calls.items():
        answer = call(slot)
        answer = np.asarray(answer.float() if hasattr(answer, "float") else answer, np.float64).reshape(right.shape)
        off = math.sqrt(np.mean((answer - right) ** 2) / np.mean(right ** 2))
        assert off <= tolerance(format), f"{format} {name}: off by {off:.2g}"


def taking_turns(calls, turns, format):
    return {(format, name): lambda _, call=call: call(next(turns)) for name, call in calls.items()}


def measure(options, library, shapes):
    import numpy as np
    import torch
    torch.set_grad_enabled(False)
    torch.set_num_threads(options.child)
    formats = options.formats.split(",")
    most = max(context for _, context in shapes)
    tokens = Tokens(np.random.default_rng(0).standard_normal((2, KV_HEADS, most, DIM), dtype=np.float32))
    codes = {f"int{bits}": quantise(tokens, bits) for bits in (8, 4) if f"int{bits}" in formats}
    paged = {format: PagedAttention(tokens, format, options.child) for format in formats}
    measured = []
    for batch, context in shapes:
        print(f"{batch} x {context}", file=sys.stderr)
        cell = Cell(tokens, batch, context, options.rounds, options.child)
        right, contestants = cell.right(), {}
        for format in formats:
            families = [ours(library, cell, format, block) for block in dict.fromkeys([None, options.block])]
            families += [on_tensors(cell, format, codes), paged[format].calls(cell)]
            for calls, turns in families:
                check(calls, turns, right, format)
                contestants |= taking_turns(calls, turns, format)
        probes = Probes(library, cell)
        contestants |= {("probe", format): lambda _, read=probes.call(format): read() for format in formats}
        seconds = race(contestants, 1, options.rounds, PATIENCE_S)
        for format in formats:
            of_format = {name: times for (of, name), times in seconds.items() if of == format}
            if "f32" in formats and format != "f32":
                of_format[IN_F32] = seconds["f32", ATTENTION]
            measured.append({
                "format": format, "batch": batch, "context": context, "threads": options.child,
                "bytes": cell.rows * row_bytes(library, format),
                "seconds": {**of_format, "probe": seconds["probe", format]}})
    return measured, ["torch", "onnxruntime", "openvino", "numpy"]


# ---------------------------------------------------------------- the report

def report(record):
    lines = heading("Decoding beside its peers", record)
    lines += [
        f"- {HEADS} query heads over {KV_HEADS} heads of keys and values of {DIM}; shapes are batch x context; times in"
        " ms; method in the docstring of `benches/peers/decode.py`",
        "- `probe`, GB/s (of it), `attention` (ours, without appending): from that of the two processes in which the"
        " probe was faster; `/ probe`: minimum by minimum; in brackets the median over rounds of the ratio in one round",
        "- `ours`, best peer of the same format: the minimum of both processes, with malloc as it comes and with huge"
        " pages",
        "- `/ ours`: the best peer, minimum by minimum of one process, the smaller of both; in brackets the same with the"
        " median over rounds of the ratio in one round; `/ probe`: the same by the probe, so what a kernel at the floor"
        " would reach",
        "- `own f32`: our attention in f32 by that in this format, and by the probe of this format, likewise",
        "- `short of`: " + "; ".join(f"{format}: {', '.join(map(goal_text, goals, goals.values()))}"
                                     for format, goals in GOALS.items())
        + ", minimum by minimum; after `floor` what a kernel at the floor would reach, where that is short of it as well",
        ""]
    lines += table("llrrrrrrrlrrrrrl", [
        "shape", "format", "threads", "probe", "GB/s", "attention min", "median", "/ probe", "ours", "best peer",
        "its min", "/ ours", "/ probe", "own f32", "/ probe", "short of"])
    lines += [row(*report_cell(cell, processes)) for cell, processes in cells(record)]
    lines += ["", "All of ours and all peers, minimum in ms:", "", *all_times(record)]
    return "\n".join(lines) + "\n"


def goal_text(name, goal):
    return f"{goal:g} times the probe" if name == "probe" else f"{name} / {goal:g}"


def report_cell(cell, processes):
    seconds = min(processes, key=lambda seconds: min(seconds["probe"]))
    attention, probe = seconds[ATTENTION], seconds["probe"]
    ratio, by_round = min(attention) / min(probe), statistics.median(a / b for a, b in zip(attention, probe))
    peer = min(peers_of(seconds), key=lambda name: lead(processes, name))
    f32 = [f"{lead(processes, IN_F32, by)[0]:.2f}" for by in (ATTENTION, "probe")] if IN_F32 in seconds else ["", ""]
    ms = lambda time: f"{time * 1e3:.3f}"
    ratios = lambda by_minimum, by_round: f"{by_minimum:.2f} ({by_round:.2f})"
    return (f"{cell['batch']} x {cell['context']}", cell["format"], cell["threads"],
            ms(min(probe)), f"{1e-9 * cell['bytes'] / min(probe):.1f}",
            ms(min(attention)), ms(statistics.median(attention)), ratios(ratio, by_round), ms(fastest(processes, "ours")),
            peer, ms(fastest(processes, peer)), ratios(*lead(processes, peer)),
            f"{lead(processes, peer, 'probe')[0]:.2f}", *f32, ", ".join(missed(GOALS[cell["format"]], processes, ratio)))


def missed(goals, processes, ratio):
    for name, goal in goals.items():
        if name == "probe":
            if ratio > goal:
                yield goal_text(name, goal)
        elif name in processes[0] and lead(processes, name, ATTENTION if name == IN_F32 else "ours")[0] < goal:
            at_floor = lead(processes, name, "probe")[0]
            yield goal_text(name, goal) + (f" (floor: {at_floor:.2f})" if at_floor < goal else "")


def peers_of(seconds):
    return [name for name in seconds if name not in ("probe", IN_F32) and not name.startswith("ours")]


def all_times(record):
    measured = list(cells(record))
    names = list(dict.fromkeys(name for _, processes in measured for name in processes[0]
                               if name not in ("probe", IN_F32)))
    yield from table("llr" + "r" * len(names), ["shape", "format", "threads", *names])
    for cell, processes in measured:
        times = (f"{fastest(processes, name) * 1e3:.3f}" if name in processes[0] else "" for name in names)
        yield row(f"{cell['batch']} x {cell['context']}", cell["format"], cell["threads"], *times)


if __name__ == "__main__":
    sys.exit(main())
