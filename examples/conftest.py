"""The private server for tests of examples."""

from private_server import cluster, database

__all__ = ["cluster", "database"]
