"""Analysis of raw points: pure functions, without files, clocks or engines."""
