"""Published ratios beside those of a run: the versions that are compared, and the agreement of
both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_servers import FakeBench, FakeInstance, FakeProduct, plan_of, run
from pagehop_lab.analysis.case import Case
from pagehop_lab.command import main
from pagehop_lab.published import sysbench
from pagehop_lab.published.foreign import FormatError
from pagehop_lab.suites.beside import number_of
from pagehop_lab.suites.oltp.cases import BY_NAME

PUBLISHED = Path(__file__).parent / "golden" / "postgres-sysbench.csv"
VERSIONS = ("9.0.23", "10.23", "16.2")
CASES = tuple(BY_NAME)


def agreement(folder: Path) -> list[dict[str, Any]]:
    told = json.loads((folder / "report/tables.json").read_text())
    tables = {one["name"]: one for section in told["sections"] for one in section["tables"]}
    if "agreement" not in tables:
        return []
    return [
        {name: cell["value"] for name, cell in zip(tables["agreement"]["columns"], row, strict=True)}
        for row in tables["agreement"]["rows"]
    ]


def measured(
    folder: Path, *, wandering: float, versions: tuple[str, ...] = ("10", "16"), cases: tuple[str, ...] = CASES
) -> Path:
    """A run of servers whose ratios are the published ones, on a machine whose speed varies by a
    share.
    """
    published, random = sysbench.read_qps(PUBLISHED, VERSIONS), np.random.default_rng(3)
    of = {"10": "10.23", "16": "16.2"}

    def on(instance: FakeInstance, case: Case) -> Mapping[str, Any]:
        noise = float(np.exp(wandering * random.standard_normal()))
        return {"qps": published[of.get(instance.name, "10.23")][case.name] / 3 * noise}

    run(plan_of(*versions, repeats=3, cases=cases), folder, FakeBench(on), FakeProduct())
    return folder


def test_ratios_that_are_the_published_ones_correlate_and_noise_does_not(tmp_path: Path) -> None:
    found = {}
    for name, wandering in (("quiet", 0.002), ("noisy", 0.3)):
        folder = measured(tmp_path / name, wandering=wandering)
        assert agreement(folder) == []
        assert main(["import", str(folder), str(PUBLISHED), "--versions", ",".join(VERSIONS)]) == 0
        (found[name],) = agreement(folder)
    assert found["quiet"]["tests"] == 42
    assert found["quiet"]["r"] > 0.98
    assert found["quiet"]["mean difference %"] < 1
    assert found["quiet"]["published sd %"] == pytest.approx(2.8, abs=0.3)
    assert abs(found["noisy"]["r"]) < 0.5
    page = (tmp_path / "noisy/report/index.html").read_text()
    assert f" of {len(CASES)} ratios are inconclusive (?)" in page, "a ratio in two tables counts once"
    assert found["noisy"]["ours sd %"] > 5 * found["noisy"]["published sd %"]


def test_a_version_that_was_not_published_is_compared_with_the_newest_of_its_major(tmp_path: Path) -> None:
    # The versions of the fake servers are 10.1, 11.1 and 16.1.
    folder = measured(tmp_path / "run", wandering=0.002, versions=("10", "11", "16"), cases=CASES[:8])
    file = tmp_path / "published.csv"
    lines = [line for line in PUBLISHED.read_text().splitlines() if not line.startswith("#")]
    file.write_text("test,16.2,10.1,16.1\n" + "\n".join(lines))
    assert main(["import", str(folder), str(file)]) == 0
    (row,) = agreement(folder)
    assert (row["server"], row["published"], row["over"]) == ("postgres 16", "16.1", "10.1")
    page = (folder / "report/index.html").read_text()
    assert "published.csv" in page
    assert "Each ratio, and the published one" in page
    # The second import of a file adds nothing. Without the same point release, the newest one is
    # used.
    assert main(["import", str(folder), str(file)]) == 0
    assert len(list((folder / "foreign").glob("*.json"))) == 3
    assert main(["import", str(folder), str(PUBLISHED), "--versions", "9.6.24,10.23,16.2"]) == 0
    assert [(row["source"], row["published"]) for row in agreement(folder)] == [
        ("published.csv", "16.1"), ("postgres-sysbench.csv", "16.2"),
    ]  # fmt: skip
    assert "16.2 for 16.1" in (folder / "report/index.html").read_text()


def test_versions_are_numbers() -> None:
    assert number_of("16.14 (Debian 16.14-1)") == (16, 14)
    assert number_of("10.11.5-MariaDB") == (10, 11, 5)
    assert number_of("old") == ()


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("a,1,2\n", [], "does not say which versions its 2 columns are"),
        ("a,1,2\n", ["--versions", "10.23"], "line 1: 2 figures for 1 versions"),
        ("a,1\nb,fast\n", ["--versions", "10.23"], "line 2: 'fast' is not a figure"),
        ("a,0\n", ["--versions", "10.23"], "line 1: 0 a second"),
        ("a,nan\n", ["--versions", "10.23"], "the figure of line 1 is nan"),
        ("a,1\nb,2\na,3\n", ["--versions", "10.23"], "line 3: a line before it is of the test a, too"),
        ("a,1,2\n", ["--versions", "10.23,10.23"], "two columns are of the version '10.23'"),
        ("test,16.2,10.23,16.2\na,1,2,3\n", [], "two columns are of the version '16.2'"),
        ("# nothing\n", ["--versions", "10.23"], "no line with figures"),
        ("a,1\n", ["--versions", "10.23"], "the run has none of its tests, such as a"),
        ("a,1\n", ["--versions", "10.23", "--server", "mysql"], "has no mysql, only postgres"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_and_nothing_is_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, more: list[str], said: str
) -> None:
    folder, file = tmp_path / "run", tmp_path / "theirs.csv"
    run(plan_of("old", "new"), folder, FakeBench(), FakeProduct())
    file.write_text(text)
    assert main(["import", str(folder), str(file), *more]) == 1
    assert said in capsys.readouterr().err
    assert not (folder / "foreign").exists()


def test_files_of_one_name_do_not_replace_each_other_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    run(plan_of("old", "new"), folder, FakeBench(), FakeProduct())
    files = [tmp_path / name / "qps.csv" for name in ("mem", "io")]
    for file, rate in zip(files, (1000, 10), strict=True):
        file.parent.mkdir()
        file.write_text(f"test,10.23,16.2\n{CASES[0]},{rate},{rate + 1}\n")
    assert main(["import", str(folder), *map(str, files)]) == 1
    assert "have one name and different figures of postgres.10.23: rename one of them" in capsys.readouterr().err
    assert not (folder / "foreign").exists()
    assert main(["import", str(folder), str(files[0])]) == 0
    assert "replace" not in capsys.readouterr().err
    assert main(["import", str(folder), str(files[1])]) == 0
    said = capsys.readouterr().err
    assert "warning: qps.csv: 2 other figures of this name, imported before, are replaced; rename" in said


def test_a_missing_file_is_said() -> None:
    with pytest.raises(FormatError, match="cannot read"):
        sysbench.read_qps(Path("/nowhere/x.csv"))
