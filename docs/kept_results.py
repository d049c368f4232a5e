"""Where the kept results are, what they say of themselves, and how `./dev docs` shows figures.

Two kinds are kept: files of lab/results/bench, which `kept_rows.py` reads, and folders of the lab,
which `kept_reports.py` reads. Neither needs a package.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
BENCH = REPOSITORY / "lab" / "results" / "bench"
LAB = REPOSITORY / "lab" / "results"

ENGINES = "fashion-mnist-20261122-a"
"""The run of ten engines over an easy set. The chart shows its servers."""
TEXTS = "texts-384-20261130"
"""The run of libraries over embeddings of real text, for the chart and the README's table."""

TEXTS_POSTGRES = "texts-postgres-20261128"
"""The run of PostgreSQL over embeddings of real text, for the chart and the README's table."""
DESCRIPTORS = "sift-128-20261128"
"""The run of libraries over descriptors of images, for the README's table."""

ADDED_AT = {ENGINES: "1a2060c", "vector-inserts-20261122": "7223e75"}
"""The commits that added results; for results that do not record the commit of their measurement.
"""

ON_TOP = " with changes on top"


def load(name: str) -> dict[str, Any]:
    """A file of lab/results/bench by the beginning of its name, with its path as `path`."""
    [path] = BENCH.glob(f"{name}*.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content | {"path": path}


def tables_of(folder: str) -> dict[str, Any]:
    """All tables of a folder's report, with a description of the run."""
    content: dict[str, Any] = json.loads((LAB / folder / "report" / "tables.json").read_text())
    return content


def about(name: str) -> list[str]:
    """Where, when, by which commit and in which turns a file or folder was measured."""
    turns = ""
    if (LAB / name).exists():
        machine, when = json.loads((LAB / name / "machine.json").read_text()), re.search(r"\d{8}", name)
        assert when is not None
        day = f"{when[0][:4]}-{when[0][4:6]}-{when[0][6:]}"
        source, commit, command = f"lab/results/{name}/", measured_at(name), ""
        turns = turns_of(tables_of(name))
    else:
        content = load(name)
        machine, day = content["machine"], content["started"][:10]
        commit = f"commit {content['versions']['commit']}".replace("-dirty", ON_TOP)
        source, command = f"lab/results/bench/{content['path'].name}", f"`{' '.join(content['command'])}`"
    wide = "AVX-512" if "avx512f" in machine["simd"] else "AVX2"
    cores = f"{machine['cores']} core{'s' if machine['cores'] > 1 else ''}"
    cpu = re.sub(r"\(R\)| Processor", "", machine["cpu"])
    where = f"{cpu} with {wide}, {cores}, {machine['memory_gib']} GiB; {day}, {commit}."
    samples = f"[every sample](../{source})"
    return [f"*{where}*", *([f"{command},"] if command else []), f"{samples}. {turns}" if turns else samples]


def turns_of(content: dict[str, Any]) -> str:
    """Which sides of a run were measured in turns, in a sentence; empty if there are no sides."""
    if "ks" not in content["load"]:
        return "Servers ran in turns, step by step."
    built = next(one for part in content["sections"] for one in part["tables"] if one["name"].startswith("indexes-"))
    rows, at = built["rows"], built["columns"].index("group")
    if content["suite"] == "calibration" or len(rows) < 2:
        return ""
    options: dict[str, list[set[str]]] = {}
    for row in rows:
        options.setdefault(row[0]["text"], []).append(set(row[1]["text"].split()))
    groups: dict[str, list[str]] = {}
    for row in rows:
        engine, index = row[0]["text"], row[1]["text"].split()
        # Of several indexes of an engine, the options in which they differ.
        own = [option for option in index if option not in set.intersection(*options[engine])]
        groups.setdefault(row[at]["text"], []).append(" ".join([engine, *own]))
    if len(groups) == 1:
        return "All were measured in turns."
    if len(groups) == len(rows):
        return "One index was measured after the other, not in turns."
    return "Measured in turns: " + ". Then, in turns: ".join(", ".join(one) for one in groups.values()) + "."


def measured_at(folder: str) -> str:
    """The commits that the raw files of a folder record, or the commit that added the folder."""
    files = [path for kind in ("builds", "points") for path in (LAB / folder / kind).glob("*.json")]
    commits = {json.loads(path.read_text()).get("commit") for path in files}
    known = sorted(commit.replace("+", ON_TOP) for commit in commits if commit)
    if not known:
        return f"result of commit {ADDED_AT[folder]}"
    return f"commit {', '.join(known)}" + (" and one that is not known" if None in commits else "")


def table(head: list[str], cells: list[list[str]]) -> str:
    """A table in Markdown. Columns of words are aligned left, columns of figures right."""
    words = ["", "section", "run", "at", "other", "best of the others", "detail", "engine", "index", "server", "step"]
    rule = ["---" if name in [*words, "set", "asked"] or name.endswith(" over") else "--:" for name in head]
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in [head, rule, *cells])


def rounded(text: str) -> str:
    """A figure of a detail in the form of all figures here."""
    return number(float(text.replace(",", "")))


def number(figure: float) -> str:
    """Three significant digits, two below 0.095; from 100 on, all digits before the point."""
    if abs(figure) >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.2g}" if 0 < abs(figure) < 0.095 else f"{figure:.3g}"
