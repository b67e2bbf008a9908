#!/usr/bin/env python3
"""Lets the torch wheel from PyPI, which is built for CUDA, be imported where the CUDA packages are not installed.

The wheel names a dozen NVIDIA libraries, some 3 GB, that no CPU kernel calls; but the dynamic linker wants every one
of them, with the symbol versions it was linked against. This puts small libraries in their place (next to torch's own):
each defines the versions that are asked of it, and all functions in them return 100, "no CUDA device". CPU kernels are as
they were. A CPU build of torch has no need of this.

    pip install --no-deps torch
    pip install typing_extensions filelock sympy networkx jinja2 fsspec
    python benches/peers/torch_without_cuda.py        # needs gcc and readelf
"""
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def dynamic_symbols(library):
    """(name, version, is an object, is undefined, is weak) of each dynamic symbol."""
    for line in output("readelf", "--dyn-syms", "-W", str(library)).splitlines():
        fields = line.split()
        if len(fields) >= 8 and re.fullmatch(r"\d+:", fields[0]):
            name, _, version = fields[7].partition("@")
            yield name, version.lstrip("@"), fields[3] == "OBJECT", fields[6] == "UND", fields[4] == "WEAK"


def version_files(library):
    """Which library is to define each symbol version that this one needs."""
    files, file = {}, None
    for line in output("readelf", "-VW", str(library)).splitlines():
        if found := re.search(r"Version: \d+ +File: (\S+)", line):
            file = found[1]
        elif file and (found := re.search(r"Name: (\S+) +Flags: \S+ +Version", line)):
            files[found[1]] = file
    return files


def main():
    folder = Path(importlib.util.find_spec("torch").submodule_search_locations[0]) / "lib"
    libraries = [path for path in folder.glob("*.so*") if path.read_bytes()[:4] == b"\x7fELF"]
    present = {path.name for path in libraries} | set(re.findall(r"^\s+(\S+) \(", output("ldconfig", "-p"), re.M))
    missing, undefined, defined = set(), {}, set()
    for library in libraries:
        needed = re.findall(r"NEEDED.*\[(.+)\]", output("readelf", "-dW", str(library)))
        missing |= {name for name in needed if name not in present and not name.startswith("ld-linux")}
        files = version_files(library)
        for name, version, is_object, is_undefined, is_weak in dynamic_symbols(library):
            if not is_undefined:
                defined.add(name)
            elif not is_weak:
                undefined[name] = version, is_object, files.get(version)
    if not missing:
        return print("nothing is missing")
    # A versioned symbol goes to the library that is to define its version. One without a version is looked up everywhere, so any
    # library will do; Python's own come from the interpreter.
    anywhere = min(missing)
    contents = defaultdict(list)
    for name, (version, is_object, file) in sorted(undefined.items()):
        if name in defined or name.startswith(("Py", "_Py")) or (version and file not in missing):
            continue
        contents[file or anywhere].append((name, version, is_object))
    for library in sorted(missing):
        build(folder / library, contents[library])
        print(f"{library}: {len(contents[library])} symbols")


def build(path, symbols):
    assembly, versions = [], defaultdict(list)
    for name, version, is_object in symbols:
        if is_object:
            body = [".data", ".balign 64", f'.type "{name}", @object', f'.size "{name}", 4096', f'"{name}": .zero 4096']
        else:
            body = [".text", f'.type "{name}", @function', f'"{name}": movl $100, %eax', "ret"]
        assembly += [f'.globl "{name}"', *body]
        if version:
            versions[version].append(f'"{name}";')
    with tempfile.TemporaryDirectory() as scratch:
        source, script = Path(scratch, "stub.s"), Path(scratch, "stub.map")
        source.write_text("\n".join([*assembly, '.section .note.GNU-stack,"",@progbits', ""]))
        command = ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{path.name}", "-o", str(path), str(source)]
        if versions:
            script.write_text("".join(f"{version} {{ global: {' '.join(names)} }};\n" for version, names in versions.items()))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
