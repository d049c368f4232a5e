"""Each script of examples/migrate on data that the other library wrote, and the commands in the
guide.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import psycopg
import pytest

import from_chroma
import from_pgvector
import pagehop
from devserver import Cluster
from pagehop_documents import Documents

ROWS, DIM = 2000, 16
GUIDE = Path(__file__).parents[3] / "docs" / "migrate.md"

Vectors = np.ndarray[Any, np.dtype[np.float32]]


def vectors(seed: int = 1) -> Vectors:
    return np.random.default_rng(seed).normal(size=(ROWS, DIM)).astype(np.float32)


def nearest(rows: Vectors, query: Vectors, metric: str, k: int) -> list[int]:
    """Positions of the nearest rows, by reading every row."""
    if metric == "l2":
        distances = ((rows - query) ** 2).sum(axis=1)
    else:
        distances = -(rows @ query)
        if metric == "cosine":
            distances /= np.linalg.norm(rows, axis=1)
    order: list[int] = np.argsort(distances)[:k].tolist()
    return order


def assert_found(path: Path, rows: Vectors, ids: list[int], metric: str) -> None:
    with pagehop.open(path) as index:
        assert index.info().metric == metric
        assert sorted(int(one) for batch in index.ids() for one in batch) == sorted(ids)
        for query in vectors(2)[:20]:
            expected = [ids[at] for at in nearest(rows, query, metric, 10)]
            found = index.search(query, k=10, recall=1).ids.tolist()
            # Codes of 12 bits may change the order of rows at nearly the same distance.
            assert len(set(found) & set(expected)) >= 9


@pytest.mark.parametrize("space", ["l2", "ip", "cosine"])
def test_an_index_of_hnswlib_becomes_one_of_pagehop(
    space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hnswlib = pytest.importorskip("hnswlib", reason="it is compiled where there is a C++ compiler")
    import from_hnswlib

    rows, labels = vectors(), (np.arange(ROWS) * 3 + 7)
    old = hnswlib.Index(space=space, dim=DIM)
    old.init_index(max_elements=ROWS)
    old.add_items(rows, labels)
    old.mark_deleted(labels[5])
    old.save_index(str(tmp_path / "old.bin"))
    new = tmp_path / "new.pagehop"
    given = [str(tmp_path / "old.bin"), str(new), "--space", space]
    assert from_hnswlib.main(given) == 0
    assert f"{ROWS - 1} rows in" in (said := capsys.readouterr().out)
    assert "1 deleted elements left out" in said
    assert_found(new, np.delete(rows, 5, axis=0), np.delete(labels, 5).tolist(), space)
    assert from_hnswlib.main(given) == 1
    assert "new.pagehop" in capsys.readouterr().err
    assert from_hnswlib.main([*given, "--overwrite"]) == 0
    assert from_hnswlib.main([str(tmp_path / "none"), *given[1:]]) == 1
    assert "No such file" in capsys.readouterr().err
    for content in (b"", bytes(1000), new.read_bytes()):
        (tmp_path / "other").write_bytes(content)
        assert from_hnswlib.main([str(tmp_path / "other"), *given[1:], "--overwrite"]) == 1
        assert "other is not a file of hnswlib" in capsys.readouterr().err


@pytest.mark.parametrize("space", ["l2", "ip", "cosine"])
def test_a_collection_of_chroma_keeps_its_documents(
    space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_chroma, "_ROWS_AT_ONCE", 300)
    rows, folder, new = vectors()[:1000], tmp_path / "chroma", tmp_path / "new.pagehop"
    client = chromadb.PersistentClient(folder, settings=chromadb.Settings(anonymized_telemetry=False))
    old = client.create_collection("notes", configuration={"hnsw": {"space": space}})
    keys = [f"note {i}" for i in range(len(rows))]
    old.add(
        ids=keys,
        embeddings=list(rows),
        documents=[f"text {i}" for i in range(len(rows))],
        metadatas=[{"year": 2000 + i % 20, "free": i} for i in range(len(rows))],
    )
    assert from_chroma.main([str(folder), "notes", str(new), "--column", "year:int"]) == 0
    with Documents(new, write=False) as documents:
        assert (len(documents), documents.metric) == (len(rows), space)
        for query in vectors(2)[:10]:
            hits = documents.search(query, k=5, where="year = 2007", recall=1)
            expected = [keys[at] for at in nearest(rows, query, space, len(rows)) if at % 20 == 7][:5]
            assert len({hit.key for hit in hits} & set(expected)) >= 4
            assert all(hit.text == f"text {hit.metadata['free']}" for hit in hits)
        assert list(documents.keys()) == keys
    assert from_chroma.main([str(folder), "notes", str(new)]) == 1
    assert "is there already" in capsys.readouterr().err
    assert from_chroma.main([str(folder), "others", str(tmp_path / "x")]) == 1
    assert "[others] does not exist" in capsys.readouterr().err
    assert from_chroma.main([str(tmp_path), "notes", str(tmp_path / "x")]) == 1
    assert "no chroma.sqlite3" in capsys.readouterr().err
    assert from_chroma.main([str(folder), "notes", str(tmp_path / "x"), "--column", "year:whole"]) == 1
    assert "whole" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        from_chroma.main([str(folder), "notes", str(tmp_path / "x"), "--column", "year"])
    assert "'year' is not a column with its kind, such as year:int" in capsys.readouterr().err


@pytest.fixture
def dsn(cluster: Cluster, database: str) -> str:
    """A table with indexes of pgvector, and one row without a vector."""
    dsn = cluster.dsn(database)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute("CREATE TABLE items (id bigint PRIMARY KEY, price float8, embedding vector(16))")
        with connection.cursor() as cursor, cursor.copy("COPY items FROM STDIN") as copy:
            for i, row in enumerate(vectors()):
                copy.write_row((i, i / 4, str(row.tolist())))
            copy.write_row((ROWS, None, None))
        connection.execute("CREATE INDEX items_hnsw ON items USING hnsw (embedding vector_l2_ops)")
        connection.execute(
            "CREATE INDEX items_half ON items USING ivfflat ((embedding::halfvec(16)) halfvec_cosine_ops) "
            "WITH (lists = 5) WHERE price < 400"
        )
        connection.execute("CREATE INDEX items_l1 ON items USING hnsw (embedding vector_l1_ops)")
    return dsn


def test_indexes_of_pgvector_are_replaced(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert from_pgvector.main(["index", dsn, "items", "--filter", "price"]) == 0
    said = capsys.readouterr().out
    assert "items_l1: Pagehop has no operator class vector_l1_ops; the index stays" in said
    assert "2 indexes replaced" in said
    with psycopg.connect(dsn, autocommit=True) as connection:
        query = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'items'"
        defined: dict[str, str] = dict(connection.execute(query).fetchall())
        assert set(defined) == {"items_pkey", "items_l1", "items_hnsw_pagehop", "items_half_pagehop"}
        assert "USING pagehop (embedding vector_l2_ops, price)" in defined["items_hnsw_pagehop"]
        half = "USING pagehop (((embedding)::halfvec(16)) halfvec_cosine_ops, price) WHERE (price < "
        assert half in defined["items_half_pagehop"]
        connection.execute("SET enable_seqscan = off")
        near = vectors(2)[0]
        select = f"SELECT id FROM items ORDER BY embedding <-> '{near.tolist()}' LIMIT 10"
        plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {select}"))
        assert "items_hnsw_pagehop" in plan
        found = [row[0] for row in connection.execute(select)]
        assert len(set(found) & set(nearest(vectors(), near, "l2", 10))) >= 9


def test_an_index_that_cannot_be_made_leaves_the_old_one(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE bad (id int, document jsonb, embedding vector(3))")
        connection.execute("CREATE INDEX bad_hnsw ON bad USING hnsw (embedding vector_l2_ops)")
        assert from_pgvector.main(["index", dsn, "bad", "--filter", "document"]) == 1
        assert "no default operator class for access method" in capsys.readouterr().err
        names = connection.execute("SELECT indexname FROM pg_indexes WHERE tablename = 'bad'").fetchall()
        assert names == [("bad_hnsw",)]
        assert from_pgvector.main(["index", dsn, "bad", "--keep-old"]) == 0
        names = connection.execute("SELECT indexname FROM pg_indexes WHERE tablename = 'bad' ORDER BY 1").fetchall()
        assert names == [("bad_hnsw",), ("bad_hnsw_pagehop",)]
        # An index that an earlier run has created is not changed.
        assert from_pgvector.main(["index", dsn, "bad"]) == 1
        assert 'bad_hnsw_pagehop" is there already: drop it' in capsys.readouterr().err
        assert (
            names
            == connection.execute("SELECT indexname FROM pg_indexes WHERE tablename = 'bad' ORDER BY 1").fetchall()
        )


def test_a_table_of_pgvector_becomes_a_file(dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = tmp_path / "items.pagehop"
    export = ["export", dsn, "items", "id", "embedding", str(new), "--metric", "cosine", "--filter", "price"]
    assert from_pgvector.main(export) == 0
    assert_found(new, vectors(), list(range(ROWS)), "cosine")
    with pagehop.open(new) as index:
        assert index.search(vectors(2)[0], k=ROWS, where="price < 10", recall=1).ids.max() == 39
    assert from_pgvector.main(export) == 1
    assert "items.pagehop" in capsys.readouterr().err


def test_the_guide_shows_commands_that_exist() -> None:
    pytest.importorskip("hnswlib", reason="it is compiled where there is a C++ compiler")
    lines = re.findall(r"^python (examples/migrate/\S+\.py)(.*)$", GUIDE.read_text(), re.MULTILINE)
    assert {Path(script).name for script, _ in lines} == {"from_hnswlib.py", "from_chroma.py", "from_pgvector.py"}
    for script, rest in lines:
        path = GUIDE.parents[1] / script
        command = [rest.split()[0]] if rest.split()[0] in ("index", "export") else []
        done = subprocess.run(
            [sys.executable, path, *command, "--help"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)},
            capture_output=True,
            text=True,
            check=True,
        )
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in done.stdout, f"{script} has no {option}"
