"""Semantic search over a folder of documentation, with filters: over an index file, or in
PostgreSQL.
"""
