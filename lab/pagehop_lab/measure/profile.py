"""Where processes spend their time, by perf with the clock that every machine has.

Needs root and perf.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pagehop_lab.analysis.records import Profiled

_HERTZ = 1999
_SECONDS_MAX = 60
_TOP = 12
NOT_OURS = "where the time of a server goes that runs already is not known"


def missing() -> str | None:
    """The reason why no profile is possible here; None if one is."""
    if shutil.which("perf") is None:
        return "perf is not here: apt-get install linux-perf"
    asked = ["perf", "record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "true"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"perf does not run here: {' '.join(done.stderr.split())[:200]}"


def during(processes: Sequence[int], work: Callable[[], object]) -> Profiled:
    """For the raw measurement: where processes spend their time while something is done.

    `no_profile` says why that is not known.
    """
    if (reason := NOT_OURS if not processes else missing()) is not None:
        return {"profile": [], "no_profile": reason}
    with tempfile.TemporaryDirectory(prefix="pagehop-profile-") as folder:
        out = Path(folder) / "perf.data"
        with profiled(processes, out):
            work()
        return {"profile": top(out)}


@contextlib.contextmanager
def profiled(processes: Sequence[int], out: Path) -> Iterator[None]:
    """Samples processes, with all of their threads, into a file until the context is left."""
    listed = ",".join(map(str, processes))
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(_HERTZ), "-o", str(out), "-p", listed]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_SECONDS_MAX)


def top(out: Path) -> list[tuple[float, str, str]]:
    """The functions with the most samples: percent, library, function."""
    command = ["perf", "report", "-i", str(out), "--stdio", "-q", "--no-children", "-F", "overhead,dso,symbol"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS_MAX)
    return read(done.stdout)


def read(said: str) -> list[tuple[float, str, str]]:
    """The lines of a report of perf, most first."""
    found = re.findall(r"^\s*([\d.]+)%\s+(\S+)\s+\[[.k]\]\s+(\S.*?)\s*$", said, re.MULTILINE)
    return [(float(percent), library, function) for percent, library, function in found[:_TOP]]
