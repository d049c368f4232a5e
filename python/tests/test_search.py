"""Searches: results, their shapes and costs, by many threads, and interrupted by Ctrl-C."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import pagehop
from oracle import DIM, QUERIES, ROWS, nearest, recall
from pagehop.arrays import Float32


def test_a_matrix_gives_what_its_rows_give(index: pagehop.Index, queries: Float32) -> None:
    hits = index.search(queries, k=7)
    assert hits.ids.shape == hits.distances.shape == (QUERIES, 7)
    assert [hits.ids.dtype, hits.distances.dtype] == ["int64", "float32"]
    for row, query in enumerate(queries):
        one = index.search(query, k=7)
        assert one.ids.shape == one.distances.shape == (7,)
        np.testing.assert_array_equal(one.ids, hits.ids[row])
        np.testing.assert_array_equal(one.distances, hits.distances[row])


def test_hits_unpack_as_ids_and_distances(index: pagehop.Index, queries: Float32) -> None:
    hits = index.search(queries[0], k=4)
    ids, distances = hits
    assert ids is hits.ids
    assert distances is hits.distances
    assert [ids.dtype, distances.dtype, ids.shape] == ["int64", "float32", (4,)]
    assert hits.stats.per_query.hops.shape == (1,)
    assert hits == hits
    assert hits != index.search(queries[0], k=4)
    distances[0] = 7
    assert hits.distances[0] == 7, "the arrays belong to the caller"
    ids, distances = index.search(queries[:2], k=3)
    assert ids.shape == distances.shape == (2, 3)
    assert pickle.loads(pickle.dumps(hits)).ids.tolist() == hits.ids.tolist()


def test_threads_change_nothing(index: pagehop.Index, queries: Float32) -> None:
    one = index.search(queries, threads=1)
    for threads in [0, 2, 5]:
        many = index.search(queries, threads=threads)
        np.testing.assert_array_equal(many.ids, one.ids)
        np.testing.assert_array_equal(many.stats.per_query.hops, one.stats.per_query.hops)


def test_search_list_raises_recall_and_cost(index: pagehop.Index, vectors: Float32, queries: Float32) -> None:
    truth = nearest(vectors, queries, 10)
    low, high = index.search(queries, search_list=10), index.search(queries, search_list=300)
    assert recall(low.ids, truth) <= recall(high.ids, truth)
    assert recall(high.ids, truth) >= 0.97
    assert low.stats.hops <= high.stats.hops


def test_slack_raises_recall_and_cost(index: pagehop.Index, vectors: Float32, queries: Float32) -> None:
    truth = nearest(vectors, queries, 10)
    low, high = index.search(queries, slack=0.0), index.search(queries, slack=float("inf"))
    assert recall(low.ids, truth) <= recall(high.ids, truth)
    assert low.stats.hops < high.stats.hops


def test_distances_are_sorted_and_near_the_truth(index: pagehop.Index, vectors: Float32, queries: Float32) -> None:
    hits = index.search(queries, search_list=300)
    assert (np.diff(hits.distances, axis=1) >= 0).all()
    true = ((vectors[hits.ids] - queries[:, None]) ** 2).sum(2)
    np.testing.assert_allclose(hits.distances, true, rtol=0.02)


def test_stats_add_up(index: pagehop.Index, queries: Float32) -> None:
    stats = index.search(queries).stats
    for name, per_query in stats.per_query._asdict().items():
        assert per_query.shape == (QUERIES,)
        assert getattr(stats, name) == per_query.sum()
        assert name in repr(stats)
    assert stats.pages_read >= stats.pages_missed
    assert (stats.per_query.hops >= 1).all()


def test_rows_that_do_not_exist_are_padding(tmp_path: Path, vectors: Float32) -> None:
    with pagehop.build(tmp_path / "x", vectors[:5]) as index:
        hits = index.search(vectors[:3], k=8)
        assert sorted(hits.ids[0, :5]) == [0, 1, 2, 3, 4]
        assert (hits.ids[:, 5:] == -1).all()
        assert np.isinf(hits.distances[:, 5:]).all()
        assert index.search(vectors[0], k=8).ids.shape == (5,)


def test_no_queries_give_no_rows(index: pagehop.Index) -> None:
    hits = index.search(np.empty((0, DIM), dtype=np.float32), k=3)
    assert hits.ids.shape == (0, 3)
    assert hits.stats.hops == 0


def test_queries_of_other_types_and_layouts_are_the_same(index: pagehop.Index, queries: Float32) -> None:
    expected = index.search(queries).ids
    np.testing.assert_array_equal(index.search(queries.astype(np.float16)).ids, expected)
    np.testing.assert_array_equal(index.search(np.asfortranarray(queries)).ids, expected)
    np.testing.assert_array_equal(index.search(queries[0].tolist()).ids, expected[0])
    frozen = queries.copy()
    frozen.setflags(write=False)
    np.testing.assert_array_equal(index.search(frozen).ids, expected)


def test_an_index_says_what_it_is(index: pagehop.Index, index_path: Path) -> None:
    assert (len(index), index.dim, index.path) == (ROWS, DIM, str(index_path))
    info = index.info()
    assert (info.rows, info.dim, info.metric) == (ROWS, DIM, "l2")
    report = index.check()
    assert report.nodes == report.reachable == ROWS
    assert report.pages == info.pages
    assert "3000 rows" in repr(index)


def test_a_closed_index_says_so(index_path: Path, queries: Float32) -> None:
    with pagehop.open(index_path) as index:
        pass
    index.close()
    uses: list[Callable[[], object]] = [
        lambda: index.search(queries),
        index.check,
        index.info,
        lambda: index.columns,
    ]
    for use in uses:
        with pytest.raises(pagehop.ArgumentError, match="closed"):
            use()
    assert (len(index), index.dim) == (ROWS, DIM)
    assert "closed" in repr(index)


def test_many_threads_share_an_index_with_a_small_cache(index_path: Path, queries: Float32) -> None:
    with pagehop.open(index_path, cache="1MiB") as index, ThreadPoolExecutor(8) as pool:
        expected = index.search(queries, threads=1).ids
        for found in pool.map(lambda _: index.search(queries, threads=2).ids, range(16)):
            np.testing.assert_array_equal(found, expected)


def test_closing_while_others_search_is_safe(index_path: Path, queries: Float32) -> None:
    index = pagehop.open(index_path)
    expected = index.search(queries).ids
    started, failures = threading.Barrier(4), []

    def search() -> None:
        started.wait()
        try:
            while True:
                np.testing.assert_array_equal(index.search(queries, threads=1).ids, expected)
        except pagehop.ArgumentError:
            pass
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=search) for _ in range(3)]
    for worker in workers:
        worker.start()
    started.wait()
    index.close()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    assert failures == []


def test_other_threads_run_during_a_search(index: pagehop.Index, queries: Float32) -> None:
    many = np.repeat(queries, 40, axis=0)
    ticks, done = 0, threading.Event()

    def search() -> None:
        index.search(many, search_list=500, threads=1)
        done.set()

    worker = threading.Thread(target=search)
    worker.start()
    while not done.wait(0.001):
        ticks += 1
    worker.join()
    assert ticks > 5


INTERRUPTED = """
    import sys, numpy as np, pagehop
    x = np.random.default_rng(1).normal(size=(20_000, 64)).astype("float32")
    step = {step}
    try:
        if step == "build":
            while True:
                pagehop.build(sys.argv[1], x, overwrite=True, progress=lambda *_: print("ready", flush=True))
        index = pagehop.build(sys.argv[1], x[:2000])
        print("ready", flush=True)
        while True:
            index.search(x, k=100, search_list=2000)
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


@pytest.mark.parametrize("step", ["build", "search"])
def test_ctrl_c_stops_long_work(step: str, tmp_path: Path) -> None:
    program = textwrap.dedent(INTERRUPTED).replace("{step}", repr(step))
    # A background job of a shell starts with SIGINT ignored, and Python would keep it ignored.
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "x")],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    os.kill(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=600)
    assert out.splitlines()[-1] == "stopped"
    assert child.returncode == 0
