#!/usr/bin/env python3
"""How many defects a verdict finds that nobody thought of: one instruction of the bar's kernels in CUDA is another, and each such
mutant is judged as a submission is. Needs no GPU, and a compiler (clang-19) for the KV cache alone; only the program:

    cargo build --release -p tribunal
    python3 benches/mutants.py --out DIR                          # three challenges, 40 mutants each: nine minutes
    python3 benches/mutants.py --challenge layer_norm_backward --count 200 --seed 7 --out DIR

Mutants are made in the committed PTX of `crates/kernels/cuda`, and for the KV cache, which has kernels beside those, in what clang makes of
its source by the flags that the verdict on it names: a comparison takes or leaves equality, a branch is gone or goes the
other way, a store, barrier or copy is gone, a constant is one more or less, a sum is a difference, an operand is left out. Each line
of each kernel has the same chance, but for kernels that the submission never launches. `DIR/mutants.jsonl` has a line
for each, `DIR/mutants.md` the counts and who survived. Not every mutant is a defect: a maximum that is off by one in how many rows
are taken at once changes nothing that an answer, the memory or another order could show.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import platform
import random
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time

HOUSE = pathlib.Path(__file__).resolve().parent.parent
# Of submissions of the bar's kernels alone, the name of their PTX.
KERNELS = {"layer_norm_backward": "layer_norm", "fused_softmax_topk": "softmax_topk", "kv_cache": None}
HEADERS = HOUSE / "crates/runner/src/build/cuda/include"

# Comparisons that differ where both sides are equal, or are each other's contrary.
OTHERWISE = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq", "ltu": "leu", "leu": "ltu", "gtu": "geu",
             "geu": "gtu", "equ": "neu", "neu": "equ", "hi": "hs", "hs": "hi", "lo": "ls", "ls": "lo"}
OPPOSITE = {"add": "sub", "sub": "add", "min": "max", "max": "min", "and": "or", "or": "and", "xor": "or"}
GONE = ("st", "bar", "barrier", "red", "membar", "fence", "cp")
# What moves values that halves are calculated with.
BITS = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}


def instructions(ptx):
    """Of each: its line in the PTX, its kernel, its file and line of source, and its text."""
    named = re.findall(r'\t\.file\t(\d+) "(.*?)"', "\n".join(ptx))
    files = {number: os.path.normpath(name) for number, name in named}
    kernel = source = None
    for number, line in enumerate(ptx):
        if named := re.match(r"\S.*\.(?:entry|func)\s+(?:\(.*?\)\s*)?([\w$]+)", line):
            kernel = named[1]
        elif place := re.match(r"\t\.loc\t(\d+) (\d+)", line):
            source = files.get(place[1], ""), int(place[2])
        elif source and re.match(r"\t(@!?%p\d+ )?[a-z][\w.:]*( .*)?;$", line) and not re.search(r"\bld\.param|\bret;|\bcall", line):
            yield number, kernel, source, " ".join(line.split())


def mutants(text):
    """What the instruction could be instead, each with the name of the change."""
    guard, operation, rest = re.fullmatch(r"(@!?%p\d+ )?(\S+)\s*(.*);", text).groups(default="")
    base, *modifiers = operation.split(".")
    operands = [operand.strip() for operand in re.split(r",(?![^{]*\})", rest)]
    kind = modifiers[-1] if modifiers else ""

    def to(operation=operation, rest=rest, guard=guard):
        return f"{guard}{operation} {rest};"

    if base == "setp":
        for one, other in OTHERWISE.items():
            if one in modifiers:
                yield "comparison", to(operation.replace(f".{one}.", f".{other}.", 1))
    if base == "bra" and guard:
        yield "branch", to(guard=guard.replace("@!", "@") if "!" in guard else guard.replace("@", "@!"))
        yield "branch gone", ""
    if base in OPPOSITE:
        yield "operation", to(operation.replace(base, OPPOSITE[base], 1))
    if base == "selp":
        yield "operands", to(rest=", ".join([operands[0], operands[2], operands[1], operands[3]]))
    if base in GONE:
        yield f"{base} gone", ""
    if base == "fma":
        yield "operand left out", f"{guard}mov.{BITS.get(kind, kind)} {operands[0]}, {operands[3]};"
        yield "operand left out", to(operation.replace("fma", "mul", 1), ", ".join(operands[:3]))
    if base in ("mul", "div") and kind in ("f32", "f64"):
        yield "operand left out", f"{guard}mov.{kind} {operands[0]}, {operands[1]};"
    if base not in ("bra", "bar", "barrier", "cp"):
        for found in re.finditer(r"(?<![\w%.$])-?\d+(?![\w.])", rest):
            # An address that is off by one byte is askew, which is no art to find.
            step = 4 if base in ("ld", "st") else 1
            for value in (int(found[0]) + step, int(found[0]) - step):
                if value >= 0 or not found[0].startswith("0"):
                    yield "constant", to(rest=f"{rest[:found.start()]}{value}{rest[found.end():]}")
    for found in re.finditer(r"0f([0-9A-F]{8})", rest):
        value = struct.unpack(">f", bytes.fromhex(found[1]))[0]
        other = value * 1.01 if value and abs(value) < 1e38 else float(not value)
        yield "constant", to(rest=rest.replace(found[0], "0f" + struct.pack(">f", other).hex().upper()))


def draw(ptx, launched, count, rng):
    """So many of all there could be, from as many lines of source as there are."""
    places = collections.defaultdict(list)
    idle = set(re.findall(r"(?m)^\S.*\.entry\s+([\w$]+)", "\n".join(ptx))) - launched
    for number, kernel, source, text in instructions(ptx):
        if kernel not in idle and (options := list(mutants(text))):
            places[kernel, source].append((number, text, options))
    order = sorted(places)
    rng.shuffle(order)
    for kernel, (file, line) in order[:count]:
        number, was, options = rng.choice(places[kernel, (file, line)])
        change, now = rng.choice(options)
        yield {"ptx_line": number + 1, "kernel": kernel, "file": file, "line": line, "change": change, "was": was, "now": now}


def compiled(program, folder, entry, work):
    """What a verdict's compiler makes of a submission, by the flags that the verdict names."""
    host = verdict(program, folder, work / "compiled")["submission"]["host"]
    named = re.fullmatch(r".*clang version (\d+)\S*(?: \(.*?\))? (-x .*)", host)
    if not named:
        sys.exit(f"{folder.name}: compiled by {host}, which this program cannot ask: apt-get install clang-19")
    command = [f"clang-{named[1]}", *shlex.split(named[2]), f"-I{HEADERS}", "-I.", entry, "-o", "-"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{shlex.join(command)}: {ran.stderr.strip()}")
    # What debuggers read comes last, and the names of files are among it.
    return "\n".join([ran.stdout.split("\t.section")[0], *re.findall(r"(?m)^\t\.file\t.*", ran.stdout)])


def judge(program, folder, manifest, ptx):
    """The verdict on these kernels."""
    folder.mkdir()
    (folder / "tribunal.toml").write_text(manifest)
    (folder / "kernel.ptx").write_text("\n".join(ptx))
    return verdict(program, folder, folder)


def verdict(program, folder, work):
    """The verdict on a submission, with a store of its own."""
    command = [program, "judge", folder, "--store", work / "store", "--json", "--jobs", "1", "--no-controls", "--no-measurements"]
    ran = subprocess.run(command, capture_output=True, text=True)
    try:
        return json.loads(ran.stdout)
    except json.JSONDecodeError:
        sys.exit(f"{folder.name}: no verdict: {ran.stderr.strip() or ran.stdout.strip()}")


def trial(program, challenge, count, seed, work):
    """Mutants of a challenge's kernels, each with what became of it."""
    folder = HOUSE / "specimens" / challenge / "cuda-reference"
    manifest = (folder / "tribunal.toml").read_text()
    if KERNELS[challenge]:
        ptx = (HOUSE / "crates/kernels/cuda" / KERNELS[challenge]).with_suffix(".ptx").read_text()
    else:
        ptx = compiled(program, folder, re.search(r'(?m)^entry = "(.*)"', manifest)[1], work)
    ptx = ptx.split("\n")
    manifest = re.sub(r"(?m)^compiler = .*\n", "", re.sub(r"(?m)^entry = .*", 'entry = "kernel.ptx"', manifest))
    honest = judge(program, work / f"{challenge}-unchanged", manifest, ptx)
    if honest["outcome"] != "accepted":
        sys.exit(f"{challenge}: the kernels as they are come to: {honest['outcome']}")

    def with_instead(mutant, instruction):
        changed = ptx.copy()
        changed[mutant["ptx_line"] - 1] = "\t" + instruction
        return judge(program, pathlib.Path(tempfile.mkdtemp(dir=work)) / "mutant", manifest, changed)

    def of(mutant):
        verdict = with_instead(mutant, mutant["now"])
        failed = [one for one in verdict["findings"] if one["outcome"] == "fail" and one["dimension"] != "code"]
        fate = verdict["outcome"] if verdict["outcome"] != "accepted" else "noted" if failed else "survived"
        # What does not start is for a compiler to find.
        if any(one["case"] == "start" for one in failed):
            fate = "no PTX"
        # Whoever comes to a trap does not come to the end.
        if fate == "survived" and with_instead(mutant, "trap;")["outcome"] == "accepted":
            fate = "not come to"
        return {"challenge": challenge, **mutant, "fate": fate, "score": verdict["score"],
                "finding": failed[0]["id"] if failed else None, "suspects": sorted({one["suspect"] for one in failed if "suspect" in one})}

    launched = set(re.findall(r'(?m)^kernel = "(.*)"', manifest))
    drawn = list(draw(ptx, launched, count, random.Random(f"{challenge} {seed}")))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, result in enumerate(pool.map(of, drawn), 1):
            print(f"\r{challenge}: {done} of {len(drawn)}", end="", file=sys.stderr, flush=True)
            yield result
    print(file=sys.stderr)


def page(results, took_s):
    """The counts, and who survived."""
    fates = ["rejected", "noted", "survived", "not come to"]
    fates += sorted({result["fate"] for result in results} - set(fates))
    lines = ["# Mutants of the bar's kernels in CUDA", "",
             f"`{shlex.join(['python3', *sys.argv])}` at {time.strftime('%Y-%m-%d')}, {took_s / 60:.0f} minutes on {os.cpu_count()} processors"
             f" ({platform.machine()}). *Noted* is accepted with a finding that costs something; *not come to* is an instruction that no case of"
             " the unchanged kernels came to: a trap in its place goes unnoticed as well.", ""]
    for of, name in (("challenge", "challenge"), ("change", "what was changed")):
        lines += [f"| {name} | mutants | {' | '.join(fates)} |", "|---|" + "--:|" * (1 + len(fates))]
        for value in dict.fromkeys(result[of] for result in results):
            its = [result["fate"] for result in results if result[of] == value]
            lines.append(f"| {value} | {len(its)} | {' | '.join(str(its.count(fate)) for fate in fates)} |")
        lines.append("")
    lines += ["## Who survived", "", "| kernel | line | was | now | |", "|---|---|---|---|---|"]
    lines += [f"| `{result['kernel']}` | {result['file']}:{result['line']} | `{result['was']}` | {'`' + result['now'] + '`' if result['now'] else 'nothing'} |"
              f" {'not come to' if result['fate'] == 'not come to' else ''} |"
              for result in results if result["fate"] in ("survived", "not come to")]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--challenge", action="append", choices=KERNELS, help="this one only; may be given again [default: all three]")
    parser.add_argument("--count", type=int, default=40, help="mutants of each [default: 40]")
    parser.add_argument("--seed", type=int, default=1, help="which ones are drawn [default: 1]")
    parser.add_argument("--program", default=HOUSE / "target/release/tribunal", help="[default: target/release/tribunal]")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder for what came of it")
    asked = parser.parse_args()
    if not os.access(asked.program, os.X_OK):
        parser.error(f"{asked.program} is not there: cargo build --release -p tribunal")
    asked.out.mkdir(parents=True, exist_ok=True)
    started, results = time.monotonic(), []
    with tempfile.TemporaryDirectory() as work, open(asked.out / "mutants.jsonl", "w") as lines:
        for challenge in asked.challenge or KERNELS:
            for result in trial(asked.program, challenge, asked.count, asked.seed, pathlib.Path(work)):
                results.append(result)
                print(json.dumps(result), file=lines, flush=True)
    text = page(results, time.monotonic() - started)
    (asked.out / "mutants.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
