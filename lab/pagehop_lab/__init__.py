"""The lab: every engine at equal recall, on your data and your machine."""
