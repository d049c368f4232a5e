"""The folder of a run: what was planned, on what machine, and one raw file for everything that was measured."""

from pagehop_lab.store.folder import Record, RunFolder, StoreError, cell, checksum

__all__ = ["Record", "RunFolder", "StoreError", "cell", "checksum"]
