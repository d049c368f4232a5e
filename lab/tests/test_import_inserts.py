"""Results of the Insert Benchmark beside those of a run: read step by step, compared by ratios."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import made_up
from fake_servers import FakeBench, FakeInstance, FakeProduct, run
from pagehop_lab.analysis.case import Case
from pagehop_lab.command import main
from pagehop_lab.published import insertbench
from pagehop_lab.published.foreign import FormatError

HEAD = "ips,qps,rps,rmbps,wps,wmbps,rpq,rkbpq,wpi,wkbpi,csps,cpups,cspq,cpupq,dbgb1,dbgb2,rss,maxop,p50,p99,tag"
PLAN = 'suite = "inserts"\n[load]\nrepeats = 3\n[[server]]\nproduct = "postgres"\nversion = ["10", "16"]\n'
LOADED = {"load_rows_per_s": 9000.0, "load_client_share": 0.1, "index_s": 2.0, "index_bytes": 1 << 20}
FASTER = {"l.i1": 1.3, "l.i2": 1.2, "qr100": 1.1, "qp100": 0.9, "qr500": 1.25, "qp500": 0.8, "qr1000": 1.4, "qp1000": 1}


def summary(path: Path, tag: str, times: Mapping[str, float] | None = None, lines: int = 10) -> Path:
    """The summary of one server, with round figures and a column that is not known."""
    written = [HEAD]
    for at, step in enumerate(insertbench.STEPS[:lines], start=1):
        rate = 1000 * at * (times or {}).get(step, 1)
        ips, qps = (rate, 0) if step.startswith("l.") else (500, rate)
        written.append(",".join([f"{ips:.0f}", f"{qps:.0f}", *["NA"] * 18, tag]))
    path.write_text("\n".join(written) + "\n")
    return path


def test_a_summary_has_a_rate_of_each_step(tmp_path: Path) -> None:
    ((tag, rates),) = insertbench.read_rates(summary(tmp_path / "a.csv", "pg16")).items()
    assert (tag, len(rates)) == ("pg16", 10)
    assert (rates["l.i0"], rates["l.i2"], rates["qr100"], rates["qp1000"]) == (1000, 4000, 5000, 10_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which the newer version is faster and slower by known ratios."""

    def on(instance: FakeInstance, case: Case) -> dict[str, Any]:
        raw = dict(made_up.steps(instance, case))
        return {**raw, "qps": 1000.0 * (FASTER[case.name] if instance.name == "16" else 1.0)}

    place = tmp_path_factory.mktemp("inserts") / "run"
    run(PLAN, place, FakeBench(on, LOADED), FakeProduct())
    return place


def test_published_ratios_of_steps_are_beside_ours(folder: Path, tmp_path: Path) -> None:
    files = [summary(tmp_path / "pg10.csv", "pg10"), summary(tmp_path / "pg16.csv", "pg16", FASTER)]
    asked = ["import", str(folder), *map(str, files), "--versions", "10.1,16.2"]
    for _ in range(2):
        assert main(asked) == 0
        assert len(list((folder / "foreign").glob("*.json"))) == 2
    sections = json.loads((folder / "report/tables.json").read_text())["sections"]
    tables = {one["name"]: one for section in sections for one in section["tables"]}
    (row,) = [[cell["text"] for cell in row] for row in tables["agreement"]["rows"]]
    assert row[:6] == ["postgres 16 (16.1)", "16.2 for 16.1", "10.1", "pg10.csv and pg16.csv", "8", "1.00"]
    shown = {row[0]["text"]: row[2]["text"] for row in tables["published"]["rows"]}
    assert shown == {step: f"{ratio:.2f}" for step, ratio in FASTER.items()}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "its first line has no ips, qps, tag"),
        ("test,16.2\nl.i0,5\n", "its first line has no ips, qps, tag"),
        ("ips,qps,tag\n", "it has no line with figures"),
        ("ips,qps,tag\n5,0\n", "line 2: 2 figures for 3 columns"),
        ("ips,qps,tag\n5,0,a\nfast,0,a\n", "line 3: 'fast' is not a figure"),
        ("ips,qps,tag\n0,5,a\n", "line 2: 0 a second"),
        ("ips,qps,tag\nnan,5,a\n", "the figure of line 2 is nan"),
        ("ips,qps,tag\n" + "5,5,a\n" * 9, "a has 9 lines, and there are 10 steps"),
        ("ips,qps,tag\n" + "5,5,a\n" * 11, "a has 11 lines, and there are 10 steps"),
    ],
)
def test_what_is_no_summary_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match=rf"theirs\.csv.*{said}"):
        insertbench.read_rates(path)


@pytest.mark.parametrize("versions", ["", "10.1", "10.1,10.1", "10.1,16.2,17.0"])
def test_each_tag_needs_a_version(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], versions: str
) -> None:
    files = [summary(tmp_path / f"other-{tag}.csv", tag) for tag in ("pg10", "pg16")]
    assert main(["import", str(folder), *map(str, files), "--versions", versions]) == 1
    assert "say by --versions V,V which version each tag is, none of them twice: pg10, pg16" in capsys.readouterr().err
