#!/usr/bin/env python3
"""How soon pages of `tribunal serve` come while many read: the median and the slowest, by kind of page.

    python benches/serve.py --store verdicts.sqlite [--program target/release/tribunal] [--readers 50] [--seconds 10]

Every reader asks for its next page as soon as it has one, so the server never rests. Pages are drawn at random from all that the
store has, so most of them are made anew. Needs `wrk` (Debian: apt-get install wrk).
"""

import argparse
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

SCRIPT = """
local paths = {}
for line in io.lines("%s") do paths[#paths + 1] = line end
math.randomseed(os.time())
request = function() return wrk.format("GET", paths[math.random(#paths)]) end
"""


def paths_of(base, draws):
    """Paths of each kind of page."""
    get = lambda path: json.load(urllib.request.urlopen(base + path))
    challenges = [one["challenge"] for one in get("/api/challenges")["challenges"]]
    places = [place for challenge in challenges for place in get(f"/api/challenges/{challenge}")["places"]]
    ids = [place["id"] for place in places]
    names = [urllib.parse.quote(place["submission"]["name"], safe="") for place in places]
    pages = max(1, len(places) // len(challenges) // 100)
    pick = random.Random(20260421).choice
    return {
        "home": ["/"],
        "challenge": [f"/challenges/{c}?page={1 + n}" for c in challenges for n in range(pages)],
        "contestants": [f"/contestants?page={1 + n}" for n in range(max(1, len(set(names)) // 100))],
        "contestant": [f"/contestants/{pick(names)}" for _ in range(draws)],
        "verdict": [f"/verdicts/{pick(ids)}" for _ in range(draws)],
        "compare": [f"/compare?with={pick(names)}&with={pick(names)}" for _ in range(draws)],
    }


def measured(base, paths, readers, seconds):
    """Median and 99th percentile in seconds, and pages a second."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "paths").write_text("\n".join(paths) + "\n")
        (folder / "script.lua").write_text(SCRIPT % (folder / "paths"))
        command = ["wrk", "-t1", f"-c{readers}", f"-d{seconds}s", "--timeout", "60s", "--latency"]
        said = subprocess.run(command + ["-s", folder / "script.lua", base], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        sys.exit(said)
    unit = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    latency = {
        percent: float(value) * unit[scale]
        for percent, value, scale in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)", said)
    }
    return latency["50"], latency["99"], float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True)
    parser.add_argument("--program", default="target/release/tribunal")
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("wrk is not here: apt-get install wrk")
    command = [options.program, "--store", options.store, "--quiet", "serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        base = server.stdout.readline().strip().rstrip("/")
        kinds = paths_of(base, 20000)
        # What readers do: mostly verdicts and standings, now and then a comparison.
        shares = {"home": 15, "challenge": 20, "contestants": 10, "contestant": 20, "verdict": 30, "compare": 5}
        pick = random.Random(20260421)
        drawn = pick.choices(list(shares), list(shares.values()), k=20000)
        kinds["all, mixed"] = [pick.choice(kinds[kind]) for kind in drawn]
        print("| page | median (ms) | 99 % (ms) | pages/s |\n|---|--:|--:|--:|")
        for kind, paths in kinds.items():
            median, slow, rate = measured(base, paths, options.readers, options.seconds)
            print(f"| {kind} | {median * 1e3:.1f} | {slow * 1e3:.1f} | {rate:.0f} |", flush=True)
        with open(f"/proc/{server.pid}/status") as status:
            print("\nmemory at its peak:", re.search(r"VmHWM:\s+(.*)", status.read())[1])
    finally:
        server.terminate()
        server.wait()


main()
