"""Writes docs/retrial.md: what the readers said of each contestant beside what running its re-creation shows.

    python retrial/report.py [TRIBUNAL]

Judges what has not been judged yet (a minute or two), and compares the contestants. Python 3.11 or newer, nothing else.
"""

import json
import pathlib
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
CONTESTANTS = sorted(folder.name for folder in HERE.iterdir() if folder.is_dir())


def compare(tribunal, form):
    folders = [str(HERE / name) for name in CONTESTANTS]
    done = subprocess.run([tribunal, "compare", *folders, "--format", form], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def cell(text):
    return text.replace("|", "&#124;").replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def reading(name, challenge):
    return tomllib.loads((HERE / name / challenge / "reading.toml").read_text())


def grade(said):
    return f"{said['grade']}, {said['score']}" if "score" in said else said["grade"]


def side_by_side(comparison):
    """The readers' grade, our outcome, and what each saw, for every entry of a challenge."""
    names = comparison["contestants"]
    for on in comparison["challenges"]:
        yield f"### {on['challenge']}\n"
        yield "| contestant | graded by reading | judged by running | found by running | missed by the readers |"
        yield "|---|---|---|---|---|"
        for who, name in enumerate(names):
            entry = on["entries"][who]
            if entry is None:
                continue
            said = reading(name, on["challenge"])
            found = [weakness for weakness in on["weaknesses"][who] if weakness.startswith(("cheat", "critical", "major"))]
            found = "; ".join(cell(weakness.split(" (")[0]) for weakness in found) or "nothing major"
            missed = " ".join(cell(line) for line in said.get("missed", [])) or "–"
            yield (
                f"| `{name}` | {grade(said)} | **{entry['outcome']}** {entry['score']:.1f} | {found} | {missed} |"
            )
        yield ""
        for who, name in enumerate(names):
            if on["entries"][who] is not None:
                yield f"What the readers said of `{name}`:\n"
                yield from (f"- {cell(line)}" for line in reading(name, on["challenge"])["said"])
                yield ""


def order_by_reading(comparison):
    """Who stands where by the mean of the readers' grades, and by running."""
    letters = {"A": 4.0, "B": 3.0, "C": 2.0}
    value = lambda letter: letters[letter[0]] + {"+": 0.3, "-": -0.3}.get(letter[1:], 0.0)
    names = comparison["contestants"]
    challenges = [on["challenge"] for on in comparison["challenges"]]
    means = {name: sum(value(reading(name, one)["grade"]) for one in challenges) / len(challenges) for name in names}
    ran = {names[standing["contestant"]]: standing for standing in comparison["ranking"]}
    yield "| contestant | mean grade by reading (A = 4, + and - are 0.3) | mean score by running | rank by running | accepted |"
    yield "|---|--:|--:|--:|--:|"
    for name in sorted(names, key=lambda name: -means[name]):
        who, standing = names.index(name), ran[name]
        accepted = sum(on["entries"][who] is not None and on["entries"][who]["outcome"] == "accepted"
                       for on in comparison["challenges"])
        best, worst = standing["range"]
        within = "" if best == worst else f" ({best}–{worst})"
        yield (f"| `{name}` | {means[name]:.2f} | {standing['mean_score']:.1f} | {standing['rank']}{within} "
               f"| {accepted} of {len(challenges)} |")


def main():
    tribunal = sys.argv[1] if len(sys.argv) > 1 else "tribunal"
    comparison = json.loads(compare(tribunal, "json"))
    lines = [
        "# The same faults, read and run\n",
        "Written by `retrial/report.py`. The left side is what language models said who graded entries of a public benchmark by reading",
        "them; the right side is the verdict on re-creations of those entries' faults ([what that means](../retrial/README.md)).",
        "It says nothing about the speed or the style of the originals.\n",
        "## Who stands where\n",
        *order_by_reading(comparison),
        "\n## Entry by entry\n",
        *side_by_side(comparison),
        "# In the layout of the reports\n",
    ]
    page = compare(tribunal, "md").split("\n", 1)[1].replace("\n# ", "\n## ")
    out = HERE.parent / "docs" / "retrial.md"
    out.write_text("\n".join(lines) + page.replace(str(HERE.parent) + "/", ""))
    print(out)


if __name__ == "__main__":
    main()
