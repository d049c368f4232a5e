"""One step of a benchmark: clients begin together, and costs are read before and after."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pagehop_lab.analysis.server_records import UNKNOWN, CaseRecord
from pagehop_lab.machine.place import on_one_core
from pagehop_lab.measure import clients, oltp
from pagehop_lab.measure.clients import Rows
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.processes import Cost, ServerLook, cost, machine_busy_s, total
from pagehop_lab.measure.usage import family

_READY_S = 60.0
_REASON_CHARACTERS = 600

Float64 = npt.NDArray[np.float64]


@dataclass
class State:
    """The state of the table: ids from `low` on, below `high`."""

    low: int
    high: int


@dataclass(frozen=True)
class Step:
    """What clients are to do."""

    seconds: float
    commit_rows: int = 0
    """Rows of a commit; 0 for none."""
    rate: float = 0.0
    """Rows a second; 0 for full speed."""
    until_rows: int = 0
    """The step ends early after this number of rows."""
    deletes: bool = True
    """Whether as many go."""
    asks: bool = False


@dataclass(frozen=True)
class Spent:
    """The cost and the time of a step."""

    begun_s: float
    elapsed_s: float
    server: Cost | None
    """None if the server's processes are not known."""
    client: Cost
    client_share: float
    """Share of a core for which the busiest client was busy."""
    busy_s: float
    clock_jump_s: float


@dataclass(frozen=True)
class Moved:
    """The work of the clients, and its cost."""

    step: Step
    spent: Spent
    inserted: Float64
    """Begin and end of each commit."""
    deleted: Float64
    asked: Float64
    """Begin, end and kept values of each request."""
    deadlocks: int
    """Number of commits that the server rolled back and that were repeated."""

    @property
    def inserted_per_s(self) -> float:
        return len(self.inserted) * self.step.commit_rows / self.spent.elapsed_s

    @property
    def deleted_per_s(self) -> float:
        return len(self.deleted) * self.step.commit_rows / self.spent.elapsed_s


class _ClientFailedError(Exception):
    """One of the clients ended, or did not begin; the text says when."""


class Flag:
    """Tells clients to stop.

    An Event takes a lock at every check, which took a tenth of a client's time.
    """

    def __init__(self, context: Any) -> None:
        self._value = context.Value("b", 0, lock=False)

    def set(self) -> None:
        self._value.value = 1

    def is_set(self) -> bool:
        return bool(self._value.value)


class _Shared:
    """State that the clients of a step share."""

    def __init__(self, context: Any, count: int) -> None:
        self.ready = context.Barrier(count + 1)
        self.stop = Flag(context)
        self.inserted = context.Value("q", 0, lock=False)
        self.deleted = context.Value("q", 0, lock=False)
        self.deadlocks = context.Value("q", 0)


Around = Callable[[Sequence[int]], contextlib.AbstractContextManager[None]]


def carry_out(server: int | None, rows: Rows, state: State, step: Step, around: Around | None = None) -> Moved:
    """Lets clients work on the table of the server with this process id.

    MeasureError if one of them fails. Without a process id the server is not ours, and only its
    answers are known. `around` gets the server's processes once all connections are open.
    """
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="pagehop-steps-") as folder:
        place = Path(folder)
        inserted, deleted, asked = (place / f"{name}.npy" for name in ("inserted", "deleted", "asked"))
        works: list[tuple[Any, tuple[Any, ...]]] = []
        if step.asks:
            works.append((clients.ask, (rows, asked, state.low, state.high)))
        if step.commit_rows:
            told = (rows, inserted, state.high, step.commit_rows, step.rate, step.until_rows)
            works.append((clients.insert, told))
            if step.deletes:
                works.append((clients.delete, (rows, deleted, state.low, step.commit_rows)))
        shared = _Shared(context, len(works))
        failed = place / "failed"
        processes = [
            context.Process(target=clients.work, args=(role, failed, *args, shared), daemon=True)
            for role, args in works
        ]
        try:
            if step.asks:
                # Client and server take turns: on one core neither has to wake another core.
                with contextlib.nullcontext() if server is None else on_one_core(server):
                    _begin(processes[:1], shared, 1)
            _begin(processes[int(step.asks) :], shared, len(processes))
            members = [] if server is None else family(server)
            with contextlib.nullcontext() if around is None else around(members):
                spent = _watch(server, processes, shared, step)
            shared.stop.set()
            for process in processes:
                process.join(_READY_S)
        except _ClientFailedError as error:
            raise MeasureError(f"{error}: {_reason(failed)}") from None
        except ProcessLookupError:
            raise MeasureError("the server was gone before the first query") from None
        finally:
            # Ends the remaining ones at once: after Ctrl-C their results are not needed.
            for process in processes:
                if process.pid is not None:
                    process.kill()
                    process.join()
        if any(process.exitcode for process in processes):
            raise MeasureError(f"a client failed at the end: {_reason(failed)}")
        files = _done(inserted, 2), _done(deleted, 2), _done(asked, 2 + rows.kept)
        moved = Moved(step, spent, *files, shared.deadlocks.value)
        state.high += len(moved.inserted) * step.commit_rows
        state.low += len(moved.deleted) * step.commit_rows
        return moved


def _begin(processes: Sequence[Any], shared: _Shared, waiting: int) -> None:
    """Starts clients, and waits until this number of them is ready."""
    late = time.monotonic() + _READY_S
    # Only this process handles Ctrl-C and tells clients to stop. Clients inherit the signal mask of
    # this thread.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        for process in processes:
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    while shared.ready.n_waiting < waiting:
        if time.monotonic() > late or any(process.exitcode is not None for process in processes):
            raise _ClientFailedError("a client did not begin")
        time.sleep(0.01)


def _watch(server: int | None, processes: Sequence[Any], shared: _Shared, step: Step) -> Spent:
    own = [process.pid for process in processes]
    before = None if server is None else ServerLook(server)
    used, busy_s, wall_s = [cost([one]) for one in own], machine_busy_s(), time.time()
    shared.ready.wait()
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < step.seconds:
        if step.until_rows and shared.inserted.value >= step.until_rows:
            break
        if any(process.exitcode is not None for process in processes):
            raise _ClientFailedError("a client failed in the middle")
        time.sleep(0.01)
    elapsed_s = time.monotonic() - begun_s
    spent = None if server is None or before is None else ServerLook(server) - before
    each = [cost([one]) - before_it for one, before_it in zip(own, used, strict=True)]
    busy_s = machine_busy_s() - busy_s
    shared.stop.set()
    busiest = max(one.cpu_s for one in each) / elapsed_s
    return Spent(begun_s, elapsed_s, spent, total(each), busiest, busy_s, time.time() - wall_s - elapsed_s)


def raw_of(moved: Moved, count: int) -> CaseRecord:
    """The fields of every step; `count` is the number of queries, or of rows if there are no
    queries.
    """
    if not count:
        raise MeasureError("no query was answered" if moved.step.asks else "no row came")
    return raw_of_spent(moved.spent, count)


def raw_of_spent(spent: Spent, count: int) -> CaseRecord:
    """The same fields for the cost of a number of queries or rows, which is not 0."""
    server = spent.server or Cost(0.0, 0, 0, 0)
    known = oltp.costs(server, count, max((spent.busy_s - server.cpu_s - spent.client.cpu_s) / spent.elapsed_s, 0.0))
    return {
        **CaseRecord(),
        **(known if spent.server is not None else UNKNOWN),
        "errors": 0,
        "count": count,
        "elapsed_s": spent.elapsed_s,
        "qps": count / spent.elapsed_s,
        "client_cpu_us_per_query": spent.client.cpu_s / count * 1e6,
        "client_share_of_machine": spent.client.cpu_s / spent.elapsed_s / (os.cpu_count() or 1),
        "client_share_of_core": spent.client_share,
        "clock_jump_s": spent.clock_jump_s,
        "slowed": 0.0,
    }


def percentiles(values: Float64) -> dict[str, float]:
    """Median, tail and maximum."""
    names = {"p50": 50, "p95": 95, "p99": 99}
    return {name: float(np.percentile(values, at)) for name, at in names.items()} | {"max": float(values.max())}


def per_second(ends: Float64, begun_s: float, each: int) -> list[int]:
    """The amount of work in each second."""
    if not len(ends):
        return []
    return [int(count) * each for count in np.bincount((ends - begun_s).clip(0).astype(int))]


def _reason(failed: Path) -> str:
    """The message of a client that failed."""
    said = failed.read_text() if failed.exists() else "it said nothing in time, as where a server does not answer"
    return said[:_REASON_CHARACTERS]


def _done(file: Path, columns: int) -> Float64:
    return np.asarray(np.load(file)) if file.exists() else np.zeros((0, columns))
