"""Fills the generated parts of README.md and docs/benchmarks.md, and draws docs/benchmarks.svg.

`./dev docs` runs it. With `--check` it writes nothing, and fails if a file is out of date. Every
figure comes from a kept result. The text around the generated parts is written by hand; its figures
come from a decision record that the sentence names. A generated part stands between two comments,
`<!-- ./dev docs: KIND ARGUMENTS -->` and `<!-- end -->`; `KINDS` lists the kinds.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from draw_benchmarks import chart
from kept_reports import by_clients, engines, equal, lab, lead, over, ratio, report, writers
from kept_results import ENGINES, REPOSITORY, about, number, table
from kept_rows import Line, lines, recall, rows, verdict

PAGES = [REPOSITORY / "README.md", REPOSITORY / "docs" / "benchmarks.md"]
CHART = REPOSITORY / "docs" / "benchmarks.svg"
PART = re.compile(r"(<!-- \./dev docs: ([^\n]*?) -->\n).*?(<!-- end -->)", re.DOTALL)

LEAST = [
    *("index s", "CPU s", "index MB", "peak MB", "CPU us/row", "bytes/row", "log bytes/row", "autovacuum s"),
    *("idle p50 ms", "idle p99 ms", "p50 ms", "commit p50 ms", "p99 ms", "max ms"),
]
MOST = ["rate", "queries/s", "rows/s", "inserted rows/s", "before rows/s", "beside rows/s", "share", "QPS", "recall@10"]
"""Columns that compare engines: in LEAST less is better, in MOST more is better."""
NOT_REACHED, NO_FIGURE = "not reached", "no figure"
"""The cells of Pagehop in the list of losses where only others have a figure."""


def main() -> int:
    """Writes the files that have changed. With `--check`, prints their names and returns 1."""
    only_check = "--check" in sys.argv[1:]
    stale = {path: text for path, text in made().items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        name = path.relative_to(REPOSITORY)
        if only_check:
            print(f"{name} is out of date: ./dev docs makes it", file=sys.stderr)
        else:
            path.write_text(text)
            print(f"wrote {name}")
    return int(only_check and bool(stale))


def made() -> dict[Path, str]:
    """The wanted content of every file with generated parts."""
    return {CHART: chart()} | {path: filled(path.read_text()) for path in PAGES}


def filled(page: str) -> str:
    """A page with its generated parts filled from the results."""

    def part(found: re.Match[str]) -> str:
        kind, *arguments = shlex.split(found[2])
        return found[1] + "\n".join(KINDS[kind](*arguments)) + "\n" + found[3]

    return PART.sub(part, page)


def losses() -> list[str]:
    """A table of every figure in docs/benchmarks.md that is better for another engine."""
    finders: dict[str, Callable[..., list[Line]]] = {
        "rows": lost_rows, "lab": lost_in_report, "equal": lost_at_recall, "writers": lost_by_writers,
    }  # fmt: skip
    page = PAGES[1].read_text()
    cells: dict[tuple[str, str, str, str], list[str]] = {}
    for part in PART.finditer(page):
        kind, *arguments = shlex.split(part[2])
        section = page[: part.start()].rpartition("\n## ")[2].partition("\n")[0]
        run = run_of(kind, arguments)
        for one in finders[kind](*arguments) if kind in finders else []:
            # Two tables of a run may have the same figure; two runs of a section have two figures.
            cells[section, run, one.what, one.at] = [one.ours, one.others, verdict(one).removesuffix(", loses")]
    head = ["section", "run", "", "at", "Pagehop", "other", "Pagehop better by"]
    return table(head, [[*key, *figures] for key, figures in cells.items()]).splitlines()


def run_of(kind: str, arguments: list[str]) -> str:
    """The file or folder that a part is about."""
    return (arguments[2] if len(arguments) > 2 else ENGINES) if kind == "equal" else arguments[0] if arguments else ""


def lost_rows(name: str, *prefixes: str) -> list[Line]:
    """The lost figures of a part of the kind `rows`."""
    return [one for one in lines(name, prefixes) if one.better is not None and one.better < 1]


def lost_at_recall(ways: str, kind: str, run: str = ENGINES, data: str = "") -> list[Line]:
    """The lost figures of a part of the kind `equal`."""
    chosen = [one for one in engines(int(ways), run, data) if one.library == (kind == "libraries")]
    [ours] = [one for one in chosen if one.name.startswith("Pagehop")]
    calls = "" if ways == "1" else ", 100 a call"
    found = []
    for target in sorted({target for one in chosen for target in one.qps}):
        others = [one for one in chosen if one is not ours and target in one.qps]
        if not others:
            continue
        best = max(others, key=lambda one: one.qps[target])
        what, at = ", ".join(filter(None, ["queries/s", data, kind])) + calls, f"recall@10 {target:g}"
        other = f"{best.name} {number(best.qps[target])}"
        interval = over(ours, best, target)
        if interval is None:
            found.append(Line(what, at, NOT_REACHED, other, None, None, "", "-"))
        elif interval.middle < 1:
            found.append(Line(what, at, number(ours.qps[target]), other, interval.middle, None, "", ratio(interval)))
    return found


def lost_in_report(folder: str, name: str, *wanted: str) -> list[Line]:
    """The lost figures of a part of the kind `lab`: in each step, or by kind of engine."""
    columns, cells = report(folder, name)
    texts = [{column: cell["text"] for column, cell in zip(columns, row, strict=True)} for row in cells]
    found = []
    if columns[0] == "step":
        # A column for each server. With a column `what`, another table has the figures.
        servers = [] if "what" in columns else columns[1:]
        for row in texts:
            found += lost("rate", row["step"], [(server, row[server]) for server in servers])
        return found
    groups: dict[str, list[dict[str, str]]] = {}
    for row in texts:
        kind = "libraries" if row.get("table MB") == "-" else "servers"
        groups.setdefault(row.get("step", kind), []).append(row)
    for column in wanted or columns:
        for at, members in groups.items():
            found += lost(column, at, [(row[columns[0]], row[column]) for row in members])
    return found


def lost_by_writers(*folders: str) -> list[Line]:
    """The lost figures of a part of the kind `writers`."""
    found = []
    for folder in folders:
        clients, figures = by_clients(folder)
        for column in ("rows/s", "CPU us/row", "log bytes/row"):
            found += lost(column, f"{clients} clients", [(name, one[column]) for name, one in figures.items()])
    return found


def lost(column: str, at: str, figures: list[tuple[str, str]]) -> list[Line]:
    """One line if the best of the others is better than Pagehop in a column of LEAST or MOST, or if
    Pagehop has no figure there, else none.
    """
    if column.partition(",")[0] not in LEAST + MOST:
        return []
    known = [(value_of(text), text, name) for name, text in figures if text != "-"]
    ours = [one for one in known if is_ours(one[2])]
    others = [one for one in known if one not in ours]
    if not others or not any(is_ours(name) for name, _ in figures):
        return []
    best = min if column in LEAST else max
    value, text, name = best(others)
    peer = re.sub(r" [\d.]+ .*=.*", "", name)
    if not ours:
        shown = NO_FIGURE if column in LEAST else NOT_REACHED
        return [Line(column, at, shown, f"{peer} {text}", None, None, "", "-")]
    mine, shown, _ = best(ours)
    if column == "recall@10":  # recall counts as the share of neighbors that were missed
        mine, value = 1 - value, 1 - mine
    better = value / mine if column in LEAST else mine / value
    # A figure that is greater than what is said is a bound of the ratio.
    bound = "at most " if shown.startswith(">") else ""
    told = f"{bound}{better:.2f}x" if bound else ""
    return [Line(column, at, shown, f"{peer} {text}", better, None, "", told)] if better < 1 else []


def is_ours(name: str) -> bool:
    """Whether an engine or server is Pagehop, by its name in a table."""
    return name.lower().startswith("pagehop")


def value_of(text: str) -> float:
    """The figure in a cell of a report: `1,204`, `0.96?`, `>60 (not ended)`."""
    found = re.search(r"-?[\d.]+", text.replace(",", ""))
    assert found, text
    return float(found[0])


KINDS: dict[str, Callable[..., list[str]]] = {
    "about": about,
    "rows": rows,
    "recall": recall,
    "lab": lab,
    "equal": equal,
    "lead": lead,
    "writers": writers,
    "losses": losses,
}

if __name__ == "__main__":
    sys.exit(main())
