"""`./dev release`: makes and tries packages in `dist`, tags a version, or begins the next one."""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from devserver.errors import DevServerError
from devserver.folder import REPOSITORY
from pagehop_release import crates, debs, pgxn, versions, wheels
from pagehop_release.extension import MAJORS
from pagehop_release.targets import TARGETS, X86_64

DIST = REPOSITORY / "dist"


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    try:
        options.command(options)
    except DevServerError as error:
        print(f"./dev release: {error}", file=sys.stderr)
        return 1
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev release", description="Makes and tries what people install.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("wheels", help="Python wheels for x86-64 and aarch64")
    command.set_defaults(command=_wheels)
    command.add_argument("--target", choices=[target.name for target in TARGETS], help="one architecture only")
    command.add_argument("--no-try", action="store_true", help="build only; trying needs root and Debian's packages")
    command = commands.add_parser("debs", help="Debian packages of the PostgreSQL extension")
    command.set_defaults(command=_debs)
    command.add_argument("--major", type=int, choices=[major.number for major in MAJORS], help="one server only")
    command.add_argument("--target", choices=[target.name for target in TARGETS], default=X86_64.name)
    command.add_argument("--no-try", action="store_true", help="build only; trying needs root and Debian's packages")
    command = commands.add_parser("crates", help="crates as crates.io takes them")
    command.set_defaults(command=_crates)
    command = commands.add_parser("pgxn", help="the extension's sources as PGXN takes them")
    command.set_defaults(command=_pgxn)
    command.add_argument("--no-try", action="store_true", help="pack only; trying compiles the extension")
    command = commands.add_parser("tag", help="date the changelog of this version, commit that and tag the commit")
    command.set_defaults(command=lambda _: print(versions.tag(REPOSITORY)))
    command = commands.add_parser("version", help="begin work on the next version, once this one is tagged")
    command.set_defaults(command=lambda options: print(*versions.begin(REPOSITORY, options.number), sep="\n"))
    command.add_argument("number", help="such as 0.2.0")
    return parser.parse_args(arguments)


def _wheels(options: argparse.Namespace) -> None:
    for target in TARGETS:
        if options.target in (None, target.name):
            wheel = wheels.build(target, DIST)
            print(_described(wheel))
            if not options.no_try:
                print(wheels.tried(target, wheel))


def _debs(options: argparse.Namespace) -> None:
    [target] = [target for target in TARGETS if target.name == options.target]
    for major in MAJORS:
        if options.major in (None, major.number):
            deb = debs.build(major, target, DIST)
            print(_described(deb))
            if not options.no_try and target.is_ours:
                print(debs.tried(major, deb))


def _crates(options: argparse.Namespace) -> None:  # noqa: ARG001
    for crate in crates.build(DIST):
        print(_described(crate))


def _pgxn(options: argparse.Namespace) -> None:
    packed = pgxn.build(DIST)
    print(_described(packed))
    if not options.no_try:
        print(pgxn.tried(packed))


def _described(package: Path) -> str:
    """The package's path, size and checksum. The same commit gives the same bytes in any folder."""
    content = package.read_bytes()
    return f"{package}: {len(content) / 1e6:.2f} MB, sha256 {hashlib.sha256(content).hexdigest()}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
