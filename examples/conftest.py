"""Fixtures for tests of examples: a private server, and a database for each test."""

from private_server import cluster, database

__all__ = ["cluster", "database"]
