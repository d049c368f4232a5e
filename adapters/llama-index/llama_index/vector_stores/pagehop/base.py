"""The vector store: LlamaIndex's interface over `pagehop_documents.Documents`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
from llama_index.vector_stores.pagehop.filters import as_where

from pagehop import ArgumentError
from pagehop_documents import Document, Documents, Hit

_MMR_FACTOR = 4
"""Nodes that the mode `mmr` compares for each node that it returns."""


class PagehopVectorStore(BasePydanticVectorStore):
    """A Pagehop index file with nodes beside it. Every method may be called from any thread.

    A method that changes the store changes all that it was given, or nothing, also after a crash.

    path: the index file. If there is none, the first nodes create it.
    metric: "cosine" (the default), "l2" or "ip".
    columns: names and kinds of the metadata to filter by, such as `{"year": "int"}`.
    write: opens it for changes, too; only one process at a time may do so.
    cache: most bytes of the index's pages to keep in memory.
    recall: share of the true nearest nodes that queries find, on average; by default 0.98, or the
        highest recall below it that the calibration reached.
    """

    stores_text: bool = True
    flat_metadata: bool = False

    path: str
    metric: str | None = None
    columns: dict[str, str] | None = None
    write: bool = True
    cache: int | str = "256MiB"
    recall: float | None = None

    _documents: Documents = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._documents = Documents(
            self.path, metric=self.metric, columns=self.columns, write=self.write, cache=self.cache
        )

    @classmethod
    def class_name(cls) -> str:
        """The name of this class in a serialized store."""
        return "PagehopVectorStore"

    @property
    def client(self) -> Documents:
        """The index and the nodes, for operations that LlamaIndex's interface does not have."""
        return self._documents

    def close(self) -> None:
        """Closes the files. All changes are on the disk before that."""
        self._documents.close()

    # ---- changes ----

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:  # noqa: ARG002
        """Adds nodes with their embeddings in one change, and returns their ids. A node whose id
        exists replaces the earlier one.
        """
        self._documents.add(
            [node.node_id for node in nodes],
            [node.get_embedding() for node in nodes],
            [node.get_content(metadata_mode=MetadataMode.NONE) or "" for node in nodes],
            [node_to_metadata_dict(node, remove_text=True, flat_metadata=self.flat_metadata) for node in nodes],
            [node.ref_doc_id for node in nodes],
        )
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:  # noqa: ARG002
        """Deletes all nodes of a document."""
        self._documents.delete_source(ref_doc_id)

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Deletes the nodes that have one of these ids and meet the filters; either may be None."""
        self._documents.delete(found.key for found in self._matching(node_ids, None, filters) or [])

    def clear(self) -> None:
        """Deletes all nodes."""
        self._documents.clear()

    # ---- reading ----

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """The nodes that have one of these ids and meet the filters; either may be None, and all
        nodes are returned if both are.
        """
        found = self._matching(node_ids, None, filters)
        if found is None:
            found = self._documents.get(list(self._documents.keys()))
        return [_node(document) for document in found]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The nodes nearest to `query.query_embedding`, the most similar first."""
        if query.query_embedding is None:
            raise ArgumentError("the query has no embedding; Pagehop finds nodes by vectors only")
        if query.mode == VectorStoreQueryMode.DEFAULT:
            return self._result(self._hits(query, query.similarity_top_k))
        if query.mode == VectorStoreQueryMode.MMR:
            return self._diverse(query, query.query_embedding, kwargs.get("mmr_prefetch_factor", _MMR_FACTOR))
        raise ArgumentError(f"the query mode is {query.mode.value!r}; Pagehop has 'default' and 'mmr'")

    def _diverse(self, query: VectorStoreQuery, vector: list[float], factor: float) -> VectorStoreQueryResult:
        hits = self._hits(query, int(query.similarity_top_k * factor))
        if not hits:
            return self._result([])
        _, chosen = get_top_k_mmr_embeddings(
            query_embedding=vector,
            embeddings=self._documents.vectors([hit.number for hit in hits]).tolist(),
            similarity_top_k=query.similarity_top_k,
            embedding_ids=list(range(len(hits))),
            mmr_threshold=query.mmr_threshold,
        )
        return self._result([hits[at] for at in chosen])

    def _hits(self, query: VectorStoreQuery, k: int) -> list[Hit]:
        where: Any = as_where(query.filters, self._documents.columns)
        # LlamaIndex's retriever passes an empty list when it means every node.
        if query.node_ids or query.doc_ids:
            found = self._matching(query.node_ids or None, query.doc_ids or None, query.filters) or []
            where = np.array([document.number for document in found], np.int64)
        return self._documents.search(query.query_embedding, k, where=where, recall=self.recall)

    def _matching(
        self, node_ids: list[str] | None, doc_ids: list[str] | None, filters: MetadataFilters | None
    ) -> list[Document] | None:
        """The nodes that meet all arguments that are not None; None if all are."""
        where = as_where(filters, self._documents.columns)
        found: list[Document] | None = None
        if node_ids is not None:
            found = self._documents.get(dict.fromkeys(node_ids))
        elif doc_ids is not None:
            found = [document for source in dict.fromkeys(doc_ids) for document in self._documents.of_source(source)]
        if node_ids is not None and doc_ids is not None:
            found = [document for document in found or [] if document.source in doc_ids]
        if where is not None:
            passing = self._documents.matching(where)
            numbers = {document.number for document in passing}
            found = passing if found is None else [document for document in found if document.number in numbers]
        return found

    def _result(self, hits: list[Hit]) -> VectorStoreQueryResult:
        return VectorStoreQueryResult(
            nodes=[_node(hit) for hit in hits],
            similarities=[self._similarity(hit.distance) for hit in hits],
            ids=[hit.key for hit in hits],
        )

    def _similarity(self, distance: float) -> float:
        metric = self._documents.metric
        return 1 - distance if metric == "cosine" else -distance if metric == "ip" else 1 / (1 + distance)

    # ---- the same, without blocking ----

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """`add`, without blocking."""
        return await asyncio.to_thread(self.add, nodes, **kwargs)

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """`delete`, without blocking."""
        await asyncio.to_thread(self.delete, ref_doc_id, **delete_kwargs)

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """`delete_nodes`, without blocking."""
        await asyncio.to_thread(self.delete_nodes, node_ids, filters, **delete_kwargs)

    async def aclear(self) -> None:
        """`clear`, without blocking."""
        await asyncio.to_thread(self.clear)

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """`get_nodes`, without blocking."""
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """`query`, without blocking."""
        return await asyncio.to_thread(self.query, query, **kwargs)


def _node(found: Document | Hit) -> BaseNode:
    node: BaseNode = metadata_dict_to_node(found.metadata, text=found.text)
    return node
