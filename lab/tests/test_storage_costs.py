"""Storage costs: formulas of write amplification on published counters, settling, and plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.plan import PlanError
from pagehop_lab.plan.servers import CaseSpec, everything
from pagehop_lab.suites.log_writes.cases import account, bytes_per_sync, expected, least, per_sync
from pagehop_lab.suites.log_writes.measure import split
from pagehop_lab.suites.point_reads.cases import ReadCase, settled
from runs import needed_bytes, read_servers

PAGE = 4096
POINTS = """suite = "point-reads"
[load]
rows = 600_000
row_bytes = 512
memory_mib = 36
sessions = [8, 32]
read_ahead_kib = [0, 128]
{load}
[[server]]
product = "mariadb"
version = "11.8"
options = {{ page_bytes = [4096, 65536], access = ["buffered", "direct"] }}
[[server]]
product = "lmdb"
{more}
"""
LOGS = """suite = "log-writes"
[load]
commit_bytes = [100, 4000]
sessions = [1, 8]
[configuration]
durability = "commit"
[[server]]
product = "postgres"
version = "18"
options = { sync = ["fdatasync", "open_datasync"], sector_bytes = [512, 4096] }
"""


@pytest.mark.parametrize(
    ("written", "syncs", "each", "low", "usual"),
    [
        (656_878_594_048, 370_923_966, "1770.9", "2.31", "3.31"),
        (699_055_440_580, 385_104_140, "1815.2", "2.26", "3.26"),
    ],
)
def test_published_counters_give_the_published_amplification(
    written: int, syncs: int, each: str, low: str, usual: str
) -> None:
    """The redo log and the binary log of a production server, by the functions of the suite's
    tables.
    """
    found = bytes_per_sync(written, syncs)
    assert (f"{found:.1f}", f"{least(found, PAGE):.2f}", f"{expected(found, PAGE):.2f}") == (each, low, usual)


def test_amplification_falls_as_commits_grow_and_is_one_for_whole_pages() -> None:
    assert least(PAGE, PAGE) == least(3 * PAGE, PAGE) == 1
    assert least(PAGE + 1, PAGE) == pytest.approx(2, rel=1e-3)
    assert expected(1, PAGE) == least(1, PAGE) == PAGE
    sizes = [1, 10, 512, 4000, 4096, 100_000]
    usual = [expected(size, PAGE) for size in sizes]
    assert usual == sorted(usual, reverse=True)
    # Simulates writes that start at any byte of a page.
    starts = np.random.default_rng(1).integers(0, PAGE, 200_000)
    pages = (starts + 1770 - 1) // PAGE + 1
    assert float(pages.mean()) * PAGE / 1770 == pytest.approx(expected(1770, PAGE), rel=0.01)


def log(**more: Any) -> Any:
    """Figures of 1,000 commits with 300 bytes of log each, in pages of 4,096 bytes."""
    written = round(1000 * (PAGE + 300 - 1))
    return {
        "name": "redo", "sector_bytes": 512, "page_bytes": PAGE, "logical_bytes": 300_000, "counted_bytes": None,
        "writes": 1000, "syncs": None, "device": {"bytes": written + 4096 * 10, "writes": 1010},
        "requests": {"log_bytes": written, "file_system_bytes": 4096 * 10},
    } | more  # fmt: skip


def test_a_ledger_adds_up_or_says_how_much_is_unexplained() -> None:
    whole = account(log())
    assert whole is not None
    assert (whole.adds_up, whole.by_formula) == (True, True)
    assert whole.unexplained == pytest.approx(0, abs=1e-9)
    counted = account(log(counted_bytes=4_000_000))
    assert counted is not None
    assert (counted.by_formula, counted.adds_up) == (False, False)
    assert counted.unexplained == pytest.approx(1 - 4_040_960 / 4_435_960, abs=1e-3)
    # Three of four writes were overwritten before the next sync.
    pages = round(250 * (PAGE + 1200 - 1))
    seldom = account(log(syncs=250, device={"bytes": pages, "writes": 250}, requests=None))
    assert seldom is not None
    assert seldom.unexplained == pytest.approx(0, abs=1e-9)
    # If each write is durable by itself, there are no syncs.
    assert account(log(syncs=0)) == whole
    untold = account(log(writes=None))
    assert untold is not None
    assert (untold.unexplained, untold.adds_up) == (None, False)
    assert account(log(device=None)) is None
    assert per_sync(log()) == 300
    assert per_sync(log(syncs=100)) == 3000
    assert per_sync(log(writes=None)) is None


def test_requests_are_those_of_the_logs_files_or_of_the_file_system() -> None:
    form = "x-1 [000] ..... 1.0: block_rq_issue: 7,0 {kind} {bytes} () {sector} + {count} none,0,0 [x]"
    told = [("WS", 2048, 8), ("FWFS", 2056, 1), ("WS", 4096, 8), ("R", 2048, 8), ("WM", 8, 8), ("FF", 0, 0)]
    lines = [form.format(kind=kind, bytes=count * 512, sector=sector, count=count) for kind, sector, count in told]
    found = split(lines, [(2048 * 512, 2064 * 512)])
    assert found == {"log_bytes": 9 * 512, "log_writes": 2, "file_system_bytes": 16 * 512, "least_write_bytes": 512}


def test_a_rate_has_settled_when_it_goes_nowhere() -> None:
    random = np.random.default_rng(3)
    noise = 1 + 0.03 * random.standard_normal(40)
    steady = list(1000 * noise)
    assert not settled(steady[:9])
    assert settled(steady[:10])
    # A single stall does not count as drift.
    assert settled([*steady[:7], 10.0, *steady[8:10]])
    warming = [1000 * (1 - np.exp(-at / 8)) * noise[at] for at in range(40)]
    assert not settled(warming[:12])
    assert settled(warming)
    assert not any(settled(list(np.linspace(100, 1000, count))) for count in range(10, 30))
    assert settled([0.0] * 10)


HONEST: Any = {
    "errors": 0, "count": 1000, "qps": 1000.0, "storage_reads_per_query": None, "client_share_of_machine": 0.1,
    "client_share_of_core": 0.2,
    "other_busy_cores": None, "clock_jump_s": 0.0, "slowed": 0.0, "settled": True, "settle_s": 9.0,
    "times_memory": 9.0, "disk": {"reads_per_query": 0.9},
}  # fmt: skip


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ({"settled": False}, "settling: rates still went one way after 9 s"),
        ({"disk": {"reads_per_query": 0.01}}, "cache: declared larger than memory, but only 0.010 reads a query"),
        ({"client_share_of_core": 0.75}, "client: saturated, 75% of a core's time was its own"),
    ],
)
def test_reads_that_are_not_what_they_should_be_are_invalid(told: dict[str, Any], wrong: str) -> None:
    assert judge_load(HONEST) == judge_load(HONEST | {"disk": None})
    assert not judge_load(HONEST).wrong
    assert judge_load(HONEST | told).wrong == (wrong,)
    assert judge_load(HONEST | {"times_memory": 4.4}).noted[0].startswith("size: compressed, the data are 4.4 times")


def test_a_plan_of_reads_is_every_combination() -> None:
    plan = read_servers(POINTS.format(load="", more=""), "any")
    assert [server.name for server in plan.servers] == [
        "mariadb 11.8 page_bytes=4096 access=buffered", "mariadb 11.8 page_bytes=4096 access=direct",
        "mariadb 11.8 page_bytes=65536 access=buffered", "mariadb 11.8 page_bytes=65536 access=direct", "lmdb",
    ]  # fmt: skip
    assert [case.name for case in plan.cases] == [
        "clients=8 ahead=0", "clients=32 ahead=0", "clients=8 ahead=128", "clients=32 ahead=128",
    ]  # fmt: skip
    # The texts of all rows, and the other files of the servers.
    assert 5 * 600_000 * 512 < needed_bytes(plan) < 10 * 2**30


def test_a_plan_of_reads_may_have_two_memories_and_asks_who_has_it_by_handler() -> None:
    more = 'statements = ["select", "handler"]'
    text = POINTS.format(load=more, more="").replace("memory_mib = 36", "memory_mib = [36, 32]")
    plan = read_servers(text, "any")
    names = [case.name for case in plan.cases]
    assert names[:4] == [
        "clients=8 ahead=0",
        "clients=32 ahead=0",
        "clients=8 ahead=0 handler",
        "clients=32 ahead=0 handler",
    ]
    assert names[-1] == "clients=32 ahead=128 memory=32 handler"
    assert len(names) == len(set(names)) == 2 * 2 * 2 * 2
    asked = {server.product: len(plan.cases_of(server, 0)) for server in plan.servers}
    assert asked == {"mariadb": 16, "lmdb": 8}
    # A point that was measured with one memory keeps its identity.
    old = read_servers(POINTS.format(load="", more=""), "any")
    spec = CaseSpec(old.servers[0], old.cases[0], 0)
    assert spec.identity(plan, "here", "11.8.6") == spec.identity(old, "here", "11.8.6")
    assert "more_memory_mib" not in str(spec.identity(plan, "here", "11.8.6"))
    with pytest.raises(PlanError, match="memory_mib has a value twice"):
        read_servers(text.replace("[36, 32]", "[36, 36]"), "any")
    with pytest.raises(PlanError, match="no server of this plan has HANDLER, only mariadb and mysql"):
        read_servers(text[: text.index("[[server]]")] + '[[server]]\nproduct = "lmdb"\n', "any")
    with pytest.raises(PlanError, match=r"statements.*did you mean handler"):
        read_servers(text.replace('"handler"', '"handle"'), "any")


def test_the_published_grid_of_reads_is_a_plan() -> None:
    plan = read_servers((Path(__file__).parents[1] / "plans" / "point-reads-published.toml").read_text(), "any")
    assert {case.read_ahead_kib for case in plan.cases if isinstance(case, ReadCase)} == {0, 4, 8, 16, 32, 64}
    assert {case.clients for case in plan.cases if isinstance(case, ReadCase)} == {8, 16, 32, 40}
    for product in ("mariadb", "mysql", "rocksdb", "sqlite"):
        pages = {dict(server.options)["page_bytes"] for server in plan.servers if server.product == product}
        assert pages == {4096, 8192, 16384, 32768, 65536}
    assert len(list(everything(plan))) == 3 * 3504


def test_a_plan_of_logs_is_every_combination() -> None:
    plan = read_servers(LOGS, "any")
    assert len(plan.servers) == 4
    assert [case.name for case in plan.cases][:2] == ["bytes=100 clients=1", "bytes=100 clients=8"]


@pytest.mark.parametrize(
    ("load", "more", "said"),
    [
        ("seconds = 0.01", "", "the least is 0.2"),
        ("row_byte = 64", "", "did you mean row_bytes"),
        ("", '[[server]]\nproduct = "sqlite"\noptions = { access = "direct" }', "there are buffered, mmap"),
        ("", '[[server]]\nproduct = "postgres"\nversion = "18"\noptions = { page_bytes = 4096 }', "there are 8192"),
        ("", '[[server]]\nproduct = "rocksdb"\noptions = { compressed = "lz4" }', "did you mean compression"),
    ],
)
def test_a_mistake_in_a_plan_of_reads_is_named(load: str, more: str, said: str) -> None:
    text = POINTS.format(load=load, more=more)
    with pytest.raises(PlanError, match=said):
        read_servers(text, "any")


def test_data_that_are_too_few_for_the_memory_are_said_with_how_many_are_needed() -> None:
    text = POINTS.format(load="", more="").replace("memory_mib = 36", "memory_mib = 128")
    with pytest.raises(PlanError, match=r"2\.3 times memory_mib, and 8 is the least: 2097153 rows"):
        read_servers(text, "any")
