"""What changes cost: adding, deleting, vacuum and recovery, and what is left of search meanwhile and afterwards."""
