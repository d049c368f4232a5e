"""The process that holds diskannpy, which needs another NumPy than the rest: JSON lines in, JSON lines out.

Runs alone under its own environment, so it imports nothing of this package.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import diskannpy
import numpy as np

opened: Any = None


def build(
    base: str, folder: str, complexity: int, degree: int, codes_gb: float, memory_gb: float, threads: int
) -> dict[str, float]:
    diskannpy.build_disk_index(
        data=np.load(base),
        distance_metric="l2",
        index_directory=folder,
        complexity=complexity,
        graph_degree=degree,
        search_memory_maximum=codes_gb,
        build_memory_maximum=memory_gb,
        num_threads=threads,
    )
    return {}


def open_index(folder: str, threads: int) -> dict[str, float]:
    global opened
    opened = diskannpy.StaticDiskIndex(folder, num_threads=threads, num_nodes_to_cache=0, cache_mechanism=0)
    return {}


def search(queries: str, k: int, complexity: int, beam_width: int, threads: int, out: str) -> dict[str, float]:
    vectors = np.load(queries)
    read_before, cpu_before, wall_before = bytes_read(), time.process_time(), time.perf_counter()
    answers = opened.batch_search(vectors, k, complexity, threads, beam_width=beam_width)
    wall, cpu = time.perf_counter() - wall_before, time.process_time() - cpu_before
    np.save(out, answers.identifiers.astype(np.int64))
    return {"wall": wall, "cpu": cpu, "bytes_read": bytes_read() - read_before}


def bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def main() -> None:
    # The library writes to stdout; answers go to where stdout was.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    commands: dict[str, Any] = {"build": build, "open": open_index, "search": search}
    for line in sys.stdin:
        request = json.loads(line)
        answer = commands[request.pop("command")](**request)
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
