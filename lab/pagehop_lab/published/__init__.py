"""Readers for results that others published, as the points of our own analysis."""
