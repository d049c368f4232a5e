"""`./dev postgres`: runs a server with the extension until Ctrl-C. With `cargo ...`, it runs cargo
on the extension's crate.
"""

from __future__ import annotations

import argparse
import signal
import sys

from devserver.cluster import Cluster, Setting
from devserver.errors import DevServerError
from devserver.extension import cargo, install_extension
from devserver.servers import DEFAULT, VERSIONS, install


def main(arguments: list[str]) -> int:
    # SIGTERM, which the shell's `kill` sends, ends the server, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if arguments[:1] == ["cargo"]:
            return cargo(install(), *arguments[1:])
        _serve(_parse(arguments))
    except DevServerError as error:
        print(f"./dev postgres: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev postgres", description="A private server with the extension in it.")
    parser.add_argument(
        "--version",
        choices=VERSIONS,
        default=DEFAULT,
        help="18 (default) and 17: binaries, got in seconds; the others are compiled once, in minutes: "
        "18-source, which has io_uring; 18-assert, which checks itself and is slow",
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a setting, as in postgresql.conf"
    )
    return parser.parse_args(arguments)


def _serve(options: argparse.Namespace) -> None:
    settings: dict[str, Setting] = {}
    for given in options.set:
        name, equals, value = given.partition("=")
        if not equals:
            raise DevServerError(f"--set {given}: write it as NAME=VALUE")
        settings[name] = value
    server = install(options.version)
    install_extension(server)
    with Cluster(server, settings) as cluster:
        cluster.psql("CREATE EXTENSION pagehop CASCADE")
        print(
            f"""
Postgres {server.version} with the extension runs. Its data are temporary: they go with it.

  {server.bin / "psql"} "{cluster.dsn()}"
  {cluster.url()}

Log: {cluster.log}
Stop it with Ctrl-C.""",
            flush=True,
        )
        signal.pause()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
