"""The command line of the measurements of changes: what is measured, and at which scale."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pagehop_bench.changes.scale import Scale, smoke
from pagehop_bench.report import Report

SECTIONS = ["insert", "bytes", "latency", "rounds", "replace", "vacuum", "recovery"]

_MIB = 2**20
# Options that are fields of `Scale` of the same name, and what they mean.
_NUMBERS = {
    "rows": (int, "rows built before anything changes"),
    "added": (int, "rows added afterwards"),
    "dim": (int, "components of the generated vectors"),
    "batch": (int, "rows of one durable add"),
    "repeats": (int, "times that each figure is taken"),
    "searches": (int, "single searches of a latency figure"),
    "rounds": (int, "rounds of deleting and adding back"),
    "seconds": (float, "most seconds that pgvector adds rows"),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `changes`."""
    parser.add_argument("--only", action="append", choices=SECTIONS, help="a measurement; can be given again")
    for name, (kind, meaning) in _NUMBERS.items():
        parser.add_argument(f"--{name}", type=kind, help=f"{meaning} ({getattr(Scale, name):,})")
    parser.add_argument("--log-mib", type=int, help="log that a killed writer leaves behind, nearly (256)")
    parser.add_argument("--set", action="append", help="a set of rounds and replace: fashion-mnist, generated, ...")
    parser.add_argument("--no-peer", action="store_true", help="without pgvector")
    parser.add_argument("--smoke", action="store_true", help="all in miniature, nothing written to bench/results")


def run(asked: argparse.Namespace) -> int:
    """Measures what was asked for, prints the table and writes the results."""
    report = Report()
    if asked.smoke:
        with tempfile.TemporaryDirectory() as folder:
            # Where root measures, another user runs the server.
            Path(folder).chmod(0o755)
            measure(report, scale_of(asked, smoke(Path(folder))), asked.only or SECTIONS)
        print(report.table())
        return 0
    scale = scale_of(asked, Scale())
    try:
        measure(report, scale, asked.only or SECTIONS)
    finally:
        # An hour's samples are kept even if the last measurement fails.
        path = report.write()
        print(report.table())
        print(f"\nevery sample: {os.path.relpath(path)}")
    return 0


def measure(report: Report, scale: Scale, sections: Sequence[str]) -> None:
    """Takes the measurements named by `sections`."""
    # They need pagehop, which other commands do without.
    from pagehop_bench.changes import insert, latency, recovery, rounds, vacuum

    report.extra["scale"] = scale.as_json()
    load = os.getloadavg()
    wanted = set(sections)
    if wanted & {"insert", "bytes"}:
        insert.run(report, scale, wanted)
    for name, take in [
        ("latency", latency.run),
        ("rounds", rounds.run),
        ("replace", rounds.run_replace),
        ("vacuum", vacuum.run),
        ("recovery", recovery.run),
    ]:
        if name in wanted:
            take(report, scale)
    report.extra["load averages"] = {"before": load, "after": os.getloadavg()}


def scale_of(asked: argparse.Namespace, scale: Scale) -> Scale:
    """`scale`, with what the command line says instead."""
    given = {name: getattr(asked, name) for name in _NUMBERS if getattr(asked, name) is not None}
    if asked.log_mib is not None:
        given["log_bytes"] = asked.log_mib * _MIB
    if asked.set:
        given["sets"] = tuple(asked.set)
    return replace(scale, **given, peer=scale.peer and not asked.no_peer)
