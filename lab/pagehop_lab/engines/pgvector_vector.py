"""pgvector's HNSW index over float32 vectors.

`partial = 0.1` makes a partial index of the rows that the filter of this share leaves.
`load.matching` is then that share alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pagehop_lab.engines.engine import Description, Options, condition
from pagehop_lab.engines.postgres_server import BUILD, MORE_BUILD, SEARCH, PostgresServer

# fmt: off
GRID = (10, 20, 30, 40, 80, 120, 200, 300, 400)
# fmt: on
# A search goes on until the filter has left enough rows; without it most answers would be short.
ITERATIVE = {"hnsw.iterative_scan": "strict_order"}


class PgvectorVector(PostgresServer):
    """`USING hnsw` over `vector`."""

    description: ClassVar = Description(
        "pgvector", "pgvector vector", "main",
        build={"m": 16, "ef_construction": 64, **BUILD},
        search={"ef_search": GRID, **SEARCH},
        source="defaults of pgvector; the sweep is that of published comparisons",
        takes_url=True,
        more_build={"partial": 0.1, **MORE_BUILD},
    )  # fmt: skip
    extension = "vector"

    def using(self, operators: str, options: Options) -> str:
        where = f" WHERE {condition(options['partial'])}" if options.get("partial") else ""
        return hnsw(operators, options) + where

    def settings(self, options: Options, k: int) -> Mapping[str, str]:
        return {"hnsw.ef_search": str(options["ef_search"])}

    def settings_filtered(self) -> Mapping[str, str]:
        return ITERATIVE


def hnsw(operators: str, options: Options) -> str:
    """Pgvector's access method."""
    return f"hnsw (embedding {operators}) WITH (m = {options['m']}, ef_construction = {options['ef_construction']})"
