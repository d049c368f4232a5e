"""Plans that measure servers of some version and configuration, not engines with an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from devserver.configuration import Configuration
from devserver.releases import ServerMissingError, between, newest
from pagehop_lab.analysis.case import Case
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.model import OptionValue, without_passwords
from pagehop_lab.plan.tables import PlanError

Options = tuple[tuple[str, OptionValue], ...]


@dataclass(frozen=True)
class ServerSpec:
    """A server to measure."""

    product: str
    version: str
    """The lab's name of the version, such as 16."""
    slowed: float = 0.0
    """Share of the time in which it is stopped: a regression of known size."""
    doubled: float = 0.0
    """Share of the events that are executed twice and counted once: a regression that costs CPU."""
    label: str = ""
    """A label, if one version is measured more than once."""
    options: tuple[tuple[str, OptionValue], ...] = ()
    """Of an index and its searches."""
    url: str | None = None
    """The URL of a running server, which has its own settings."""
    cases: tuple[str, ...] = ()
    """The plan's cases that are measured on this server; all if empty."""

    @property
    def name(self) -> str:
        """A few words, for people and files."""
        options = " ".join(f"{name}={value}" for name, value in self.options)
        slowed = f"slowed {self.slowed:g}" if self.slowed else ""
        doubled = f"doubled {self.doubled:g}" if self.doubled else ""
        words = [self.product, self.version, options, self.label, slowed, doubled]
        return " ".join(filter(None, words))


@dataclass(frozen=True)
class ServerAim:
    """An aim: a limit for one figure."""

    what: str
    figure: str
    case: str
    server: str
    over: str | None = None
    """The server of the divisor. None for a plain figure, unless `over_case` is set."""
    over_case: str | None = None
    """The case of the divisor, if it is another one."""
    floor: float | None = None
    aim: float | None = None

    @property
    def is_ratio(self) -> bool:
        return self.over is not None or self.over_case is not None


@dataclass(frozen=True)
class ServersPlan:
    name: str
    suite: str
    servers: tuple[ServerSpec, ...]
    cases: tuple[Case, ...]
    load: ServersLoad = field(default_factory=ServersLoad)
    configuration: Configuration = field(default_factory=Configuration)
    base: str = ""
    """The server that others are compared with."""
    seed: int = 1
    text: str = ""
    statements: int | None = None
    """The version of a suite's statements, if others had the same names before."""
    aims: tuple[ServerAim, ...] = ()
    once: tuple[str, ...] = ()
    """Cases that are measured in the first repeat only."""

    def cases_of(self, server: ServerSpec, repeat: int) -> tuple[Case, ...]:
        """The cases of a server in a repeat, in their order."""
        theirs = [case for case in self.cases if not server.cases or case.name in server.cases]
        return tuple(case for case in theirs if repeat == 0 or case.name not in self.once)


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
        if plan.statements is not None:
            given |= {"statements": plan.statements}
        return given | {
            "suite": plan.suite,
            "server": self.server.name,
            "version": version,
            "configuration": asdict(plan.configuration),
            "case": self.case.name,
            "load": plan.load.identity(),
            "machine": machine,
            "seed": plan.seed,
            "repeat": self.repeat,
        }


def everything(plan: ServersPlan) -> Iterator[CaseSpec]:
    """Every measurement of a plan."""
    for repeat in range(plan.load.repeats):
        for server in plan.servers:
            for case in plan.cases_of(server, repeat):
                yield CaseSpec(server, case, repeat)


def expanded(product: str, versions: str, count: int = 1) -> list[str]:
    """Versions from `12..18` or `12,14.10..14.21`. Both ends of a range must be available.

    Of each major version come its newest `count` point releases.
    """
    found: list[str] = []
    for part in versions.split(","):
        first, is_range, last = part.strip().partition("..")
        try:
            found += between(product, first, last) if is_range else [first]
        except (ServerMissingError, ValueError) as error:
            raise PlanError(f"{part}: {error}") from None
    return list(dict.fromkeys(name for one in found for name in newest(product, one, count)))


def told(plan: ServersPlan) -> Mapping[str, Any]:
    """The load and the configuration, for reports."""
    return {**asdict(plan.load), **asdict(plan.configuration)}
