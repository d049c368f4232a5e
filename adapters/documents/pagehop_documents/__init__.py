"""Texts and metadata beside a Pagehop index; both change together, also across a crash."""

from pagehop_documents.documents import Document, Documents, Hit

__all__ = ["Document", "Documents", "Hit"]
