"""A private server: one process, over data in a temporary folder. Each product is a subclass."""

from __future__ import annotations

import atexit
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from devserver.errors import DevServerError
from devserver.processes import last_lines, serve


class ServerProcess:
    """A folder and, while it runs, a server over it. Both are removed when the context or the
    process ends.
    """

    _kind = "server"
    """What messages call it."""
    _seconds_max = 120
    """Longest time of a start and of an end."""
    _removed_by = signal.SIGKILL
    """The signal that ends a server whose files are not needed any more."""

    def __init__(self, prefix: str, place: Path | None = None) -> None:
        """Makes the folder, in `place` if it is given. Its name begins with `prefix`."""
        self.folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.remove)

    def __enter__(self) -> Self:
        if not self.running:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the server's first process."""
        if self._process is None:
            raise DevServerError(f"the {self._kind} does not run: start() it")
        return self._process.pid

    def start(self) -> None:
        """Starts the server and waits until it takes connections."""
        if self.running:
            raise DevServerError(f"the {self._kind} runs already")
        self._start()

    def kill(self) -> None:
        """Sends SIGKILL to the server and all of its processes."""
        self._end(signal.SIGKILL)

    def remove(self) -> None:
        """Ends the server and removes its folder."""
        atexit.unregister(self.remove)
        try:
            self._stop(self._removed_by)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def log_text(self) -> str:
        """The server's log. Bytes that are not UTF-8 are replaced, because a message may have
        another encoding.
        """
        return self.log.read_text(errors="replace")

    def log_end(self) -> str:
        """The last lines of the server's log."""
        return last_lines(self.log_text()) if self.log.exists() else "(empty)"

    def _start(self) -> None:
        """Starts the server, which does not run, and waits until it takes connections."""
        raise NotImplementedError

    def _serve(self, command: Sequence[str | Path], is_ready: Callable[[], bool]) -> None:
        """Starts the server's process and waits until `is_ready`."""
        self._process = serve(command, self.folder, self.log)
        late = time.monotonic() + self._seconds_max
        while not is_ready():
            if not self.running or time.monotonic() > late:
                self.kill()
                raise self._failed("did not start", self.log_end())
            time.sleep(0.02)

    def _stop(self, by: signal.Signals) -> None:
        """Ends the server by a signal, and kills it if it does not end in time."""
        try:
            self._end(by)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failed(f"did not stop in {self._seconds_max} s and was killed", self.log_end()) from None

    def _end(self, by: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(by)
        self._process.wait(self._seconds_max)
        self._process = None

    def _named(self) -> str:
        """The server's name in messages about its log."""
        return f"the server of {self.data}"

    def _failed(self, what: str, said: str) -> DevServerError:
        """The error of a server that `said` something before it failed."""
        return DevServerError(f"{self._named()} {what}; its log ends with\n{said}")
