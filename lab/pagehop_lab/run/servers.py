"""Runs a plan of servers: all at once, one test after the other, each test on every server in turn.

Each repeat has new servers with new data. What is in the folder already is not measured again.
Writes that later tests need are repeated, but their figures stay as they were. A server that cannot
be fetched, does not start or dies loses its own figures and no others.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from devserver import DevServerError
from devserver.configuration import Configuration
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.analysis.server_records import CaseRecord, LoadedRecord, ServerRecord
from pagehop_lab.analysis.turns import MEASURED_WITH, token
from pagehop_lab.measure.disturbance import Disturbance
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.plan.servers import CaseSpec, ServerSpec, ServersPlan, everything
from pagehop_lab.run.memory import Memory
from pagehop_lab.run.progress import Progress
from pagehop_lab.run.workplace import workplace
from pagehop_lab.store import RunFolder

_GRACE_S = 1.0


class RunError(Exception):
    """The run cannot begin; the text says what it needs."""


class Instance(Protocol):
    """A server with its data."""

    @property
    def pid(self) -> int | None: ...

    @property
    def running(self) -> bool: ...

    def limit(self, seconds: float) -> None:
        """Sets the longest time of a statement outside of tests."""

    def start(self) -> None: ...

    def settle(self) -> None:
        """Cleans up after writes. `unsettled`, if the server has it, says what is left undone."""

    def data_bytes(self) -> int: ...

    def remove(self) -> None: ...


@dataclass(frozen=True)
class Wrapped:
    """A server with further state."""

    ours: Any

    @property
    def pid(self) -> int | None:
        return None if self.ours.pid is None else int(self.ours.pid)

    @property
    def running(self) -> bool:
        return bool(self.ours.running)

    def start(self) -> None:
        self.ours.start()

    def limit(self, seconds: float) -> None:
        self.ours.limit(seconds)

    @property
    def unsettled(self) -> str | None:
        return getattr(self.ours, "unsettled", None)

    def settle(self) -> None:
        self.ours.settle()

    def data_bytes(self) -> int:
        return int(self.ours.data_bytes())

    def remove(self) -> None:
        self.ours.remove()


class Product(Protocol):
    """Servers of one kind."""

    def version(self, server: ServerSpec) -> str:
        """The exact version, once it is here. DevServerError if it is not available."""

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        """The configuration by that version's names. DevServerError if it has none."""

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        """A server with new data that is not running yet."""


class Bench(Protocol):
    """What loads tables and asks queries, as a plan says."""

    def load(self, instance: Any) -> LoadedRecord:
        """Makes the tables. Returns the costs, with `load_s` among them."""

    def measure(self, instance: Any, case: Case, slowed: float) -> CaseRecord:
        """One measurement. `arrays` are kept in a file beside it. MeasureError if it fails."""


@runtime_checkable
class TurnsBench(Bench, Protocol):
    """A bench that can measure several servers in turns; required if a plan has more than one
    round.
    """

    def in_turns(self, asked: Mapping[ServerSpec, Any], case: Case) -> Mapping[ServerSpec, CaseRecord | MeasureError]:
        """One measurement of each server, in rounds of short turns; or the reason why it failed."""


@dataclass
class ServersRunner:
    """A run in a folder."""

    plan: ServersPlan
    folder: RunFolder
    progress: Progress
    machine: str
    products: Mapping[str, Product]
    bench: Bench
    needed_bytes: int = 0
    """Disk space for all servers of one repeat."""
    retry: bool = False
    """Whether failed or invalid measurements are repeated."""
    limits: bool = False
    """Whether the load's memory limits loaded servers; some benches set limits themselves."""
    _versions: dict[str, str] = field(default_factory=dict)
    _token: str = ""
    """That of the servers that are held now."""
    _memory: Memory = field(default_factory=lambda: Memory(0))

    def run(self) -> None:
        """Measures everything that is not in the folder yet."""
        for server in self.plan.servers:
            self._probe(server)
        here = [spec for spec in everything(self.plan) if spec.server.name in self._versions]
        self.progress.begin(len(here), sum(not self._wanted(spec) for spec in here))
        if any(self._wanted(spec) for spec in here):
            self._check_disk()
        with workplace(self.progress.say):
            for repeat in range(self.plan.load.repeats):
                self._round(repeat)

    # ---- before ----

    def _probe(self, server: ServerSpec) -> None:
        """Gets the server, or keeps a record of why it is not available."""
        product = self.products[server.product]
        try:
            version = product.version(server)
            said: ServerRecord = {"version": version, "settings": product.settings(server, self.plan.configuration)}
        except DevServerError as error:
            self.progress.say(f"{server.name}: {error}")
            self.folder.add("engines", server.name, {"server": server.name}, failed=str(error))
            return
        self._versions[server.name] = version
        before = self.folder.get("engines", {"server": server.name})
        if before is None or before.raw != said:
            self.folder.add("engines", server.name, {"server": server.name}, said)
        self.progress.say(f"{server.name}: {version}")

    def _check_disk(self) -> None:
        place = tempfile.gettempdir()
        free, needed = shutil.disk_usage(place).free, self.needed_bytes
        if free < needed:
            raise RunError(
                f"the servers of this plan need {needed / 1e9:.1f} GB in {place}, where {free / 1e9:.1f} are free: "
                "make room, name another folder by TMPDIR, or plan fewer rows, seconds or servers"
            )

    # ---- what is left ----

    def _identity(self, spec: CaseSpec) -> dict[str, Any]:
        return spec.identity(self.plan, self.machine, self._versions[spec.server.name])

    def _wanted(self, spec: CaseSpec) -> bool:
        record = self.folder.get("points", self._identity(spec))
        if record is None or not self.retry:
            return record is None
        return record.failed is not None or bool(judge_load(record.raw).wrong)

    # ---- measuring ----

    def _round(self, repeat: int) -> None:
        """One repeat, with the servers that have measurements left."""
        specs = {
            server: [CaseSpec(server, case, repeat) for case in self.plan.cases_of(server, repeat)]
            for server in self.plan.servers
            if server.name in self._versions
        }
        wanted = {server: [spec for spec in theirs if self._wanted(spec)] for server, theirs in specs.items()}
        together = self.plan.load.rounds > 1 and any(wanted.values())
        self._token = token()
        self._memory = Memory(self.plan.load.memory_mib if self.limits else 0)
        with ExitStack() as stack:
            held: dict[ServerSpec, Instance] = {}
            for server, left in wanted.items():
                if (left or together) and (instance := self._loaded(server, repeat, stack)) is not None:
                    held[server] = instance
                elif left:
                    self.progress.skip(len(left))
            settled = False
            for number, case in enumerate(self.plan.cases):
                if held and not settled and not case.first and not case.writes:
                    later = self.plan.cases[number:]
                    self._settle(held, {server: sum(one.case in later for one in wanted[server]) for server in held})
                    settled = True
                if not held:
                    break
                order = list(held) if (repeat + number) % 2 == 0 else list(held)[::-1]
                if together:
                    self._in_turns([CaseSpec(server, case, repeat) for server in order], wanted, held)
                    continue
                for server in order:
                    self._case(CaseSpec(server, case, repeat), wanted[server], held)

    def _loaded(self, server: ServerSpec, repeat: int, stack: ExitStack) -> Instance | None:
        """A server with its table, or None and a record of why there is none."""
        identity = {"server": server.name, "repeat": repeat, "rows": self.plan.load.rows, "machine": self.machine}
        words = f"{server.name.replace(' ', '-')}.r{repeat + 1}"
        started: Instance | None = None
        try:
            instance = self.products[server.product].new(server, self.plan.configuration)
            stack.callback(instance.remove)
            instance.limit(self.plan.load.load_timeout_s)
            instance.start()
            started = instance
            said = self.bench.load(instance)
            said |= {"data_bytes": instance.data_bytes(), MEASURED_WITH: self._token}
            self._memory.hold(server, instance, said["data_bytes"], stack)
        except (DevServerError, MeasureError) as error:
            reason = self._reason(error, started)
            self.progress.say(f"{words}: {reason}")
            self.folder.add("builds", words, identity, failed=reason)
            return None
        self.folder.add("builds", words, identity, said)
        self.progress.say(f"{words}: loaded in {said['load_s']:.1f} s")
        return instance

    def _reason(self, error: Exception, started: Instance | None) -> str:
        """The reason why an operation on a started server failed."""
        if started is None:
            return str(error)
        # A server that dies takes a moment to end.
        time.sleep(_GRACE_S)
        return str(error) if started.running else f"the server died: {error}"

    def _settle(self, held: dict[ServerSpec, Instance], left: Mapping[ServerSpec, int]) -> None:
        """Cleans up after the writes.

        A server that fails to do so counts as ended, because its reads would be from a table with
        dead rows. `left` is the number of its remaining measurements in this repeat.
        """
        for server, instance in list(held.items()):
            try:
                instance.settle()
            except Exception as error:
                told = f"{type(error).__name__}: {error}"
                self.progress.say(f"{server.name}: left out of the rest of this repeat, it did not settle: {told}")
                # As with a server that died, the same command measures these with another one.
                self.progress.skip(left[server])
                del held[server]

    def _case(self, spec: CaseSpec, wanted: Sequence[CaseSpec], held: dict[ServerSpec, Instance]) -> None:
        """Measures a test of a server, if it or a later test that needs its writes is wanted."""
        server, case, instance = spec.server, spec.case, held[spec.server]
        is_wanted = spec in wanted
        if not is_wanted and not (case.writes and _any_later(case, self.plan.cases, wanted)):
            return
        if not instance.running:
            # This point was neither measured nor failed: the same command measures it with another
            # server.
            self.progress.skip(int(is_wanted))
            return
        self._memory.begin(server)
        before = Disturbance.so_far()
        measured: CaseRecord | MeasureError
        try:
            raw = self.bench.measure(instance, case, server.slowed)
            measured = {**raw, **Disturbance.so_far().since(before)}
        except (MeasureError, DevServerError) as error:
            measured = MeasureError(str(error))
        self._keep(spec, measured, instance, is_wanted)

    def _in_turns(
        self,
        specs: Sequence[CaseSpec],
        wanted: Mapping[ServerSpec, Sequence[CaseSpec]],
        held: Mapping[ServerSpec, Instance],
    ) -> None:
        """Measures one test of all servers in turns, if any server or a later test needs it."""
        case = specs[0].case
        is_wanted = {spec.server: spec in wanted[spec.server] for spec in specs}
        later = case.writes and any(_any_later(case, self.plan.cases, wanted[spec.server]) for spec in specs)
        if not any(is_wanted.values()) and not later:
            return
        asked = {spec.server: held[spec.server] for spec in specs if held[spec.server].running}
        self.progress.skip(sum(is_wanted[spec.server] for spec in specs if spec.server not in asked))
        assert isinstance(self.bench, TurnsBench)
        for server in asked:
            self._memory.begin(server)
        before = Disturbance.so_far()
        measured = self.bench.in_turns(asked, case) if asked else {}
        taken = Disturbance.so_far().since(before)
        for spec in specs:
            if spec.server in asked:
                found = measured[spec.server]
                told: CaseRecord | MeasureError = found if isinstance(found, MeasureError) else {**found, **taken}
                self._keep(spec, told, asked[spec.server], is_wanted[spec.server])

    def _keep(self, spec: CaseSpec, measured: CaseRecord | MeasureError, instance: Instance, is_wanted: bool) -> None:
        """Stores a measurement, or the reason why it failed, if it is wanted."""
        if isinstance(measured, MeasureError):
            reason = self._memory.reason(spec.server, self._reason(measured, instance))
            if is_wanted:
                self.folder.add("points", spec.name, self._identity(spec), failed=reason)
                self.progress.point(spec.name, f"failed: {reason}")
        elif is_wanted:
            arrays = measured.pop("arrays", None)
            measured = measured | self._memory.told(spec.server) | {MEASURED_WITH: self._token}
            if (unsettled := getattr(instance, "unsettled", None)) is not None:
                measured |= {"settled": False, "unsettled": unsettled}
            self.folder.add("points", spec.name, self._identity(spec), measured, arrays=arrays)
            judged = judge_load(measured)
            recall = f"recall {measured['recall']:.4f}  " if "recall" in measured else ""
            told = f"{recall}{measured['qps']:,.1f} QPS" + "".join(f"  INVALID {one}" for one in judged.wrong)
            self.progress.point(spec.name, told)


def _any_later(case: Case, cases: Sequence[Case], wanted: Sequence[CaseSpec]) -> bool:
    """Whether a wanted test comes after this one, and so needs its writes."""
    return any(cases.index(spec.case) > cases.index(case) for spec in wanted)
