"""diskannpy's disk index: codes in memory, nodes with full vectors in 4 KiB sectors, no node cache.

Graph degree 64 and build complexity 100 are the library's defaults; one code byte for four
dimensions is what its documentation uses for SIFT.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from pagehop_bench.engines import Float32, Int64

DEGREE = 64
COMPLEXITY = 100
BEAM_WIDTH = 4
DIMS_PER_CODE_BYTE = 4

VARIABLE = "PAGEHOP_DISKANN_PYTHON"


class NotInstalled(Exception):  # noqa: N818
    """There is no Python with diskannpy here."""


@dataclass(frozen=True)
class Timed:
    """One search, timed inside the worker."""

    ids: Int64
    wall: float
    cpu: float
    bytes_read: int


class DiskAnn:
    """A disk index in `folder`, held by a process of its own."""

    def __init__(self, folder: Path) -> None:
        python = os.environ.get(VARIABLE)
        if not python:
            raise NotInstalled(
                f"{VARIABLE} does not name a Python with diskannpy (wheels exist for Python 3.9 to 3.11)"
            )
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._log = (folder / "log").open("w")
        self._worker = subprocess.Popen(
            [python, str(Path(__file__).with_name("diskann_worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def build(self, base: Float32, threads: int) -> None:
        """Builds the index, unless the folder has one over the same vectors and settings."""
        code_bytes = base.shape[1] // DIMS_PER_CODE_BYTE
        wanted = f"{base.shape} {float(base[-1].sum())} {DEGREE} {COMPLEXITY} {code_bytes}"
        done = self._folder / "built"
        if done.exists() and done.read_text() == wanted:
            return
        np.save(self._folder / "base.npy", base)
        codes_gb = len(base) * (code_bytes + 0.5) / 2**30
        self._ask(
            "build",
            base=str(self._folder / "base.npy"),
            folder=str(self._folder),
            complexity=COMPLEXITY,
            degree=DEGREE,
            codes_gb=codes_gb,
            memory_gb=8.0,
            threads=threads,
        )
        (self._folder / "base.npy").unlink()
        done.write_text(wanted)

    def open(self) -> None:
        """Opens the index: its codes come into memory, no node does."""
        # Opened for one thread it waits for ever; a search still says how many threads it uses.
        self._ask("open", folder=str(self._folder), threads=max(2, os.cpu_count() or 1))

    def code_bytes(self) -> int:
        """Bytes of the codes and their tables, which the engine holds in memory."""
        return sum((self._folder / f"ann_pq_{part}.bin").stat().st_size for part in ["compressed", "pivots"])

    def index_bytes(self) -> int:
        """Bytes of the file searched on disk, and of the codes."""
        return (self._folder / "ann_disk.index").stat().st_size + self.code_bytes()

    def search(self, queries: Float32, k: int, complexity: int, threads: int) -> Timed:
        """Answers all `queries` in one call."""
        asked, out = self._folder / "queries.npy", self._folder / "found.npy"
        np.save(asked, queries)
        answer = self._ask(
            "search",
            queries=str(asked),
            k=k,
            complexity=complexity,
            beam_width=BEAM_WIDTH,
            threads=threads,
            out=str(out),
        )
        return Timed(np.load(out), **answer)

    def _ask(self, command: str, **request: Any) -> Any:
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps({"command": command, **request}) + "\n")
        self._worker.stdin.flush()
        answer = self._worker.stdout.readline()
        if not answer:
            raise RuntimeError(f"diskannpy ended during {command}; see {self._log.name}")
        return json.loads(answer)

    def __enter__(self) -> DiskAnn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._worker.stdin is not None
        self._worker.stdin.close()
        self._worker.wait()
        self._log.close()
