"""Runs of fake servers that are missing, die or are measured wrongly.

Each failure is found, and the other servers are still measured.
"""

from __future__ import annotations

import csv
import json
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

import made_up
from devserver import DevServerError
from fake_servers import CASES, FakeBench, FakeInstance, FakeProduct, dying, plan_of, run
from pagehop_lab import command
from pagehop_lab.analysis.case import Case
from pagehop_lab.measure.disturbance import Disturbance
from pagehop_lab.measure.processes import client_share
from pagehop_lab.plan import PlanError
from pagehop_lab.plan.servers import everything
from pagehop_lab.run import servers
from pagehop_lab.store import RunFolder
from pagehop_lab.suites.server_results import AnyServers
from runs import read_servers, server_results

LATENCY = {"p50": 1.0, "p95": 2.0, "p99": 3.0, "max": 4.0}


@pytest.fixture
def product(monkeypatch: pytest.MonkeyPatch) -> FakeProduct:
    # The host of a virtual machine may take a part of it while the tests run.
    monkeypatch.setattr(Disturbance, "since", lambda *_: {"stolen_cores": 0.0, "throttled_count": None})
    return FakeProduct()


def measured(results: AnyServers, server: str) -> list[str]:
    return [one.case for one in results.measured if one.server == f"postgres {server}"]


def test_a_run_measures_everything_once_in_turns(tmp_path: Path, product: FakeProduct) -> None:
    bench = FakeBench()
    results, said = run(plan_of("old", "new", repeats=2), tmp_path / "run", bench, product)
    assert results.sound
    assert len(results.measured) == 2 * 2 * len(CASES)
    assert [name for name, _ in bench.asked[:4]] == ["old", "new", "new", "old"]
    assert [name for name, _ in bench.asked[8:12]] == ["new", "old", "old", "new"]
    assert len(product.made) == 4
    assert all(one.removed for one in product.made)
    # Servers settle after loading and after the writes.
    assert {one.settled for one in product.made} == {2}
    assert "[16/16]" in said


def test_what_is_there_is_not_measured_again(tmp_path: Path, product: FakeProduct) -> None:
    run(plan_of("old"), tmp_path / "run", FakeBench(), product)
    bench = FakeBench()
    results, _ = run(plan_of("old"), tmp_path / "run", bench, product)
    assert not bench.asked
    assert results.sound
    # For one more repeat, only that repeat is measured.
    results, _ = run(plan_of("old", repeats=2), tmp_path / "run", bench, product)
    assert len(bench.asked) == len(CASES)
    assert results.sound


def test_older_statements_are_noted_and_asked_again(
    tmp_path: Path, product: FakeProduct, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr("pagehop_lab.suites.oltp.Oltp.statements", 1)
        run(plan_of("old"), tmp_path / "run", FakeBench(), product)
    results = server_results(tmp_path / "run")
    assert len(results.measured) == len(CASES)
    assert all(one.noted[0].startswith("statements: older ones") for one in results.measured)
    bench = FakeBench()
    results, _ = run(plan_of("old"), tmp_path / "run", bench, product)
    assert len(bench.asked) == len(CASES)
    assert results.sound
    assert not any(one.noted for one in results.measured)
    # The points of the older statements are still in the folder.
    assert len(RunFolder(tmp_path / "run").all("points")) == 2 * len(CASES)


def test_a_version_that_is_nowhere_or_does_not_start_is_said_and_others_go_on(
    tmp_path: Path, product: FakeProduct
) -> None:
    results, said = run(plan_of("lost", "stillborn", "old"), tmp_path / "run", FakeBench(), product)
    assert measured(results, "old") == list(CASES)
    assert not results.sound
    assert {facts.name: facts.failed for facts in results.servers} == {
        "postgres lost": "there is no postgres lost available here: there are old, new",
        "postgres stillborn": "the server did not start; its log ends with: no",
        "postgres old": None,
    }
    assert len(results.coverage.failed) == 2 * len(CASES)
    assert results.coverage.complete
    assert "there are old, new" in said
    page = (tmp_path / "run/report/index.html").read_text()
    assert "its log ends with: no" in page


def test_a_server_that_is_killed_loses_only_what_it_was_asked(tmp_path: Path, product: FakeProduct) -> None:
    bench = FakeBench(dying("old", "update-index"))
    results, said = run(plan_of("old", "new"), tmp_path / "run", bench, product)
    assert measured(results, "new") == list(CASES)
    assert measured(results, "old") == [CASES[0]]
    assert "the server died: sysbench: FATAL" in said
    assert len(results.coverage.missing) == 2
    # The same command measures the rest, on a server that repeats the writes. With --retry it also
    # measures what failed.
    bench = FakeBench()
    results, _ = run(plan_of("old", "new"), tmp_path / "run", bench, product)
    assert bench.asked == [("old", "update-index"), ("old", "point-query"), ("old", "insert")]
    assert results.coverage.complete
    assert measured(results, "old") == [CASES[0], *CASES[2:]]
    results, _ = run(plan_of("old", "new"), tmp_path / "run", bench, product, retry=True)
    assert results.sound


def test_a_server_that_refuses_a_statement_of_ours_loses_only_that(tmp_path: Path, product: FakeProduct) -> None:
    def on(_: FakeInstance, case: Case) -> None:
        if case.script == "insert":
            raise DevServerError("postgres old.1: the connection was refused")

    results, said = run(plan_of("old"), tmp_path / "run", FakeBench(on), product)
    assert measured(results, "old") == list(CASES[:-1])
    assert "failed: postgres old.1: the connection was refused" in said


def test_after_ctrl_c_nothing_is_lost_and_no_server_is_left(tmp_path: Path, product: FakeProduct) -> None:
    def interrupt(_: FakeInstance, case: Case) -> None:
        if case.script == "insert":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(plan_of("old"), tmp_path / "run", FakeBench(interrupt), product)
    assert all(one.removed for one in product.made)
    kept = {record.file: record.raw for record in RunFolder(tmp_path / "run").all("points")}
    assert len(kept) == 3
    bench = FakeBench()
    results, _ = run(plan_of("old"), tmp_path / "run", bench, product)
    assert results.sound
    # The writes are repeated for the tests after them, and their figures do not change.
    assert bench.asked == [("old", "update-index"), ("old", "insert")]
    assert {one.file: one.raw for one in results.measured}.items() >= kept.items()


def test_a_disk_that_is_too_small_is_said_before(
    tmp_path: Path, product: FakeProduct, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**9, 0, 10**8))
    with pytest.raises(servers.RunError, match=r"need 0\.\d GB in .*, where 0\.1 are free"):
        run(plan_of("old", "new"), tmp_path / "run", FakeBench(), product)
    assert not product.made


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({"client_share_of_core": 0.51}, "client"),
        # Older points have no share of a core.
        ({"client_share_of_core": None, "client_share_of_machine": 0.21}, "client"),
        ({"errors": 3}, "errors"),
        ({"storage_reads_per_query": 0.5}, "cache"),
    ],
)
def test_what_is_wrong_makes_a_figure_invalid(
    tmp_path: Path, product: FakeProduct, told: dict[str, Any], kind: str
) -> None:
    bench = FakeBench(lambda instance, _: told if instance.name == "new" else None)
    results, _ = run(plan_of("old", "new"), tmp_path / "run", bench, product)
    wrong = {one.server: [reason.partition(":")[0] for reason in one.wrong] for one in results.measured}
    assert wrong == {"postgres old": [], "postgres new": [kind]}
    tables = json.loads((tmp_path / "run/report/tables.json").read_text())
    (groups,) = [table for table in tables["sections"][0]["tables"] if table["name"] == "groups"]
    assert groups["rows"] == []


def test_runs_of_servers_are_compared_by_every_figure(
    tmp_path: Path, product: FakeProduct, capsys: pytest.CaptureFixture[str]
) -> None:
    one, same, slower, other = (tmp_path / name for name in ("one", "same", "slower", "other"))
    text = plan_of("old", "new", repeats=4)
    for folder in (one, same):
        run(text, folder, FakeBench(), product)
    run(text, slower, FakeBench(lambda instance, _: {"qps": 500.0} if instance.name == "new" else None), product)
    run(plan_of("old", repeats=4), other, FakeBench(), product)
    assert command.main(["compare", str(one), str(same)]) == 0
    told = capsys.readouterr()
    # Two servers, with their bytes, and QPS and CPU of each test.
    whole = 2 * (1 + 2 * len(CASES))
    assert f"{whole} agree" in told.err
    assert f"of {whole} figures" in told.err
    assert command.main(["compare", str(one), str(slower)]) == 1
    assert f"{len(CASES)} differ" in capsys.readouterr().err
    rows = list(csv.DictReader((slower / "report/agreement-with-one.csv").open()))
    differing = [row for row in rows if row["verdict"] == "differ"]
    assert {(row["server"], row["unit"]) for row in differing} == {("postgres new", "a second")}
    assert all(float(row["second / first"]) == pytest.approx(0.5, abs=0.02) for row in differing)
    # Only one of the runs has this server.
    assert command.main(["compare", str(one), str(other)]) == 1
    assert "only one has it" in capsys.readouterr().out


@pytest.mark.parametrize(("bytes_after", "said"), [(5400.0, "agree"), (6000.0, "differ")])
def test_what_is_counted_differs_by_one_repeat_and_a_rate_does_not(
    tmp_path: Path, product: FakeProduct, bytes_after: float, said: str
) -> None:
    text = (
        'suite = "vector-writers"\ncases = ["log-rows"]\n[load]\nrepeats = 1\ndataset = "generated-16"\n'
        '[[server]]\nproduct = "pgvector-halfvec"\n'
    )

    def bench(**figures: float) -> FakeBench:
        return FakeBench(lambda *given: {**made_up.many_writers(*given), **figures}, made_up.INDEX)

    run(text, tmp_path / "one", bench(log_bytes=5000.0, rows_per_s=1000.0), product)
    run(text, tmp_path / "other", bench(log_bytes=bytes_after, rows_per_s=2000.0), product)
    command.main(["compare", str(tmp_path / "one"), str(tmp_path / "other")])
    rows = {row["what"]: row for row in csv.DictReader((tmp_path / "other/report/agreement-with-one.csv").open())}
    counted, rate = (next(row for what, row in rows.items() if words in what) for words in ("bytes of log", "rows/s"))
    assert (counted["verdict"], counted["95% interval"]) == (said, "counted")
    assert (rate["verdict"], rate["95% interval"]) == ("inconclusive", "one repeat")


def test_runs_that_have_nothing_in_common_are_refused(
    tmp_path: Path, product: FakeProduct, capsys: pytest.CaptureFixture[str]
) -> None:
    run(plan_of("old"), tmp_path / "servers", FakeBench(), product)
    kept = Path(__file__).parents[1] / "results/inserts-20261122"
    assert command.main(["compare", str(kept), str(tmp_path / "servers")]) == 1
    assert "a run of inserts and one of oltp have no figures in common" in capsys.readouterr().err


def test_the_exit_code_says_what_failed_and_not_what_is_invalid(tmp_path: Path, product: FakeProduct) -> None:
    results, _ = run(plan_of("old", "lost"), tmp_path / "failed", FakeBench(), product)
    assert command._exit_code(results) == 1
    wrong = FakeBench(lambda instance, _: {"errors": 3} if instance.name == "new" else None)
    results, _ = run(plan_of("old", "new"), tmp_path / "some", wrong, product)
    assert (results.sound, command._exit_code(results)) == (False, 0)
    results, _ = run(plan_of("old"), tmp_path / "none", FakeBench(lambda *_: {"errors": 3}), product)
    assert command._exit_code(results) == 1


@pytest.mark.parametrize(
    ("told", "note"),
    [
        ({"clock_jump_s": -3600.0}, "the clock was set by -3600.0 s"),
        ({"other_busy_cores": 0.5}, "others were running"),
        # 1,000 queries of 12 us in a second are a hundredth of a core. The rest is unexplained.
        ({"other_busy_cores": None, "busy_cores": 0.5}, "others were running: at most 0.49 cores"),
        ({"count": 3}, "few"),
    ],
)
def test_what_is_to_be_known_is_noted_and_the_figure_stands(
    tmp_path: Path, product: FakeProduct, told: dict[str, Any], note: str
) -> None:
    results, _ = run(plan_of("old"), tmp_path / "run", FakeBench(lambda *_: told), product)
    assert results.sound
    assert all(one.noted[0].startswith(note) for one in results.measured)


def test_a_client_that_fills_its_core_is_found_out_on_a_machine_of_many(
    tmp_path: Path, product: FakeProduct, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 48)
    share = client_share(cpu_s=0.95, elapsed_s=1.0, clients=1)
    assert client_share(cpu_s=45.0, elapsed_s=1.0, clients=100) == 45 / 48
    bench = FakeBench(lambda *_: {"client_share_of_machine": 0.95 / 48, "client_share_of_core": share})
    results, _ = run(plan_of("old"), tmp_path / "run", bench, product)
    assert {one.wrong for one in results.measured} == {("client: saturated, 95% of a core's time was its own",)}


def test_a_page_says_how_much_was_disturbed(tmp_path: Path, product: FakeProduct) -> None:
    bench = FakeBench(lambda instance, _: {"other_busy_cores": 1.2} if instance.name == "new" else None)
    run(plan_of("old", "new"), tmp_path / "run", bench, product)
    page = (tmp_path / "run/report/index.html").read_text()
    assert f"{len(CASES)} while other work took a part of the machine" in page


def test_a_planted_step_is_found_and_no_other(tmp_path: Path, product: FakeProduct) -> None:
    labels = ('label = "A"\n', 'label = "B"\n', 'label = "C"\nslowed = 0.05\n')
    more = "".join(f'[[server]]\nproduct = "postgres"\nversion = "old"\n{label}' for label in labels)
    run(plan_of(repeats=5, more=more), tmp_path / "run", FakeBench(), product)
    tables = json.loads((tmp_path / "run/report/tables.json").read_text())
    (changes,) = [table for table in tables["sections"][0]["tables"] if table["name"] == "changes"]
    found = [[cell["text"] for cell in row[:3]] for row in changes["rows"]]
    assert found == [[case, "postgres old B", "postgres old C slowed 0.05"] for case in CASES]
    assert all(abs(row[3]["value"] + 5) < 1.5 for row in changes["rows"])


def test_the_insert_benchmark_is_relative_and_a_step_that_falls_behind_is_void(
    tmp_path: Path, product: FakeProduct
) -> None:
    def on(instance: FakeInstance, case: Case) -> dict[str, Any]:
        rate = {"range": case.range, "point": case.range}.get(case.script)
        # The new server writes faster, but does not keep up beside queries.
        qps = 1100.0 if (instance.name, case.script) == ("new", "write") else 1000.0
        behind = instance.name == "new" and case.name == "qp1000"
        told: dict[str, Any] = {
            "qps": qps, "rows_per_s": qps if rate is None else rate * (0.94 if behind else 1.0), "deleted_per_s": qps,
            "per_second": {"inserted": [100, 90, 100]}, "commit_ms": LATENCY, "latency_ms": LATENCY,
            "rows_per_answer": 10.0,
        }  # fmt: skip
        return told if rate is None else {**told, "write_target": rate}

    text = 'suite = "inserts"\n' + "".join(
        f'[[server]]\nproduct = "postgres"\nversion = "{one}"\n' for one in ("old", "new")
    )
    bench = FakeBench(on, {"rows": 1000, "load_rows_per_s": 1000.0, "index_s": 0.5, "index_bytes": 10**6})
    results, said = run(text, tmp_path / "run", bench, product)
    assert "qp1000.r1  1,000.0 QPS  INVALID rate: 94% of 1000 rows a second were written" in said
    assert [one.case for one in results.measured if not one.valid] == ["qp1000"]
    # Servers settle after loading, and after the writes before the first query.
    assert {one.settled for one in product.made} == {2}
    tables = {
        one["name"]: one
        for one in json.loads((tmp_path / "run/report/tables.json").read_text())["sections"][0]["tables"]
    }
    shown = {row[0]["text"]: [cell["text"] for cell in row[1:]] for row in tables["relative"]["rows"]}
    assert shown["l.i0"] == shown["l.x"] == shown["qr100"] == ["1.00", "1.00?"], "ratios of one repeat are marked"
    assert shown["l.i1"] == ["1.00", "1.10?"]
    assert shown["qp1000"] == ["1.00", "-"]
    assert [row[:2] for row in tables["queries"]["rows"] if row[1]["text"] == "qp1000"] == [
        [{"text": "postgres old", "value": None}, {"text": "qp1000", "value": None}]
    ]
    valid = {row[1]["text"]: row[2]["text"] for row in tables["queries"]["rows"]}
    assert valid["qr100"] == "1 of 1"
    page = (tmp_path / "run/report/index.html").read_text()
    assert '<td class="invalid" title="one repeat; 1,100.0 a second">1.10?</td>' in page


def changed(folder: Path, name: str) -> list[list[Any]]:
    """Test, server before, server after, and percent, for each row of a table of changes."""
    tables = json.loads((folder / "report/tables.json").read_text())
    (found,) = [table for table in tables["sections"][0]["tables"] if table["name"] == name]
    return [[cell["text"] for cell in row[:3]] + [row[3].get("value")] for row in found["rows"]]


NOTHING = [["no test changed", "-", "-", None]]


def labelled(*more: str) -> str:
    return "".join(
        f'[[server]]\nproduct = "postgres"\nversion = "old"\nlabel = "{label}"\n{one}\n'
        for label, one in zip("ABC", more, strict=True)
    )


def test_in_turns_a_planted_step_is_found_in_weather_and_no_other(tmp_path: Path, product: FakeProduct) -> None:
    load = "[load]\nrounds = 8\nrepeats = 6\n"
    text = plan_of(repeats=6, more=labelled("", "", "slowed = 0.05")).replace("[load]\nrepeats = 6\n", load)
    results, _ = run(text, tmp_path / "slowed", FakeBench(), product)
    assert results.sound
    steps = changed(tmp_path / "slowed", "changes")
    assert [row[:3] for row in steps] == [[case, "postgres old B", "postgres old C slowed 0.05"] for case in CASES]
    assert all(abs(row[3] + 5) < 2 for row in steps)
    # The fake server needs no CPU while it is stopped, and a real one hardly any. One run in twenty
    # lists a step by chance: with this seed, one of 1%.
    (by_chance,) = changed(tmp_path / "slowed", "changes-cpu")
    assert by_chance[0] == CASES[0]
    assert abs(by_chance[3]) < 1.5

    run(text.replace("slowed", "doubled"), tmp_path / "doubled", FakeBench(), product)
    for table, percent in (("changes", -4.8), ("changes-cpu", 5.0)):
        steps = changed(tmp_path / "doubled", table)
        assert [row[2] for row in steps] == ["postgres old C doubled 0.05"] * len(CASES)
        assert all(abs(row[3] - percent) < 2 for row in steps)

    run(text.replace("slowed = 0.05", ""), tmp_path / "flat", FakeBench(), product)
    assert changed(tmp_path / "flat", "changes") == NOTHING


def test_in_turns_a_server_that_dies_leaves_the_others_and_is_come_to_again(
    tmp_path: Path, product: FakeProduct
) -> None:
    text = plan_of("old", "new").replace("[load]\n", "[load]\nrounds = 8\n")
    results, said = run(text, tmp_path / "run", FakeBench(dying("old", "update-index")), product)
    assert measured(results, "new") == list(CASES)
    assert measured(results, "old") == [CASES[0]]
    assert "the server died: sysbench: FATAL" in said
    bench = FakeBench()
    results, _ = run(text, tmp_path / "run", bench, product, retry=True)
    assert results.sound
    # Both servers are measured again, and earlier points are kept.
    assert ("new", "update-index") in bench.asked
    assert len(list((tmp_path / "run/points").glob("*new*"))) == len(CASES)


def test_what_was_measured_without_rounds_is_found_again() -> None:
    plan = read_servers(plan_of("old"), "test")
    (spec, *_) = everything(plan)
    assert "rounds" not in spec.identity(plan, "machine", None)["load"]
    turns = read_servers(plan_of("old").replace("[load]", "[load]\nrounds = 8"), "test")
    assert spec.identity(turns, "machine", None)["load"]["rounds"] == 8
    with pytest.raises(PlanError, match="doubled where servers are asked in turns"):
        read_servers(plan_of(more=labelled("", "", "doubled = 0.05")), "test")
