"""The servers that a plan may name, and what asks them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from devserver import DevServerError, ferretdb, innodb, mariadb, mongo, mysql, postgres, releases, running, sysbench
from devserver.configuration import Configuration
from devserver.tree import Tree
from pagehop_lab import data
from pagehop_lab.analysis.oltp import Case
from pagehop_lab.measure import attributes, oltp, oltp_turns, sales, vector_inserts
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.steps import State
from pagehop_lab.plan import storage
from pagehop_lab.plan.servers import ServerSpec, ServersPlan, VectorLoad
from pagehop_lab.run.logs import LoggedProduct, LogWrites
from pagehop_lab.run.servers import Bench, Instance, Product, Wrapped
from pagehop_lab.run.stores import PointReads, StoredProduct
from pagehop_lab.run.vector_servers import CLEANING, MariaDbVectorProduct, PostgresVectorProduct


class Postgres:
    """PostgreSQL by major version, with settings beside those of the configuration."""

    def __init__(self, **more: str) -> None:
        self._more = more

    def version(self, server: ServerSpec) -> str:
        return postgres.install(server.version).version

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return configuration.settings(postgres.PRODUCT, self.version(server)) | self._more

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        return postgres.Instance(postgres.install(server.version), self.settings(server, configuration))


@dataclass(frozen=True)
class InnoDb:
    """MariaDB or MySQL by version."""

    product: str
    install: Callable[[str], innodb.Program]

    def version(self, server: ServerSpec) -> str:
        return self.install(server.version).version

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return configuration.settings(self.product, self.version(server))

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        return innodb.Instance(self.install(server.version), self.settings(server, configuration))


@dataclass(frozen=True)
class OrRunning:
    """A product of which a server may run already."""

    ours: Product
    table: str
    """What is made in a database of it, and dropped."""
    of_url: Callable[[str, str], Any] = running.of_url

    def version(self, server: ServerSpec) -> str:
        if server.url is None:
            return self.ours.version(server)
        return str(self.of_url(server.url, self.table).version())

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return self.ours.settings(server, configuration) if server.url is None else {"settings": "its own"}

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        if server.url is None:
            return self.ours.new(server, configuration)
        given: Instance = self.of_url(server.url, self.table)
        return given


@dataclass(frozen=True)
class DocumentServer(Wrapped):
    """A server, and how it keeps documents."""

    model: str


@dataclass(frozen=True)
class WithModel:
    """Servers that keep documents."""

    ours: Product

    def version(self, server: ServerSpec) -> str:
        return self.ours.version(server)

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return self.ours.settings(server, configuration)

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        return DocumentServer(self.ours.new(server, configuration), str(dict(server.options)["model"]))


class FerretDb:
    """FerretDB by version, over SQLite."""

    def version(self, server: ServerSpec) -> str:
        return ferretdb.install(server.version).version

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return configuration.settings(ferretdb.PRODUCT, self.version(server))

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        return ferretdb.Instance(ferretdb.install(server.version), self.settings(server, configuration))


class NoRelease:
    """A product that no registry has."""

    def version(self, server: ServerSpec) -> str:
        return releases.release(server.product, server.version).name

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        raise NotImplementedError("there is no version of it")

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        raise NotImplementedError("there is no version of it")


def _sql(table: str, **more: str) -> dict[str, Product]:
    """Servers of SQL, with settings of PostgreSQL beside those of the configuration."""
    return {
        "postgres": OrRunning(Postgres(**more), table),
        "mariadb": OrRunning(InnoDb(mariadb.PRODUCT, mariadb.of_version), table),
        "mysql": OrRunning(InnoDb(mysql.PRODUCT, mysql.install), table),
    }


def of_plan(plan: ServersPlan) -> Mapping[str, Product]:
    """The servers that a plan may name."""
    if plan.suite == "attributes":
        found = _sql(attributes.TABLE)
        for name, product in (("ferretdb", FerretDb()), ("mongod", NoRelease())):
            found[name] = OrRunning(product, attributes.TABLE, mongo.Running)
        return {name: WithModel(product) for name, product in found.items()}
    if plan.suite == "point-reads":
        return {name: StoredProduct(plan, name) for name in storage.PRODUCTS[plan.suite]}
    if plan.suite == "log-writes":
        return {name: LoggedProduct(plan, name) for name in storage.PRODUCTS[plan.suite]}
    if plan.suite == "vector-inserts":
        methods = {name: PostgresVectorProduct(name) for name in ("pgvector", "pagehop-postgres")}
        return {**methods, "mariadb": MariaDbVectorProduct()}
    # What rows leave behind as they come and go is to be cleaned up meanwhile, as in real life.
    return _sql(oltp.TABLE) if plan.suite == "oltp" else _sql(sales.TABLE, **CLEANING)


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

    def in_turns(self, asked: Mapping[ServerSpec, Any], case: Case) -> dict[ServerSpec, dict[str, Any] | MeasureError]:
        """All servers in rounds of short turns."""
        told = [
            (instance, replace(self._ask(case.script, case.range, server.slowed), doubled=server.doubled))
            for server, instance in asked.items()
        ]
        return dict(zip(asked, oltp_turns.in_turns(self._tree, told, self.plan.load.rounds), strict=True))

    def _ask(self, script: str, length: int, slowed: float) -> oltp.Ask:
        load = self.plan.load
        return oltp.Ask(script, length, load.rows, load.clients, load.warmup_s, load.seconds, self.plan.seed, slowed)


@dataclass
class Inserts:
    """The Insert Benchmark on its own table."""

    plan: ServersPlan
    _states: dict[int, State] = field(default_factory=dict)

    def load(self, instance: Any) -> dict[str, Any]:
        load = self.plan.load
        said = sales.load(instance, load.rows, self.plan.seed, load.load_timeout_s)
        self._states[id(instance)] = State(0, said["rows"])
        return said

    def measure(self, instance: Any, case: Case, slowed: float) -> dict[str, Any]:
        assert not slowed
        state, seconds, seed = self._states[id(instance)], self.plan.load.seconds, self.plan.seed
        with _looked_at_again(state, lambda: sales.window(instance)):
            if case.script == "write":
                return sales.write(instance, seed, state, case.range, seconds)
            return sales.query(instance, seed, state, case.script, case.range, seconds)


@contextlib.contextmanager
def _looked_at_again(state: State, window: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """What a step that failed left of the table, for the next ones."""
    try:
        yield
    except MeasureError:
        # A server that died is told by what it was asked before.
        with contextlib.suppress(DevServerError):
            state.low, state.high = window()
        raise


@dataclass
class VectorInserts:
    """The same on a table of vectors; rows that come are those after the ones that are there."""

    plan: ServersPlan
    _states: dict[int, State] = field(default_factory=dict)

    @cached_property
    def _dataset(self) -> data.Dataset:
        load = self.plan.load
        assert isinstance(load, VectorLoad)
        rows = vector_inserts.VECTORS_PER_ROW * load.rows
        return data.prepare(load.dataset, None, rows, load.queries, None, self.plan.seed, lambda _: None)

    def load(self, instance: Any) -> dict[str, Any]:
        load = self.plan.load
        said = vector_inserts.load(instance, self._dataset, load.rows, load.load_timeout_s)
        self._states[id(instance)] = State(0, said["rows"])
        return said

    def measure(self, instance: Any, case: Case, slowed: float) -> dict[str, Any]:
        assert not slowed
        state, seconds = self._states[id(instance)], self.plan.load.seconds
        with _looked_at_again(state, instance.window):
            if case.script == "write":
                return vector_inserts.write(instance, self._dataset, state, case.range, seconds)
            return vector_inserts.query(instance, self._dataset, state, case.range, seconds)


@dataclass
class Attributes:
    """One attribute of one document; the server knows how it keeps documents."""

    plan: ServersPlan

    def load(self, instance: Any) -> dict[str, Any]:
        assert isinstance(instance, DocumentServer)
        return {"load_s": 0.0}

    def measure(self, instance: Any, case: Case, slowed: float) -> dict[str, Any]:
        assert not slowed
        load, seed = self.plan.load, self.plan.seed
        return attributes.measure(instance.ours, instance.model, case.range, case.script, load.rows, load.seconds, seed)


_BENCHES: Mapping[str, Callable[[ServersPlan], Bench]] = {
    "oltp": Sysbench,
    "inserts": Inserts,
    "vector-inserts": VectorInserts,
    "attributes": Attributes,
    "point-reads": PointReads,
    "log-writes": LogWrites,
}


def bench(plan: ServersPlan) -> Bench:
    """What measures a plan."""
    return _BENCHES[plan.suite](plan)
