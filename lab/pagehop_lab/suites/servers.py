"""Suites of servers by version: how their plans are read and run.

Each suite's folder fills in the rest.
"""

from __future__ import annotations

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, cast

from devserver.configuration import DURABILITIES, REDO_MIB, Configuration, Durability
from devserver.releases import releases
from pagehop_lab.analysis.aims import Figure
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.paired import ROUNDS_MIN
from pagehop_lab.analysis.server_records import LoadedRecord
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.model import without_passwords
from pagehop_lab.plan.server_aims import read_aim
from pagehop_lab.plan.servers import Options, ServerAim, ServerSpec, ServersPlan, everything, expanded
from pagehop_lab.plan.tables import PlanError, Table, choose, nearest
from pagehop_lab.run.servers import Bench, Product, ServersRunner
from pagehop_lab.store import RunFolder
from pagehop_lab.suites import of_servers
from pagehop_lab.suites.compared import DATA, OF_A_TEST, Compared
from pagehop_lab.suites.gather_servers import gather_servers
from pagehop_lab.suites.head import head_of_servers
from pagehop_lab.suites.server_results import R, ServerResults
from pagehop_lab.suites.suite import ONE_REPEAT, Report, Run
from pagehop_lab.suites.table import Section
from pagehop_lab.suites.table import Table as Shown

BY_URL = "by-url"
"""Stands for the version of a server that runs already."""
# A new server with its first log, and what a core writes into its log.
_EMPTY_BYTES = 100 << 20
_LOG_BYTES_PER_S = 50 << 20
_HANDICAP_MAX = 0.5


class ServersSuite(ABC, Generic[R]):
    """A suite whose plans name servers. R is the record of its tests."""

    name: ClassVar[str]
    how: ClassVar[str]
    """How the suite measures, for the page."""
    products: ClassVar[tuple[str, ...]]
    takes_url: ClassVar[bool] = True
    """Whether a server may run already."""
    handicaps: ClassVar[bool] = False
    """Whether a server may be slowed, or its events doubled."""
    limits: ClassVar[bool] = False
    """Whether the memory of loaded servers may be limited."""
    ratios: ClassVar[bool] = False
    """Whether the page has ratios of servers, which are inconclusive with one repeat."""
    statements: ClassVar[int | None] = None
    usual: ClassVar[ServersLoad]
    """The default load."""
    compared_loads: ClassVar[Sequence[Compared[LoadedRecord]]] = (DATA,)
    """Figures of the preparations before the tests, by which servers may be compared."""
    figures: ClassVar[Mapping[str, Figure]] = {}
    """Figures that aims may name; a suite without them has no aims."""

    # ---- the schema of plans ----

    @abstractmethod
    def cases(self, load: ServersLoad) -> Sequence[Case]:
        """The cases of each server, in their order."""

    def load(self, table: Table) -> ServersLoad:
        """The `[load]` of a plan."""
        found = type(self.usual)(**self.common_load(table))
        table.refuse_unknown()
        return found

    def versions(self, product: str) -> Sequence[str]:
        """Versions that are available."""
        return list(releases(product))

    def usual_versions(self, product: str) -> tuple[str, ...]:
        """Those where a plan names none."""
        del product
        return ()

    def options(self, table: Table, product: str) -> list[Options]:
        """Every combination of options to measure a server with."""
        del table, product
        return [()]

    def needed_bytes(self, plan: ServersPlan) -> int:
        """Disk space for the servers of one repeat together: tables, indexes, and logs."""
        written_s = sum(case.writes for case in plan.cases) * (plan.load.seconds + plan.load.warmup_s)
        return self.room(plan, 800, written_s)

    # ---- what runs them ----

    @abstractmethod
    def servers(self, plan: ServersPlan) -> Mapping[str, Product]:
        """The servers that a plan may name."""

    @abstractmethod
    def bench(self, plan: ServersPlan) -> Bench:
        """What measures a plan."""

    # ---- tables and charts ----

    @abstractmethod
    def sections(self, results: ServerResults[R]) -> list[Section]:
        """Tables and charts of what was measured."""

    def compared(self, case: str) -> Sequence[Compared[R]]:
        """Figures of a test by which servers may be compared."""
        del case
        return OF_A_TEST

    def of_the_run(self, results: ServerResults[R]) -> list[Shown]:
        """Missing measurements, and all measurements."""
        return [of_servers.missing(results), of_servers.servers(results)]

    # ---- the suite ----

    def read(self, text: str, name: str) -> ServersPlan:
        """The plan of a text."""
        table = Table("", tomllib.loads(text))
        name = table.take("name", str, name)
        choose("suite", table.take("suite", str, self.name), [self.name])
        seed = table.take("seed", int, 1, least=0)
        load = self.load(table.take_table("load"))
        cases = _named(table.take_list("cases", str, ()), self.cases(load))
        configuration = _configuration(table.take_table("configuration"))
        servers = [server for one in table.take_tables("server") for server in self._servers(one)]
        base = table.take_some("base", str)
        aims, once = self._aims(table, servers, cases)
        table.refuse_unknown()
        if load.rounds == 1 and any(server.doubled for server in servers):
            raise PlanError(
                "server.doubled: events are doubled where servers are asked in turns: set load.rounds, such as 8"
            )
        if self.limits and load.memory_mib:
            _check_memory(load.memory_mib, configuration, servers)
        names = [server.name for server in servers]
        if not servers:
            raise PlanError("there is no [[server]]")
        for server in names:
            if names.count(server) > 1:
                raise PlanError(f"server: {server} is there twice: give one of them a label")
        base = choose("base", base, names) if base is not None else names[0]
        return ServersPlan(
            name, self.name, tuple(servers), cases, load, configuration, base, seed, without_passwords(text),
            self.statements, aims, once,
        )  # fmt: skip

    def amount(self, plan: ServersPlan) -> str:
        """How much a plan is."""
        points = len(list(everything(plan)))
        least = points * (plan.load.seconds + plan.load.warmup_s) / 60
        return f"{points:,} points, at least {least:,.0f} minutes; {self.needed_bytes(plan) / 1e9:.1f} GB at once"

    def warnings(self, plan: ServersPlan) -> Sequence[str]:
        """Whether all ratios will be uncertain."""
        once = plan.load.repeats < 2 and plan.load.rounds < ROUNDS_MIN
        return [ONE_REPEAT] if self.ratios and once and len(plan.servers) > 1 else []

    def absent(self, plan: ServersPlan) -> Sequence[str]:
        """Versions that no registry has; those of servers that run already are not known."""
        found = []
        for product, version in dict.fromkeys((one.product, one.version) for one in plan.servers if one.url is None):
            known = [*self.versions(product), *self.usual_versions(product)]
            if version not in known:
                meant = nearest(version, known)
                told = f"did you mean {meant}?" if meant else f"there are {', '.join(known)}"
                found.append(f"server.version: there is no {product} {version} available here; {told}")
        return found

    def run(self, run: Run[ServersPlan]) -> None:
        """Measures everything that is not in the folder yet."""
        if run.engines:
            raise PlanError(f"--engine: a plan of {self.name} has servers and no engines")
        plan = run.plan
        ServersRunner(
            plan, run.folder, run.progress, run.machine, self.servers(plan), self.bench(plan), self.needed_bytes(plan),
            run.retry, self.limits,
        ).run()  # fmt: skip

    def report(self, folder: RunFolder) -> Report:
        """What a run says."""
        plan = self.read(folder.plan, folder.path.name)
        results: ServerResults[R] = gather_servers(folder, plan, folder.machine["kind"])
        sections = self.sections(results)
        head = head_of_servers(results, self.how, sections)
        return Report(head, results.about, sections, self.of_the_run(results), results)

    def versions_plan(self, product: str, versions: str, repeats: int, newest: int = 1) -> str:
        """The text of a plan for versions such as `12..18`, of each its newest point releases."""
        choose("server", product, self.products)
        listed = ", ".join(f'"{version}"' for version in expanded(product, versions, newest))
        name = f"{product}-{versions.replace('..', '-to-').replace(',', '-')}-{self.name}"
        name += f"-newest-{newest}" if newest > 1 else ""
        rounds = "\nrounds = 8" if self.handicaps else ""
        return f"""name = "{name}"
suite = "{self.name}"

[load]
repeats = {repeats}{rounds}

[[server]]
product = "{product}"
version = [{listed}]
"""

    # ---- for the suites ----

    def common_load(self, table: Table) -> dict[str, Any]:
        """What the loads of all suites with tables of rows have."""
        known = self.usual
        common: dict[str, Any] = {
            "rows": table.take("rows", int, known.rows, least=1000),
            "clients": table.take("clients", int, known.clients, least=1),
            "seconds": table.take("seconds", float, known.seconds, least=0.2),
            "warmup_s": table.take("warmup_s", float, known.warmup_s, least=0),
            "repeats": table.take("repeats", int, known.repeats, least=1),
            "rounds": table.take("rounds", int, known.rounds, least=1) if self.handicaps else 1,
            "load_timeout_s": table.take("load_timeout_s", float, known.load_timeout_s, least=1),
        }
        if self.limits:
            common["memory_mib"] = table.take("memory_mib", int, known.memory_mib, least=0)
        if not self.handicaps and (common["clients"] != 1 or common["warmup_s"] != known.warmup_s):
            raise PlanError(f"{table.place}: {self.name} has one client of each kind and does not warm up")
        return common

    def room(self, plan: ServersPlan, row_bytes: int, written_s: float) -> int:
        """Disk space for rows with indexes, and for the log of some seconds of writes."""
        ours = [server for server in plan.servers if server.url is None]
        each = _EMPTY_BYTES + plan.load.rows * row_bytes + int(written_s * _LOG_BYTES_PER_S)
        innodb = sum(server.product in ("mariadb", "mysql") for server in ours)
        return each * len(ours) + (REDO_MIB << 20) * innodb

    def _servers(self, table: Table) -> list[ServerSpec]:
        product = choose(table.at("product"), table.need("product", str), self.products)
        url = table.take_some("url", str) if self.takes_url else None
        usual = (BY_URL,) if url is not None else self.usual_versions(product)
        versions = table.take_list("version", str, usual)
        slowed, doubled = (
            table.take(name, float, 0.0, least=0) if self.handicaps else 0.0 for name in ("slowed", "doubled")
        )
        options = self.options(table, product)
        label = table.take("label", str, "")
        cases = table.take_list("cases", str, ()) if self.figures else ()
        table.refuse_unknown()
        if not versions:
            if not (known := self.versions(product)):
                raise PlanError(f"{table.at('url')} is missing: no registry has a {product}")
            raise PlanError(f"{table.at('version')} is missing: there are {', '.join(known)}")
        if url is not None and (versions != (BY_URL,) or slowed):
            raise PlanError(
                f"{table.at('url')}: a server that runs already has its own version, and the lab does not slow it"
            )
        for name, share in (("slowed", slowed), ("doubled", doubled)):
            if share > _HANDICAP_MAX:
                raise PlanError(f"{table.at(name)} = {share:g}: the most is {_HANDICAP_MAX}")
        return [
            ServerSpec(product, version, slowed, doubled, label, one, url, cases)
            for version in versions
            for one in options
        ]

    def _aims(
        self, table: Table, servers: Sequence[ServerSpec], cases: Sequence[Case]
    ) -> tuple[tuple[ServerAim, ...], tuple[str, ...]]:
        """The aims, and the cases that are measured once."""
        if not self.figures:
            return (), ()
        known = [case.name for case in cases]
        once = table.take_list("once", str, ())
        for name in once:
            choose("once", name, known)
        for name in [name for server in servers for name in server.cases]:
            choose("server.cases", name, known)
        names = [server.name for server in servers]
        aims = [read_aim(one, self.figures, names, known) for one in table.take_tables("aim")]
        return tuple(aims), once


def _named(names: Sequence[str], known: Sequence[Case]) -> tuple[Case, ...]:
    """The named cases in the order in which they are run; all of them if none is named."""
    for name in names:
        if name not in [case.name for case in known]:
            meant = nearest(name, [case.name for case in known])
            raise PlanError(f"cases: there is no {name!r}" + (f"; did you mean {meant}?" if meant else ""))
    return tuple(case for case in known if not names or case.name in names)


def _check_memory(mib: int, configuration: Configuration, servers: Sequence[ServerSpec]) -> None:
    if configuration.cache_mib >= mib:
        raise PlanError(
            f"load.memory_mib = {mib}: a server with configuration.cache_mib = {configuration.cache_mib} needs more"
        )
    for server in servers:
        if server.url is not None:
            raise PlanError(f"load.memory_mib: {server.name} runs already, and its memory is not the lab's to limit")


def _configuration(table: Table) -> Configuration:
    known = Configuration()
    durability = choose(table.at("durability"), table.take("durability", str, known.durability), DURABILITIES)
    found = Configuration(
        cache_mib=table.take("cache_mib", int, known.cache_mib, least=8),
        durability=cast(Durability, durability),
        page_bytes=table.take_some("page_bytes", int, least=512),
        direct_io=table.take("direct_io", bool, known.direct_io),
    )
    table.refuse_unknown()
    return found
