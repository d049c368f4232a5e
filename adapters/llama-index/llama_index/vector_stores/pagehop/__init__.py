"""Pagehop as a vector store of LlamaIndex."""

from llama_index.vector_stores.pagehop.base import PagehopVectorStore

__all__ = ["PagehopVectorStore"]
