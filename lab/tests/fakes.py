"""Engines with one deliberate fault each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import (
    Description,
    EngineError,
    Float32,
    Ids,
    Kept,
    Library,
    NotInstalled,
    Options,
    Question,
    Search,
    Served,
)  # fmt: skip
from pagehop_lab.engines.pgvector_vector import PgvectorVector


class DyingServer(PgvectorVector):
    """The server is killed before the second search."""

    description: ClassVar = replace(PgvectorVector.description, name="dying-server")

    def question(self, options: Options, k: int, matching: float = 1.0) -> Question:
        if options["ef_search"] > 10:
            os.kill(self.pid() or 0, signal.SIGKILL)
        return super().question(options, k, matching)


def describe(name: str, **more: Any) -> Description:
    return Description(name, f"the {name} one", "main", {"m": 8}, {"ef": (10, 100)}, "made up", **more)


class Honest(Library):
    """Compares `ef` percent of the rows, and reports that this is an index."""

    description: ClassVar = describe("honest")

    @classmethod
    def version(cls) -> str:
        return "1.0"

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        self._base = np.array(base)

    def searcher(self, options: Options, k: int) -> Search:
        rows = np.flatnonzero(np.arange(len(self._base)) % 100 < options["ef"])
        base = self._base[rows]

        def search(queries: Float32) -> Ids:
            distances = ((queries[:, None, :] - base[None, :, :]) ** 2).sum(axis=2)
            return rows[np.argsort(distances, axis=1)[:, :k]]

        return search

    def index_bytes(self) -> int:
        return int(self._base.nbytes)

    def index_used(self) -> bool | None:
        return True


class Scanning(Honest):
    description: ClassVar = describe("scanning")

    def index_used(self) -> bool:
        return False


class QuietlyScanning(Honest):
    """Compares every row, slowly, and cannot report whether it uses its index."""

    description: ClassVar = describe("quietly-scanning")

    def searcher(self, options: Options, k: int) -> Search:
        search = super().searcher({"ef": 100}, k)

        def slowly(queries: Float32) -> Ids:
            # Long enough that a busy machine adds only a small part, and that all settings take
            # equally long.
            time.sleep(0.02)
            return search(queries)

        return slowly

    def index_used(self) -> None:
        return None


class Short(Honest):
    description: ClassVar = describe("short")

    def searcher(self, options: Options, k: int) -> Search:
        return super().searcher(options, k - 1)


class Repeating(Honest):
    """Returns its first row twice."""

    description: ClassVar = describe("repeating")

    def searcher(self, options: Options, k: int) -> Search:
        search = super().searcher(options, k)
        return lambda queries: search(queries)[:, [0, *range(k - 1)]]


class Unknown(Honest):
    """Returns rows that do not exist."""

    description: ClassVar = describe("unknown")

    def searcher(self, options: Options, k: int) -> Search:
        search = super().searcher(options, k)
        return lambda queries: search(queries) + 1_000_000


class Wrong(Honest):
    """Returns rows that are not near: the answers are valid, but their recall is low."""

    description: ClassVar = describe("wrong")

    def searcher(self, options: Options, k: int) -> Search:
        def search(queries: Float32) -> Ids:
            time.sleep(0.0002)
            return np.arange(k)[None].repeat(len(queries), axis=0)

        return search


class Instant(Honest):
    """Needs no time: the measurement is that of the client."""

    description: ClassVar = describe("instant")

    def searcher(self, options: Options, k: int) -> Search:
        answer = np.arange(k)[None]
        return lambda _: answer


class Failing(Honest):
    """Fails in every second search."""

    description: ClassVar = describe("failing")

    def searcher(self, options: Options, k: int) -> Search:
        search, asked = super().searcher(options, k), iter(range(1_000_000))

        def sometimes(queries: Float32) -> Ids:
            if next(asked) % 2:
                raise RuntimeError("out of luck")
            return search(queries)

        return sometimes


class Missing(Honest):
    description: ClassVar = describe("missing")

    @classmethod
    def version(cls) -> str:
        raise NotInstalled("there is no such library; pip install missing")


class Refusing(Honest):
    description: ClassVar = describe("refusing")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        raise EngineError("it takes at most 3 dimensions")


class DyingInBuild(Honest):
    description: ClassVar = describe("dying-in-build")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        print("something is very wrong", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)


class DyingInSearch(Honest):
    """Ends its process at ef = 100."""

    description: ClassVar = describe("dying-in-search")

    def searcher(self, options: Options, k: int) -> Search:
        if options["ef"] == 100:
            os._exit(7)
        return super().searcher(options, k)


class Hanging(Honest):
    """Starts a process that nothing else would end, ignores SIGTERM, and hangs."""

    description: ClassVar = describe("hanging")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", os.environ.get("SLEEP_S", "98765")], start_new_session=True)
        time.sleep(1000)


class Slow(Honest):
    """Needs two milliseconds for an answer."""

    description: ClassVar = describe("slow")

    def searcher(self, options: Options, k: int) -> Search:
        search = super().searcher(options, k)

        def slowly(queries: Float32) -> Ids:
            time.sleep(0.002)
            return search(queries)

        return slowly


class Warming(Honest):
    """Reads from storage in its first search, and sleeps like the other slow engines."""

    description: ClassVar = describe("warming")

    def searcher(self, options: Options, k: int) -> Search:
        search, path = super().searcher(options, k), self.folder / f"cold-{options['ef']}"
        reads = not path.exists()
        path.write_bytes(bytes(1 << 20))

        def cold(queries: Float32) -> Ids:
            if reads:
                with path.open("rb") as file:
                    os.fdatasync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    file.read()
            return search(queries)

        return cold


class Cold(Honest):
    """Reads a page of its file for every search. `cool` makes the kernel drop the file from its
    cache.
    """

    description: ClassVar = describe("cold")

    def searcher(self, options: Options, k: int) -> Search:
        search, path = super().searcher(options, k), self.folder / "pages"
        if not path.exists():
            path.write_bytes(bytes(1 << 20))
        numbers = iter(range(1_000_000))

        def reading(queries: Float32) -> Ids:
            with path.open("rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                file.seek(4096 * (next(numbers) % 256))
                file.read(4096)
            return search(queries)

        return reading

    def cool(self) -> None:
        self.searcher({"ef": 10}, 1)
        with (self.folder / "pages").open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Hoarding(Cold):
    """Holds `m` MiB while it builds, and fills 8 MiB of a file without a name and 4 MiB of one with
    a name.
    """

    description: ClassVar = describe("hoarding")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        held = np.ones(options["m"] << 20, dtype=np.uint8)
        with tempfile.TemporaryFile(dir=self.folder) as nameless, (self.folder / "kept").open("wb") as kept:
            for file, size in [(nameless, 8 << 20), (kept, 4 << 20)]:
                file.write(bytes(size))
                file.flush()
                os.fdatasync(file.fileno())
            # The watch looks several times a second.
            time.sleep(0.5)
        assert held.any()
        super().build(base, metric, options, threads, seed)


class Lukewarm(Honest):
    """Reports that its caches are empty, but reads nothing."""

    description: ClassVar = describe("lukewarm")

    def cool(self) -> None:
        pass


class Filtering(Honest):
    """Compares the rows that meet a filter."""

    description: ClassVar = describe("filtering")

    def filtered(self, options: Options, k: int, kept: Kept) -> Search:
        rows = np.flatnonzero(kept)
        base = self._base[rows]

        def search(queries: Float32) -> Ids:
            distances = ((queries[:, None, :] - base[None, :, :]) ** 2).sum(axis=2)
            return rows[np.argsort(distances, axis=1)[:, :k]]

        return search


class Elsewhere(Honest):
    """Another process does the work of a search, and the client works for the same time."""

    description: ClassVar = describe("elsewhere")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        super().build(base, metric, options, threads, seed)
        self._process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    def searcher(self, options: Options, k: int) -> Search:
        search = super().searcher(options, k)

        def busy(queries: Float32) -> Ids:
            end = time.perf_counter() + 0.002
            while time.perf_counter() < end:
                pass
            return search(queries)

        return busy

    def processes(self) -> list[int]:
        return [self._process.pid]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Leaking(Honest):
    """Returns rows that do not meet the filter."""

    description: ClassVar = describe("leaking")

    def filtered(self, options: Options, k: int, kept: Kept) -> Search:
        return self.searcher(options, k)


class Costly(Honest):
    """Needs five milliseconds for a call of any size, far more than other work adds."""

    description: ClassVar = describe("costly")

    def searcher(self, options: Options, k: int) -> Search:
        search = super().searcher(options, k)

        def called(queries: Float32) -> Ids:
            time.sleep(0.005)
            return search(queries)

        return called


class Drifting(Honest):
    """Needs DRIFT_MS milliseconds for an answer."""

    description: ClassVar = describe("drifting")

    def searcher(self, options: Options, k: int) -> Search:
        search, seconds = super().searcher(options, k), float(os.environ.get("DRIFT_MS", "2")) / 1e3

        def slowly(queries: Float32) -> Ids:
            time.sleep(seconds)
            return search(queries)

        return slowly


ALL: tuple[type[Library | Served], ...] = (
    Honest, Scanning, QuietlyScanning, Short, Repeating, Unknown, Wrong, Instant, Failing, Missing, Refusing,
    DyingInBuild, DyingInSearch, Hanging, Slow, Warming, Cold, Hoarding, Lukewarm, Filtering, Elsewhere, Leaking,
    Costly, Drifting, DyingServer,
)  # fmt: skip
BY_NAME: dict[str, type[Library | Served]] = {one.description.name: one for one in ALL}
