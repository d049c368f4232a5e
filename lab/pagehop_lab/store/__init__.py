"""The folder of a run: the plan, the machine, and one raw file for every measurement."""

from pagehop_lab.store.folder import COMPLETE, LOCK, Record, RunFolder, StoreError, cell, checksum

__all__ = ["COMPLETE", "LOCK", "Record", "RunFolder", "StoreError", "cell", "checksum"]
