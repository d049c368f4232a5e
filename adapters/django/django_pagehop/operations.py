"""The migration operation that creates the extension."""

from __future__ import annotations

from typing import Any

from django import VERSION
from django.contrib.postgres.operations import CreateExtension


class PagehopExtension(CreateExtension):
    """Runs `CREATE EXTENSION pagehop`. pgvector's `VectorExtension` must come before it."""

    def __init__(self, hints: Any = None) -> None:
        # Before Django 6, operations for extensions have no hints.
        super().__init__("pagehop", **({"hints": hints} if VERSION[0] >= 6 else {}))

    def deconstruct(self) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The arguments for a migration file: without the name, which this class sets itself."""
        name, _, kwargs = super().deconstruct()
        return name, (), {key: value for key, value in kwargs.items() if key != "name"}
