"""A writer in a process of its own: `python -m pagehop_bench.changes.writer TASK ...`, JSON lines out.

`add` adds flat out until its input ends or its rows do. `fill` adds until the log is as long as wanted, says
so, and goes on adding until it is killed; every batch that is durable is told before the next begins.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import pagehop
from pagehop_bench import machine
from pagehop_bench.changes.vectors import batches
from pagehop_bench.engines import Float32
from pagehop_bench.engines.pagehop_file import HOT


class Writer:
    """The child process, seen from the one that measures. It is killed when it is left."""

    def __init__(self, task: str, *arguments: object) -> None:
        command = [sys.executable, "-m", "pagehop_bench.changes.writer", task, *map(str, arguments)]
        # The package may be on the path of this process alone, as it is under pytest.
        path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": path}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def line(self) -> dict[str, Any]:
        """What it says next; waits for it."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text.endswith("\n"):
            raise RuntimeError(f"the writer ended with status {self.process.wait()}")
        said: dict[str, Any] = json.loads(text)
        return said

    def ended(self) -> dict[str, Any]:
        """Asks `add` to end, and gives what it did."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.line()

    def killed(self) -> list[dict[str, Any]]:
        """Ends it by SIGKILL, and gives what it had said that was not read yet."""
        assert self.process.stdout is not None
        self.process.kill()
        said = self.process.stdout.read()
        self.process.wait()
        # The last line may be half a line.
        return [json.loads(text) for text in said.split("\n")[:-1]]

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        for end in [self.process.stdin, self.process.stdout]:
            if end is not None:
                end.close()


def flat_out(index: pagehop.Index, rows: Float32, first: int, batch: int, ended: Callable[[], bool]) -> dict[str, Any]:
    """Adds `rows`, ids from `first`, without pause until `ended` or nothing is left; says how much and how fast."""
    wall, done = time.perf_counter(), 0
    for at in batches(0, len(rows), batch):
        # One batch at least: a few searches are over before a writer begins.
        index.add(at + first, rows[at[0] : at[-1] + 1])
        done += len(at)
        if ended():
            break
    wall = time.perf_counter() - wall
    return {"rows": done, "wall_s": wall, "rows_per_s": done / wall, "ran_out": done == len(rows)}


def add(path: str, vectors: str, first: str, batch: str) -> None:
    """Adds rows of a `.npy` file, from `first`, until the input ends; says `ready` before, and what it did after."""
    rows = np.array(np.load(vectors, mmap_mode="r")[int(first) :])
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stop.set()

    with pagehop.open(path, cache=HOT, write=True, durability="commit") as index:
        threading.Thread(target=wait, daemon=True).start()
        # Reads every page: a writer that finds nothing cached writes so little that it disturbs nobody.
        index.check()
        _say(ready=True)
        cpu = machine.cpu_seconds()
        done = flat_out(index, rows, int(first), int(batch), stop.is_set)
        _say(**done, cpu_s=machine.cpu_seconds() - cpu)


def fill(path: str, vectors: str, first: str, batch: str, log_bytes: str) -> None:
    """Adds rows of a `.npy` file until that much was logged since the last checkpoint, then goes on."""
    base = np.load(vectors, mmap_mode="r")
    with pagehop.open(path, cache=HOT, write=True, durability="commit") as index:
        info = index.info()
        since, checkpoints, full = info.log_bytes_written, info.checkpoints, False
        for ids in batches(int(first), len(base), int(batch)):
            index.add(ids, np.array(base[ids[0] : ids[-1] + 1]))
            info = index.info()
            if info.checkpoints != checkpoints:
                since, checkpoints = info.log_bytes_written, info.checkpoints
            logged = info.log_bytes_written - since
            full = full or logged >= int(log_bytes)
            _say(durable=int(ids[-1]) + 1, logged=logged, checkpoints=checkpoints, full=full)
        _say(ran_out=True)


def _say(**said: Any) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    tasks: dict[str, Callable[..., None]] = {"add": add, "fill": fill}
    tasks[sys.argv[1]](*sys.argv[2:])
