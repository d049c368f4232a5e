"""Pagehop as a vector store of LangChain."""

from langchain_pagehop.vectorstore import PagehopVectorStore

__all__ = ["PagehopVectorStore"]
