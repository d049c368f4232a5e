"""The suites: for each, its tests and the tables and charts of its results."""
