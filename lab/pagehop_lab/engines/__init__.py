"""The engines: one small file each, all with the same few methods. `engine.py` says which, `catalog.py` lists them.

A file must be importable without its library: what is not installed is said when the engine is started.
"""
