"""Fills the generated parts of README.md and docs/benchmarks.md, and draws docs/benchmarks.svg.

`./dev docs` runs it. `--check` writes nothing, and fails if a file is out of date. Every figure
comes from a kept result. The text around them is written by hand; a figure there is from a decision
record that the sentence names. A generated part stands between two comments,
`<!-- ./dev docs: KIND ARGUMENTS -->` and `<!-- end -->`; `KINDS` lists the kinds.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
BENCH = REPOSITORY / "lab" / "results" / "bench"
LAB = REPOSITORY / "lab" / "results"
PAGES = [REPOSITORY / "README.md", REPOSITORY / "docs" / "benchmarks.md"]
CHART = REPOSITORY / "docs" / "benchmarks.svg"
PART = re.compile(r"(<!-- \./dev docs: ([^\n]*?) -->\n).*?(<!-- end -->)", re.DOTALL)

ENGINES = "fashion-mnist-20261122-a"
"""The run of ten engines over an easy set. The chart and the README's table have its servers."""
TEXTS = "texts-384-20261126"
"""The run of libraries over embeddings of real text. The chart and the README's table have them."""

TEXTS_POSTGRES = "texts-postgres-20261126"
"""The run of PostgreSQL over embeddings of real text. The README's table has it."""

ADDED_AT = {ENGINES: "1a2060c", "vector-inserts-20261122": "7223e75"}
"""The commits that added results of which it is not known at which commit they were measured."""

LEAST = [
    *("index s", "CPU s", "index MB", "peak MB", "CPU us/row", "bytes/row", "log bytes/row", "autovacuum s"),
    *("idle p50 ms", "idle p99 ms", "p50 ms", "commit p50 ms", "p99 ms", "max ms"),
]
MOST = ["rate", "queries/s", "rows/s", "inserted rows/s", "before rows/s", "beside rows/s", "share", "QPS", "recall@10"]
"""Columns in which engines are compared, with less or more as the better figure."""

LEAST_EFFORT = "\N{DOUBLE DAGGER}"
"""The mark of a figure whose recall is below what the least effort of the plan finds."""

ON_TOP = " with changes on top"
SETS = {"fashion-mnist": "Fashion-MNIST"}
RENAMED = [
    (r"^hot QPS over .*, ", "queries/s, "),
    (r"^build, CPU s over .*, ", "build, CPU seconds, "),
    (r"^cold QPS over diskannpy", "queries/s from storage"),
    (r"^cold pages a query, ", "pages read by a query, nothing cached, "),
    (r"^cold blocks a query, ", "blocks read by a query, table included, "),
    (r"^cold mean us of first queries, ", "mean microseconds of a query, "),
    (r"^the same, default storage, ", "queries/s, vectors in TOAST, "),
    (r"^(.*), bytes of log over pgvector, ", r"\1, bytes of log, "),
    (r"^(.*) over pgvector, ", r"\1, "),
    (r"^QPS over MariaDB, ", "queries/s, "),
    (r"^QPS ", "queries/s, "),
    ("^open after kill -9, as a ", "open after kill -9, "),
]


def main() -> int:
    """Writes what has changed; with `--check`, names it and fails."""
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
    """Every file with generated parts, as it should be."""
    return {CHART: chart()} | {path: filled(path.read_text()) for path in PAGES}


def filled(page: str) -> str:
    """A page with its generated parts made from the results."""

    def part(found: re.Match[str]) -> str:
        kind, *arguments = shlex.split(found[2])
        return found[1] + "\n".join(KINDS[kind](*arguments)) + "\n" + found[3]

    return PART.sub(part, page)


# ---- files of lab/results/bench: rows of a ratio, or of one figure ----


@dataclass(frozen=True)
class Line:
    """One row of a file of lab/results/bench, compared with a peer if it is a ratio."""

    what: str
    at: str
    ours: str
    others: str
    better: float | None
    """How many times better Pagehop is; below 1 it loses. None if nothing is compared."""
    spread: tuple[float, float] | None
    detail: str


def load(name: str) -> dict[str, Any]:
    """A file of lab/results/bench by the start of its name."""
    [path] = BENCH.glob(f"{name}*.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content | {"path": path}


def lines(name: str, prefixes: Iterable[str]) -> Iterator[Line]:
    """The rows of a file whose names begin with one of `prefixes`, in the order of `prefixes`."""
    rows = load(name)["rows"]
    for prefix in prefixes:
        chosen = [row for row in rows if row["what"].startswith(prefix) and row["figure"] is not None]
        assert chosen, f"{name} has no row '{prefix}'"
        yield from (line(row) for row in chosen)


def line(row: dict[str, Any]) -> Line:
    """What a row says, with the figures of both sides taken out of its detail."""
    what, detail, figure = row["what"], row["detail"], row["figure"]
    named = what
    for pattern, text in RENAMED:
        named = re.sub(pattern, text, named)
    for name, text in SETS.items():
        named = named.replace(name, text)
    if row["unit"].strip() != "x" or "file bytes" in what:
        return Line(named, row["at"], f"{number(figure)} {row['unit'].strip()}".strip(), "", None, None, detail)
    better = figure if row["more_is_better"] else 1 / figure
    spread = re.search(r"ratio ([\d.]+)-([\d.]+)", detail)
    ends = sorted(float(end) if row["more_is_better"] else 1 / float(end) for end in spread.groups()) if spread else []
    ours, others = sides(what, detail)
    return Line(named, row["at"], ours, others, better, (ends[0], ends[1]) if ends else None, detail)


def sides(what: str, detail: str) -> tuple[str, str]:
    """The figures of Pagehop and of its peers, as a detail tells them in one of two ways."""
    against = re.match(r"([\d,.]+)[^;]*? against ([\d,.]+)(?:[^;]* of ([^;]+))?", detail)
    if against:
        peer = against[3] or (re.search(r" over ([^,]+)", what) or ["", ""])[1]
        return rounded(against[1]), f"{peer} {rounded(against[2])}"
    named = re.findall(r"([a-z][a-z ]*?) ([\d,.]*\d)", re.sub(r"^over [^:]*: ", "", detail))
    ours = [rounded(figure) for name, figure in named if name.startswith("pagehop")]
    others = [f"{name} {rounded(figure)}" for name, figure in named if not name.startswith("pagehop")]
    if not ours:
        return "-", what.rpartition(" over ")[2]
    return ", ".join(ours), ", ".join(others)


def about(name: str) -> list[str]:
    """Where, when and by which commit a file or folder was measured."""
    if (LAB / name).exists():
        machine, when = json.loads((LAB / name / "machine.json").read_text()), re.search(r"\d{8}", name)
        assert when is not None
        day = f"{when[0][:4]}-{when[0][4:6]}-{when[0][6:]}"
        source, commit, command = f"lab/results/{name}/", measured_at(name), ""
    else:
        content = load(name)
        machine, day = content["machine"], content["started"][:10]
        commit = f"commit {content['versions']['commit']}".replace("-dirty", ON_TOP)
        source, command = f"lab/results/bench/{content['path'].name}", f"`{' '.join(content['command'])}`"
    wide = "AVX-512" if "avx512f" in machine["simd"] else "AVX2"
    cores = f"{machine['cores']} core{'s' if machine['cores'] > 1 else ''}"
    cpu = re.sub(r"\(R\)| Processor", "", machine["cpu"])
    where = f"{cpu} with {wide}, {cores}, {machine['memory_gib']} GiB; {day}, {commit}."
    return [f"*{where}*", *([f"{command},"] if command else []), f"[every sample](../{source})"]


def measured_at(folder: str) -> str:
    """The commits at which raw files of a folder were written, or that added them."""
    files = [path for kind in ("builds", "points") for path in (LAB / folder / kind).glob("*.json")]
    commits = {json.loads(path.read_text()).get("commit") for path in files}
    known = sorted(commit.replace("+", ON_TOP) for commit in commits if commit)
    if not known:
        return f"result of commit {ADDED_AT[folder]}"
    return f"commit {', '.join(known)}" + (" and one that is not known" if None in commits else "")


def rows(name: str, *prefixes: str) -> list[str]:
    """A table of what was compared, and one of single figures below it."""
    found = list(lines(name, prefixes))
    compared = [one for one in found if one.better is not None]
    alone = [one for one in found if one.better is None]
    tables = []
    if compared:
        cells = [[one.what, one.at, one.ours, one.others, verdict(one)] for one in compared]
        tables.append(table(["", "at", "Pagehop", "other", "Pagehop better by"], cells))
    if alone:
        cells = [[one.what, one.at, one.ours, one.detail] for one in alone]
        tables.append(table(["", "at", "measured", "detail"], cells))
    return [*about(name), "", *("\n\n".join(tables)).splitlines()]


def verdict(one: Line) -> str:
    """How many times better, in which range of repeats, and whether that is a loss."""
    assert one.better is not None
    spread = f" ({one.spread[0]:.2f} to {one.spread[1]:.2f})" if one.spread and one.spread[0] != one.spread[1] else ""
    return f"{one.better:.2f}x{spread}" + (", loses" if one.better < 1 else "")


def losses() -> list[str]:
    """Every figure in a table of docs/benchmarks.md that is better for another engine."""
    finders: dict[str, Callable[..., list[Line]]] = {"rows": lost_rows, "lab": lost_in_report, "equal": lost_at_recall}
    page = PAGES[1].read_text()
    cells: dict[tuple[str, str, str], list[str]] = {}
    for part in PART.finditer(page):
        kind, *arguments = shlex.split(part[2])
        section = page[: part.start()].rpartition("\n## ")[2].partition("\n")[0]
        for one in finders[kind](*arguments) if kind in finders else []:
            # Two tables of a section may have the same figure.
            cells[section, one.what, one.at] = [one.ours, one.others, verdict(one).removesuffix(", loses")]
    head = ["section", "", "at", "Pagehop", "other", "Pagehop better by"]
    return table(head, [[*key, *figures] for key, figures in cells.items()]).splitlines()


def lost_rows(name: str, *prefixes: str) -> list[Line]:
    """What Pagehop loses in a part of the kind `rows`."""
    return [one for one in lines(name, prefixes) if one.better is not None and one.better < 1]


def lost_at_recall(ways: str, kind: str, run: str = ENGINES) -> list[Line]:
    """What Pagehop loses in a part of the kind `equal`."""
    chosen = [one for one in engines(int(ways), run) if one.library == (kind == "libraries")]
    found = []
    for target in sorted({target for one in chosen for target in one.qps}):
        figures = [(one.name, number(one.qps[target])) for one in chosen if target in one.qps]
        calls = "" if ways == "1" else ", 100 a call"
        found += lost(f"queries/s, {kind}{calls}", f"recall@10 {target:g}", figures)
    return found


def lost_in_report(folder: str, name: str, *wanted: str) -> list[Line]:
    """What Pagehop loses in a part of the kind `lab`: in a step, or among libraries and servers."""
    columns, cells = report(folder, name)
    texts = [{column: cell["text"] for column, cell in zip(columns, row, strict=True)} for row in cells]
    found = []
    if columns[0] == "step":
        # A column for each server. If there is a column `what`, another table has the figures.
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


def lost(column: str, at: str, figures: list[tuple[str, str]]) -> list[Line]:
    """One line if the best of the others is better than Pagehop, in a column of LEAST or MOST."""
    if column.partition(",")[0] not in LEAST + MOST:
        return []
    known = [(float(re.sub("[,?]", "", text)), text, name) for name, text in figures if text != "-"]
    ours = [one for one in known if one[2].lower().startswith("pagehop")]
    others = [one for one in known if one not in ours]
    if not ours or not others:
        return []
    best = min if column in LEAST else max
    (mine, shown, _), (value, text, name) = best(ours), best(others)
    if column == "recall@10":  # the shares that were missed
        mine, value = 1 - value, 1 - mine
    better = value / mine if column in LEAST else mine / value
    peer = re.sub(r" [\d.]+ .*=.*", "", name)
    return [Line(column, at, shown, f"{peer} {text}", better, None, "")] if better < 1 else []


def recall(name: str, *states: str) -> list[str]:
    """The recall that searches found: rows are sets and requested recalls, columns are states."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in load(name)["rows"]:
        named = re.fullmatch(r"recall (\S+) (.*)", row["what"])
        if named and named[2] in states:
            missed = "" if row["figure"] == 0 else ", missed"
            cell = row["detail"].split(",")[0].removeprefix("found ") + missed
            found.setdefault((SETS.get(named[1], named[1]), row["at"]), {})[named[2]] = cell
    cells = [[*key, *(of.get(state, "-") for state in states)] for key, of in found.items()]
    return [*about(name), "", *table(["set", "asked", *states], cells).splitlines()]


# ---- folders of lab/results: tables of the report ----


def report(folder: str, name: str) -> tuple[list[str], list[list[dict[str, Any]]]]:
    """Columns and rows of a table of a report."""
    content = json.loads((LAB / folder / "report" / "tables.json").read_text())
    for section in content["sections"]:
        for one in section["tables"]:
            if one["name"] == name:
                return one["columns"], one["rows"]
    raise KeyError(name)


def lab(folder: str, name: str, *wanted: str) -> list[str]:
    """A table of a report as it is, or some of its columns."""
    columns, found = report(folder, name)
    kept = [columns.index(column) for column in wanted] if wanted else range(len(columns))
    cells = [[row[at]["text"] for at in kept] for row in found]
    return [*about(folder), "", *table([columns[at] for at in kept], cells).splitlines()]


@dataclass(frozen=True)
class Engine:
    """An engine of the run: queries a second by recall, cheapest build and smallest index."""

    name: str
    library: bool
    qps: dict[float, float]
    least: set[float]
    """Recalls below what the least effort of the plan finds, which have its figure."""
    build_cpu_s: float | None
    index_mb: float


def engines(ways: int = 1, run: str = ENGINES) -> list[Engine]:
    """The engines of a run under one way of sending queries, fastest at 0.99 first.

    In runs of ENGINES the way is one query a call (1) or 100 (2). Runs of texts have one way,
    without a number.
    """
    of = f"fashion-mnist-{ways}" if run == ENGINES else "texts-384"
    _, built = report(run, f"indexes-{of}")
    _, interpolated = report(run, f"interpolated-{of}")
    qps: dict[str, dict[float, float]] = {}
    least: dict[str, set[float]] = {}
    for row in interpolated:
        if row[2]["value"] is not None:
            name, target = row[1]["text"], float(row[0]["text"])
            qps.setdefault(name, {})[target] = row[2]["value"]
            least.setdefault(name, set()).update({target} if row[2]["text"].endswith(LEAST_EFFORT) else ())
    found = []
    for name, measured in qps.items():
        indexes = [row for row in built if row[0]["text"] == name]
        cpu = [float(row[4]["text"]) for row in indexes if row[4]["text"] != "-"]
        size = min(float(row[5]["text"]) for row in indexes)
        found.append(Engine(name, indexes[0][6]["text"] == "-", measured, least[name], min(cpu) if cpu else None, size))
    return sorted(found, key=lambda one: -one.qps[0.99])


def equal(ways: str, kind: str, run: str = ENGINES) -> list[str]:
    """Queries a second at exactly a recall: a row for each engine, `libraries` or `servers`."""
    chosen = [one for one in engines(int(ways), run) if one.library == (kind == "libraries")]
    targets = sorted({target for one in chosen for target in one.qps})
    cells = [
        [
            one.name,
            *(number(one.qps[at]) + LEAST_EFFORT * (at in one.least) if at in one.qps else "-" for at in targets),
        ]
        for one in chosen
    ]
    return table(["recall@10", *(f"{target:g}" for target in targets)], cells).splitlines()


def lead() -> list[str]:
    """The README's table: Pagehop beside the best of the others, what it loses last."""
    cells = sorted(contests(), key=lambda row: "loses" in row[-1])
    return table(["", "Pagehop", "best of the others", "Pagehop better by"], cells).splitlines()


def contests() -> list[list[str]]:
    """The rows of the README's table."""
    texts, in_postgres = engines(run=TEXTS), engines(run=TEXTS_POSTGRES)
    servers = [one for one in engines() if not one.library]
    return [
        contest("texts, library, queries/s at recall@10 0.95", texts, lambda one: one.qps.get(0.95)),
        contest("texts, library, queries/s at recall@10 0.99", texts, lambda one: one.qps.get(0.99)),
        contest("texts, library, CPU seconds to build", texts, lambda one: one.build_cpu_s, least=True),
        contest("texts, library, MB of index", texts, lambda one: one.index_mb, least=True),
        contest("texts, PostgreSQL, queries/s at recall@10 0.99", in_postgres, lambda one: one.qps.get(0.99)),
        contest("texts, PostgreSQL, MB of index", in_postgres, lambda one: one.index_mb, least=True),
        contest("images, database server, queries/s at recall@10 0.99", servers, lambda one: one.qps.get(0.99)),
    ]


def contest(
    what: str, chosen: list[Engine], figure: Callable[[Engine], float | None], *, least: bool = False
) -> list[str]:
    """A row of the README's table: Pagehop, the best of the others, how many times better it is."""
    known = [(value, one.name) for one in chosen if (value := figure(one)) is not None]
    [ours] = [value for value, name in known if name.startswith("Pagehop")]
    others = [pair for pair in known if not pair[1].startswith("Pagehop")]
    best, name = min(others) if least else max(others)
    better = best / ours if least else ours / best
    return [what, number(ours), f"{name} {number(best)}", f"{better:.2f}x" + (", loses" if better < 1 else "")]


# ---- what is drawn and written ----


def chart() -> str:
    """Queries a second of every engine at recall@10 of 0.99, as bars on any background."""
    groups = [("Libraries, 150,000 embeddings of real text", [one for one in engines(run=TEXTS) if 0.99 in one.qps])]
    groups.append(("PostgreSQL, the same embeddings", engines(run=TEXTS_POSTGRES)))
    groups.append(("Database servers, 60,000 images", [one for one in engines() if not one.library]))
    left, width, step = 186, 440, 26
    drawn, top = [], 54
    for title, members in groups:
        drawn.append(f'<text class="group" x="{left}" y="{top}">{title}</text>')
        top += 10
        scale = width / max(one.qps[0.99] for one in members)
        for one in members:
            kind = "ours" if one.name.startswith("Pagehop") else "other"
            length = one.qps[0.99] * scale
            drawn += [
                f'<text class="name {kind}" x="{left - 10}" y="{top + 15}">{one.name}</text>',
                f'<rect class="{kind}" x="{left}" y="{top + 2}" width="{length:.1f}" height="18" rx="2"/>',
                f'<text class="value" x="{left + length + 8:.1f}" y="{top + 15}">{number(one.qps[0.99])}</text>',
            ]
            top += step
        top += 26
    [texts, in_postgres, images] = [about(run)[0].strip("*") for run in (TEXTS, TEXTS_POSTGRES, ENGINES)]
    words = [
        "texts-384, 150,000 x 384, k = 10, one core, 1,000 queries a call.",
        texts,
        "In PostgreSQL: the same set, one connection, one query a statement.",
        in_postgres,
        "Fashion-MNIST, 60,000 x 784, k = 10, one core, one query a call.",
        images,
    ]
    height = top + 16 * len(words) - 8
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" width="720" height="{height}">',
            "<title>Queries a second at recall@10 of 0.99</title>",
            f"<desc>{' '.join(words)}</desc>",
            STYLE,
            '<text class="title" x="4" y="22">Queries a second at recall@10 of 0.99</text>',
            *drawn,
            *(f'<text class="small" x="4" y="{top + 16 * at}">{part}</text>' for at, part in enumerate(words)),
            "</svg>\n",
        ]
    )


STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #6e7781 }
.title { font-size: 16px; font-weight: 600 }
.group, .name.ours { font-weight: 600 }
.name { text-anchor: end }
.small { font-size: 11px }
rect.ours { fill: #d9480f }
rect.other { fill: #8c959f }
@media (prefers-color-scheme: dark) { text { fill: #adbac7 } rect.ours { fill: #f76707 } rect.other { fill: #636e7b } }
</style>"""


def table(head: list[str], cells: list[list[str]]) -> str:
    """A table in Markdown, with words on the left of their column and figures on the right."""
    words = ["", "section", "at", "other", "best of the others", "detail", "engine", "index", "server", "step", "set"]
    rule = ["---" if name in [*words, "asked"] else "--:" for name in head]
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in [head, rule, *cells])


def rounded(text: str) -> str:
    """A figure from a detail, shown as all figures are."""
    return number(float(text.replace(",", "")))


def number(figure: float) -> str:
    """Three digits or all before the point."""
    if abs(figure) >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.2g}" if 0 < abs(figure) < 0.095 else f"{figure:.3g}"


KINDS: dict[str, Callable[..., list[str]]] = {
    "about": about,
    "rows": rows,
    "recall": recall,
    "lab": lab,
    "equal": equal,
    "lead": lead,
    "losses": losses,
}

if __name__ == "__main__":
    sys.exit(main())
