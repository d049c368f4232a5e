"""What is asked of a run: for each suite the tables and the charts that answer it."""
