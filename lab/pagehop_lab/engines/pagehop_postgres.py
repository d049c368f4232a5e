"""Pagehop's extension for PostgreSQL, with `slack` and `search_list` as in the embedded one.

With `columns = 1` filters compare a column of the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pagehop_lab.engines.engine import FILTERED, Description, Options
from pagehop_lab.engines.postgres_server import BUILD, MORE_BUILD, SEARCH, PostgresServer


class PagehopPostgres(PostgresServer):
    """`USING pagehop` over `vector`."""

    description: ClassVar = Description(
        "pagehop-postgres", "Pagehop in PostgreSQL", "main",
        build=BUILD,
        search={"slack": (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5), "search_list": (100,), **SEARCH},
        source="docs/postgres.md",
        takes_url=True,
        more_build={"columns": 1, **MORE_BUILD},
        more_search={"recall": 0.95},
    )  # fmt: skip
    extension = "pagehop"

    def using(self, operators: str, options: Options) -> str:
        column = f", ({FILTERED})" if options.get("columns") else ""
        return f"pagehop (embedding {operators}{column})"

    def settings(self, options: Options, k: int) -> Mapping[str, str]:
        if options.get("recall"):
            return {"pagehop.recall": f"{options['recall']:g}"}
        chosen = {"pagehop.search_list": str(max(options["search_list"], k))}
        # Without a slack, the search expands its whole list.
        return chosen | ({"pagehop.slack": f"{options['slack']:g}"} if options["slack"] else {})
