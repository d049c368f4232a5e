"""A process that holds an engine, seen from outside: requests, answers and any kind of end.

An engine that crashes, hangs or leaves a server behind must not end the run, nor outlive it. This
process adopts orphans, so that what a killed engine leaves behind can be found and ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pagehop_lab.engines.engine import EngineError
from pagehop_lab.measure import limit, tracing
from pagehop_lab.measure.limit import MemoryLimit
from pagehop_lab.measure.usage import family
from pagehop_lab.measure.watch import Watch
from pagehop_lab.run import workplace

_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 20.0
_LINES_SHOWN = 6
_LOG_END_BYTES = 20_000

# Python environments of engines have none of our own modules.
_ROOTS = [
    Path(__file__).resolve().parents[2],
    Path(__file__).resolve().parents[3] / "servers",
]

_living: set[int] = set()


class EngineFailed(Exception):  # noqa: N818
    """The engine is unable to do it, crashed, or took too long; the text says which.

    The run continues.
    """


class Child:
    """A running engine. Leaving the context ends it and everything that it started."""

    def __init__(self, python: Sequence[str], engine: str, paths: Sequence[Path] = ()) -> None:
        """Starts an engine, given as `module:Class`.

        `paths` are more folders in which to look for its module.
        """
        adopt_orphans()
        self.folder = Path(tempfile.mkdtemp(prefix="engine-"))
        # Servers run as another user, who creates files here, as in any folder for temporary files.
        self.folder.chmod(0o1777)
        self._engine = engine
        self._log = self.folder / "log"
        places = os.pathsep.join(map(str, [*_ROOTS, *paths]))
        # One thread for hidden work of the library: plans set threads, the library never does.
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*python, "-m", "pagehop_lab.run.worker", engine],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | threads | {"PYTHONPATH": places, "TMPDIR": str(self.folder)},
                start_new_session=True,
            )
        _living.add(self._process.pid)
        self._said = b""
        self._limit: MemoryLimit | None = None
        self.ended = False
        """Whether the process died or was ended because it hung: it answers no more requests."""

    def within(self, mib: int) -> Watch:
        """Limits the memory of the engine from now on, and returns what can watch its build.

        EngineFailed if the machine does not allow it.
        """
        try:
            self._limit = MemoryLimit(mib, name=str(self._process.pid))
            self._limit.enter(family(self._process.pid))
        except (EngineError, OSError) as error:
            raise EngineFailed(str(error)) from None
        return Watch(self.folder, self._limit)

    def ask(self, command: str, timeout_s: float, **request: Any) -> Any:
        """The engine's answer. EngineFailed if it does not come in time."""
        assert self._process.stdin is not None
        line = json.dumps({"command": command, **request}).encode() + b"\n"
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            raise self._ended(command) from None

        def refuse(figure: str) -> None:
            # No record may have it, so a run would end here, and end again each time it goes on.
            raise EngineFailed(f"its answer to {command} has the figure {figure}, and not a number")

        answer = json.loads(self._read_line(command, timeout_s), parse_constant=refuse)
        if "failed" in answer:
            raise EngineFailed(answer["failed"])
        return answer["ok"]

    def _read_line(self, command: str, timeout_s: float) -> bytes:
        assert self._process.stdout is not None
        pipe, late = self._process.stdout.fileno(), time.monotonic() + timeout_s
        while b"\n" not in self._said:
            left = late - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                self.end(at_once=True)
                raise EngineFailed(f"it hung: no answer to {command} in {timeout_s:g} s")
            part = os.read(pipe, 1 << 16)
            if not part:
                raise self._ended(command)
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        return line

    def _ended(self, command: str) -> EngineFailed:
        """The reason why a process ended by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        code = self._process.poll()
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        log = self.log_end()
        died = f"it died during {command}, by {how}" + (f"; its log ends with: {log}" if log else "")
        reason = died if self._limit is None else self._limit.reason(died)
        self.end(at_once=True)
        return EngineFailed(reason)

    def log_end(self) -> str:
        """The last lines of the engine's output, which usually have the reason."""
        try:
            text = self._log.read_bytes()[-_LOG_END_BYTES:].decode(errors="replace")
        except OSError:
            return ""
        return " | ".join(line.strip() for line in text.splitlines()[-_LINES_SHOWN:] if line.strip())

    def end(self, at_once: bool = False) -> None:
        """Ends the engine, with what it started, and removes its folder."""
        if self._process.pid not in _living:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        if at_once:
            self._process.terminate()
        try:
            self._process.wait(3.0 if at_once else _GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _living.discard(self._process.pid)
        self.ended = True
        end_orphans(self.folder)
        for forgotten in (tracing, limit):
            forgotten.forget(self._process.pid)
        if self._limit is not None:
            self._limit.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(at_once=kind is not None)


def adopt_orphans() -> None:
    """Makes this process the parent of orphans among its descendants."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_orphans(folder: Path) -> None:
    """Ends the orphans of an ended engine: children of this process in that engine's folder."""
    found = _orphans(folder)
    workplace.end([process for one in found for process in family(one)])
    for one in found:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(one, os.WNOHANG)


def _orphans(folder: Path) -> list[int]:
    own, place = os.getpid(), str(folder).encode()
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent != own or int(stat.parent.name) in _living:
                continue
            # The folder is every engine's TMPDIR. It is also in the command line of a server with
            # its data there.
            told = (stat.with_name("environ").read_bytes(), stat.with_name("cmdline").read_bytes())
        except OSError:
            continue
        if any(place in text for text in told):
            found.append(int(stat.parent.name))
    return found
