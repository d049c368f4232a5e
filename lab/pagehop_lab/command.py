"""`pagehop-lab`: smoke, run, versions, report, compare, import, site, engines."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from pagehop_lab import imports, report, site
from pagehop_lab.analysis.agreement import DISAGREE
from pagehop_lab.engines import history, outside
from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.machine import about
from pagehop_lab.plan import PlanError
from pagehop_lab.plan.read import on_sets
from pagehop_lab.plan.servers import ServersPlan
from pagehop_lab.published.foreign import FormatError
from pagehop_lab.run.progress import Progress
from pagehop_lab.run.servers import RunError
from pagehop_lab.store import RunFolder, StoreError
from pagehop_lab.suites import catalog
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.suite import AnyResults, Run, Suite

SMOKE = Path(__file__).parent / "plan" / "smoke.toml"
RUNS = Path("lab-runs")
SITE = RUNS / "site"
KEPT = Path(__file__).parents[1] / "results"
"""Runs that are kept in the repository; a lab that is installed alone has none."""

INTERRUPTED = 130

# Suites whose plan `versions` can write.
OF_VERSIONS = ("oltp", "inserts")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    args = _parser().parse_args(arguments)
    try:
        for file in getattr(args, "engine", []):
            outside.add(file)
        return int(args.does(args))
    except (PlanError, StoreError, RunError, FormatError, EngineError) as error:
        print(f"pagehop-lab: {error}", file=sys.stderr)
        return 2 if isinstance(error, PlanError | EngineError) else 1
    except KeyboardInterrupt:
        # A lost terminal takes no text.
        with contextlib.suppress(OSError):
            said = "interrupted; what was measured is kept, run the same command to continue"
            print(f"\npagehop-lab: {said}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed it.
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pagehop-lab", description="Measure vector indexes at equal recall.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    smoke = commands.add_parser("smoke", help="a minute: one generated set, Pagehop, faiss, hnswlib, pgvector")
    smoke.add_argument("--into", type=Path, help="the folder of the run; a new one in lab-runs if not given")
    smoke.set_defaults(does=_smoke)

    run = commands.add_parser("run", help="measure what a plan says; after a stop, run the same command to continue")
    run.add_argument("plan", type=Path, metavar="PLAN.toml")
    run.add_argument("--into", type=Path, help="the folder of the run; lab-runs/NAME OF THE PLAN if not given")
    run.add_argument(
        "--set", action="append", metavar="NAME[=ROWS]", help="measure on this set instead; can be given again"
    )
    run.add_argument("--retry", action="store_true", help="try again what failed; of servers also what is invalid")
    run.add_argument("--check", action="store_true", help="read the plan, say how much it is, and measure nothing")
    _takes_engines(run)
    run.set_defaults(does=_run)

    shown = commands.add_parser("report", help="tables and a page from a run's folder, also of an unfinished one")
    shown.add_argument("folders", type=Path, metavar="DIR", nargs="+", help="of several, their aims are one table")
    shown.add_argument("--quiet", action="store_true", help="write the files, print no tables")
    shown.add_argument("--parquet", action="store_true", help="write the tables as Parquet, too, which takes pyarrow")
    _takes_engines(shown)
    shown.set_defaults(does=_report)

    versions = commands.add_parser("versions", help="versions of a server side by side, from nothing to the report")
    versions.add_argument("product", metavar="SERVER", help=", ".join(catalog.OF_SERVERS["oltp"].products))
    versions.add_argument("versions", metavar="VERSIONS", help="such as 12..18, 12,16 or 14.10..14.21")
    versions.add_argument(
        "--newest", type=int, default=1, metavar="N", help="point releases of each major version; 1 by default"
    )
    versions.add_argument(
        "--suite", choices=OF_VERSIONS, default="oltp", help="oltp: 42 microbenchmarks; inserts: Insert Benchmark"
    )
    versions.add_argument(
        "--repeat", type=int, default=3, metavar="N", help="times with new servers and data; 3 by default"
    )
    versions.add_argument("--into", type=Path, help="the folder of the run; in lab-runs if not given")
    versions.add_argument("--retry", action="store_true", help="try again what failed; of servers also what is invalid")
    versions.set_defaults(does=_versions)

    compared = commands.add_parser("compare", help="whether two runs of one plan agree; exit code 1 if they do not")
    compared.add_argument("first", type=Path, metavar="DIR")
    compared.add_argument("second", type=Path, metavar="DIR")
    _takes_engines(compared)
    compared.set_defaults(does=_compare)

    _import_parser(commands)

    shown_site = commands.add_parser("site", help="a static site of runs, with filters and what Pagehop loses")
    shown_site.add_argument(
        "folders",
        type=Path,
        metavar="DIR",
        nargs="*",
        help=f"runs, or folders of them; without any the kept ones, or {RUNS}",
    )
    shown_site.add_argument("--into", type=Path, default=SITE, help=f"the folder of the site; {SITE} if not given")
    _takes_engines(shown_site)
    shown_site.set_defaults(does=_site)

    engines = commands.add_parser("engines", help="what can be measured, with which options")
    _takes_engines(engines)
    engines.set_defaults(does=_engines)
    return parser


def _import_parser(commands: Any) -> None:
    imported = commands.add_parser(
        "import", help="results of other benchmarks of vectors or servers, shown beside ours as foreign"
    )
    imported.add_argument("folder", type=Path, metavar="DIR", help="of a run of equal-recall, oltp or inserts")
    imported.add_argument(
        "files", type=Path, metavar="FILE", nargs="+", help=".hdf5 or .plot, .json or .csv; lab/README.md says whose"
    )
    imported.add_argument(
        "--truth", type=Path, metavar="SET.hdf5", help="the set of .hdf5 results, to count their recall"
    )
    imported.add_argument("--set", metavar="NAME", help="show them with this set of the run")
    imported.add_argument("--versions", metavar="V,V", help="versions of the columns of a .csv, or of its tags")
    imported.add_argument("--server", metavar="NAME", help="of which server a .csv is, where the run has several")
    _takes_engines(imported)
    imported.set_defaults(does=_import)


def _takes_engines(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--engine", type=Path, action="append", default=[], metavar="FILE.py", help="with the engines of this file, too"
    )


def _smoke(args: argparse.Namespace) -> int:
    into = args.into or RUNS / time.strftime("smoke-%Y%m%dT%H%M%SZ", time.gmtime())
    suite, plan = _planned(SMOKE, None)
    results = _carried_out(suite, plan, into, (), retry=False)
    return 0 if isinstance(results, Results) and results.sound_where_installed else 1


def _run(args: argparse.Namespace) -> int:
    if not args.check:
        return _measure(args.plan, args.into, args.set, args.engine, retry=args.retry)
    suite, plan = _planned(args.plan, args.set)
    print(f"{args.plan}: {suite.amount(plan)}")
    for warning in suite.warnings(plan):
        _warn(f"{args.plan}: {warning}")
    if absent := suite.absent(plan):
        raise PlanError(f"{args.plan}: " + "; ".join(absent))
    return 0


def _planned(path: Path, sets: Sequence[str] | None) -> tuple[Suite[Any], Any]:
    """The suite and the plan of a file, on other sets if any are given."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        text = on_sets(text, sets) if sets else text
        suite = catalog.suite_of(text)
        return suite, suite.read(text, path.stem)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def _measure(
    path: Path, into: Path | None, sets: Sequence[str] | None = None, engines: Sequence[Path] = (), *, retry: bool
) -> int:
    """Measures a plan and reports. Other sets and files with more engines are optional."""
    suite, plan = _planned(path, sets)
    return _exit_code(_carried_out(suite, plan, into or RUNS / _name(plan, sets), engines, retry=retry))


def _exit_code(results: AnyResults) -> int:
    """1 if anything failed or is missing, or nothing is valid.

    What is invalid beside valid figures is for the page: a plan may be made to find it.
    """
    return 0 if results.is_whole else 1


def _name(plan: Any, sets: Sequence[str] | None) -> str:
    if isinstance(plan, ServersPlan):
        return "-on-".join([plan.name, *(one.replace("=", "-") for one in sets or ())])
    return "-on-".join([plan.name, *(["-".join(one.name for one in plan.datasets)] if sets else [])])


def _carried_out(suite: Suite[Any], plan: Any, into: Path, engines: Sequence[Path], *, retry: bool) -> AnyResults:
    """Measures a plan and reports."""
    _end_as_ctrl_c_does()
    with RunFolder.writing(into, plan.text, _about(), history.commit(*history.LAB)) as folder:
        suite.run(Run(plan, folder, Progress(), about.kind(), retry, _places(engines)))
    results = report.write(into, quiet=False)
    print(f"\nthe page is {into / report.PAGE}", file=sys.stderr)
    if not results.sound:
        print("pagehop-lab: something is missing or invalid; the tables above say what", file=sys.stderr)
    return results


def _places(engines: Sequence[Path]) -> list[Path]:
    """The folders that engines of files are imported from."""
    return [file.resolve().parent for file in engines]


def _about() -> dict[str, Any]:
    """The machine, with the disk that servers and indexes are on while they are measured."""
    described = about.processor() | about.surroundings(Path(tempfile.gettempdir()))
    return described | {"kind": about.kind()}


def _versions(args: argparse.Namespace) -> int:
    if args.repeat < 1:
        raise PlanError("--repeat: the least is 1")
    if args.newest < 1:
        raise PlanError("--newest: the least is 1")
    suite = catalog.OF_SERVERS[args.suite]
    plan = suite.read(suite.versions_plan(args.product, args.versions, args.repeat, args.newest), args.product)
    return _exit_code(_carried_out(suite, plan, args.into or RUNS / plan.name, (), retry=args.retry))


def _report(args: argparse.Namespace) -> int:
    for folder in args.folders:
        report.write(folder, quiet=args.quiet or len(args.folders) > 1, as_parquet=args.parquet)
        print(f"\nthe page is {folder / report.PAGE}", file=sys.stderr)
    if len(args.folders) > 1 and (aims := report.together(args.folders)) is not None:
        print(aims)
    return 0


def _compare(args: argparse.Namespace) -> int:
    found = report.compare(args.first, args.second)
    print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in found.counts.items()), file=sys.stderr)
    print(found.held.shown(), file=sys.stderr)
    return 1 if not found.counts or any(found.counts.get(said) for said in DISAGREE) else 0


def _import(args: argparse.Namespace) -> int:
    suite = report.read(args.folder).results.suite
    versions = [one.strip() for one in (args.versions or "").split(",") if one.strip()]
    if suite == "oltp":
        new, what = imports.qps_into(args.folder, args.files, versions, args.server, _warn), "versions"
    elif suite == "inserts":
        new, what = imports.rates_into(args.folder, args.files, versions, args.server, _warn), "versions"
    elif suite == "equal-recall":
        new, what = imports.into(args.folder, args.files, args.truth, args.set, _warn), "points"
    else:
        raise StoreError(f"{args.folder} is a run of {suite}; only equal-recall, oltp and inserts show foreign results")
    report.write(args.folder, quiet=True)
    print(f"{new} new {what}; the page is {args.folder / report.PAGE}", file=sys.stderr)
    return 0


def _warn(line: str) -> None:
    print(f"pagehop-lab: warning: {line}", file=sys.stderr)


def _site(args: argparse.Namespace) -> int:
    folders = args.folders or [_kept()]
    count = site.build(folders, args.into, lambda line: print(line, file=sys.stderr))
    print(f"{count} runs; the site is {args.into / 'index.html'}", file=sys.stderr)
    return 0


def _kept() -> Path:
    """The default runs of a site: those of the repository, or those in the current folder."""
    found = next((folder for folder in (KEPT, RUNS) if folder.is_dir()), None)
    if found is None:
        raise StoreError(f"there are no kept runs beside this lab and no {RUNS} here: name the folders of runs")
    return found


def _engines(_: argparse.Namespace) -> int:
    for name, engine in CATALOG.items():
        about = engine.description
        print(f"{name:<18}{about.title}" + (" (compares every row)" if about.exact else ""))
        for what, options in [("build", about.build), ("search", about.search)]:
            for option, value in options.items():
                print(f"    {what:<7}{option} = {list(value) if isinstance(value, tuple) else value}")
        if about.takes_url:
            print("    url    of a server that runs already")
    return 0


def _end_as_ctrl_c_does() -> None:
    """The shell's `kill` and a lost terminal end a run, too; what it started ends with it."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    # `nohup` ignores a lost terminal.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _as_interrupt)


def _as_interrupt(number: int, _: FrameType | None) -> None:
    if number == signal.SIGHUP:
        # It comes from the shell and from the kernel. The second must not end the cleaning.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
