"""The vector store: LangChain's interface over `pagehop_documents.Documents`."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import run_in_executor
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from langchain_pagehop.filters import Filter, as_where
from pagehop_documents import Document as Kept
from pagehop_documents import Documents, Hit


class PagehopVectorStore(VectorStore):
    """A Pagehop index file with documents beside it. Every method may be called from any thread.

    A method that changes the store changes all that it was given, or nothing, also after a crash.
    In searches, `filter` is a dict, a condition of Pagehop or its text, over the columns of the
    store, and `recall` is the share of the true nearest documents to find, on average; by default
    0.98, or the highest recall below it that the calibration reached. A score is a distance:
    smaller is nearer.
    """

    def __init__(
        self,
        embedding: Embeddings,
        path: str | Path,
        *,
        metric: str | None = None,
        columns: dict[str, str] | None = None,
        write: bool = True,
        cache: int | str = "256MiB",
    ) -> None:
        """Opens the store at `path`. If there is none, the first documents create it.

        metric: "cosine" (the default), "l2" or "ip".
        columns: names and kinds of the metadata to filter by, such as `{"year": "int"}`.
        write: opens it for changes, too; only one process at a time may do so.
        cache: most bytes of the index's pages to keep in memory.
        """
        self._embedding = embedding
        self._documents = Documents(path, metric=metric, columns=columns, write=write, cache=cache)

    @property
    def embeddings(self) -> Embeddings:
        """The model that turns texts into vectors."""
        return self._embedding

    @property
    def documents(self) -> Documents:
        """The index and the documents, for operations that LangChain's interface does not have."""
        return self._documents

    def close(self) -> None:
        """Closes the files. All changes are on the disk before that."""
        self._documents.close()

    # ---- changes ----

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> list[str]:
        """Adds texts in one change, and returns their ids. A text whose id exists replaces the
        earlier one.
        """
        listed = list(texts)
        return self._add(listed, self._embedding.embed_documents(listed), metadatas, ids)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> list[str]:
        """`add_texts`, without blocking."""
        listed = list(texts)
        vectors = await self._embedding.aembed_documents(listed)
        keys: list[str] = await run_in_executor(None, self._add, listed, vectors, metadatas, ids)
        return keys

    def _add(
        self,
        texts: list[str],
        vectors: list[list[float]],
        metadatas: list[dict[str, Any]] | None,
        ids: Sequence[str | None] | None,
    ) -> list[str]:
        keys = [key or str(uuid.uuid4()) for key in (ids or [None] * len(texts))]
        self._documents.add(keys, vectors, texts, metadatas)
        return keys

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:  # noqa: ARG002
        """Deletes documents by id; without ids, all. Ids that are not there are ignored."""
        if ids is None:
            self._documents.clear()
        else:
            self._documents.delete(ids)
        return True

    # ---- reading ----

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Deletes documents by id, or all documents if `ids` is None. Unknown ids are ignored."""
        return [_document(kept) for kept in self._documents.get(ids)]

    def similarity_search(self, query: str, k: int = 4, filter: Filter = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """Documents by id, in the order of `ids`; ids without a document are left out."""
        return self.similarity_search_by_vector(self._embedding.embed_query(query), k, filter, **kwargs)

    async def asimilarity_search(self, query: str, k: int = 4, filter: Filter = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """The `k` documents nearest to a text, nearest first."""
        found = await self.asimilarity_search_with_score(query, k, filter, **kwargs)
        return [document for document, _ in found]

    def similarity_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        filter: Filter = None,  # noqa: A002
        **kwargs: Any,
    ) -> list[Document]:
        """The `k` documents nearest to a vector, nearest first."""
        return [_document(hit) for hit in self._hits(embedding, k, filter, **kwargs)]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: Filter = None,  # noqa: A002
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        """The `k` documents nearest to a text, with their distances, nearest first."""
        return _scored(self._hits(self._embedding.embed_query(query), k, filter, **kwargs))

    async def asimilarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: Filter = None,  # noqa: A002
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        """`similarity_search_with_score`, without blocking."""
        vector = await self._embedding.aembed_query(query)
        return _scored(await run_in_executor(None, self._hits, vector, k, filter, **kwargs))

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter = None,  # noqa: A002
        **kwargs: Any,
    ) -> list[Document]:
        """`k` of the `fetch_k` documents nearest to a text: near it, and far from each other."""
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter, **kwargs)

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter = None,  # noqa: A002
        **kwargs: Any,
    ) -> list[Document]:
        """`k` of the `fetch_k` documents nearest to a vector: near it, and far from each other."""
        vector = await self._embedding.aembed_query(query)
        found: list[Document] = await run_in_executor(
            None, self.max_marginal_relevance_search_by_vector, vector, k, fetch_k, lambda_mult, filter, **kwargs
        )
        return found

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter = None,  # noqa: A002
        **kwargs: Any,
    ) -> list[Document]:
        """Pagehop's distance is squared."""
        hits = self._hits(embedding, fetch_k, filter, **kwargs)
        if not hits:
            return []
        vectors = list(self._documents.vectors([hit.number for hit in hits]))
        chosen = maximal_marginal_relevance(np.asarray(embedding, np.float32), vectors, lambda_mult, k)
        return [_document(hits[at]) for at in chosen]

    def _hits(self, vector: list[float], k: int, given: Filter, *, recall: float | None = None) -> list[Hit]:
        where = as_where(given, self._documents.columns)
        return self._documents.search(vector, k, where=where, recall=recall)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        functions: dict[str, Callable[[float], float]] = {
            "cosine": self._cosine_relevance_score_fn,
            "ip": lambda distance: -distance,
            # Pagehop's distance is squared.
            "l2": lambda distance: self._euclidean_relevance_score_fn(math.sqrt(distance)),
        }
        return functions[self._documents.metric]

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        path: str | Path | None = None,
        **kwargs: Any,
    ) -> Self:
        """A store at `path` with these texts added; other arguments are those of the class."""
        if path is None:
            raise ValueError("path is missing: say where the store is, as path='notes.pagehop'")
        store = cls(embedding, path, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store


def _document(kept: Kept | Hit) -> Document:
    return Document(id=kept.key, page_content=kept.text, metadata=kept.metadata)


def _scored(hits: list[Hit]) -> list[tuple[Document, float]]:
    return [(_document(hit), hit.distance) for hit in hits]
