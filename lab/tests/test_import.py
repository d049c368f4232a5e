"""Results of other benchmarks: read unchanged, shown beside ours, marked, and never compared."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagehop_lab.command import main
from pagehop_lab.published import annresults, read, vectordbbench
from pagehop_lab.published.foreign import FormatError
from pagehop_lab.site.mistakes import FIGURES
from pagehop_lab.store import RunFolder
from runs import QUICK, fake_engines, of_engines, plan_of, raw, run

h5py = pytest.importorskip("h5py")
GOLDEN = Path(__file__).parent / "golden"
K = 10


def vdb(**changes: Any) -> dict[str, Any]:
    """One case in VectorDBBench's format."""
    metrics = {
        "max_load_count": 0, "load_duration": 4462.6, "qps": 597.4, "serial_latency_p99": 0.0121, "recall": 0.9221,
        "ndcg": 0.926, "conc_num_list": [5, 10, 20, 60, 80], "conc_qps_list": [395.3, 512.5, 577.6, 597.4, 597.3],
    }  # fmt: skip
    config = {"index": "hnsw", "M": 16, "efConstruction": 256, "num_candidates": 100, "note": "", "lists": None}
    task = {
        "db": "ElasticCloud", "db_config": {"db_label": "8c60g", "password": "**********"}, "db_case_config": config,
        "case_config": {"case_id": 5, "custom_case": None, "k": 100},
    }  # fmt: skip
    result = {"metrics": metrics, "task_config": task, "label": ":)"}
    for name, value in changes.items():
        for part in (metrics, task["case_config"], result):
            assert isinstance(part, dict)
            if name in part:
                part[name] = value
    return result


def vdb_file(folder: Path, *results: dict[str, Any]) -> Path:
    path = folder / "result_20250318_standard_elasticcloud.json"
    path.write_text(json.dumps({"run_id": "1", "task_label": "standard", "results": results}))
    return path


def ann_file(folder: Path, distances: np.ndarray[Any, Any], *, mean: float | None = None, **attrs: Any) -> Path:
    """A file with one configuration in ann-benchmarks' format."""
    path = folder / "M_24_efConstruction_500_ef_10.hdf5"
    given = {
        "algo": "hnswlib", "dataset": "generated-16", "name": "hnswlib ({'M': 24}, ef: 10)", "count": K,
        "best_search_time": 0.0005, "build_time": 12.5, "batch_mode": False, "distance": "euclidean",
    }  # fmt: skip
    with h5py.File(path, "w") as file:
        file.attrs.update(given | attrs)
        file["distances"] = distances
        file["neighbors"] = np.zeros(distances.shape, dtype=np.int32)
        file["times"] = np.full(len(distances), 0.0005)
        if mean is not None:
            file.create_group("metrics/knn").attrs["mean"] = mean
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a run of fake engines."""
    with fake_engines(tmp_path_factory.mktemp("data")):
        place = tmp_path_factory.mktemp("run") / "ours"
        run(plan_of("honest", "slow", load=QUICK + "repeats = 2\n"), place)
        yield place


def test_a_result_file_of_vectordbbench(tmp_path: Path) -> None:
    failed, capacity = vdb(label="x"), vdb(qps=0.0)
    filtered, unknown = vdb(case_id=9, conc_num_list=[], conc_qps_list=[]), vdb(case_id="Mine")
    first, second, third = vectordbbench.read(vdb_file(tmp_path, vdb(), failed, capacity, filtered, unknown))
    assert (first.dataset, first.engine, first.k, first.matching) == ("cohere-768-1m", "ElasticCloud 8c60g", 100, 1.0)
    assert (first.recall, first.qps, first.sessions) == (0.9221, 597.4, 60)
    assert first.build == (("index", "hnsw"), ("M", 16), ("efConstruction", 256))
    assert first.search == (("num_candidates", 100),)
    assert first.recall_of == "one client, other requests than those of QPS"
    assert (second.dataset, second.matching, second.sessions) == ("cohere-768-1m", 0.01, 1)
    assert third.dataset == "case-Mine"
    labels = {"dataset_with_size_type": "Medium Cohere (768dim, 1M)", "label_percentage": 0.002}
    texts = {"dataset_with_size_type": "MS MARCO Small (100K documents)", "filter_rate": 0.9}
    newer = vectordbbench.read(
        vdb_file(tmp_path, vdb(case_id=300, custom_case=labels), vdb(case_id=503, custom_case=texts))
    )
    assert [(one.dataset, one.matching) for one in newer] == [
        ("cohere-768-1m", 0.002), ("MS MARCO Small (100K documents)", 0.1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recall": 1.5}, "recall is 1.5, the most is 1"),
        ({"recall": "0.9"}, "recall is '0.9', it should be a number"),
        ({"qps": float("inf")}, "qps is inf"),
        ({"k": -1}, "k is -1, it should be a number of at least 1"),
        ({"conc_num_list": [1]}, "1 numbers of clients have 5 rates"),
        ({"metrics": None}, "metrics"),
    ],
)
def test_a_damaged_result_of_vectordbbench_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(FormatError, match=said):
        vectordbbench.read(vdb_file(tmp_path, vdb(**change)))


def test_a_result_file_of_ann_benchmarks_has_the_recall_that_its_threshold_gives(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    true = np.sort(random.random((20, 100)), axis=1)
    found = true[:, :K].copy()
    found[:, -1] += 0.0009
    found[:5, -1] += 0.01
    set_file = tmp_path / "generated-16.hdf5"
    with h5py.File(set_file, "w") as file:
        file["distances"] = true
    (point,) = annresults.read(ann_file(tmp_path, found), set_file)
    oracle = sum(distance <= row[K - 1] + 1e-3 for row, answer in zip(true, found, strict=True) for distance in answer)
    assert point.recall == pytest.approx(oracle / (20 * K))
    assert point.recall == pytest.approx(1 - 5 / 200)
    assert (point.engine, point.dataset, point.qps, point.k) == ("hnswlib", "generated-16", 2000, K)
    assert point.more["build_s"] == 12.5
    # Without the set, the recall is the one that ann-benchmarks' plotting script computed.
    (again,) = annresults.read(ann_file(tmp_path, found, mean=0.975))
    assert again.recall == 0.975
    with pytest.raises(FormatError, match=r"no recall, only answers: .* --truth"):
        annresults.read(ann_file(tmp_path, found))
    with pytest.raises(FormatError, match="do not fit"):
        annresults.read(ann_file(tmp_path, found[:7]), set_file)
    with pytest.raises(FormatError, match="best_search_time is 0"):
        annresults.read(ann_file(tmp_path, found, mean=1.0, best_search_time=0.0))


def test_recall_is_counted_by_the_truth_of_the_same_set_alone(tmp_path: Path) -> None:
    # The distances of another set fit by their shape, as those of glove-25 and glove-100 do.
    other = tmp_path / "generated-32.hdf5"
    with h5py.File(other, "w") as file:
        file["distances"] = np.ones((20, K))
    with pytest.raises(FormatError, match=r"of the set generated-16, and --truth is generated-32.hdf5: name gen"):
        annresults.read(ann_file(tmp_path, np.zeros((20, K))), other)
    with pytest.raises(FormatError, match="of the set unknown"):
        annresults.read(ann_file(tmp_path, np.zeros((20, K)), dataset=""), other)
    assert annresults.read(ann_file(tmp_path, np.zeros((20, K)), dataset="generated-32"), other)[0].recall == 1.0


def test_a_recall_above_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"recall is 1\.5, the most is 1"):
        annresults.read(ann_file(tmp_path, np.zeros((20, K)), mean=1.5))
    plot = tmp_path / "set.plot"
    plot.write_text("a(m=4) 0.9 10\na(m=5) 90.1 10\n")
    with pytest.raises(FormatError, match=r"set\.plot, line 2: recall is 90\.1, the most is 1"):
        read.read(plot)


def test_plots_say_how_many_sessions_asked_in_their_names() -> None:
    assert {one.sessions for one in read.read(GOLDEN / "fashion-mnist-784-euclidean.sessions48.plot")} == {48}
    assert {one.sessions for one in read.read(FIGURES / "dbpedia-openai-1000k-angular.plot")} == {1}


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    for name, text in (
        ("a.json", "{}"),
        ("b.json", "["),
        ("c.hdf5", "no"),
        ("d.txt", ""),
        ("e.json", '{"results": 3}'),
    ):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(FormatError, match=name):
            read.read(path)
    with pytest.raises(FormatError, match="is not a file"):
        read.read(tmp_path / "nowhere.json")


def test_foreign_results_are_shown_beside_ours_and_compared_with_nothing(folder: Path, tmp_path: Path) -> None:
    ours = (folder / "report/tables.json").read_text()
    found = ann_file(tmp_path, np.zeros((60, K)), mean=0.99)
    plot = str(FIGURES / "dbpedia-openai-1000k-angular.plot")
    assert main(["import", str(folder), str(found), str(vdb_file(tmp_path, vdb())), plot]) == 0
    sections = {
        one["title"].partition(":")[0]: one
        for one in json.loads((folder / "report/tables.json").read_text())["sections"]
    }
    assert list(sections) == ["generated-16", "cohere-768-1m", "dbpedia-openai-1000k-angular"]
    tables = {table["name"]: table for table in sections["generated-16"]["tables"]}
    (row,) = tables["foreign-generated-16"]["rows"]
    assert [cell["text"] for cell in row][::4] == ["hnswlib (foreign)", "0.9900", "M_24_efConstruction_500_ef_10.hdf5"]
    # The tables of the run have not changed.
    before = json.loads(ours)["sections"][0]["tables"]
    assert [tables[table["name"]] for table in before] == before
    page = (folder / "report/index.html").read_text()
    assert "hnswlib (foreign)" in page
    assert "MariaDB (foreign)" in page
    assert 'href="../foreign/' in page
    rows = list(csv.DictReader((folder / "report/foreign-cohere-768-1m.csv").open()))
    assert [(one["clients"], one["recall of"]) for one in rows] == [("60", vectordbbench.RECALL_OF)]
    # A second import of the same files adds nothing, and no file is replaced.
    files = sorted((folder / "foreign").iterdir())
    assert main(["import", str(folder), str(found), plot]) == 0
    assert sorted((folder / "foreign").iterdir()) == files
    assert len(RunFolder(folder).all("foreign")) == len(files) == 1 + 1 + 41


def test_a_foreign_result_may_be_of_a_set_that_is_called_otherwise(folder: Path, tmp_path: Path) -> None:
    found = ann_file(tmp_path, np.zeros((60, K)), mean=0.5, dataset="generated-16-euclidean", algo="renamed")
    assert main(["import", str(folder), str(found), "--set", "generated-16"]) == 0
    results = of_engines(folder)
    (point,) = [point for point in results.foreign if point.engine == "renamed"]
    assert (point.dataset, raw(point)["set_of_the_file"]) == ("generated-16", "generated-16-euclidean")


def test_plots_of_one_name_do_not_replace_each_other_without_a_word(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = len(RunFolder(folder).all("foreign"))
    plots = [tmp_path / name / "generated-16.plot" for name in ("one", "two")]
    for plot, qps in zip(plots, (100, 200), strict=True):
        plot.parent.mkdir()
        plot.write_text(f"twice(m=4) 0.9 {qps}\n")
    assert main(["import", str(folder), *map(str, plots)]) == 1
    assert "have one name and different figures of generated-16.twice: rename one" in capsys.readouterr().err
    assert len(RunFolder(folder).all("foreign")) == before
    for plot in plots:
        assert main(["import", str(folder), str(plot)]) == 0
    assert "warning: generated-16.plot: 1 other figures of this name, imported" in capsys.readouterr().err
    plots[0].write_text("twice(m=4) 0.9 100\ntwice(m=4) 0.8 100\n")
    assert main(["import", str(folder), str(plots[0])]) == 1
    assert "it has two figures of one configuration of generated-16.twice" in capsys.readouterr().err


def test_files_are_added_all_or_none(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = len(RunFolder(folder).all("foreign"))
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    good = ann_file(tmp_path, np.zeros((60, K)), mean=0.1, algo="never")
    assert main(["import", str(folder), str(good), str(broken)]) == 1
    assert "broken.json: no result file of VectorDBBench" in capsys.readouterr().err
    assert len(RunFolder(folder).all("foreign")) == before
    assert main(["import", str(tmp_path), str(good)]) == 1
    assert "is not a folder of a run" in capsys.readouterr().err


def vibe_file(folder: Path, *given: dict[str, Any], rows: int | None = None) -> Path:
    """A summary in VIBE's format, with the first `rows` if they are not all."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = folder / "summary.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(list(given)).slice(0, rows), path)
    return path


VIBE = {
    "k": 100, "dataset": "generated-16", "algorithm": "glass", "params": "glass_R32_L200|{'ef': 64}", "qps": 4100.5,
    "recall": 0.953, "build_time": 71.25, "index_size": 2048.0,
}  # fmt: skip


def test_a_summary_of_vibe(tmp_path: Path) -> None:
    other = VIBE | {"params": "brute", "k": 10, "recall": 1.0}
    first, second = read.read(vibe_file(tmp_path, VIBE, other))
    assert (first.benchmark, first.dataset, first.engine, first.k) == ("VIBE", "generated-16", "glass", 100)
    assert (first.recall, first.qps, first.recall_of) == (0.953, 4100.5, annresults.RECALL_OF)
    assert (first.build, first.search) == ((("setting", "glass_R32_L200"),), (("search", "{'ef': 64}"),))
    assert first.more == {"build_s": 71.25, "index_kb": 2048.0}
    assert (second.build, second.search, second.k) == ((("setting", "brute"),), (), 10)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (VIBE | {"recall": 1.2}, r"recall is 1.2, the most is 1"),
        (VIBE | {"recall": float("nan")}, r"recall is nan"),
        (VIBE | {"qps": 0.0}, r"qps is 0"),
        (VIBE | {"k": None}, r"k is None"),
        (VIBE | {"params": None}, r"params is None, it should be a text"),
        ({name: value for name, value in VIBE.items() if name != "qps"}, r"it lacks the columns qps"),
    ],
)
def test_a_damaged_summary_of_vibe_is_refused(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    with pytest.raises(FormatError, match=said):
        read.read(vibe_file(tmp_path, row))


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "x.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(FormatError, match=r"x.parquet: no Parquet file"):
        read.read(tmp_path / "x.parquet")
    with pytest.raises(FormatError, match=r"summary.parquet: it has no rows"):
        read.read(vibe_file(tmp_path, VIBE, rows=0))


def test_vibe_is_shown_beside_ours(folder: Path, tmp_path: Path) -> None:
    assert main(["import", str(folder), str(vibe_file(tmp_path, VIBE | {"k": 10}))]) == 0
    (point,) = [point for point in of_engines(folder).foreign if point.engine == "glass"]
    assert (raw(point)["benchmark"], raw(point)["build_s"], point.recall) == ("VIBE", 71.25, 0.953)
