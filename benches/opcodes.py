#!/usr/bin/env python3
"""The emulator's arithmetic against an NVIDIA GPU, bit by bit.

Needs Python 3.11 or newer and an NVIDIA driver for CUDA 11.8 or newer; no toolkit, no packages.

    cargo run --release -p tribunal-simt --example opcodes -- DIR    # needs no GPU: modules, operands, what the emulator makes of them
    python benches/opcodes.py DIR                                    # where the GPU is
    python benches/opcodes.py DIR --out opcodes.json                 # the same, kept with every case

What it does

- The driver compiles each module of DIR for this GPU. A line that it refuses is an instruction that is left out and told; the rest goes on.
- Each kernel runs once on the operands of DIR. Memory that nobody writes holds the same bytes here and there.
- Results are compared with the emulator's. Where `docs/simt-opcodes.md` calls them exact, every bit counts, but that two NaNs of different
  bits are counted apart (`NaN`). Elsewhere the page states a bound for hardware: `ulp` is the largest distance in units in the last place, `of
  bound` the largest error as a share of what is allowed, half a unit being the emulator's own rounding. What the bound is not
  stated for (`sin` beyond pi) is left out of both.
- `open` counts what differs where the PTX ISA leaves results open, or hardware is known to leave it. Sums of matrix products are compared by the sum of their
  magnitudes: `of bound` is then the largest difference as a share of one unit in the last place of that.

Exit code 1 if a result that is exact differs, 2 if something could not be run.
"""
import argparse
import concurrent.futures
import ctypes
import datetime
import json
import math
import os
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

SIZES = {"pred": 1, "b16": 2, "f16": 2, "bf16": 2, "b32": 4, "f16x2": 4, "bf16x2": 4, "f32": 4, "b64": 8, "f64": 8}
CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
# Bits of the fraction and of the exponent.
FORMATS = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}
HALVES = {"f16x2": "f16", "bf16x2": "bf16"}
SAMPLES = 6
ROUNDS = 40


# ---------------------------------------------------------------- the driver

class DriverError(Exception):
    pass


class Device:
    """The first GPU, by the driver's interface alone."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.cuda.cuLaunchKernel.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
        self.call("cuInit", 0)
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.context = ctypes.c_void_p()
        self.operands = self.output = None

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(code, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'error').decode()} ({code})")

    def about(self):
        name, version = ctypes.create_string_buffer(100), ctypes.c_int()
        self.call("cuDeviceGetName", name, 100, self.device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        capability = []
        for attribute in (75, 76):
            value = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, self.device)
            capability.append(value.value)
        return {"name": name.value.decode(), "capability": ".".join(map(str, capability)),
                "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}"}

    def open(self, operands, output_bytes):
        """A new context, with the operands in place; an old one may be lost after a fault."""
        if self.context:
            self.cuda.cuCtxDestroy_v2(self.context)
        self.context = ctypes.c_void_p()
        self.call("cuCtxCreate_v2", ctypes.byref(self.context), 0, self.device)
        self.operands, self.output = ctypes.c_uint64(), ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(self.operands), ctypes.c_size_t(len(operands)))
        self.call("cuMemAlloc_v2", ctypes.byref(self.output), ctypes.c_size_t(output_bytes))
        self.call("cuMemcpyHtoD_v2", self.operands, operands, ctypes.c_size_t(len(operands)))

    def compile(self, text):
        """The program, or `None`, and what the driver said."""
        self.call("cuCtxSetCurrent", self.context)
        log = ctypes.create_string_buffer(1 << 18)
        keys = (ctypes.c_int * 2)(5, 6)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        state = ctypes.c_void_p()
        self.call("cuLinkCreate_v2", 2, keys, values, ctypes.byref(state))
        try:
            image, size = ctypes.c_void_p(), ctypes.c_size_t()
            data = text.encode()
            self.call("cuLinkAddData_v2", state, 1, data, ctypes.c_size_t(len(data) + 1), b"module", 0, None, None)
            self.call("cuLinkComplete", state, ctypes.byref(image), ctypes.byref(size))
            return ctypes.string_at(image, size.value), ""
        except DriverError as error:
            return None, log.value.decode(errors="replace") or str(error)
        finally:
            self.cuda.cuLinkDestroy(state)

    def load(self, program):
        self.call("cuCtxSetCurrent", self.context)
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), program)
        return module

    def run(self, module, kernel, block, poison):
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel["name"].encode())
        self.call("cuMemsetD8_v2", self.output, ctypes.c_ubyte(poison), ctypes.c_size_t(kernel["bytes"]))
        pointers = [self.output] + [ctypes.c_uint64(self.operands.value + at) for _, at in kernel["operands"]]
        parameters = (ctypes.c_void_p * len(pointers))(*(ctypes.addressof(pointer) for pointer in pointers))
        self.call("cuLaunchKernel", function, kernel["threads"] // block, 1, 1, block, 1, 1, 0, None, parameters, None)
        self.call("cuCtxSynchronize")
        result = ctypes.create_string_buffer(kernel["bytes"])
        self.call("cuMemcpyDtoH_v2", result, self.output, ctypes.c_size_t(kernel["bytes"]))
        return result.raw


def compiled(device, text, deadline):
    """A module's program, why it has none, and by line what was said of those that were left out."""
    lines, refused = text.splitlines(), {}
    for _ in range(ROUNDS):
        if time.time() > deadline:
            return None, "the time is over", refused
        program, log = device.compile("\n".join(lines) + "\n")
        if program is not None:
            return program, None, refused
        told = {int(number): message for number, message in re.findall(r"line (\d+);\s*(?:error|fatal)\s*:\s*([^\n]*)", log)}
        cases = {n: message for n, message in told.items() if 0 < n <= len(lines) and lines[n - 1].startswith("{ ")}
        if not cases:
            return None, log.strip()[-600:], refused
        for number, message in cases.items():
            refused[number] = message.strip()
            lines[number - 1] = ""
    return None, "too much is refused", refused


# ---------------------------------------------------------------- numbers

def parts(ty, bits):
    """The numbers of a register, with their format."""
    if ty in HALVES:
        return [(HALVES[ty], bits & 0xffff), (HALVES[ty], bits >> 16)]
    return [(ty, bits)]


def is_nan(ty, bits):
    if ty not in FORMATS:
        return False
    fraction, exponent = FORMATS[ty]
    return bits & ((1 << (fraction + exponent)) - 1) > ((1 << exponent) - 1) << fraction


def value(ty, bits):
    if ty == "f16":
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    if ty == "bf16":
        return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    if ty == "f32":
        return struct.unpack("<f", struct.pack("<I", bits))[0]
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def place(ty, bits):
    """Where a number is among all of its format."""
    sign = 1 << sum(FORMATS[ty])
    return -(bits & (sign - 1)) if bits & sign else bits


def unit(ty, x):
    """A unit in the last place."""
    fraction, exponent = FORMATS[ty]
    least = 2 - (1 << (exponent - 1))
    power = math.frexp(x)[1] - 1 if x else least
    return math.ldexp(1.0, max(power, least) - fraction)


def allowed(bound, ty, operand, exact):
    """The error that is allowed; `None` where nothing is stated."""
    kind, by = bound["kind"], bound["value"]
    if kind == "ulp":
        return by * unit(ty, exact)
    if kind == "absolute" or kind == "logarithm" and 0.5 <= operand <= 2.0:
        return by
    if kind == "circle":
        return by if abs(operand) <= math.pi else None
    # No share of a subnormal result is less than its last bit.
    least = unit(ty, 0.0)
    return max(by * abs(exact), least if abs(exact) < math.ldexp(least, FORMATS[ty][0]) else 0.0)


class Tally:
    """What was found of one result of one case."""

    def __init__(self):
        self.values = self.nans = self.different = self.over = 0
        self.ulp, self.share = 0, 0.0
        self.samples, self.nan_samples = [], []

    def nan(self, *what):
        self.nans += 1
        if len(self.nan_samples) < SAMPLES:
            self.nan_samples.append(what)

    def sample(self, *what):
        if len(self.samples) < SAMPLES:
            self.samples.append(what)


def exactly(tally, ty, ours, theirs):
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a == b:
            continue
        if all(x == y or is_nan(of, x) and is_nan(of, y) for (of, x), (_, y) in zip(parts(ty, a), parts(ty, b))):
            tally.nan(i, a, b)
        else:
            tally.different += 1
            tally.sample(i, a, b)


def nearly(tally, ty, ours, theirs, bound, operand):
    """Results with a bound; `operand` gives the numbers of the first operand."""
    worst = None
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a == b:
            continue
        if all(is_nan(of, x) and is_nan(of, y) or x == y for (of, x), (_, y) in zip(parts(ty, a), parts(ty, b))):
            tally.nan(i, a, b)
            continue
        tally.different += 1
        for half, ((of, x), (_, y)) in enumerate(zip(parts(ty, a), parts(ty, b))):
            if x == y or is_nan(of, x) and is_nan(of, y):
                continue
            exact, got = value(of, x), value(of, y)
            most = allowed(bound, of, operand(i, half), exact) if math.isfinite(exact) else 0.0
            if most is None:
                continue
            if not (math.isfinite(exact) and math.isfinite(got)):
                tally.over += 1
                tally.sample(i, a, b)
                continue
            tally.ulp = max(tally.ulp, abs(place(of, x) - place(of, y)))
            share = abs(exact - got) / (most + unit(of, exact) / 2)
            if share > 1:
                tally.over += 1
                tally.sample(i, a, b)
            if share > tally.share:
                tally.share, worst = share, (i, a, b)
    if worst and worst not in tally.samples:
        tally.samples.insert(0, worst)


def by_sums(tally, ty, ours, theirs, scale):
    worst = None
    for i, (a, b, s) in enumerate(zip(ours, theirs, scale)):
        if a == b:
            continue
        tally.different += 1
        for (of, x), (_, y), (_, z) in zip(parts(ty, a), parts(ty, b), parts(ty, s)):
            share = abs(value(of, x) - value(of, y)) / unit(of, value(of, z))
            tally.ulp = max(tally.ulp, abs(place(of, x) - place(of, y)))
            if not share <= tally.share:
                tally.share, worst = share, (i, a, b)
    if worst:
        tally.sample(*worst)


def array(data, at, ty, count):
    size = SIZES[ty]
    return memoryview(data)[at:at + size * count].cast(CODES[size])


def compare(kernel, case, group, got, results, operands):
    """A tally of all results of a case."""
    tally = Tally()
    count = kernel["threads"]
    for ty, at in case["results"]:
        ours, theirs = array(results, kernel["at"] + at, ty, count), array(got, at, ty, count)
        tally.values += count
        if ours == theirs:
            continue
        if case["rule"] == "sums":
            by_sums(tally, ty, ours, theirs, array(results, kernel["scale"] + at, ty, count))
        elif group["bound"] and case["rule"] == "page":
            of, begins = kernel["operands"][0]
            first = array(operands, begins, of, count)
            nearly(tally, ty, ours, theirs, group["bound"], lambda i, half: value(*parts(of, first[i])[half]))
        else:
            exactly(tally, ty, ours, theirs)
    return tally


# ---------------------------------------------------------------- all of it

def told(kernel, operands, samples):
    """Samples in hex: operands, the emulator's result, the GPU's."""
    lines = []
    for i, ours, theirs in samples:
        given = [f"{array(operands, at, ty, kernel['threads'])[i]:0{2 * SIZES[ty]}x}" for ty, at in kernel["operands"]]
        lines.append({"thread": i, "operands": given, "emulator": f"{ours:x}", "gpu": f"{theirs:x}"})
    return lines


def run(options):
    started = time.time()
    deadline = started + options.limit
    folder = options.folder
    manifest = json.loads((folder / "manifest.json").read_text())
    operands, results = (folder / "operands.bin").read_bytes(), (folder / "results.bin").read_bytes()
    most = max(kernel["bytes"] for module in manifest["modules"] for kernel in module["kernels"])
    device = Device()
    record = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "device": device.about(),
              "nvidia_smi": nvidia_smi(), "troubles": [], "groups": [], "cases": []}
    device.open(operands, most)
    wanted = [module for module in manifest["modules"] if not options.only or re.search(options.only, module["file"])]
    with concurrent.futures.ThreadPoolExecutor(max(1, min(16, os.cpu_count() or 1))) as pool:
        texts = [(folder / module["file"]).read_text() for module in wanted]
        programs = list(pool.map(lambda text: compiled(device, text, deadline), texts))
    record["compile_s"] = round(time.time() - started, 1)
    for module, (program, why, refused) in zip(wanted, programs):
        if program is None:
            record["troubles"].append(f"{module['file']} (sm_{module['target']}): {why}")
        for kernel in module["kernels"]:
            got = None
            if program is not None and time.time() < deadline:
                try:
                    loaded = device.load(program)
                    got = device.run(loaded, kernel, manifest["block"], manifest["poison"])
                    device.call("cuModuleUnload", loaded)
                except DriverError as error:
                    record["troubles"].append(f"{module['file']}, {kernel['name']}: {error}")
                    device.open(operands, most)
            elif program is not None:
                record["troubles"].append(f"{module['file']}, {kernel['name']}: the time is over")
            for case in kernel["cases"]:
                entry = {"text": case["text"], "group": case["group"], "rule": case["rule"], "target": module["target"]}
                if case["line"] in refused:
                    entry["refused"] = refused[case["line"]]
                elif got is None:
                    entry["missing"] = True
                else:
                    tally = compare(kernel, case, manifest["groups"][case["group"]], got, results, operands)
                    entry.update({"values": tally.values, "nans": tally.nans, "different": tally.different, "over": tally.over,
                                  "ulp": tally.ulp, "share": tally.share, "samples": told(kernel, operands, tally.samples),
                                  "nan_samples": told(kernel, operands, tally.nan_samples)})
                record["cases"].append(entry)
    record["groups"] = manifest["groups"]
    record["took_s"] = round(time.time() - started, 1)
    return record


def nvidia_smi():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=20).stdout.strip()
    except Exception as error:
        return str(error)


def is_exact(record, entry):
    return entry["rule"] == "page" and record["groups"][entry["group"]]["bound"] is None


def is_wrong(record, entry):
    return is_exact(record, entry) and entry.get("different", 0) > 0


def report(record, details):
    device = record["device"]
    lines = [f"{device['name']}, sm {device['capability']}, CUDA {device['cuda']}; {record['nvidia_smi']}; compiled in {record['compile_s']} s, "
             f"{record['took_s']} s in all", "",
             f"{'group':52} {'cases':>5} {'not':>4} {'values':>9} {'differ':>8} {'NaN':>7} {'open':>6} {'ulp':>9} {'of bound':>8} {'over':>5}"]
    sums = dict.fromkeys(("cases", "not", "values", "differ", "nans", "open"), 0)
    for number, group in enumerate(record["groups"]):
        for bound in (False, True):
            entries = [entry for entry in record["cases"] if entry["group"] == number and (entry["rule"] == "sums") == bound]
            if not entries:
                continue
            run = [entry for entry in entries if "values" in entry]
            near = bound or group["bound"] is not None
            row = {"cases": len(run), "not": len(entries) - len(run), "values": sum(entry["values"] for entry in run),
                   "differ": sum(entry["different"] for entry in run if entry["rule"] != "open"), "nans": sum(entry["nans"] for entry in run),
                   "open": sum(entry["different"] for entry in run if entry["rule"] == "open")}
            for name in sums:
                if not (name == "differ" and near):
                    sums[name] += row[name]
            end = ""
            if near:
                end = (f"{max((entry['ulp'] for entry in run), default=0):9} {max((entry['share'] for entry in run), default=0.0):8.3f} "
                       f"{sum(entry['over'] for entry in run):5}")
            name = group["name"].replace("`", "") + (" sums" if bound else "")
            name = name if len(name) <= 52 else name[:49] + "..."
            mark = "" if near or not row["differ"] else "  <--"
            lines.append(f"{name:52} {row['cases']:5} {row['not']:4} {row['values']:9} {row['differ']:8} {row['nans']:7} {row['open']:6} {end}{mark}".rstrip())
    lines.append(f"{'all; of differences, those of exact results':52} {sums['cases']:5} {sums['not']:4} {sums['values']:9} {sums['differ']:8} {sums['nans']:7} "
                 f"{sums['open']:6}")
    refused = {}
    for entry in record["cases"]:
        if "refused" in entry:
            refused.setdefault(re.sub(r"'[^']*'", "'...'", entry["refused"]), []).append(entry["text"])
    if refused:
        lines += ["", "not compiled by the driver:"]
        for message, texts in refused.items():
            lines.append(f"  {len(texts)}x {short(texts[0], 60)} .. {short(texts[-1], 60)}: {short(message, 90)}")
    shown = [entry for entry in record["cases"] if is_wrong(record, entry)]
    if shown:
        lines += ["", "exact results that differ: operands -> emulator, GPU"]
        lines += sampled(shown, details, 2)
    shown = [entry for entry in record["cases"] if not is_exact(record, entry) and (entry.get("over") or entry["rule"] == "open" and entry.get("different"))]
    if shown:
        lines += ["", "beyond a bound, or open:"]
        lines += sampled(shown, details, 1)
    lines += [f"trouble: {text}" for text in record["troubles"]]
    return "\n".join(lines)


def sampled(entries, most, each):
    lines = []
    for entry in entries[:most]:
        lines.append(f"  {entry['over'] or entry['different']} of {entry['values']}: {short(entry['text'], 100)}")
        for sample in entry["samples"][:each]:
            lines.append(f"    {' '.join(sample['operands'])} -> {sample['emulator']}, {sample['gpu']}")
    if len(entries) > most:
        lines.append(f"  and {len(entries) - most} more")
    return lines


def short(text, most):
    return text if len(text) <= most else text[:most - 3] + "..."


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="what `--example opcodes` wrote")
    parser.add_argument("--out", type=Path, help="file for every case as JSON")
    parser.add_argument("--only", help="modules whose file names this regular expression finds")
    parser.add_argument("--details", type=int, default=20, help="how many cases that differ are shown")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which the rest is left out")
    parser.add_argument("--report", type=Path, help="print the table of an earlier --out again, and do nothing else")
    options = parser.parse_args()
    if options.report:
        record = json.loads(options.report.read_text())
    elif options.folder:
        record = run(options)
        if options.out:
            options.out.write_text(json.dumps(record) + "\n")
    else:
        parser.error("a folder is needed")
    print(report(record, options.details))
    if any(is_wrong(record, entry) for entry in record["cases"]):
        sys.exit(1)
    sys.exit(2 if record["troubles"] else 0)


if __name__ == "__main__":
    main()
