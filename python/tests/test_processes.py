"""Changes and processes: what readers see, which process may write, and the state after a kill."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import pagehop
from oracle import CHANGING as X
from oracle import DIM, beside, clustered, nearest, recall

Q = clustered(seed=22, rows=40)


def test_commits_are_kept_without_a_close(path: Path) -> None:
    index = pagehop.create(path, DIM)
    index.add(np.arange(400), X[:400])
    del index
    gc.collect()
    assert beside(path) == ["x-log"]
    with pagehop.open(path) as reader:
        assert len(reader) == 400
        assert not reader.writable
    assert beside(path) == ["x-log"]
    with pagehop.open(path, write=True) as index:
        assert len(index) == 400
    assert beside(path) == []
    with pagehop.open(path) as reader:
        assert len(reader) == 400
        reader.check()


def test_the_quicker_durability_loses_nothing_either(path: Path) -> None:
    with pagehop.create(path, DIM, durability="checkpoint") as index:
        for at in range(0, 300, 20):
            index.add(np.arange(at, at + 20), X[at : at + 20])
        with pagehop.open(path) as reader:
            assert len(reader) == 300
    assert beside(path) == []
    program = f"""
        import sys, os, numpy as np, pagehop
        index = pagehop.open({str(path)!r}, write=True, durability="checkpoint")
        index.add(1000, np.zeros({DIM}, dtype="f4"))
        os._exit(0)
    """
    run(program)
    with pagehop.open(path, write=True, durability="checkpoint") as index:
        assert len(index) == 301
        index.check()


def run(program: str, *arguments: object) -> str:
    words = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=600).stdout


OTHER_WRITER = """
    import sys, pagehop
    try:
        pagehop.open(sys.argv[1], write=True)
    except pagehop.BusyError as error:
        print(error)
    print(len(pagehop.open(sys.argv[1])))
"""


def test_a_second_writer_is_refused(writer: pagehop.Index, path: Path) -> None:
    writer.delete(0)
    error, rows = run(OTHER_WRITER, path).splitlines()
    assert f"another process is writing {path}" in error
    assert rows == "499"
    with pytest.raises(pagehop.BusyError, match="writing"):
        pagehop.open(path, write=True)
    with pytest.raises(pagehop.BusyError, match="writ"):
        pagehop.build(path, X, overwrite=True)
    writer.close()
    assert run(OTHER_WRITER, path).splitlines() == ["499"]


READER = """
    import sys, numpy as np, pagehop
    vectors = np.load(sys.argv[2])
    with pagehop.open(sys.argv[1]) as index:
        for line in sys.stdin:
            row = int(line)
            print(len(index), index.search(vectors[row], k=1).ids.tolist(), index.info().commit, flush=True)
"""


def test_a_reading_process_sees_each_commit(writer: pagehop.Index, path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    words = [sys.executable, "-c", textwrap.dedent(READER), str(path), str(tmp_path / "x.npy")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:

        def ask(row: int) -> str:
            assert reader.stdin is not None
            assert reader.stdout is not None
            print(row, file=reader.stdin, flush=True)
            return reader.stdout.readline().strip()

        for row in range(500, 520):
            writer.add(row + 5000, X[row])
            rows = len(writer)
            assert ask(row) == f"{rows} [{row + 5000}] {writer.info().commit}"
        writer.checkpoint()
        assert ask(510).startswith(f"{len(writer)} [5510] ")
        writer.delete(5510)
        assert "5510" not in ask(510)
        writer.vacuum()
        assert "5510" not in ask(510)
        _, _ = reader.communicate()
        assert reader.returncode == 0


CHECKS = """
    import sys, pagehop
    index = pagehop.open(sys.argv[1])
    print("ready", flush=True)
    while len(index) < 3000:
        try:
            index.check()
        except pagehop.BusyError as error:
            assert "while it was checked" in str(error), error
    print(index.check().nodes, flush=True)
"""


def test_a_check_by_another_process_raises_no_false_alarm(path: Path) -> None:
    with pagehop.build(path, X[:1000], write=True) as index:
        words = [sys.executable, "-c", textwrap.dedent(CHECKS), str(path)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            for at in range(1000, 3000, 50):
                index.add(np.arange(at, at + 50), X[at : at + 50])
            assert child.stdout.read() == "3000\n"


INTERRUPTED = """
    import sys, numpy as np, pagehop
    x = np.random.default_rng(1).normal(size=(20_000, 64)).astype("float32")
    step = {step}
    ready = lambda *_: print("ready", flush=True)
    index = pagehop.create(sys.argv[1], 64)
    index.add(np.arange(3000), x[:3000])
    index.delete(np.arange(1000))
    rows = len(index)
    try:
        while step == "add":
            index.add(np.arange(20_000), x, progress=ready)
            index.delete(np.arange(20_000))
            rows = 0
        ready()
        while step == "vacuum":
            index.vacuum()
            index.add(np.arange(1000), x[:1000])
            index.delete(np.arange(1000))
    except KeyboardInterrupt:
        index.add(19_999, x[-1])
        index.check()
        print(rows, len(index), flush=True)
        index.close()
"""


@pytest.mark.parametrize("step", ["add", "vacuum"])
def test_ctrl_c_stops_a_long_change(step: str, path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED).replace("{step}", repr(step)), str(path)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    os.kill(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=600)
    before, after = (int(word) for word in out.splitlines()[-1].split())
    assert child.returncode == 0
    assert step == "vacuum" or after == before + 1
    assert beside(path) == []
    with pagehop.open(path) as index:
        assert len(index) == after


KILLED = """
    import sys, numpy as np, pagehop
    x = np.load(sys.argv[2])
    index = pagehop.create(sys.argv[1], x.shape[1])
    for at in range(0, len(x), 50):
        index.add(np.arange(at, at + 50), x[at : at + 50])
        print(at + 50, flush=True)
"""


def test_commits_of_a_killed_process_are_kept(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    words = [sys.executable, "-c", textwrap.dedent(KILLED), str(path), str(tmp_path / "x.npy")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for _ in range(12):
            committed = int(child.stdout.readline())
        child.kill()
        committed = max([committed, *map(int, child.stdout.read().split())])
    with pagehop.open(path, write=True) as index:
        assert len(index) in (committed, committed + 50)
        index.check()
        rows = len(index)
        assert recall(index.search(Q, search_list=300).ids, nearest(X[:rows], Q, 10)) >= 0.95
        index.add(np.arange(3000), X)
        assert len(index) == 3000
    assert beside(path) == ["x.npy"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_cannot_change_the_index_of_its_parent(writer: pagehop.Index, path: Path) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                writer.add(1000, X[1000])
            except pagehop.ForkedError as error:
                code = 2 if "fork" in str(error) else 3
            writer.close()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 2
    assert writer.add(1000, X[1000]) == (1, 0, 0)
    with pagehop.open(path) as reader:
        assert len(reader) == 501


def test_without_rings_the_system_reads_ahead_into_its_page_cache(path: Path) -> None:
    pagehop.build(path, X[:100], memory="64MiB").close()
    program = f"""
        import ctypes, os, struct, sys, pagehop

        def forbid(number):
            # Loads the number of a system call; answers EPERM to that one and allows all others.
            steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
            code = b"".join(struct.pack("HBBI", *step) for step in steps)
            buffer = ctypes.create_string_buffer(code)
            rules = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(buffer)))
            prctl = ctypes.CDLL(None, use_errno=True).prctl
            if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.byref(rules), 0, 0):
                sys.exit("no seccomp: " + os.strerror(ctypes.get_errno()))

        def is_direct():
            index = pagehop.open({str(path)!r})
            fds = [int(fd) for fd in os.listdir("/proc/self/fd")]
            mine = [fd for fd in fds if os.path.exists(f"/proc/self/fd/{{fd}}") and same(fd)]
            flags = [open(f"/proc/self/fdinfo/{{fd}}").read().split("flags:")[1].split()[0] for fd in mine]
            assert len(index.search([0.0] * {DIM}, k=5)[0]) == 5
            return any(int(flag, 8) & os.O_DIRECT for flag in flags)

        def same(fd):
            return os.path.samestat(os.stat(f"/proc/self/fd/{{fd}}"), os.stat({str(path)!r}))

        before = is_direct()
        io_uring_setup = 425
        forbid(io_uring_setup)
        print(before, is_direct())
    """
    before, after = run(program).split()
    if before == "False":
        pytest.skip("the file system has no direct reads, or io_uring is refused already")
    assert after == "False"
