"""The private server for tests of adapters."""

from private_server import cluster, database

__all__ = ["cluster", "database"]
