"""The command line of the measurements in PostgreSQL: what is measured, on which sets, and at which scale."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pagehop_bench.postgres import sets
from pagehop_bench.postgres.scale import Scale, smoke
from pagehop_bench.report import Report

if TYPE_CHECKING:
    from devserver import Server

SECTIONS = ["qps", "build", "insert", "update", "cold"]
# Only if asked for: the first time it needs the network.
MARIADB = "mariadb"

# Options that are fields of `Scale` of the same name, and what they mean.
_NUMBERS = {
    "rows": (int, "rows of each set (60,000 pictures, 100,000 generated)"),
    "queries": (int, "different queries"),
    "seconds": (float, "least seconds of a timed run"),
    "repeats": (int, "times that a search is timed, and a server started cold"),
    "build-repeats": (int, "times that each index is built"),
    "inserted": (int, "rows inserted in each way"),
    "clients": (int, "connections of the insertion with many"),
    "updated": (int, "rows updated"),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `postgres`."""
    parser.add_argument("--only", action="append", choices=[*SECTIONS, MARIADB], help="a section; can be given again")
    parser.add_argument(
        "--set",
        action="append",
        type=_known_set,
        metavar="NAME",
        help="fashion-mnist (default), generated-768 or generated-1536; can be given again",
    )
    for name, (kind, meaning) in _NUMBERS.items():
        default = getattr(Scale, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=kind, help=meaning if default is None else f"{meaning} ({default:,})")
    parser.add_argument(
        "--installed", action="store_true", help="measure the extension that is in the server, without compiling it"
    )
    parser.add_argument("--smoke", action="store_true", help="all in miniature, nothing written to bench/results")


def run(asked: argparse.Namespace) -> int:
    """Measures what was asked for, prints the table and writes the results."""
    from devserver import DevServerError
    from pagehop_bench.postgres.loadgen import LoadgenError

    # The shell's `kill` ends the servers, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if asked.smoke:
            with tempfile.TemporaryDirectory() as folder:
                report = Report()
                _measure(report, scale_of(asked, smoke(Path(folder))), asked)
            print(report.table())
            return 0
        report = Report()
        try:
            _measure(report, scale_of(asked, Scale()), asked)
        finally:
            # What was measured is kept even if the last section fails.
            path = report.write()
            print(report.table())
            print(f"\nevery sample: {os.path.relpath(path)}")
    except (DevServerError, LoadgenError, ValueError) as error:
        print(f"./dev bench postgres: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("./dev bench postgres: interrupted", file=sys.stderr)
        return 130
    return 0


def scale_of(asked: argparse.Namespace, scale: Scale) -> Scale:
    """`scale`, with what the command line says instead."""
    names = [name.replace("-", "_") for name in _NUMBERS]
    given = {name: getattr(asked, name) for name in names if getattr(asked, name) is not None}
    if asked.set:
        given["sets"] = tuple(asked.set)
    return replace(scale, **given)


def _known_set(name: str) -> str:
    if not sets.known(name):
        raise argparse.ArgumentTypeError(f"there is no set '{name}'")
    return name


def _measure(report: Report, scale: Scale, asked: argparse.Namespace) -> None:
    # They need a server and psycopg, which other commands do without.
    from devserver import DEFAULT, install
    from pagehop_bench.postgres import build, insert, loadgen, mariadb, qps, update
    from pagehop_bench.postgres.servers import fingerprint

    sections: Sequence[str] = asked.only or SECTIONS
    report.extra["scale"] = scale.as_json()
    report.extra["load averages"] = loads = {"before": os.getloadavg()}
    server = install(DEFAULT)
    _install_extension(server, asked)
    installed = fingerprint(server)
    report.extra["server"] = {"version": server.version, "extension": installed}
    loadgen.program()
    report.say(f"Postgres {server.version}; load average {os.getloadavg()[0]:.2f}")
    begun = time.perf_counter()
    for name in scale.sets:
        for section, take in [("build", build.run), ("qps", qps.run), ("insert", insert.run), ("update", update.run)]:
            if section in sections:
                take(report, scale, server, name)
                if fingerprint(server) != installed:
                    raise ValueError("another extension was installed in the server meanwhile: measure again")
        if "cold" in sections:
            _cold(report, scale, server, name, asked)
        if MARIADB in sections:
            mariadb.run(report, scale, server, name)
    loads["after"] = os.getloadavg()
    report.say(f"all of it: {time.perf_counter() - begun:.0f} s; load average {loads['after'][0]:.2f}")


def _cold(report: Report, scale: Scale, server: Server, name: str, asked: argparse.Namespace) -> None:
    """With workers that read, and with io_uring on a server that was compiled with it."""
    from devserver import GIVEN, install
    from pagehop_bench.postgres import cold
    from pagehop_bench.postgres.servers import has_io_uring

    cold.run(report, scale, server, name, "worker")
    other = server if os.environ.get(GIVEN) else install("18-source")
    if not has_io_uring(other):
        report.say(f"cold {name}, io_uring: left out, the server that {GIVEN} names has none")
        return
    _install_extension(other, asked)
    cold.run(report, scale, other, name, "io_uring")


def _install_extension(server: Server, asked: argparse.Namespace) -> None:
    from devserver import install_extension

    if not asked.installed:
        install_extension(server)
