"""Plans whose subject is a server of some version with a configuration, and not an engine with an index."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from devserver.configuration import DURABILITIES, REDO_MIB, Configuration, Durability
from devserver.releases import releases
from pagehop_lab.analysis.attributes import CASES as ATTRIBUTE_CASES
from pagehop_lab.analysis.attributes import MODELS
from pagehop_lab.analysis.inserts import STEPS, VECTOR_STEPS
from pagehop_lab.analysis.oltp import CASES, STATEMENTS, Case
from pagehop_lab.plan import storage
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.model import OptionValue, without_passwords
from pagehop_lab.plan.tables import PlanError, Table, choose, nearest

SUITES = ("oltp", "inserts", "vector-inserts", "attributes", *storage.LOADS)
BY_URL = "by-url"
"""What a server that runs already is called instead of a version."""
# The versions that have an index over vectors.
_VECTOR_VERSIONS = {"pgvector": "18", "pagehop-postgres": "18", "mariadb": "11.8"}
PRODUCTS = {
    "oltp": ("postgres", "mariadb", "mysql"),
    "inserts": ("postgres", "mariadb", "mysql"),
    "vector-inserts": tuple(_VECTOR_VERSIONS),
    "attributes": tuple(MODELS),
    **storage.PRODUCTS,
}


@dataclass(frozen=True)
class ServerSpec:
    """A server to measure."""

    product: str
    version: str
    """What the lab calls it, such as 16."""
    slowed: float = 0.0
    """Share of the time in which it is kept from running: a regression that is known."""
    doubled: float = 0.0
    """Share of the events that are executed twice and counted once: one that costs CPU."""
    label: str = ""
    """What else it is called, where one version is measured more than once."""
    options: tuple[tuple[str, OptionValue], ...] = ()
    """Of an index and its searches."""
    url: str | None = None
    """Of a server that runs already, with settings of its own."""

    @property
    def name(self) -> str:
        """A few words, for people and files."""
        options = " ".join(f"{name}={value}" for name, value in self.options)
        slowed = f"slowed {self.slowed:g}" if self.slowed else ""
        doubled = f"doubled {self.doubled:g}" if self.doubled else ""
        words = [self.product, self.version, options, self.label, slowed, doubled]
        return " ".join(filter(None, words))


@dataclass(frozen=True)
class InsertsLoad(ServersLoad):
    """How long each step of the Insert Benchmark is, and how large its table."""

    rows: int = 200_000
    seconds: float = 20.0
    repeats: int = 1


@dataclass(frozen=True)
class VectorLoad(InsertsLoad):
    """The same for vectors."""

    rows: int = 20_000
    dataset: str = "generated-384"
    queries: int = 1000


@dataclass(frozen=True)
class AttributesLoad(ServersLoad):
    """The same for documents, which are made anew for each number of attributes."""

    rows: int = 2_000
    repeats: int = 2


_LOADS: Mapping[str, ServersLoad] = {
    "oltp": ServersLoad(),
    "inserts": InsertsLoad(),
    "vector-inserts": VectorLoad(),
    "attributes": AttributesLoad(),
}
_CASES: Mapping[str, tuple[Case, ...]] = {
    "oltp": CASES,
    "inserts": STEPS,
    "vector-inserts": VECTOR_STEPS,
    "attributes": ATTRIBUTE_CASES,
}


@dataclass(frozen=True)
class ServersPlan:
    """A whole plan."""

    name: str
    suite: str
    servers: tuple[ServerSpec, ...]
    cases: tuple[Case, ...] = CASES
    load: ServersLoad = field(default_factory=ServersLoad)
    configuration: Configuration = field(default_factory=Configuration)
    base: str = ""
    """The server that others are compared with."""
    seed: int = 1
    text: str = ""


@dataclass(frozen=True)
class CaseSpec:
    """A measurement to make."""

    server: ServerSpec
    case: Case
    repeat: int

    @property
    def name(self) -> str:
        """A few words, for people and files."""
        return f"{self.server.name.replace(' ', '-')}.{self.case.name}.r{self.repeat + 1}"

    def identity(self, plan: ServersPlan, machine: str, version: str | None) -> dict[str, Any]:
        """All that decides its figures."""
        given: dict[str, Any] = {} if self.server.url is None else {"url": without_passwords(self.server.url)}
        if plan.suite == "oltp":
            given |= {"statements": STATEMENTS}
        return given | {
            "suite": plan.suite,
            "server": self.server.name,
            "version": version,
            "configuration": asdict(plan.configuration),
            "case": self.case.name,
            # Plans had no rounds once: what was measured without them is what it was.
            "load": {
                name: value
                for name, value in asdict(plan.load).items()
                if name != "repeats" and (name, value) != ("rounds", 1)
            },
            "machine": machine,
            "seed": plan.seed,
            "repeat": self.repeat,
        }


def everything(plan: ServersPlan) -> Iterator[CaseSpec]:
    """Every measurement of a plan."""
    for repeat in range(plan.load.repeats):
        for server in plan.servers:
            for case in plan.cases:
                yield CaseSpec(server, case, repeat)


def is_servers_plan(text: str) -> bool:
    """Whether a plan is one of these; what is no TOML is not."""
    try:
        return tomllib.loads(text).get("suite") in SUITES
    except tomllib.TOMLDecodeError:
        return False


def read_servers(text: str, name: str) -> ServersPlan:
    """The plan of a text."""
    table = Table("", tomllib.loads(text))
    name = table.take("name", str, name)
    suite = choose("suite", table.take("suite", str, SUITES[0]), SUITES)
    seed = table.take("seed", int, 1, least=0)
    load = _load(table.take_table("load"), suite)
    cases = _cases(table.take_list("cases", str, ()), _CASES[suite] if suite in _CASES else storage.cases(load))
    configuration = _configuration(table.take_table("configuration"))
    servers = [server for one in table.take_tables("server") for server in _servers(one, suite)]
    base = table.take_some("base", str)
    table.refuse_unknown()
    if load.rounds == 1 and any(server.doubled for server in servers):
        raise PlanError(
            "server.doubled: events are doubled where servers are asked in turns: set load.rounds, such as 8"
        )
    names = [server.name for server in servers]
    if not servers:
        raise PlanError("there is no [[server]]")
    for server in names:
        if names.count(server) > 1:
            raise PlanError(f"server: {server} is there twice: give one of them a label")
    return ServersPlan(
        name, suite, tuple(servers), cases, load, configuration,
        choose("base", base, names) if base is not None else names[0], seed, without_passwords(text),
    )  # fmt: skip


def versions_plan(product: str, versions: str, repeats: int, suite: str) -> str:
    """The text of a plan for versions such as `12..18`."""
    choose("server", product, PRODUCTS[suite])
    wanted = expanded(product, versions)
    listed = ", ".join(f'"{version}"' for version in wanted)
    name = f"{product}-{versions.replace('..', '-to-').replace(',', '-')}-{suite}"
    rounds = "\nrounds = 8" if suite == "oltp" else ""
    return f"""name = "{name}"
suite = "{suite}"

[load]
repeats = {repeats}{rounds}

[[server]]
product = "{product}"
version = [{listed}]
"""


def expanded(product: str, versions: str) -> list[str]:
    """Versions from `12..18` or `12,14..16`; both ends of a range must be among those that can be had."""
    known = list(releases(product))
    found: list[str] = []
    for part in versions.split(","):
        first, is_range, last = part.strip().partition("..")
        if not is_range:
            found.append(first)
            continue
        for end in (first, last):
            if end not in known:
                raise PlanError(f"{part}: there is no {product} {end} to be had here: there are {', '.join(known)}")
        start, end_at = known.index(first), known.index(last)
        if start > end_at:
            raise PlanError(f"{part}: {last} is older than {first}")
        found += known[start : end_at + 1]
    return list(dict.fromkeys(found))


def _cases(names: Sequence[str], known: Sequence[Case]) -> tuple[Case, ...]:
    """The named cases in the order in which they are run; all of them if none is named."""
    for name in names:
        if name not in [case.name for case in known]:
            meant = nearest(name, [case.name for case in known])
            raise PlanError(f"cases: there is no {name!r}" + (f"; did you mean {meant}?" if meant else ""))
    return tuple(case for case in known if not names or case.name in names)


def _load(table: Table, suite: str) -> ServersLoad:
    if suite in storage.LOADS:
        return storage.read_load(table, suite)
    known = _LOADS[suite]
    common: dict[str, Any] = {
        "rows": table.take("rows", int, known.rows, least=1000),
        "clients": table.take("clients", int, known.clients, least=1),
        "seconds": table.take("seconds", float, known.seconds, least=0.2),
        "warmup_s": table.take("warmup_s", float, known.warmup_s, least=0),
        "repeats": table.take("repeats", int, known.repeats, least=1),
        "rounds": table.take("rounds", int, known.rounds, least=1) if suite == "oltp" else 1,
        "load_timeout_s": table.take("load_timeout_s", float, known.load_timeout_s, least=1),
    }
    if suite != "oltp" and (common["clients"] != 1 or common["warmup_s"] != known.warmup_s):
        raise PlanError(f"{table.place}: {suite} has one client of each kind and does not warm up")
    if not isinstance(known, VectorLoad):
        table.refuse_unknown()
        return type(known)(**common)
    dataset = table.take("dataset", str, known.dataset)
    if not re.fullmatch(r"generated-[1-9]\d*", dataset):
        raise PlanError(
            f"{table.at('dataset')} = {dataset!r}: it should be generated-DIM, of which there is any number"
        )
    load = VectorLoad(**common, dataset=dataset, queries=table.take("queries", int, known.queries, least=1))
    table.refuse_unknown()
    return load


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


def _servers(table: Table, suite: str) -> list[ServerSpec]:
    product = choose(table.at("product"), table.need("product", str), PRODUCTS[suite])
    known = [_VECTOR_VERSIONS[product]] if suite == "vector-inserts" else list(releases(product))
    url = table.take_some("url", str) if suite not in storage.LOADS else None
    usual = (BY_URL,) if url is not None else (_VECTOR_VERSIONS[product],) if suite == "vector-inserts" else ()
    if product in storage.EMBEDDED:
        usual = ("",)
    versions = table.take_list("version", str, usual)
    slowed = table.take("slowed", float, 0.0, least=0) if suite == "oltp" else 0.0
    doubled = table.take("doubled", float, 0.0, least=0) if suite == "oltp" else 0.0
    options = _options(table, suite, product)
    label = table.take("label", str, "")
    table.refuse_unknown()
    if not versions:
        if not known:
            raise PlanError(f"{table.at('url')} is missing: no registry has a {product}")
        raise PlanError(f"{table.at('version')} is missing: there are {', '.join(known)}")
    if url is not None and (versions != (BY_URL,) or slowed):
        raise PlanError(f"{table.at('url')}: a server that runs already has its own version, and nobody slows it")
    for name, share in (("slowed", slowed), ("doubled", doubled)):
        if share > 0.5:
            raise PlanError(f"{table.at(name)} = {share:g}: the most is 0.5")
    return [ServerSpec(product, version, slowed, doubled, label, one, url) for version in versions for one in options]


def _options(table: Table, suite: str, product: str) -> list[tuple[tuple[str, OptionValue], ...]]:
    """Every combination of options to measure a server with."""
    if suite in storage.LOADS:
        return storage.combinations(table.take_table("options"), suite, product)
    if suite == "attributes":
        return [(("model", choose(table.at("model"), table.take("model", str, MODELS[product][0]), MODELS[product])),)]
    return [tuple(table.take_table("options").rest().items()) if suite == "vector-inserts" else ()]


def needed_bytes(plan: ServersPlan) -> int:
    """Room on disk that the servers of one repeat take together: tables, indexes, and logs of what is written."""
    if plan.suite in storage.LOADS:
        return storage.needed_bytes_each(plan.load) * len(plan.servers)
    written_s = sum(case.writes for case in plan.cases) * (plan.load.seconds + plan.load.warmup_s)
    row_bytes = _ROW_BYTES
    if isinstance(plan.load, VectorLoad):
        row_bytes += 4 * _COPIES * int(plan.load.dataset.rpartition("-")[2])
        written_s = len(plan.cases) * plan.load.seconds
    if isinstance(plan.load, AttributesLoad):
        # One table at a time, and its log.
        row_bytes, written_s = 2 * _ATTRIBUTE_BYTES * max(case.range for case in plan.cases), 0
    each = _EMPTY_BYTES + plan.load.rows * row_bytes + int(written_s * _LOG_BYTES_PER_S)
    ours = [server for server in plan.servers if server.url is None]
    return each * len(ours) + (REDO_MIB << 20) * sum(map(_is_innodb, ours))


def _is_innodb(server: ServerSpec) -> bool:
    return server.product in ("mariadb", "mysql")


# A new server with its first log; a row with its index entries, twice, for updates; what a core writes into its log.
_EMPTY_BYTES = 100 << 20
_ROW_BYTES = 800
_LOG_BYTES_PER_S = 50 << 20
_ATTRIBUTE_BYTES = 32
# A vector is in its table, in its index, and in both once more before what was deleted is cleaned up.
_COPIES = 6


def told(plan: ServersPlan) -> Mapping[str, Any]:
    """The load and the configuration, for reports."""
    return {**asdict(plan.load), **asdict(plan.configuration)}
