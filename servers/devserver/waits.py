"""Waits for servers that may never answer, such as one whose process is stopped.

While a server works, its own time limit ends a statement. If the server hangs, only the client can
end the wait, by a shutdown of its socket.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

STATEMENT_S = 3600.0
"""Longest time of a statement, if none is set."""
QUESTION_S = 30.0
"""Longest time of a connection, and of a question that any server answers at once."""
GRACE_S = 5.0
"""Time that a server has to end a statement by itself after its limit."""


@contextlib.contextmanager
def ended_after(seconds: float, descriptor: int) -> Iterator[threading.Event]:
    """Shuts a socket down after a time. The event says whether it did."""
    ended = threading.Event()
    # A copy: the client may close its own, and another file could get the number.
    with socket.socket(fileno=os.dup(descriptor)) as known:

        def end() -> None:
            ended.set()
            with contextlib.suppress(OSError):
                known.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield ended
        finally:
            timer.cancel()
            timer.join()
