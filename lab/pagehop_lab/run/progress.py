"""Progress of a run, in lines: the last measurement, how many are left, and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

# The whole message of an engine is in its record.
_LINE_MAX = 600


class Progress:
    """Prints lines; `clock` gives seconds."""

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out if out is not None else sys.stderr
        self._clock = clock
        self._total = self._done = self._counted = 0
        self._begun = clock()

    def say(self, text: str) -> None:
        """One line; of a long text its beginning and its end."""
        line = " ".join(text.split()) if "\n" in text else text
        if len(line) > _LINE_MAX:
            line = f"{line[: _LINE_MAX // 3]} ... {line[-2 * _LINE_MAX // 3 :]}"
        print(line, file=self._out, flush=True)

    def begin(self, total: int, done: int) -> None:
        """Sets the number of all points, and of those that exist already."""
        self._total, self._done, self._counted = total, done, 0
        self._begun = self._clock()
        before = f", {done:,} of them measured before" if done else ""
        self.say(f"{total:,} points{before}")

    def point(self, name: str, told: str) -> None:
        """A point was measured, or failed."""
        self._done += 1
        self._counted += 1
        self.say(f"[{self._done:>{len(str(self._total))}}/{self._total}{self._left()}] {name}  {told}")

    def more(self, count: int) -> None:
        """Corrects the number of points."""
        self._total += count

    def skip(self, count: int) -> None:
        """Counts points that failed together, or exist already."""
        self._done += count
        self._counted += count

    def _left(self) -> str:
        """The estimated time that is left, from the time of the measurements so far."""
        left = self._total - self._done
        if not left or not self._counted:
            return ""
        return f", {_shown((self._clock() - self._begun) / self._counted * left)} left"


def _shown(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
