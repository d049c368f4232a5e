"""The Insert Benchmark on its own table, step by step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from devserver import DevServerError
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.server_records import LoadedRecord, StepRecord
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.steps import State
from pagehop_lab.plan.servers import ServersPlan
from pagehop_lab.suites.inserts import sales
from pagehop_lab.suites.inserts.plan import InsertsLoad


@dataclass
class Inserts:
    """The Insert Benchmark on its own table."""

    plan: ServersPlan
    _states: dict[int, State] = field(default_factory=dict)

    def load(self, instance: Any) -> LoadedRecord:
        load = self.plan.load
        said = sales.load(instance, load.rows, self.plan.seed, load.load_timeout_s)
        self._states[id(instance)] = State(0, said["rows"])
        return said

    def measure(self, instance: Any, case: Case, slowed: float) -> StepRecord:
        assert not slowed
        load = self.plan.load
        assert isinstance(load, InsertsLoad)
        state, seconds, seed = self._states[id(instance)], load.seconds, self.plan.seed
        with looked_at_again(state, lambda: sales.window(instance)):
            if case.script == "write":
                return sales.write(instance, seed, state, case.range, seconds)
            raw = sales.query(instance, seed, state, case.script, case.range, seconds, load.commit_rows)
            # Rows by their keys are anywhere; the part that an index covers may be in memory.
            return raw | {"expects_reads": case.script == "point"} if load.memory_mib else raw


@contextlib.contextmanager
def looked_at_again(state: State, window: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """The state of the table after a failed step, for the next steps."""
    try:
        yield
    except MeasureError:
        # If the server died, the error of the step is raised, not that of this look.
        with contextlib.suppress(DevServerError):
            state.low, state.high = window()
        raise
