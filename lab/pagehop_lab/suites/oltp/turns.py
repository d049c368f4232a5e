"""One OLTP microbenchmark of several servers in turns of a fraction of a second.

So changes in the speed of the machine affect all of them alike. Every server has its own sysbench,
connected and warm, which is idle until its turn. A round is one turn of each. Every other round
goes in reverse order.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from devserver.tree import Tree
from pagehop_lab.analysis.paired import turn_order
from pagehop_lab.analysis.server_records import UNKNOWN, OltpRecord
from pagehop_lab.measure import oltp
from pagehop_lab.measure.oltp import Ask, Deadline, Look, MeasureError, Subject
from pagehop_lab.measure.processes import Cost, client_share, total
from pagehop_lab.measure.slowed import slowed
from pagehop_lab.measure.usage import family

_SILENCE_MAX_S = 120.0


@dataclass(frozen=True)
class _Turn:
    """The work of a turn, and its cost."""

    queries: int
    events: int
    qps: float
    seconds: float
    server: Cost
    client: Cost
    busy_s: float
    clock_jump_s: float


@dataclass
class _Client:
    """A sysbench that waits for its turn."""

    subject: Subject
    ask: Ask
    process: subprocess.Popen[bytes]
    lines: Iterator[tuple[int, float, int, int]]
    """The output of sysbench, line by line."""
    late: Deadline
    """That of the lines of a turn."""
    turn_s: float
    members: list[int] = field(default_factory=list)
    turns: list[_Turn] = field(default_factory=list)

    def turn(self) -> _Turn:
        """Lets sysbench run for an interval. MeasureError if it ends, or prints nothing for too
        long.
        """
        assert self.process.stdin is not None
        first = self._look()
        # Each turn has its own, since the wait for the turns of other servers may be long.
        self.late.at_s = time.monotonic() + self.turn_s + _SILENCE_MAX_S
        # If it has ended, the reason is in its output.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(b"go\n" * self.ask.clients)
            self.process.stdin.flush()
        told: dict[int, list[tuple[float, int, int]]] = {}
        while len(told) < self.ask.clients or any(len(ends) < 2 for ends in told.values()):
            thread, at_s, events, queries = next(self.lines)
            told.setdefault(thread, []).append((at_s, events, queries))
        return _turn(list(told.values()), first, self._look())

    def _look(self) -> Look:
        return oltp.look(self.members, self.process.pid)


Found = OltpRecord | MeasureError


def in_turns(tree: Tree, asked: Sequence[tuple[Subject, Ask]], rounds: int) -> list[Found]:
    """The work of each server in all of its turns and in each, or the reason why it failed.

    Seconds are the sum over all turns of a server. Warming up is a turn, too.
    """
    together, found = f"{time.time_ns():x}", dict[int, Found]()
    with contextlib.ExitStack() as stack:
        clients: dict[int, _Client] = {}
        for place, (subject, ask) in enumerate(asked):
            try:
                clients[place] = _begun(tree, subject, ask, rounds, stack)
            except MeasureError as error:
                found[place] = error
        for number in range(rounds + 1):
            for place in turn_order(len(asked), number):
                if place not in clients:
                    continue
                try:
                    done = clients[place].turn()
                except MeasureError as error:
                    # The other servers go on without it.
                    found[place] = error
                    del clients[place]
                    continue
                if number > 0:
                    clients[place].turns.append(done)
        found |= {place: _raw(client) | {"together": together} for place, client in clients.items()}
    return [found[place] for place in range(len(asked))]


def _begun(tree: Tree, subject: Subject, ask: Ask, rounds: int, stack: contextlib.ExitStack) -> _Client:
    """A client whose connections are open, and warm."""
    turn_s = ask.seconds / rounds
    more = ["--turns=on", f"--again={round(1 / ask.doubled) if ask.doubled else 0}"]
    late = Deadline.of(_SILENCE_MAX_S)
    with oltp.place(subject, ask):
        process = oltp.begin(tree, subject, ask, turn_s, more)
        stack.callback(_end, process)
        client = _Client(subject, ask, process, oltp.lines(process, late), late, turn_s)
        # Threads say so once at their first event, and then wait for turns.
        for _ in range(ask.clients):
            next(client.lines)
        # Connections are open now, and stay. The processes of a server that the lab did not start
        # are not known.
        client.members = [] if subject.pid is None else family(subject.pid)
        warm = time.monotonic() + ask.warmup_s
        while time.monotonic() < warm:
            client.turn()
    stack.enter_context(slowed(client.members, ask.slowed))
    return client


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def _turn(ends: Sequence[Sequence[tuple[float, int, int]]], first: Look, last: Look) -> _Turn:
    each = [(end[0] - begin[0], end[1] - begin[1], end[2] - begin[2]) for begin, end in ends]
    seconds = last.at_s - first.at_s
    return _Turn(
        sum(queries for _, _, queries in each),
        sum(events for _, events, _ in each),
        sum(queries / took for took, _, queries in each),
        sum(took for took, _, _ in each) / len(each),
        last.server - first.server,
        last.client - first.client,
        last.busy_s - first.busy_s,
        last.wall_s - first.wall_s - seconds,
    )


def _raw(client: _Client) -> OltpRecord:
    """All turns of a server together; `rounds` has each of them."""
    turns, cores = client.turns, os.cpu_count() or 1
    elapsed_s = sum(turn.seconds for turn in turns)
    queries = sum(turn.queries for turn in turns)
    server, used = total([turn.server for turn in turns]), total([turn.client for turn in turns])
    busy_s = sum(turn.busy_s for turn in turns)
    jump_s: float = max([turn.clock_jump_s for turn in turns], key=abs)
    known = oltp.costs(server, queries, max((busy_s - server.cpu_s - used.cpu_s) / elapsed_s, 0.0))
    return {
        **OltpRecord(),
        **(known if client.members else UNKNOWN),
        "errors": 0,
        "count": queries,
        "events": sum(turn.events for turn in turns),
        "elapsed_s": elapsed_s,
        "qps": sum(turn.qps * turn.seconds for turn in turns) / elapsed_s,
        "client_cpu_us_per_query": used.cpu_s / queries * 1e6,
        "client_share_of_machine": used.cpu_s / elapsed_s / cores,
        "client_share_of_core": client_share(used.cpu_s, elapsed_s, client.ask.clients),
        "clock_jump_s": jump_s,
        "slowed": client.ask.slowed,
        "doubled": client.ask.doubled,
        "rounds": [
            {"qps": turn.qps, "server_cpu_us_per_query": turn.server.cpu_s / turn.queries * 1e6 or None}
            for turn in turns
        ],
    }
