"""The one error of this package: it says what went wrong, where, and what to do."""

from __future__ import annotations


class DevServerError(Exception):
    """A server could not be fetched, built, started or queried."""
