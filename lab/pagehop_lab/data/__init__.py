"""The sets that are measured: rows, queries and checked truth, as files that every process maps."""

from pagehop_lab.data.errors import DataError
from pagehop_lab.data.sets import NAMED, Dataset, Facts, filtered, known, load, prepare

__all__ = ["NAMED", "DataError", "Dataset", "Facts", "filtered", "known", "load", "prepare"]
