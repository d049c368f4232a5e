"""Semantic search with filters over a folder of documentation. Passages are in an index file or in
PostgreSQL.
"""
