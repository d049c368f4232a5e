"""A known regression: a server is stopped for a share of the time.

The server is stopped for some milliseconds out of every fifty, so its clients lose that share. A
run with it shows how small a regression the run can detect.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence

PERIOD_S = 0.05


@contextlib.contextmanager
def slowed(processes: Sequence[int], share: float) -> Iterator[None]:
    """Slows processes by a share of the time; 0 does nothing. They run when the context is left."""
    if share == 0:
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_work, args=(processes, share, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _work(processes: Sequence[int], share: float, over: threading.Event) -> None:
    # This thread starts on its parent's core, which may be the busy core of the server: it would
    # wake up late there.
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    while not over.is_set():
        time.sleep(PERIOD_S * (1 - share))
        begun = time.perf_counter()
        try:
            _tell(processes, signal.SIGSTOP)
            time.sleep(max(PERIOD_S * share - (time.perf_counter() - begun), 0))
        finally:
            _tell(processes, signal.SIGCONT)


def _tell(members: Sequence[int], what: signal.Signals) -> None:
    for process in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, what)
