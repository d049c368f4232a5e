"""Texts and metadata beside a Pagehop index, in one consistent order of commits."""

from pagehop_documents.documents import Document, Documents, Hit

__all__ = ["Document", "Documents", "Hit"]
