"""The servers that a plan may name, and what asks them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from labservers import postgres, sysbench
from labservers.configuration import Configuration
from labservers.tree import Tree
from pagehop_lab import data
from pagehop_lab.analysis.oltp import Case
from pagehop_lab.measure import inserts, oltp
from pagehop_lab.plan.servers import ServerSpec, ServersPlan, VectorLoad
from pagehop_lab.run.servers import Bench, Instance, Product
from pagehop_lab.run.vector_servers import VectorProduct


class Postgres:
    """PostgreSQL by major version."""

    def version(self, server: ServerSpec) -> str:
        return postgres.install(server.version).version

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return configuration.settings(postgres.PRODUCT, self.version(server))

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        return postgres.Instance(postgres.install(server.version), self.settings(server, configuration))


PRODUCTS: dict[str, Product] = {
    "postgres": Postgres(),
    "pgvector": VectorProduct("pgvector"),
    "pagehop-postgres": VectorProduct("pagehop-postgres"),
}


@dataclass
class Sysbench:
    """Debian's sysbench with our script."""

    plan: ServersPlan

    @cached_property
    def _tree(self) -> Tree:
        return sysbench.install()

    def load(self, instance: Any) -> dict[str, Any]:
        load = self.plan.load
        load_s = oltp.load(self._tree, instance, load.rows, self.plan.seed, load.load_timeout_s)
        instance.settle()
        return {"load_s": load_s, "ceiling": oltp.measure(self._tree, instance, self._ask("ceiling", 1, 0.0))}

    def measure(self, instance: Any, case: Case, slowed: float) -> dict[str, Any]:
        return oltp.measure(self._tree, instance, self._ask(case.script, case.range, slowed))

    def _ask(self, script: str, length: int, slowed: float) -> oltp.Ask:
        load = self.plan.load
        return oltp.Ask(script, length, load.rows, load.clients, load.warmup_s, load.seconds, self.plan.seed, slowed)


@dataclass
class VectorInserts:
    """The vector Insert Benchmark; rows that come are those after the ones that are there, round and round."""

    plan: ServersPlan
    _states: dict[int, inserts.State] = field(default_factory=dict)

    @cached_property
    def _dataset(self) -> data.Dataset:
        load = self.plan.load
        assert isinstance(load, VectorLoad)
        # Twice as many as are there at any time: none is there twice.
        return data.prepare(load.dataset, None, 2 * load.rows, load.queries, None, self.plan.seed, lambda _: None)

    def load(self, instance: Any) -> dict[str, Any]:
        load = self.plan.load
        said = inserts.load(instance, self._dataset, load.rows, load.load_timeout_s)
        self._states[id(instance)] = inserts.State(0, load.rows)
        return said

    def measure(self, instance: Any, case: Case, slowed: float) -> dict[str, Any]:
        assert not slowed
        state, seconds = self._states[id(instance)], self.plan.load.seconds
        if case.script == "write":
            return inserts.write(instance, self._dataset, state, case.range, seconds)
        return inserts.query(instance, self._dataset, state, case.range, seconds)


def bench(plan: ServersPlan) -> Bench:
    """What measures a plan."""
    return Sysbench(plan) if plan.suite == "oltp" else VectorInserts(plan)
