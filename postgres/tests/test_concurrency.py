"""Many sessions at once: writers, readers and vacuum, and a backend that is killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator

import psycopg

from devserver import Cluster
from tests.items import (
    QUERIES,
    RELAXED,
    by_index,
    by_scan,
    everything,
    fill,
    ids,
    number,
    only_by_index,
    recall,
    run,
    vectors,
)

Step = Callable[[psycopg.Connection], None]

ROWS = vectors(5000, seed=3)
CRASH_SECONDS_MAX = 300
KILLS = int(os.environ.get("PAGEHOP_PG_KILLS", "2"))


class Writer:
    """Inserts, deletes and updates rows with ids of its own, and records which of them exist."""

    def __init__(self, number: int) -> None:
        self.first = 1_000_000 * number
        self.random = random.Random(number)
        self.inserted = 0
        self.alive = set[int]()
        self.doubtful = set[int]()
        """Rows of a statement whose connection ended: they may be committed or not."""

    def step(self, connection: psycopg.Connection) -> None:
        draw = self.random.random()
        if draw < 0.6 or not self.alive:
            new = [self.first + self.inserted + at for at in range(self.random.choice([1, 1, 1, 8]))]
            self.inserted += len(new)
            rows = ", ".join(f"({at}, '{self.random.choice(ROWS)}')" for at in new)
            self._change(connection, f"INSERT INTO items (id, embedding) VALUES {rows}", new, self.alive | {*new})
            return
        some = self.random.choice(sorted(self.alive))
        if draw < 0.8:
            self._change(connection, f"DELETE FROM items WHERE id = {some}", [some], self.alive - {some})
        elif draw < 0.9:
            vector = self.random.choice(ROWS)
            self._change(connection, f"UPDATE items SET embedding = '{vector}' WHERE id = {some}", [], self.alive)
        else:
            self._change(connection, f"UPDATE items SET note = '{draw}' WHERE id = {some}", [], self.alive)

    def _change(self, connection: psycopg.Connection, sql: str, changed: list[int], alive: set[int]) -> None:
        doubtful = self.doubtful | {*changed}
        self.doubtful, known = doubtful, self.doubtful
        run(connection, sql)
        self.doubtful, self.alive = known, alive


class Reader:
    """Compares a search with a scan of the table in the same snapshot."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.found = self.wanted = 0

    @property
    def recall(self) -> float:
        return self.found / self.wanted

    def step(self, connection: psycopg.Connection) -> None:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        query = self.random.choice(QUERIES)
        with connection.transaction():
            rows, truth = by_index(connection, query, 20), by_scan(connection, query, 20)
            visible = {*ids(connection, "SELECT id FROM items")}
        assert len(set(rows)) == len(rows), rows
        assert set(rows) <= visible, set(rows) - visible
        self.found += len(set(rows) & set(truth))
        self.wanted += len(truth)


class Browser(Reader):
    """Keeps a cursor open during changes, and reads all its rows."""

    def step(self, connection: psycopg.Connection) -> None:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with only_by_index(connection):
            run(connection, RELAXED)
            nearest = f"SELECT id FROM items ORDER BY embedding <-> '{self.random.choice(QUERIES)}'"
            run(connection, f"DECLARE near CURSOR FOR {nearest}")
            rows = list[int]()
            while part := ids(connection, "FETCH 25 FROM near"):
                rows += part
                time.sleep(0.005)
            visible = {*ids(connection, "SELECT id FROM items")}
        assert len(set(rows)) == len(rows), "a row was returned twice"
        assert set(rows) <= visible, set(rows) - visible
        self.found += len(rows)
        self.wanted += len(visible)


def vacuum(connection: psycopg.Connection) -> None:
    run(connection, "VACUUM items")
    time.sleep(0.02)


class Crowd:
    """Threads, each with its own connection, and their errors."""

    def __init__(self, cluster: Cluster, *, may_crash: bool = False) -> None:
        self.cluster, self.may_crash = cluster, may_crash
        self.stop = threading.Event()
        self.failures = list[BaseException]()

    @contextlib.contextmanager
    def beside(self, steps: list[Step]) -> Iterator[None]:
        """Repeats each step in a thread until the end of the block."""
        threads = [threading.Thread(target=self._take, args=(step, None)) for step in steps]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()
        self.raise_failures()

    def take(self, steps: list[Step], count: int) -> list[threading.Thread]:
        """Starts a thread for each step, which repeats it `count` times."""
        threads = [threading.Thread(target=self._take, args=(step, count)) for step in steps]
        for thread in threads:
            thread.start()
        return threads

    def raise_failures(self) -> None:
        if self.failures:
            raise self.failures[0]

    def _take(self, step: Step, count: int | None) -> None:
        try:
            connection = self._connect()
            while not self.stop.is_set() if count is None else count > 0:
                try:
                    step(connection)
                except psycopg.OperationalError:
                    if not (self.may_crash and connection.broken):
                        raise
                    connection = self._connect()
                if count is not None:
                    count -= 1
                if self.failures:
                    break
            connection.close()
        except BaseException as failure:  # raised in the test's own thread
            self.failures.append(failure)

    def _connect(self) -> psycopg.Connection:
        late = time.monotonic() + CRASH_SECONDS_MAX
        while True:
            try:
                return psycopg.connect(self.cluster.dsn(), autocommit=True)
            except psycopg.OperationalError:
                if not self.may_crash or time.monotonic() > late:
                    raise
                time.sleep(0.02)


def assert_sound(cluster: Cluster, writers: list[Writer]) -> None:
    """Fails unless the table has the committed rows, the index has the table's rows, and its checks
    pass.
    """
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        rows = {*ids(connection, "SELECT id FROM items")}
        alive = set[int]().union(*(writer.alive for writer in writers))
        doubtful = set[int]().union(*(writer.doubtful for writer in writers))
        assert (rows ^ alive) <= doubtful
        for _ in range(2):
            assert everything(connection) == sorted(rows)
            assert recall(connection) > 0.95
            [report] = run(connection, "SELECT nodes, reachable, anchored FROM pagehop_check('items_embedding')")
            assert report[0] == report[1] == report[2], report
            run(connection, "VACUUM items")


def test_sessions_read_write_and_vacuum_at_once(busy_cluster: Cluster) -> None:
    writers, readers, browser = [Writer(1), Writer(2)], [Reader(1), Reader(2)], Browser(3)
    crowd = Crowd(busy_cluster)
    with crowd.beside([reader.step for reader in readers] + [browser.step, vacuum]):
        for thread in crowd.take([writer.step for writer in writers], 800):
            thread.join()
    for reader in [*readers, browser]:
        assert reader.recall > 0.95
    assert_sound(busy_cluster, writers)


def test_a_killed_backend_takes_nothing_committed_with_it(busy_cluster: Cluster) -> None:
    writers, reader = [Writer(1), Writer(2)], Reader(1)
    crowd = Crowd(busy_cluster, may_crash=True)
    with psycopg.connect(busy_cluster.dsn(), autocommit=True) as connection:
        fill(connection, vectors(300, seed=1), first=-300)
    with crowd.beside([reader.step, vacuum]):
        threads = crowd.take([writer.step for writer in writers], 600)
        kill_one_that_inserts(crowd, threads)
        for thread in threads:
            thread.join()
    assert "all server processes terminated; reinitializing" in busy_cluster.log_text()
    with psycopg.connect(busy_cluster.dsn(), autocommit=True) as connection:
        assert number(connection, "SELECT count(*) FROM items WHERE id < 0") == 300
        run(connection, "DELETE FROM items WHERE id < 0")
    assert_sound(busy_cluster, writers)


def on_standby(step: Step) -> Step:
    """The same step for a server whose replay may cancel it."""

    def tolerant(connection: psycopg.Connection) -> None:
        try:
            step(connection)
        except psycopg.errors.SerializationFailure:
            # A conflict between two statements of a transaction ends the session.
            if connection.broken:
                raise

    return tolerant


def assert_same(primary: Cluster, standby: Cluster) -> None:
    """Fails unless the standby's index passes the same checks and gives the same answers as the
    primary's.
    """
    primary.wait_for_replay(standby)
    answers = []
    for cluster in (primary, standby):
        with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
            # A kill may leave a block of zeros on the primary that no log record has.
            _, *checked = run(connection, "SELECT * FROM pagehop_check('items_embedding')")[0]
            answers.append((checked, everything(connection), [by_index(connection, query, 20) for query in QUERIES]))
    assert answers[0] == answers[1]


def test_many_sessions_insert_at_once_through_kills(busy_cluster: Cluster) -> None:
    """`PAGEHOP_PG_KILLS=100` sets the number of kills. After each, both indexes are checked."""
    writers = [Writer(number) for number in range(1, 17)]
    with psycopg.connect(busy_cluster.dsn(), autocommit=True) as connection:
        fill(connection, vectors(1000, seed=1), first=-1000)
        run(connection, "DELETE FROM items WHERE id < 0")
    standby = busy_cluster.basebackup()
    standby.start()
    for kill in range(KILLS):
        crowd, there = Crowd(busy_cluster, may_crash=True), Crowd(standby, may_crash=True)
        with crowd.beside([Reader(kill).step, vacuum]), there.beside([on_standby(Reader(kill).step)]):
            threads = crowd.take([writer.step for writer in writers], 30)
            kill_one_that_inserts(crowd, threads, rows=100)
            for thread in threads:
                thread.join()
        assert_sound(busy_cluster, writers)
        assert_same(busy_cluster, standby)
        if kill % 5 == 4:
            # Otherwise the table would grow until it had each vector dozens of times.
            with psycopg.connect(busy_cluster.dsn(), autocommit=True) as connection:
                run(connection, "DELETE FROM items")
                run(connection, "VACUUM items")
            for writer in writers:
                writer.alive, writer.doubtful = set(), set()
    assert "was terminated by signal" not in standby.log_text(), "only replay ends its sessions"
    standby.remove()


def kill_one_that_inserts(crowd: Crowd, writers: list[threading.Thread], rows: int = 700) -> None:
    """Sends SIGKILL to a backend during an insertion, once the table has more than `rows` rows. The
    server then ends all other sessions and recovers.
    """
    inserting = f"""SELECT pid FROM pg_stat_activity
        WHERE state = 'active' AND query LIKE 'INSERT%' AND (SELECT count(*) FROM items) > {rows}"""
    late = time.monotonic() + CRASH_SECONDS_MAX
    with psycopg.connect(crowd.cluster.dsn(), autocommit=True) as connection:
        while not (pids := ids(connection, inserting)):
            crowd.raise_failures()
            assert any(writer.is_alive() for writer in writers), "all writers ended before one was killed"
            assert time.monotonic() < late, "no writer inserts"
    os.kill(pids[0], signal.SIGKILL)


def test_writers_wait_for_each_other_and_none_forever(busy_cluster: Cluster) -> None:
    """Transactions of many rows, some of them rolled back, insert into two indexes of a table in
    any order.
    """
    with psycopg.connect(busy_cluster.dsn(), autocommit=True) as connection:
        run(connection, "CREATE INDEX items_cosine ON items USING pagehop (embedding vector_cosine_ops)")
    committed = [set[int](), set[int](), set[int]()]

    def batch(number: int) -> Step:
        source, unused = random.Random(number), iter(range(1_000_000 * number, 2_000_000 * number))

        def step(connection: psycopg.Connection) -> None:
            rows = [next(unused) for _ in range(20)]
            undone = source.random() < 0.3
            with connection.transaction(force_rollback=undone):
                fill(connection, source.sample(ROWS, 10), first=rows[0])
                fill(connection, source.sample(ROWS, 10), first=rows[10])
            if not undone:
                committed[number - 1].update(rows)

        return step

    crowd = Crowd(busy_cluster)
    with crowd.beside([vacuum]):
        for thread in crowd.take([batch(1), batch(2), batch(3)], 25):
            thread.join()
    with psycopg.connect(busy_cluster.dsn(), autocommit=True) as connection:
        assert everything(connection) == sorted(set[int]().union(*committed))
        assert recall(connection) > 0.95
        assert recall(connection, operator="<=>", index="items_cosine") > 0.95
