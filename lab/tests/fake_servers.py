"""Fake servers, and a bench that sends them nothing, for tests of runs without real servers."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from devserver.configuration import Configuration
from devserver.releases import ServerMissingError
from pagehop_lab.analysis.case import Case
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.plan.servers import ServerSpec
from pagehop_lab.run.progress import Progress
from pagehop_lab.run.servers import ServersRunner
from pagehop_lab.store import RunFolder
from pagehop_lab.suites.catalog import OF_SERVERS
from pagehop_lab.suites.oltp.cases import BY_NAME
from pagehop_lab.suites.server_results import ServerResults
from runs import MACHINE, needed_bytes, read_servers, server_results

HONEST: Any = {
    "errors": 0, "count": 1000, "events": 1000, "elapsed_s": 1.0, "qps": 1000.0, "server_cpu_us_per_query": 10.0,
    "client_cpu_us_per_query": 2.0, "server_switches_per_query": 1.0, "bytes_read_per_query": 0.0,
    "bytes_written_per_query": 0.0, "storage_reads_per_query": 0.0, "client_share_of_machine": 0.1,
    "client_share_of_core": 0.2,
    "other_busy_cores": 0.0, "clock_jump_s": 0.0, "slowed": 0.0, "lines": {},
}  # fmt: skip


ROUNDS = 8


class FakeInstance:
    def __init__(self, name: str) -> None:
        self.name = name
        self.running = False
        self.removed = False
        self.settled = 0
        self.limit_s = 0.0
        self.unsettled: str | None = None
        self.pid = 1

    def start(self) -> None:
        if self.name == "stillborn":
            raise ServerMissingError("the server did not start; its log ends with: no")
        self.running = True

    def limit(self, seconds: float) -> None:
        self.limit_s = seconds

    def settle(self) -> None:
        self.settled += 1

    def data_bytes(self) -> int:
        return 1000

    def remove(self) -> None:
        self.running, self.removed = False, True

    def sysbench_options(self) -> list[str]:
        return []


class FakeProduct:
    """Versions `old`, `new` and others. `stillborn` does not start, and `lost` is not available."""

    def __init__(self) -> None:
        self.made: list[FakeInstance] = []

    def version(self, server: ServerSpec) -> str:
        if server.version == "lost":
            raise ServerMissingError("there is no postgres lost available here: there are old, new")
        return f"{server.version}.1"

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return {"shared_buffers": f"{configuration.cache_mib}MB"}

    def new(self, server: ServerSpec, configuration: Configuration) -> FakeInstance:
        self.made.append(FakeInstance(server.version))
        return self.made[-1]


class FakeBench:
    """Figures with 1% noise, slower by the planted share.

    `on` is called before each figure. It may return fields or raise an error.
    """

    def __init__(
        self,
        on: Callable[[FakeInstance, Case], Mapping[str, Any] | None] | None = None,
        loaded: Mapping[str, Any] | None = None,
        on_load: Callable[[FakeInstance], None] | None = None,
        rounds: int = ROUNDS,
    ) -> None:
        self.asked: list[tuple[str, str]] = []
        self._on, self._on_load = on, on_load
        self._loaded, self._rounds = loaded or {}, rounds
        self._random = np.random.default_rng(5)

    def load(self, instance: Any) -> Any:
        instance.settle()
        if self._on_load is not None:
            self._on_load(instance)
        return {"load_s": 0.5, "ceiling": HONEST, **self._loaded}

    def measure(self, instance: Any, case: Case, slowed: float) -> Any:
        self.asked.append((instance.name, case.script))
        told = (self._on(instance, case) if self._on else None) or {}
        noise = 1 + 0.01 * self._random.standard_normal()
        return {**HONEST, "qps": 1000 * (1 - slowed) * noise, "slowed": slowed, **told}

    def in_turns(self, asked: Mapping[ServerSpec, Any], case: Case) -> dict[ServerSpec, Any]:
        """The same for servers in turns.

        One factor, common to all servers, drifts by several percent from round to round.
        """
        found: dict[ServerSpec, Any] = {}
        token = f"{len(self.asked)}"
        weather = np.exp(
            0.08 * self._random.standard_normal() + 0.06 * self._random.standard_normal(self._rounds).cumsum()
        )
        for server, instance in asked.items():
            try:
                raw = self.measure(instance, case, server.slowed)
            except MeasureError as error:
                found[server] = error
                continue
            noise = 1 + 0.02 * self._random.standard_normal((2, self._rounds))
            qps = raw["qps"] / (1 + server.doubled) * weather * noise[0]
            # A disturbed machine needs more CPU, too, but by a smaller factor.
            cpu = 10.0 * (1 + server.doubled) * weather**-0.3 * noise[1]
            rounds = [{"qps": one, "server_cpu_us_per_query": other} for one, other in zip(qps, cpu, strict=True)]
            found[server] = {
                **raw, "qps": float(qps.mean()), "server_cpu_us_per_query": float(cpu.mean()), "rounds": rounds,
                "together": token, "doubled": server.doubled,
            }  # fmt: skip
        return found


def dying(name: str, script: str) -> Callable[[FakeInstance, Case], None]:
    """A function that ends server `name` when the test `script` is requested of it."""

    def on(instance: FakeInstance, case: Case) -> None:
        if (instance.name, case.script) == (name, script):
            instance.running = False
            raise MeasureError("sysbench: FATAL: the connection was lost")

    return on


CASES = ("point-query.pre_range=100", "update-index_range=100", "point-query_range=100", "insert_range=100")


def plan_of(*versions: str, repeats: int = 1, cases: tuple[str, ...] = CASES, more: str = "") -> str:
    assert all(case in BY_NAME for case in cases)
    servers = "".join(f'[[server]]\nproduct = "postgres"\nversion = "{one}"\n' for one in versions)
    listed = ", ".join(f'"{case}"' for case in cases)
    return f'suite = "oltp"\ncases = [{listed}]\n[load]\nrepeats = {repeats}\n{servers}{more}'


def run(text: str, folder: Path, bench: FakeBench, product: FakeProduct, **more: Any) -> tuple[ServerResults[Any], str]:
    """Runs a plan. Returns its results, and the text that the run printed."""
    plan, said = read_servers(text, "test"), io.StringIO()
    products = dict.fromkeys(OF_SERVERS[plan.suite].products, product)
    with RunFolder.writing(folder, plan.text, MACHINE) as into:
        ServersRunner(plan, into, Progress(said), "test", products, bench, needed_bytes(plan), **more).run()
    return server_results(folder), said.getvalue()
