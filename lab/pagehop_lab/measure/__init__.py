"""Sends queries to an engine and times them; the results are raw."""
