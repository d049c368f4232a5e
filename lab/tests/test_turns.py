"""Servers in turns, with clients that only say what sysbench says."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from devserver.tree import Tree
from pagehop_lab.measure import oltp
from pagehop_lab.measure.oltp import Ask, MeasureError
from pagehop_lab.suites.oltp import turns

# Answers each `go` by the two lines of a turn; after $1 turns it says nothing more.
CLIENT = """
echo tell 0 0.0 0 0
turns=0
while read -r go; do
    turns=$((turns + 1))
    [ "$turns" -le "$1" ] || exec sleep 600
    echo tell 0 "$turns.0" "$turns" "$turns"
    sleep 0.1
    echo tell 0 "$turns.1" "$turns"5 "$turns"5
done
"""
SILENCE_S = 1.0


class Served:
    """A server whose client answers for a number of turns."""

    pid: None = None

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def sysbench_options(self) -> list[str]:
        return []


def in_turns(monkeypatch: pytest.MonkeyPatch, seconds: float, rounds: int, *servers: Served) -> list[turns.Found]:
    def begin(_: Tree, subject: Any, *__: Any) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["sh", "-c", CLIENT, "client", str(subject.turns)], stdin=pipe, stdout=pipe, stderr=pipe
        )

    monkeypatch.setattr(oltp, "begin", begin)
    monkeypatch.setattr(turns, "_SILENCE_MAX_S", SILENCE_S)
    tree = Tree(Path("/"), Path("/"))
    return turns.in_turns(tree, [(server, Ask("scan", 1, 10, 1, 0.0, seconds, 1)) for server in servers], rounds)


def test_servers_that_answer_do_not_hang_however_long_all_turns_take(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = time.monotonic()
    found = in_turns(monkeypatch, 0.001, 10, Served(1000), Served(1000))
    assert time.monotonic() - begun > SILENCE_S + 60 * 0.001, "the test needs more turns"
    assert [isinstance(one, MeasureError) or len(one["rounds"]) for one in found] == [10, 10]


def test_a_server_that_stops_is_noticed_in_its_turn_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = time.monotonic()
    stopped, other = in_turns(monkeypatch, 0.6, 6, Served(3), Served(1000))
    assert time.monotonic() - begun < 20
    assert isinstance(stopped, MeasureError)
    assert "it hung" in str(stopped)
    assert isinstance(other, dict)
    assert len(other["rounds"]) == 6
