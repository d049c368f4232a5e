"""Clients in processes of their own.

They connect, wait for each other, work until they are told to stop, and write down their results.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import util
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from pagehop_lab.measure import clients
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.processes import ServerLook, cost, machine_busy_s, total
from pagehop_lab.measure.steps import Flag, Float64, Spent

_READY_S, _LOOK_S = 120.0, 0.01
# A sleep of a hundredth of a second takes longer only if the process was stopped.
_STILL_MAX_S = 1.0
_REASON_CHARACTERS = 600


def prepare() -> None:
    """Must be called before a run has a folder of its own for temporary files.

    The process that clients are forked from outlives the run, and so must the folder of its socket.
    """
    util.get_temp_dir()


@dataclass(frozen=True)
class Job:
    """The task of one client: `role(*told, out, shared)`."""

    role: Callable[..., None]
    told: tuple[Any, ...]


class Shared:
    """State that the clients share."""

    def __init__(self, context: Any, count: int) -> None:
        self.ready = context.Barrier(count + 1)
        self.stop = Flag(context)
        self.done = context.Value("q", 0)

    def finish(self) -> None:
        """Reports that a client is done, and waits: its cost can only be read while it lives."""
        with self.done.get_lock():
            self.done.value += 1
        while not self.stop.is_set():
            time.sleep(0.005)


class Crew:
    """Within its context all clients are connected and wait; after it none is left."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        # Modules are loaded once, by a process of which all clients are copies.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["__main__", "psycopg", *{job.role.__module__ for job in jobs}])
        self._shared = Shared(self._context, len(jobs))
        self._stack = ExitStack()
        self._jobs = jobs
        self._processes: list[Any] = []

    def __enter__(self) -> Crew:
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pagehop-crew-")))
            stack.callback(self._end)
            self._start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def begin(self) -> None:
        """Lets all begin."""
        self._shared.ready.wait()

    def wait(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Lets them work for a number of seconds, or until something is over.

        Raises MeasureError if a client fails, or if this process was stopped, because then they
        were, too.
        """
        late = time.monotonic() + seconds
        while time.monotonic() < late and not is_over():
            self._check()
            begun_s = time.monotonic()
            time.sleep(_LOOK_S)
            if (still_s := time.monotonic() - begun_s) > _STILL_MAX_S:
                raise MeasureError(f"the lab stood still for {still_s:.1f} s, and so did its clients: --retry it")

    def is_any_done(self) -> bool:
        """Whether a client has finished its work."""
        return bool(self._shared.done.value)

    def is_done(self) -> bool:
        """Whether none has."""
        return bool(self._shared.done.value == len(self._processes))

    def stop(self) -> list[Float64]:
        """Tells the clients to stop; returns the results of each."""
        self._shared.stop.set()
        for process in self._processes:
            process.join(_READY_S)
        if any(process.exitcode is None for process in self._processes):
            raise MeasureError("a client did not end: the server does not answer")
        self._check()
        return [np.asarray(np.load(self._out(number))) for number in range(len(self._jobs))]

    def _start(self) -> None:
        for number, job in enumerate(self._jobs):
            told = (job.role, self._folder / "failed", *job.told, self._out(number), self._shared)
            self._processes.append(self._context.Process(target=clients.work, args=told, daemon=True))
        # Only this process handles Ctrl-C and tells clients to stop. Clients inherit the signal
        # mask of this thread.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            for process in self._processes:
                process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # Counts looks instead of using a clock: while all processes are stopped, none is late.
        for _ in range(int(_READY_S / _LOOK_S)):
            if self._shared.ready.n_waiting == len(self._processes):
                return
            self._check()
            time.sleep(_LOOK_S)
        raise MeasureError(f"a client did not begin in {_READY_S:g} s")

    def _check(self) -> None:
        if any(process.exitcode for process in self._processes):
            failed = self._folder / "failed"
            said = failed.read_text() if failed.exists() else "it said nothing"
            raise MeasureError(f"a client failed: {said[:_REASON_CHARACTERS]}")

    def _out(self, number: int) -> Path:
        return self._folder / f"{number}.npy"

    def _end(self) -> None:
        for process in self._processes:
            if process.pid is not None:
                process.kill()
                process.join()


class Look:
    """The cost of a server and the clients so far."""

    def __init__(self, server: int, crew: Sequence[int]) -> None:
        """`crew` are the clients' processes."""
        self.at_s = time.monotonic()
        self._server, self._each = ServerLook(server), [cost([one]) for one in crew]
        self._busy_s, self._wall_s = machine_busy_s(), time.time()

    def since(self, before: Look) -> Spent:
        """The cost between two looks."""
        elapsed_s = self.at_s - before.at_s
        each = [now - then for now, then in zip(self._each, before._each, strict=True)]
        busiest = max((one.cpu_s for one in each), default=0.0) / elapsed_s
        jump_s = self._wall_s - before._wall_s - elapsed_s
        busy_s = self._busy_s - before._busy_s
        return Spent(before.at_s, elapsed_s, self._server - before._server, total(each), busiest, busy_s, jump_s)


def of_this_process() -> list[int]:
    """The list with this process, if it is the only client."""
    return [os.getpid()]
