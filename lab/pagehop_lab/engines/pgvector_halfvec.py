"""pgvector's HNSW index over vectors of two bytes a component, table included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pagehop_lab.engines.engine import Description, Options
from pagehop_lab.engines.pgvector_vector import GRID, ITERATIVE, hnsw
from pagehop_lab.engines.postgres_server import BUILD, MORE_BUILD, SEARCH, PostgresServer


class PgvectorHalfvec(PostgresServer):
    """`USING hnsw` over `halfvec`."""

    description: ClassVar = Description(
        "pgvector-halfvec", "pgvector halfvec", "main",
        build={"m": 16, "ef_construction": 64, **BUILD},
        search={"ef_search": GRID, **SEARCH},
        source="defaults of pgvector; the sweep is that of published comparisons",
        takes_url=True,
        more_build=MORE_BUILD,
    )  # fmt: skip
    extension = "vector"
    type = "halfvec"

    def using(self, operators: str, options: Options) -> str:
        return hnsw(operators, options)

    def settings(self, options: Options, k: int) -> Mapping[str, str]:
        return {"hnsw.ef_search": str(options["ef_search"])}

    def settings_filtered(self) -> Mapping[str, str]:
        return ITERATIVE
