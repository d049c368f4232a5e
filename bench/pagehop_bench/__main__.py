"""`python -m pagehop_bench demo | bench | changes | postgres | recall | data | table`; started by `./dev`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# Before anything loads a library that would read it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

SECTIONS = ["fashion-mnist", "generated-384", "generated-1536", "cold", "footprint", "million"]


def main() -> int:
    """Does what the command line asks for."""
    from pagehop_bench import settings
    from pagehop_bench.changes import command as changes
    from pagehop_bench.fashion import NoData
    from pagehop_bench.postgres import command as postgres

    parser = argparse.ArgumentParser(prog="./dev", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo")
    data = commands.add_parser("data")
    data.add_argument("names", nargs="*", help="sets to make; all but the million without")
    data.add_argument("--fbin", action="store_true", help="also write them as .fbin and .ibin files")
    bench = commands.add_parser("bench")
    bench.add_argument("--only", action="append", choices=SECTIONS, help="a section to measure; can be given again")
    bench.add_argument("--repeats", type=int, default=5, help="times that each search is measured")
    bench.add_argument("--build-repeats", type=int, default=2, help="times that each hot index is built")
    changes.add_options(commands.add_parser("changes"))
    postgres.add_options(commands.add_parser("postgres", prog="./dev bench postgres"))
    settings.add_options(commands.add_parser("recall", prog="./dev bench recall"))
    table = commands.add_parser("table")
    table.add_argument("results", type=Path, help="a file of bench/results")
    asked = parser.parse_args()

    try:
        if asked.command == "demo":
            from pagehop_bench import demo

            demo.run()
        elif asked.command == "data":
            _data(asked.names, fbin=asked.fbin)
        elif asked.command == "changes":
            return changes.run(asked)
        elif asked.command == "postgres":
            return postgres.run(asked)
        elif asked.command == "recall":
            return settings.run(asked)
        elif asked.command == "table":
            from pagehop_bench.report import markdown

            print(markdown(asked.results))
        else:
            return _bench(asked)
    except NoData as error:
        print(f"./dev {asked.command}: {error}", file=sys.stderr)
        return 1
    return 0


def _data(names: list[str], *, fbin: bool) -> None:
    from pagehop_bench import datasets

    for name in names or [name for name in datasets.NAMES if not name.endswith("1m")]:
        if name not in datasets.NAMES:
            sys.exit(f"./dev data: '{name}' is not one of {', '.join(datasets.NAMES)}")
        dataset = datasets.load(name)
        print(f"{name}: {len(dataset.base):,} x {dataset.dim}, {len(dataset.queries):,} queries, truth known")
        if fbin:
            print(f"  in {os.path.relpath(datasets.export(dataset))}")


def _bench(asked: argparse.Namespace) -> int:
    from pagehop_bench import cold, footprint, hot
    from pagehop_bench.report import Report

    report = Report()
    for section in asked.only or SECTIONS:
        if section == "cold":
            cold.run(report, asked.repeats)
        elif section == "footprint":
            footprint.run(report)
        elif section == "million":
            footprint.million(report)
        else:
            hot.run(report, section, asked.repeats, asked.build_repeats)
    path = report.write()
    print(report.table())
    print(f"\nevery sample: {os.path.relpath(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
