"""One OLTP microbenchmark: sysbench sends statements.

Costs are read whenever it reports progress.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from devserver import sysbench
from devserver.tree import Tree
from pagehop_lab.analysis.server_records import UNKNOWN, Costs, OltpRecord
from pagehop_lab.machine.place import on_one_core
from pagehop_lab.measure.processes import Cost, client_share, cost, machine_busy_s
from pagehop_lab.measure.slowed import slowed
from pagehop_lab.measure.usage import family

SCRIPT = Path(__file__).with_name("oltp.lua")
# The name that the script uses.
TABLE = "sbtest1"
# Lines come at this interval, and later only if one query takes longer.
_INTERVAL_S = 0.1
_SILENCE_MAX_S = 120.0


class MeasureError(Exception):
    """A test could not be measured; says why."""


class Subject(Protocol):
    """A server that runs."""

    @property
    def pid(self) -> int | None:
        """Its first process; None where its processes are not known."""

    def sysbench_options(self) -> list[str]: ...


@dataclass(frozen=True)
class Ask:
    """How a test is asked."""

    script: str
    range: int
    rows: int
    clients: int
    warmup_s: float
    seconds: float
    seed: int
    slowed: float = 0.0
    """Share of the time in which the server is stopped: a regression of known size."""
    doubled: float = 0.0
    """Share of the events that are executed twice and counted once: a regression that costs CPU."""


@dataclass
class Deadline:
    """The moment until which a client must have said something; it may be moved."""

    at_s: float

    @staticmethod
    def of(seconds: float) -> Deadline:
        """A number of seconds from now."""
        return Deadline(time.monotonic() + seconds)


@dataclass(frozen=True)
class Look:
    """The counters at one moment."""

    at_s: float
    wall_s: float
    """By the clock that people set."""
    server: Cost
    client: Cost
    busy_s: float


def load(tree: Tree, subject: Subject, rows: int, seed: int, timeout_s: float) -> float:
    """Makes the table with its index; returns the seconds that it took."""
    begun = time.monotonic()
    command = [*_command(tree, subject, rows, seed), "--threads=1", "prepare"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, env=_env(tree))
    except subprocess.TimeoutExpired:
        raise MeasureError(f"the table of {rows} rows was not loaded in {timeout_s:g} s") from None
    if done.returncode != 0:
        raise MeasureError(f"the table could not be loaded: {reason(done.stdout + done.stderr, done.returncode)}")
    return time.monotonic() - begun


def measure(tree: Tree, subject: Subject, ask: Ask) -> OltpRecord:
    """Queries a second of one test, and what a query cost the server and the client."""
    with place(subject, ask):
        process = begin(tree, subject, ask, _INTERVAL_S, [])
        try:
            with contextlib.ExitStack() as stack:
                return _watch(process, subject, ask, stack)
        finally:
            process.kill()
            process.communicate()


def begin(tree: Tree, subject: Subject, ask: Ask, interval_s: float, more: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts a test of sysbench, which runs until it is killed."""
    command = script_command(
        tree, subject, ask.rows, ask.seed, ask.script, ask.clients, ask.range, interval_s, more
    )  # fmt: skip
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_env(tree),
        start_new_session=True,
    )  # fmt: skip


def _watch(process: subprocess.Popen[bytes], subject: Subject, ask: Ask, stack: contextlib.ExitStack) -> OltpRecord:
    """Waits until the server is warm, then for the time of the measurement."""
    told: dict[int, list[tuple[float, int, int]]] = {thread: [] for thread in range(ask.clients)}
    first: Look | None = None
    late = Deadline.of(ask.warmup_s + ask.seconds + _SILENCE_MAX_S)
    members: list[int] = []
    begun_s: float | None = None
    for thread, at_s, events, queries in lines(process, late):
        if begun_s is None:
            # Connections are open before the first event, and stay.
            members = [] if subject.pid is None else family(subject.pid)
            stack.enter_context(slowed(members, ask.slowed))
            begun_s = at_s
        if first is None:
            if at_s - begun_s < ask.warmup_s:
                continue
            first = look(members, process.pid)
        told[thread].append((at_s, events, queries))
        if time.monotonic() - first.at_s >= ask.seconds and all(len(lines) > 1 for lines in told.values()):
            return _raw(told, first, look(members, process.pid), ask, known=bool(members))
    raise AssertionError("lines end with an error")


def lines(
    process: subprocess.Popen[bytes], late: Deadline, who: str = "sysbench"
) -> Iterator[tuple[int, float, int, int]]:
    """The lines of a client. MeasureError if the client ends, or prints nothing until `late`."""
    assert process.stdout is not None
    pipe, kept, complaints = process.stdout.fileno(), b"", b""
    while True:
        left = late.at_s - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            raise MeasureError(f"it hung: {who} said nothing, and neither did the server")
        part = os.read(pipe, 1 << 16)
        if not part:
            said = complaints + kept + process.communicate()[1]
            raise MeasureError(f"{who}: {reason(said.decode(errors='replace'), process.returncode)}")
        *lines, kept = (kept + part).split(b"\n")
        for line in lines:
            words = line.split()
            if len(words) == 5 and words[0] == b"tell":
                yield int(words[1]), float(words[2]), int(words[3]), int(words[4])
            else:
                complaints += line + b"\n"


def look(members: Sequence[int], client: int) -> Look:
    return Look(time.monotonic(), time.time(), cost(members), cost([client]), machine_busy_s())


def _raw(
    told: dict[int, list[tuple[float, int, int]]], first: Look, last: Look, ask: Ask, *, known: bool
) -> OltpRecord:
    """Rates and costs of a run.

    Rates are between the first and the last line of each thread, costs between two readings near
    these.
    """
    elapsed_s = last.at_s - first.at_s
    ends = [(lines[0], lines[-1]) for lines in told.values()]
    each = [(end[0] - begin[0], end[1] - begin[1], end[2] - begin[2]) for begin, end in ends]
    qps = sum(queries / seconds for seconds, _, queries in each)
    server, client = last.server - first.server, last.client - first.client
    queries = qps * elapsed_s
    # All cores, not only those that this process may use now: it shares one with the client.
    cores = os.cpu_count() or 1
    others = max((last.busy_s - first.busy_s - server.cpu_s - client.cpu_s) / elapsed_s, 0.0)
    return {
        **OltpRecord(),
        **(costs(server, queries, others) if known else UNKNOWN),
        "errors": 0,
        "count": sum(queries for _, _, queries in each),
        "events": sum(events for _, events, _ in each),
        "elapsed_s": elapsed_s,
        "qps": qps,
        "client_cpu_us_per_query": client.cpu_s / queries * 1e6,
        "client_share_of_machine": client.cpu_s / elapsed_s / cores,
        "client_share_of_core": client_share(client.cpu_s, elapsed_s, ask.clients),
        "clock_jump_s": (last.wall_s - first.wall_s) - elapsed_s,
        "slowed": ask.slowed,
        "lines": {str(thread): lines for thread, lines in told.items()},
    }


def costs(server: Cost, queries: float, others: float) -> Costs:
    """The costs of a server that the lab started."""
    return {
        "server_cpu_us_per_query": server.cpu_s / queries * 1e6,
        "server_switches_per_query": server.switches / queries,
        "bytes_read_per_query": server.bytes_read / queries,
        "bytes_written_per_query": server.bytes_written / queries,
        "storage_reads_per_query": server.bytes_read / 4096 / queries,
        "other_busy_cores": others,
    }


def place(subject: Subject, ask: Ask) -> contextlib.AbstractContextManager[None]:
    """Puts one client and its connection on one core, so that neither wakes another core.

    The server's other work may use all cores.
    """
    if ask.clients > 1 or subject.pid is None:
        return contextlib.nullcontext()
    return on_one_core(subject.pid)


def script_command(
    tree: Tree, subject: Subject, rows: int, seed: int, script: str, clients: int, length: int = 100,
    interval_s: float = _INTERVAL_S, more: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """The command that runs one test until it is ended."""
    words = [f"--case={script}", f"--range={length}", f"--threads={clients}", f"--interval={interval_s}"]
    return [*_command(tree, subject, rows, seed), *words, *more, "--time=0", "run"]


def _command(tree: Tree, subject: Subject, rows: int, seed: int) -> list[str]:
    options = [f"--rows={rows}", f"--rand-seed={seed + 1}", "--verbosity=1"]
    return [*sysbench.command(tree), str(SCRIPT), *subject.sysbench_options(), *options]


def _env(tree: Tree) -> dict[str, str]:
    return {**os.environ, **sysbench.environment(tree)}


def reason(said: str, code: int) -> str:
    """The reason in the output of a client that ended."""
    lines = [line.strip() for line in said.splitlines() if "FATAL" in line or "error" in line.lower()]
    told = " | ".join(dict.fromkeys(lines)) or " ".join(said.split()) or f"{ending(code)} and said nothing"
    return told[:600]


def ending(code: int) -> str:
    """How a process ended, by its exit status."""
    return f"it was killed by {signal.Signals(-code).name}" if code < 0 else "it ended"
