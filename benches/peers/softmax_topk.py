#!/usr/bin/env python3
"""Softmax and the k largest probabilities on CPU: our kernel, PyTorch, onnxruntime, OpenVINO, numpy and the floor.

Install (Linux on x86-64, Python 3.11 or newer, gcc, binutils; 700 MB to download):

    python3 -m venv peers-venv && . peers-venv/bin/activate
    pip install numpy onnx onnxruntime openvino
    pip install --no-deps torch && pip install typing_extensions filelock sympy networkx jinja2 fsspec
    python benches/peers/torch_without_cuda.py     # not needed for a CPU build of torch

Run (a quarter of an hour on an idle machine of two cores; needs 4 GB of memory):

    python benches/peers/softmax_topk.py           # builds our library with cargo, writes to benches/records/
    python benches/peers/softmax_topk.py --rounds 8 --threads 1 --shapes 64x128256 --k 50 --dry-run

How it measures: see `common.py`. Further

- There is one ring, of logits, normally distributed. What comes out is small, and everybody but PyTorch is given a
  buffer for it; PyTorch and onnxruntime allocate the probabilities in between.
- `torch` and `onnxruntime` are softmax then top-k, as most would write it. `logsumexp` and `exp-sum` take the top-k
  of the logits, and normalise those alone.
- There are two probes: one reads the logits and adds them up, the other adds up their exponentials, as any softmax
  must.
- A peer's probabilities are compared with numpy's in f64, its indices by the logits they point at, which leaves ties
  open.
"""
import ctypes
import statistics
import sys

from common import (Arena, aligned, cells, fastest, heading, lead, onnxruntime_session, option_parser, pointer, race, row,
                    run, table)

SHAPES = [(64, 32000), (64, 50257), (64, 128256), (16, 151936)]
KS = [1, 5, 50, 256]
# What takes OpenVINO up to 830 ms, twenty times as long as any k here: it would only hold up the others.
NOT_OPENVINO = [5]
PROBES = ["probe: read", "probe: read + exp + sum"]
TORCH = "torch softmax + topk"
# How far ahead of the best peer and of PyTorch this kernel means to be.
GOALS = {"best peer": 3.5, TORCH: 8}


def main():
    parser = option_parser(__doc__, SHAPES)
    parser.add_argument("--k", default=",".join(map(str, KS)), help="comma-separated numbers of probabilities")
    run(parser.parse_args(), "softmax_topk", measure, report)


# Each of these takes the slots of a ring, k and the number of threads, and gives calls by name: of the number of a
# slot, returning probabilities and indices.

def ours(library, slots, k):
    import numpy as np
    count, rows, vocab = slots.shape
    probs, indices = aligned(np.zeros((rows, k), np.float32)), aligned(np.zeros((rows, k), np.uint32))
    lse = aligned(np.zeros(rows, np.float32))
    shape = [ctypes.c_size_t(size) for size in (rows, vocab, k)]
    inputs, outputs = [pointer(slot) for slot in slots], [pointer(out) for out in (probs, indices, lse)]

    def call(i):
        library.tribunal_softmax_topk(*shape, inputs[i], *outputs)
        return probs, indices

    return {"ours": call}


def probes(library, slots):
    import numpy as np
    total = aligned(np.zeros(1, np.float32))
    inputs, length, out = [pointer(slot) for slot in slots], ctypes.c_size_t(slots[0].size), pointer(total)
    return {name: lambda i, way=ctypes.c_size_t(way): library.tribunal_read_probe(way, length, inputs[i], out)
            for way, name in enumerate(PROBES)}


def torch_calls(slots, k):
    import torch
    logits = torch.from_numpy(slots)

    def logsumexp(i):
        x = logits[i]
        values, indices = torch.topk(x, k, -1)
        return torch.exp(values - torch.logsumexp(x, -1, keepdim=True)), indices

    return {TORCH: lambda i: torch.topk(torch.softmax(logits[i], -1), k, -1), "torch topk + logsumexp": logsumexp}


def onnxruntime_calls(slots, k, threads):
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    _, rows, vocab = slots.shape
    nodes = [helper.make_node("Softmax", ["x"], ["p"], axis=-1),
             helper.make_node("TopK", ["p", "k"], ["probs", "indices"], axis=-1)]
    graph = helper.make_graph(
        nodes, "softmax_topk", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, vocab])],
        [helper.make_tensor_value_info("probs", TensorProto.FLOAT, [rows, k]),
         helper.make_tensor_value_info("indices", TensorProto.INT64, [rows, k])],
        [numpy_helper.from_array(np.array([k]), "k")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    session = onnxruntime_session(model, threads)
    probs, indices = aligned(np.zeros((rows, k), np.float32)), aligned(np.zeros((rows, k), np.int64))
    bindings = []
    for slot in slots:
        bindings.append(session.io_binding())
        bindings[-1].bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(slot))
        for name, array in (("probs", probs), ("indices", indices)):
            bindings[-1].bind_ortvalue_output(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))

    def call(i):
        session.run_with_iobinding(bindings[i])
        return probs, indices

    return {"onnxruntime": call}


def openvino_calls(slots, k, threads):
    import numpy as np
    import openvino
    from openvino import opset15 as ops
    _, rows, vocab = slots.shape
    core, axis = openvino.Core(), np.array([1])
    inputs = [openvino.Tensor(slot, shared_memory=True) for slot in slots]

    def softmax_topk(x):
        return ops.topk(ops.softmax(x, 1), np.int64(k), 1, "max", "value").outputs()

    def exp_sum(x):
        values, indices = ops.topk(x, np.int64(k), 1, "max", "value").outputs()
        largest = ops.reduce_max(x, axis, True)
        total = ops.reduce_sum(ops.exp(ops.subtract(x, largest)), axis, True)
        return [ops.divide(ops.exp(ops.subtract(values, largest)), total).output(0), indices]

    def compiled(build):
        x = ops.parameter([rows, vocab], np.float32)
        model = core.compile_model(openvino.Model(build(x), [x]), "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
        request = model.create_infer_request()
        answers = aligned(np.zeros((rows, k), np.float32)), aligned(np.zeros((rows, k), np.int32))
        for i, answer in enumerate(answers):
            request.set_output_tensor(i, openvino.Tensor(answer, shared_memory=True))

        def call(i):
            request.set_input_tensor(inputs[i])
            request.infer()
            return answers

        return call

    return {"openvino": compiled(softmax_topk), "openvino topk + exp-sum": compiled(exp_sum)}


def numpy_calls(slots, k):
    import numpy as np

    def call(i):
        x = slots[i]
        indices = np.argpartition(x, -k, -1)[:, -k:]
        values = np.take_along_axis(x, indices, -1)
        order = np.argsort(-values, -1)
        indices, values = np.take_along_axis(indices, order, -1), np.take_along_axis(values, order, -1)
        largest = values[:, :1]
        return np.exp(values - largest) / np.exp(x - largest).sum(-1, keepdims=True), indices

    return {"numpy argpartition": call}


def check(calls, slots, k):
    """Compares all answers on the last slot with numpy's in f64."""
    import numpy as np
    x = slots[-1]
    values = -np.sort(np.partition(-x, k - 1, -1)[:, :k], -1)
    expected = np.exp(values.astype(np.float64)) / np.exp(x.astype(np.float64)).sum(-1, keepdims=True)
    for name, call in calls.items():
        probs, indices = (np.asarray(answer) for answer in call(len(slots) - 1))
        pointed_at = np.take_along_axis(x, indices.astype(np.int64), -1)
        np.testing.assert_array_equal(pointed_at, values, err_msg=name)
        np.testing.assert_allclose(probs, expected, rtol=1e-5, err_msg=name)
        assert all(len(set(row)) == k for row in indices.tolist()), f"{name}: the same index twice"


def measure(options, library, shapes):
    import torch
    torch.set_grad_enabled(False)
    torch.set_num_threads(options.child)
    arena = Arena(0)
    measured = []
    for shape in shapes:
        slots = arena.slots(shape)
        for k in map(int, options.k.split(",")):
            print(f"{shape}, k = {k}", file=sys.stderr)
            calls = {**ours(library, slots, k), **torch_calls(slots, k), **onnxruntime_calls(slots, k, options.child),
                     **numpy_calls(slots, k)}
            if k not in NOT_OPENVINO:
                calls.update(openvino_calls(slots, k, options.child))
            check(calls, slots, k)
            calls.update(probes(library, slots))
            measured.append({"rows": shape[0], "vocab": shape[1], "k": k, "threads": options.child,
                             "seconds": race(calls, len(slots), options.rounds)})
    return measured, ["torch", "onnxruntime", "openvino", "numpy"]


# ---------------------------------------------------------------- the report

def report(record):
    lines = heading("Softmax and top-k beside its peers", record)
    goals = ", ".join(f"under {goal:g} times {name}" for name, goal in GOALS.items())
    lines += [
        "- f32; ring of 1 GiB of logits on huge pages; times in ms; method in the docstring of `benches/peers/softmax_topk.py`",
        "- `read`, `exp`: the probes that add up the logits and their exponentials; these, `ours` and GB/s (of ours): from that"
        " of the two processes in which the second probe was faster; `/ exp`: ours by that probe, minimum by minimum; in"
        " brackets the median over rounds of the ratio in one round",
        "- peers: the minimum of both processes, with malloc as it comes and with huge pages; `/ ours`: minimum by minimum of"
        " one process, the smaller of both; in brackets the same with the median over rounds of the ratio in one round",
        f"- `short of`: {goals}, minimum by minimum; in brackets what would be reached by who takes as long as the faster"
        " probe, in the process where that is smaller: what is short there as well, nobody can reach who reads all logits",
        ""]
    lines += table("lrrrrrrrrlrrrrl", ["shape", "k", "threads", "read", "exp", "ours min", "ours median", "GB/s", "/ exp",
                                       "best peer", "its min", "/ ours", TORCH, "/ ours", "short of"])
    for cell, processes in cells(record):
        lines.append(row(*report_cell(cell, processes)))
    lines += ["", "All peers, minimum in ms:", "", *all_peers(record)]
    return "\n".join(lines) + "\n"


def peers_of(seconds):
    return [name for name in seconds if name != "ours" and name not in PROBES]


def floor_lead(processes, name):
    """How many times as long `name` takes as the faster probe, in the process where that is smallest."""
    return min(min(seconds[name]) / min(min(seconds[probe]) for probe in PROBES) for seconds in processes)


def report_cell(cell, processes):
    read, exp = PROBES
    seconds = min(processes, key=lambda seconds: min(seconds[exp]))
    own = seconds["ours"]
    paired = statistics.median(a / b for a, b in zip(own, seconds[exp]))
    peer = min(peers_of(seconds), key=lambda name: lead(processes, name))
    leads = {"best peer": lead(processes, peer), TORCH: lead(processes, TORCH)}
    missed = [f"{name} ({floor_lead(processes, timed):.2f})" for name, timed in (("best peer", peer), (TORCH, TORCH))
              if leads[name][0] < GOALS[name]]
    ms = lambda time: f"{time * 1e3:.2f}"
    ratios = lambda by_minimum, by_round: f"{by_minimum:.2f} ({by_round:.2f})"
    return (f"{cell['rows']} x {cell['vocab']}", cell["k"], cell["threads"],
            ms(min(seconds[read])), ms(min(seconds[exp])), ms(min(own)), ms(statistics.median(own)),
            f"{4e-9 * cell['rows'] * cell['vocab'] / min(own):.1f}", ratios(min(own) / min(seconds[exp]), paired),
            peer, ms(fastest(processes, peer)), ratios(*leads["best peer"]),
            ms(fastest(processes, TORCH)), ratios(*leads[TORCH]), ", ".join(missed))


def all_peers(record):
    measured = list(cells(record))
    names = list(dict.fromkeys(name for _, processes in measured for name in peers_of(processes[0])))
    yield from table("lrr" + "r" * len(names), ["shape", "k", "threads", *names])
    for cell, processes in measured:
        times = (f"{fastest(processes, name) * 1e3:.2f}" if name in processes[0] else "" for name in names)
        yield row(f"{cell['rows']} x {cell['vocab']}", cell["k"], cell["threads"], *times)


if __name__ == "__main__":
    sys.exit(main())
