"""`vector-inserts`: the cost of an index for writes, and of writes for queries and recall."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pagehop_lab.analysis.case import Case
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.servers import Options, ServersPlan
from pagehop_lab.plan.tables import PlanError, Table
from pagehop_lab.run.servers import Bench, Product
from pagehop_lab.suites.compared import (
    CPU,
    CREATE_INDEX,
    DATA,
    INDEX,
    LOADED,
    MISSED,
    RATE,
    WRITTEN,
    Compared,
    scaled,
)
from pagehop_lab.suites.inserts import tables as inserts
from pagehop_lab.suites.inserts.cases import VECTOR_STEPS
from pagehop_lab.suites.inserts.plan import commit_rows
from pagehop_lab.suites.server_results import ServerResults
from pagehop_lab.suites.servers import ServersSuite
from pagehop_lab.suites.table import Section
from pagehop_lab.suites.table import Table as Shown
from pagehop_lab.suites.vector_inserts import run, tables
from pagehop_lab.suites.vector_inserts.plan import VectorLoad
from pagehop_lab.suites.vector_inserts.records import VectorStepRecord
from pagehop_lab.suites.vector_inserts.servers import MariaDbVectorProduct, PostgresVectorProduct

# The versions that have an index over vectors.
_VERSIONS = {"pgvector": "18", "pagehop-postgres": "18", "mariadb": "11.8"}
# Copies of a vector: in its table and in its index, and again for dead rows until they are cleaned
# up.
_COPIES = 6


def _p99_ms(found: VectorStepRecord) -> float | None:
    latency = found.get("latency_ms")
    return None if latency is None else float(latency["p99"])


def _index_mb(found: VectorStepRecord) -> float | None:
    return scaled(found.get("index_bytes"), 1e6)


_ASKED = (
    MISSED,
    Compared("ms", _p99_ms, "p99 of a query"),
    Compared("MB", _index_mb, "bytes of the index after it"),
)


class VectorInserts(ServersSuite[VectorStepRecord]):
    name: ClassVar = "vector-inserts"
    how: ClassVar = (
        "Every server has new data, its index, and clients in separate processes: one inserts, one deletes as many "
        "rows, one queries. Recall and time come from the same requests. A figure is invalid, and compared with "
        "nothing, if anything failed, a client was busy for more than half of a core's time, less than 95% of the "
        "rows were written, the index was not used, or an answer lacked rows or had rows that did not exist."
    )
    products: ClassVar = tuple(_VERSIONS)
    usual: ClassVar[ServersLoad] = VectorLoad()
    ratios: ClassVar = True
    compared_loads: ClassVar = (LOADED, CREATE_INDEX, INDEX, DATA)

    def cases(self, load: ServersLoad) -> Sequence[Case]:
        return VECTOR_STEPS

    def load(self, table: Table) -> ServersLoad:
        known, common = VectorLoad(), self.common_load(table)
        dataset = table.take("dataset", str, known.dataset)
        if not re.fullmatch(r"generated-[1-9]\d*", dataset):
            raise PlanError(
                f"{table.at('dataset')} = {dataset!r}: it should be generated-DIM, of which there is any number"
            )
        load = VectorLoad(
            **common, dataset=dataset, queries=table.take("queries", int, known.queries, least=1),
            commit_rows=commit_rows(table),
        )  # fmt: skip
        table.refuse_unknown()
        return load

    def versions(self, product: str) -> Sequence[str]:
        return [_VERSIONS[product]]

    def usual_versions(self, product: str) -> tuple[str, ...]:
        return (_VERSIONS[product],)

    def options(self, table: Table, product: str) -> list[Options]:
        return [tuple(table.take_table("options").rest().items())]

    def needed_bytes(self, plan: ServersPlan) -> int:
        assert isinstance(plan.load, VectorLoad)
        row_bytes = 800 + 4 * _COPIES * int(plan.load.dataset.rpartition("-")[2])
        return self.room(plan, row_bytes, len(plan.cases) * plan.load.seconds)

    def compared(self, case: str) -> Sequence[Compared[VectorStepRecord]]:
        return (RATE, CPU, WRITTEN) if case.startswith("l.") else (RATE, CPU, *_ASKED)

    def servers(self, plan: ServersPlan) -> Mapping[str, Product]:
        methods = {name: PostgresVectorProduct(name) for name in ("pgvector", "pagehop-postgres")}
        return {**methods, "mariadb": MariaDbVectorProduct()}

    def bench(self, plan: ServersPlan) -> Bench:
        return run.VectorInserts(plan)

    def of_the_run(self, results: ServerResults[VectorStepRecord]) -> list[Shown]:
        return inserts.of_the_run(results)

    def sections(self, results: ServerResults[VectorStepRecord]) -> list[Section]:
        return tables.sections(results)
