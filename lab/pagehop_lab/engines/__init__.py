"""The engines: one small file each, all with the same few methods.

`engine.py` has the methods, `catalog.py` the list. A file must be importable without its library:
an engine reports a missing library when it is started.
"""
