"""What raw points say: pure functions, without files, clocks or engines."""
