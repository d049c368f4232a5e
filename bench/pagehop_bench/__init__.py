"""Measure Pagehop beside other engines: same data, same machine, same run, equal recall."""
