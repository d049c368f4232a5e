"""The store in LangChain's own standard tests, and in tests of what those leave out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

import pagehop
from langchain_pagehop import PagehopVectorStore

EMBEDDING = DeterministicFakeEmbedding(size=16)
COLUMNS = {"year": "int", "price": "float", "topic": "text", "open": "bool", "at": "timestamp"}


class TestStandard(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = PagehopVectorStore(self.get_embeddings(), tmp_path / "standard.pagehop")
        yield store
        store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PagehopVectorStore]:
    store = PagehopVectorStore(EMBEDDING, tmp_path / "notes.pagehop", columns=COLUMNS)
    store.add_documents([Document(f"text {i}", id=str(i), metadata=metadata(i)) for i in range(40)])
    yield store
    store.close()


def metadata(i: int) -> dict[str, Any]:
    found = {
        "year": 2000 + i,
        "price": i / 4,
        "topic": f"t{i % 3}",
        "open": i % 2 == 0,
        "at": f"2024-01-{i % 28 + 1:02}",
    }
    return found | {"free": [i]} if i % 5 else {"free": [i]}


def passing(store: PagehopVectorStore, given: Any) -> set[int]:
    return {int(found.id or -1) for found in store.similarity_search("text 3", k=40, filter=given, recall=1)}


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        ({"year": 2003}, lambda m: m["year"] == 2003),
        ({"year": {"$gt": 2003, "$lte": 2010}}, lambda m: 2003 < m["year"] <= 2010),
        ({"price": {"$between": [1, 2.5]}, "open": True}, lambda m: 1 <= m["price"] <= 2.5 and m["open"]),
        ({"topic": {"$in": ["t1", "t2"]}}, lambda m: m["topic"] != "t0"),
        ({"topic": {"$nin": ["t1", "t2"]}}, lambda m: m["topic"] == "t0"),
        ({"topic": {"$ne": "t1"}}, lambda m: m["topic"] != "t1"),
        ({"$or": [{"year": {"$lt": 2004}}, {"topic": "t1", "year": {"$gte": 2030}}]},
         lambda m: m["year"] < 2004 or (m["topic"] == "t1" and m["year"] >= 2030)),
        ({"$not": {"$and": [{"open": True}, {"topic": "t1"}]}}, lambda m: not (m["open"] and m["topic"] == "t1")),
        ({"at": {"$gte": "2024-01-20"}}, lambda m: m["at"] >= "2024-01-20"),
        ("year > 2020 and topic = 't1'", lambda m: m["year"] > 2020 and m["topic"] == "t1"),
        (pagehop.column("year") < 2007, lambda m: m["year"] < 2007),
    ],
)  # fmt: skip
def test_filters_select_what_python_does(store: PagehopVectorStore, given: Any, passes: Any) -> None:
    expected = {i for i in range(40) if "year" in metadata(i) and passes(metadata(i))}
    assert expected
    assert passing(store, given) == expected


def test_documents_without_a_value_can_be_found(store: PagehopVectorStore) -> None:
    without = {i for i in range(40) if "year" not in metadata(i)}
    assert passing(store, {"year": {"$exists": False}}) == passing(store, {"year": None}) == without
    assert passing(store, {"year": {"$exists": True}}) == set(range(40)) - without
    assert passing(store, {}) == set(range(40))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"free": 1}, "'free' is not a column of the store, whose columns are: at, open"),
        ({"year": {"$regex": 1}}, "the comparisons are"),
        ({"year": {}}, "the comparisons are"),
        ({"$and": {"year": 1}}, r"\$and takes a list"),
        ({"$or": []}, "no filters"),
        ({"$not": 3}, "takes a filter"),
        ({"year": {"$between": [1]}}, "lower and an upper"),
        (3, "must be a dict"),
    ],
)
def test_filters_that_are_none_are_refused(store: PagehopVectorStore, given: Any, says: str) -> None:
    with pytest.raises(pagehop.ArgumentError, match=says):
        store.similarity_search("text 3", filter=given)


def test_a_store_is_there_again_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "notes.pagehop"
    first = PagehopVectorStore.from_texts(["a", "b"], EMBEDDING, [{"n": 1}, {"n": 2}], ids=["1", "2"], path=path)
    first.close()
    reader = PagehopVectorStore(EMBEDDING, path, write=False)
    assert reader.similarity_search("a", k=1) == [Document("a", id="1", metadata={"n": 1})]
    assert len(reader.documents) == 2
    reader.close()
    with pytest.raises(ValueError, match="path is missing"):
        PagehopVectorStore.from_texts(["a"], EMBEDDING)


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_the_text_itself_is_the_most_relevant(tmp_path: Path, metric: str) -> None:
    store = PagehopVectorStore(EMBEDDING, tmp_path / "notes.pagehop", metric=metric)
    store.add_texts([f"text {i}" for i in range(20)])
    scored = store.similarity_search_with_score("text 5", k=20)
    assert [score for _, score in scored] == sorted(score for _, score in scored)
    relevant = store._similarity_search_with_relevance_scores("text 5", k=20)
    assert [score for _, score in relevant] == sorted((score for _, score in relevant), reverse=True)
    if metric != "ip":
        assert scored[0][0].page_content == "text 5"
        assert relevant[0][1] == pytest.approx(1, abs=0.1)
    store.close()


def test_marginal_relevance_prefers_different_documents(tmp_path: Path) -> None:
    store = PagehopVectorStore(EMBEDDING, tmp_path / "notes.pagehop")
    store.add_texts(["same"] * 5 + ["other", "third"])
    texts = [found.page_content for found in store.max_marginal_relevance_search("same", k=3, fetch_k=7, lambda_mult=0)]
    assert sorted(texts) == ["other", "same", "third"]
    found = asyncio.run(store.amax_marginal_relevance_search("same", k=3, fetch_k=7, lambda_mult=0))
    assert [document.page_content for document in found] == texts
    assert store.as_retriever(search_type="mmr", search_kwargs={"k": 2}).invoke("same")
    store.close()


def test_many_coroutines_add_and_search(tmp_path: Path) -> None:
    store = PagehopVectorStore(EMBEDDING, tmp_path / "notes.pagehop", columns={"n": "int"})

    async def one(i: int) -> None:
        await store.aadd_texts([f"text {i}"], [{"n": i}], ids=[str(i)])
        found = await store.asimilarity_search(f"text {i}", k=1, filter={"n": i})
        assert [document.id for document in found] == [str(i)]

    async def all_of_them() -> None:
        await asyncio.gather(*(one(i) for i in range(30)))

    asyncio.run(all_of_them())
    assert store.delete() is True
    assert store.similarity_search("text 1") == []
    store.close()
