"""Plans: their meaning, and the errors of wrong ones."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pagehop_lab.command import SMOKE, main
from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.engines.engine import Library
from pagehop_lab.measure import served
from pagehop_lab.plan import Plan, PlanError, read_text, servers
from pagehop_lab.plan.grid import everything, indexes
from pagehop_lab.suites import catalog, gather
from pagehop_lab.suites.results import EngineFacts

PLANS = Path(__file__).parents[1] / "plans"

PLAN = """
name = "mine"
[load]
repeats = 2
sessions = 4
[[dataset]]
name = "fashion-mnist"
[[engine]]
name = "pgvector"
build = [{ m = [8, 16], ef_construction = 32 }, { m = [8, 48], ef_construction = 96 }]
search = { ef_search = [10, 20] }
[[engine]]
name = "hnswlib"
"""


def test_a_plan_may_have_an_engine_twice_by_names_of_its_own() -> None:
    text = PLAN.replace('name = "hnswlib"', 'name = "pgvector:again"\nurl = "postgres://x"')
    first, second = read_text(text, "x").engines
    assert (first.kind, first.title("pgvector vector")) == ("pgvector", "pgvector vector")
    assert (second.kind, second.title("pgvector vector")) == ("pgvector", "again")


def test_several_numbers_of_sessions_have_the_same_cores() -> None:
    assert read_text(PLAN.replace("sessions = 4", "sessions = 1"), "x").load.one_core
    assert read_text(PLAN.replace("sessions = 4\n", ""), "x").load.one_core
    assert not read_text(PLAN.replace("sessions = 4", "sessions = [1, 2, 4]"), "x").load.one_core


def test_lists_of_options_are_a_grid() -> None:
    plan = read_text(PLAN, "x")
    pgvector, hnswlib = plan.engines
    built = [(build["m"], build["ef_construction"]) for build in pgvector.build]
    assert built == [(8, 32), (16, 32), (8, 96), (48, 96)]
    assert [search["ef_search"] for search in pgvector.search] == [10, 20]
    assert hnswlib.build == ({"m": 32, "ef_construction": 200},), "the engine's default, which the plan does not set"
    assert plan.load.sessions == (4,)
    assert len(list(everything(plan))) == 2 * (4 * 2 + len(hnswlib.search))
    assert len({spec.name for spec in everything(plan)}) == len(list(everything(plan)))
    order = [index.engine.name for index in indexes(plan, plan.datasets[0], 0)]
    assert order == ["pgvector", "hnswlib", "pgvector", "pgvector", "pgvector"], "engines alternate"


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("repeats = 2", "repeat = 2", "load.repeat: there is no such key; did you mean repeats?"),
        ("repeats = 2", "repeats = 0", "load.repeats = 0: the least is 1"),
        ("repeats = 2", 'repeats = "two"', "load.repeats is text, it should be a whole number"),
        ("repeats = 2", "repeats = true", "load.repeats is true or false, it should be a whole number"),
        ("sessions = 4", "sessions = []", "load.sessions is an empty list"),
        ("sessions = 4", "sessions = [1, 1]", "load.sessions has a value twice"),
        ('name = "pgvector"', 'name = "pg_vector"', "engine[1].name = 'pg_vector': .* did you mean pgvector?"),
        ("ef_search = [", "ef_serach = [", "engine[1].search.ef_serach: .* did you mean ef_search?"),
        ("{ m = [8, 48]", "{ M = [8, 48]", "engine[1].build[2].M: there is no such key"),
        ("ef_search = [10, 20]", "ef_search = [10, 2.5]", "ef_search[2] is a number, it should be a whole number"),
        ("[[dataset]]", "[[datasets]]", "datasets: there is no such key; did you mean dataset?"),
        ("[[dataset]]", "[dataset]", "dataset is a table, it should be written as [[dataset]]"),
        ('name = "fashion-mnist"', 'nam = "fashion-mnist"', "dataset[1].nam: there is no such key; .* mean name?"),
        ('"fashion-mnist"', '"fashion-minst"', "dataset[1].name = 'fashion-minst': .* did you mean fashion-mnist?"),
        ('"fashion-mnist"', '"generatd-96"', "dataset[1].name = 'generatd-96': .* did you mean generated-96?"),
        ('"fashion-mnist"', '"glove"', "dataset[1].name = 'glove': .* there are fashion-mnist, generated-DIM, lsa-"),
        (
            'name = "fashion-mnist"',
            'name = "fashion-mnist"\ncolumn = "x"',
            "dataset[1].column: only a path to .npy or .parquet has it",
        ),
        ('name = "mine"', 'suite = "equal-recal"', "suite = 'equal-recal': .* did you mean equal-recall?"),
        ('name = "mine"', "targets = [0.9, 95]", "targets: 95 is not a recall"),
        ('name = "mine"', 'base = "faiss"', "base = 'faiss'"),
        ('name = "hnswlib"', 'name = "hnswlib"\nurl = "postgres://x"', "engine[2].url: hnswlib is not a server"),
        ('name = "hnswlib"', 'name = "pgvector"', "engine[2].name: pgvector is there twice"),
        ("repeats = 2", "batch = 100", "load.batch: pgvector is a server, which takes one query at a time; add 1"),
        ("repeats = 2", "batch = [1, 9]\nrate = 5.0", "load.batch: a rate is of single queries"),
        ("repeats = 2", "matching = 1.5", "load.matching: 1.5 is not a share of the rows"),
        (
            "sessions = 4",
            "sessions = [1, 4]\none_core = true",
            "load.one_core = true: only one session alone has a core",
        ),
        ("repeats = 2", 'caches = "hot"', "load.caches: the suite equal-recall has none, cold has"),
        (
            "repeats = 2",
            'caches = "none"',
            "load.caches = 'none': there is no such choice; there are cold, fresh, hot, limited, warm",
        ),
        ("repeats = 2", "cold_queries = 9", "load.cold_queries = 9: the suite equal-recall has none, cold has"),
        ("repeats = 2", "memory_mib = 512", "load.memory_mib = 512: only the suite cold has it, with"),
        ("repeats = 2", "seconds = nan", "load.seconds = nan: it should be a number that is not infinite"),
        ("repeats = 2", "repeats = = 2", "this is not TOML: .*line 4"),
    ],
)
def test_a_mistake_is_named_with_what_was_probably_meant(right: str, wrong: str, said: str) -> None:
    assert right in PLAN
    import re

    pattern = ".*".join(re.escape(part) for part in said.split(".*"))
    with pytest.raises(PlanError, match=pattern):
        read_text(PLAN.replace(right, wrong, 1), "x")


def test_a_limit_of_memory_needs_the_caches_that_have_it() -> None:
    def cold(caches: str) -> str:
        return PLAN.replace('name = "mine"', 'suite = "cold"').replace(
            "repeats = 2", f"memory_mib = 512\ncold_queries = 9\ncaches = {caches}"
        )

    load = read_text(cold('["cold", "limited"]'), "x").load
    assert (load.memory_mib, load.cold_queries) == (512, 9)
    with pytest.raises(PlanError, match='memory_mib = 512: only the suite cold has it, with "limited" among'):
        read_text(cold('["cold", "hot"]'), "x")


def test_loads_are_multiplied_and_servers_take_no_batches() -> None:
    load = "repeats = 1\nbatch = [1, 100]\nmatching = [1.0, 0.01]"
    plan = read_text(PLAN.replace("repeats = 2", load), "x")
    asked = {engine.name: [] for engine in plan.engines}  # type: dict[str, list[object]]
    for spec in everything(plan):
        if spec.asked not in asked[spec.index.engine.name]:
            asked[spec.index.engine.name].append(spec.asked)
    assert asked["pgvector"] == [{}, {"matching": 0.01}]
    assert asked["hnswlib"] == [{}, {"matching": 0.01}, {"batch": 100}, {"batch": 100, "matching": 0.01}]
    assert len({spec.name for spec in everything(plan)}) == len(list(everything(plan)))
    plain = next(everything(plan)).identity(plan, {}, "machine", "1")["load"]
    assert "batch" not in plain, "older results, without batches, keep their identity"


@pytest.mark.parametrize("field", ["warmup_s = 2", "in_turns = 3", "seconds_max = 9", "undisturbed = true"])
def test_a_field_that_changes_a_search_changes_its_identity(field: str) -> None:
    def load(text: str, **more: bool) -> dict[str, object]:
        plan = read_text(text, "x")
        return dict(next(everything(plan)).identity(plan, {}, "machine", "1", **more)["load"])

    plain, changed = load(PLAN), load(PLAN.replace("[load]", f"[load]\n{field}"))
    name = field.partition(" ")[0]
    assert name not in plain, "raw files from before keep their identity"
    assert changed == plain | {name: changed[name]}
    assert load(PLAN.replace("[load]", f"[load]\n{field}"), as_before=True) == plain


@pytest.mark.parametrize("path", [SMOKE, *sorted(PLANS.glob("*.toml"))], ids=lambda path: path.name)
def test_the_plans_that_come_with_the_lab_can_be_read(path: Path) -> None:
    text = path.read_text()
    plan = catalog.suite_of(text).read(text, path.stem)
    assert list(everything(plan) if isinstance(plan, Plan) else servers.everything(plan))


def test_the_demo_has_libraries_only_since_it_installs_nothing_for_servers() -> None:
    plan = read_text((PLANS / "demo.toml").read_text(), "demo")
    assert all(issubclass(CATALOG[engine.kind], Library) for engine in plan.engines)


@pytest.mark.parametrize("name", ["fashion-mnist", "postgres-cold", "postgres-warm", "texts-hot", "texts-postgres"])
def test_the_plans_of_the_page_of_benchmarks_measure_all_indexes_in_turns(name: str) -> None:
    plan = read_text((PLANS / f"{name}.toml").read_text(), name)
    assert all(len(indexes(plan, dataset, 0)) <= plan.load.in_turns for dataset in plan.datasets)


def test_indexes_are_in_groups_in_the_order_of_the_plan_without_engines_that_are_not_here() -> None:
    plan = read_text(PLAN.replace("repeats = 2", "repeats = 2\nrebuilds = 2\nin_turns = 2"), "x")
    here = [EngineFacts(engine.name, "", "1", "", None) for engine in plan.engines]
    first, second = ([index.name for index in indexes(plan, plan.datasets[0], rebuild)] for rebuild in (0, 1))
    assert len(first) == 5
    found = gather.group_of(plan, here)
    assert [found[name] for name in first] == [1, 1, 2, 2, 3]
    assert [found[name] for name in second] == [1, 1, 2, 2, 3]
    # pgvector, hnswlib, and the rest of pgvector.
    absent = gather.group_of(plan, [here[0], replace(here[1], version=None, failed="not installed")])
    assert [absent.get(name) for name in first] == [1, None, 1, 2, 2]


@pytest.mark.parametrize("path", [SMOKE, *sorted(PLANS.glob("*.toml"))], ids=lambda path: path.name)
def test_no_plan_that_comes_with_the_lab_has_ratios_of_one_repeat(path: Path) -> None:
    text = path.read_text()
    suite = catalog.suite_of(text)
    assert suite.warnings(suite.read(text, path.stem)) == []


ONCE = "[load]\nrepeats = 1\n"
AIM = '[[aim]]\nwhat = "x"\nengine = "pgvector"\nfigure = "FIGURE"\nover = "hnswlib"\nrecall = 0.9\n'
SERVER = '[[server]]\nproduct = "postgres"\nversion = "18"\n'


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        (PLAN.replace("repeats = 2", "repeats = 1"), True),
        (PLAN.replace("repeats = 2", "repeats = 1\nrebuilds = 2"), False),
        (PLAN.partition('[[engine]]\nname = "hnswlib"')[0].replace("repeats = 2", "repeats = 1"), False),
        ('suite = "cold"\n' + PLAN.replace("repeats = 2", "repeats = 1"), False),
        ('suite = "cold"\n' + PLAN.replace("repeats = 2", "repeats = 1") + AIM.replace("FIGURE", "qps"), True),
        ('suite = "cold"\n' + PLAN.replace("repeats = 2", "repeats = 1") + AIM.replace("FIGURE", "pages"), False),
        (f'suite = "oltp"\n{ONCE}{SERVER}{SERVER.replace("18", "17")}', True),
        (f'suite = "oltp"\n{ONCE}rounds = 20\n{SERVER}{SERVER.replace("18", "17")}', False),
        (f'suite = "oltp"\n{ONCE}{SERVER}', False),
        (f'suite = "log-writes"\n{ONCE}{SERVER}{SERVER.replace("18", "17")}', False),
    ],
)
def test_a_plan_whose_ratios_are_all_of_one_repeat_gets_a_warning(
    text: str, warned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = catalog.suite_of(text)
    assert [line[:16] for line in suite.warnings(suite.read(text, "x"))] == ["load.repeats = 1"] * warned
    if warned and "pgvector" in text:
        path = tmp_path / "once.toml"
        path.write_text(text)
        assert main(["run", str(path), "--check"]) == 0
        assert f"warning: {path}: load.repeats = 1" in capsys.readouterr().err


def test_a_wrong_plan_ends_the_command_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "typo.toml"
    path.write_text("[laod]\n")
    assert main(["run", str(path), "--into", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert said == f"pagehop-lab: {path}: laod: there is no such key; did you mean load?\n"
    assert not (tmp_path / "run").exists()
    assert main(["run", str(tmp_path / "nothing.toml")]) == 2
    assert main(["report", str(tmp_path / "nothing")]) == 1
    assert main(["run", "--check", str(SMOKE)]) == 0
    assert "32 points" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('suite = "oltp"\n[[server]]\nproduct = "postgres"\nversion = "18x"\n', "no postgres 18x.*did you mean 18"),
        ('suite = "inserts"\n[[server]]\nproduct = "mariadb"\nversion = ["11.8", "99"]\n', "no mariadb 99 "),
        ('suite = "vector-inserts"\n[[server]]\nproduct = "pgvector"\nversion = "12"\n', "no pgvector 12 "),
        ('[[dataset]]\npath = "nowhere.hdf5"\n[[engine]]\nname = "numpy-scan"\n', "there is no file nowhere.hdf5"),
        (
            '[[dataset]]\npath = "PLAN"\nname = "x"\nqueries_path = "asked.npy"\n[[engine]]\nname = "numpy-scan"\n',
            "there is no file asked.npy",
        ),
    ],
)
def test_a_check_names_versions_and_files_that_are_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (tmp_path / "rows.npy").touch()
    path = tmp_path / "plan.toml"
    path.write_text(text.replace("PLAN", str(tmp_path / "rows.npy")))
    assert main(["run", str(path), "--check"]) == 2
    told = capsys.readouterr()
    assert re.search(said, told.err)
    assert "points" in told.out, "the number of points is printed, too"


def test_a_check_takes_every_plan_that_comes_with_the_lab(capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted(PLANS.glob("*.toml")):
        assert main(["run", str(path), "--check"]) == 0, capsys.readouterr().err


def test_a_password_is_used_and_not_kept() -> None:
    url = "postgresql://me:s%40cret@host:5432/x"
    plan = read_text(PLAN.replace('name = "pgvector"', f'name = "pgvector"\nurl = "{url}"'), "x")
    engine = plan.engines[0]
    assert (engine.url, engine.server) == (url, "postgresql://me@host:5432/x")
    assert "cret" not in plan.text
    assert served.split_password(url) == ("postgresql://me@host:5432/x", "s@cret")
    assert served.split_password("mysql://root@/lab?socket=/a/b") == ("mysql://root@/lab?socket=/a/b", None)
    index = indexes(plan, plan.datasets[0], 0)[0]
    assert index.identity(plan, {}, "machine", "1")["server"] == "postgresql://me@host:5432/x"
