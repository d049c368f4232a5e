"""Pagehop's index in PostgreSQL for Django models."""

from django_pagehop.indexes import PagehopIndex
from django_pagehop.operations import PagehopExtension

__all__ = ["PagehopExtension", "PagehopIndex"]
