"""The store used by LlamaIndex itself, and compared with LlamaIndex's own store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn
from llama_index.vector_stores.pagehop import PagehopVectorStore

import pagehop

DIM = 16
COLUMNS = {"year": "int", "price": "float", "topic": "text"}


def vector(seed: int) -> list[float]:
    found: list[float] = np.random.default_rng(seed).normal(size=DIM).tolist()
    return found


def metadata(i: int) -> dict[str, Any]:
    return {"price": i / 4, "topic": f"t{i % 3}"} | ({"year": 2000 + i} if i % 5 else {})


def node(i: int) -> TextNode:
    made = TextNode(id_=f"n{i}", text=f"text {i}", metadata=metadata(i), embedding=vector(i))
    made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"d{i % 4}")
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PagehopVectorStore]:
    store = PagehopVectorStore(path=str(tmp_path / "notes.pagehop"), columns=COLUMNS, recall=1.0)
    assert store.add([node(i) for i in range(40)]) == [f"n{i}" for i in range(40)]
    yield store
    store.close()


def test_nodes_come_back_as_they_were_added(store: PagehopVectorStore) -> None:
    for found in store.get_nodes(["n3", "n7", "none"]):
        i = int(found.node_id[1:])
        assert (found.get_content(), found.metadata, found.ref_doc_id) == (f"text {i}", metadata(i), f"d{i % 4}")
    assert [found.node_id for found in store.get_nodes()] == [f"n{i}" for i in range(40)]


def test_queries_find_what_the_store_in_memory_finds(store: PagehopVectorStore) -> None:
    memory = SimpleVectorStore()
    memory.add([node(i) for i in range(40)])
    for seed in range(50, 60):
        query = VectorStoreQuery(query_embedding=vector(seed), similarity_top_k=5)
        found, expected = store.query(query), memory.query(query)
        assert found.ids == expected.ids
        assert found.similarities == pytest.approx(expected.similarities, abs=2e-3)
        restricted = VectorStoreQuery(query_embedding=vector(seed), similarity_top_k=3, node_ids=["n1", "n2", "n9"])
        assert store.query(restricted).ids == memory.query(restricted).ids


def one(key: str, operator: str, value: Any) -> MetadataFilter:
    return MetadataFilter(key=key, value=value, operator=FilterOperator(operator))


FILTERS = [
    MetadataFilters(filters=[one("year", "==", 2003)]),
    MetadataFilters(filters=[one("year", "!=", 2003)]),
    MetadataFilters(filters=[one("year", ">", 2003), one("year", "<=", 2020)]),
    MetadataFilters(filters=[one("year", "<", 2003), one("price", ">=", 8.0)], condition=FilterCondition.OR),
    MetadataFilters(filters=[one("topic", "in", ["t1", "t2"]), one("year", "nin", [2001, 2002])]),
    MetadataFilters(filters=[one("year", "==", 2004), one("topic", "==", "t2")], condition=FilterCondition.NOT),
    MetadataFilters(filters=[one("year", ">", 2010)], condition=FilterCondition.NOT),
    MetadataFilters(filters=[one("year", "is_empty", None)]),
    MetadataFilters(filters=[]),
]


@pytest.mark.parametrize("filters", FILTERS)
def test_filters_select_what_llama_index_does(store: PagehopVectorStore, filters: MetadataFilters) -> None:
    passes = build_metadata_filter_fn(lambda key: metadata(int(key[1:])), filters)
    expected = {f"n{i}" for i in range(40) if passes(f"n{i}")}
    assert expected
    found = store.query(VectorStoreQuery(query_embedding=vector(1), similarity_top_k=40, filters=filters))
    assert set(found.ids or []) == {found.node_id for found in store.get_nodes(filters=filters)} == expected
    store.delete_nodes(filters=filters if filters.filters else None)
    left = {f"n{i}" for i in range(40)} - (expected if filters.filters else set())
    assert {found.node_id for found in store.get_nodes()} == left


def test_nested_filters_are_joined(store: PagehopVectorStore) -> None:
    inner = MetadataFilters(filters=[one("year", "<", 2003), one("year", ">", 2037)], condition=FilterCondition.OR)
    filters = MetadataFilters(filters=[inner, one("topic", "!=", "t1")])
    expected = {i for i in range(40) if i % 5 and (i < 3 or i > 37) and i % 3 != 1}
    assert {int(found.node_id[1:]) for found in store.get_nodes(filters=filters)} == expected


def test_documents_and_nodes_are_deleted(store: PagehopVectorStore) -> None:
    store.delete("d1")
    assert {found.node_id for found in store.get_nodes()} == {f"n{i}" for i in range(40) if i % 4 != 1}
    query = VectorStoreQuery(query_embedding=vector(1), similarity_top_k=40, doc_ids=["d1", "d2"])
    assert set(store.query(query).ids or []) == {f"n{i}" for i in range(2, 40, 4)}
    store.delete_nodes(["n2", "n3"], MetadataFilters(filters=[one("topic", "==", "t0")]))
    assert [found.node_id for found in store.get_nodes(["n2", "n3"])] == ["n2"]
    store.clear()
    assert store.get_nodes() == []


def test_diverse_queries_avoid_the_same_text_twice(tmp_path: Path) -> None:
    store = PagehopVectorStore(path=str(tmp_path / "notes.pagehop"))
    for i in range(6):
        store.add([TextNode(id_=f"n{i}", text="x", embedding=vector(0 if i < 4 else i))])
    query = VectorStoreQuery(
        query_embedding=vector(0), similarity_top_k=3, mode=VectorStoreQueryMode.MMR, mmr_threshold=0.01
    )
    assert {"n4", "n5"} < set(store.query(query, mmr_prefetch_factor=2).ids or [])
    store.close()


def test_what_cannot_be_done_is_said(store: PagehopVectorStore) -> None:
    with pytest.raises(pagehop.ArgumentError, match="'free' is not a column of the store"):
        store.get_nodes(filters=MetadataFilters(filters=[one("free", "==", 1)]))
    with pytest.raises(pagehop.ArgumentError, match="the operator 'text_match'"):
        store.get_nodes(filters=MetadataFilters(filters=[one("topic", "text_match", "t")]))
    with pytest.raises(pagehop.ArgumentError, match="no embedding"):
        store.query(VectorStoreQuery(query_str="text"))
    with pytest.raises(pagehop.ArgumentError, match="the query mode is 'hybrid'"):
        store.query(VectorStoreQuery(query_embedding=vector(1), mode=VectorStoreQueryMode.HYBRID))


def test_an_index_of_llama_index_is_there_again_when_it_is_opened(tmp_path: Path) -> None:
    path, model = str(tmp_path / "notes.pagehop"), MockEmbedding(embed_dim=DIM)
    store = PagehopVectorStore(path=path, metric="l2")
    context = StorageContext.from_defaults(vector_store=store)
    VectorStoreIndex([TextNode(id_="a", text="first")], storage_context=context, embed_model=model)
    store.close()
    reader = PagehopVectorStore(path=path, write=False)
    found = VectorStoreIndex.from_vector_store(reader, embed_model=model).as_retriever().retrieve("first")
    assert [(hit.node_id, hit.text, hit.score) for hit in found] == [("a", "first", 1.0)]
    reader.close()


async def test_coroutines_do_what_methods_do(tmp_path: Path) -> None:
    store = PagehopVectorStore(path=str(tmp_path / "notes.pagehop"))
    await asyncio.gather(*(store.async_add([node(i)]) for i in range(20)))
    found = await store.aquery(VectorStoreQuery(query_embedding=vector(7), similarity_top_k=1))
    assert found.ids == ["n7"]
    await store.adelete("d1")
    await store.adelete_nodes(["n0"])
    assert len(await store.aget_nodes()) == 14
    await store.aclear()
    assert await store.aget_nodes() == []
    store.close()
