"""Work whose memory is measured, alone in a process: `python -m pagehop_bench.child TASK ...`, one JSON line out."""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np

import pagehop
from pagehop_bench import machine
from pagehop_bench.engines.pagehop_file import knobs


def search(index: str, queries: str, effort: int, cache: str) -> dict[str, float]:
    """Answers all queries with one thread, and says what was resident meanwhile."""
    vectors = np.load(queries)
    machine.forget_peak_memory()
    before = machine.memory("VmRSS")
    with pagehop.open(index, cache=cache) as opened:
        for first in range(0, len(vectors), 100):
            opened.search(vectors[first : first + 100], k=10, threads=1, **knobs(effort))
        return {"before": before, "peak": machine.memory("VmHWM")}


def build(index: str, vectors: str, memory: str) -> dict[str, float]:
    """Builds with all cores; the most memory of its own is sampled, pages of mapped files are not its own."""
    base = np.load(vectors, mmap_mode="r")
    done = threading.Event()
    peak = [machine.memory("RssAnon")]

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], machine.memory("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    before, wall, cpu = peak[0], time.perf_counter(), machine.cpu_seconds()
    pagehop.build(index, base, memory=memory, overwrite=True).close()
    times = {"wall_s": time.perf_counter() - wall, "cpu_s": machine.cpu_seconds() - cpu}
    done.set()
    watcher.join()
    return {"before": before, "peak": peak[0], **times}


def main(task: str, *arguments: str) -> None:
    """Runs `task` and prints what it says."""
    if task == "search":
        index, queries, effort, cache = arguments
        said = search(index, queries, int(effort), cache)
    else:
        said = build(*arguments)
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
