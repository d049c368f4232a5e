"""Asking an engine and taking the time; what comes out is raw."""
