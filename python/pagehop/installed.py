"""Raises an error where Python would otherwise crash. The checks run when this module is imported.

The system loads a truncated library as if it were complete, and ends the process with a signal at
the first page that is missing. NumPy loads its libraries before it checks the CPU.
"""

from __future__ import annotations

import os
import sys

_ADVICE = "the installation is incomplete: pip install --force-reinstall pagehop"
_HEADER_BYTES = 64
MODULES = (
    "__init__.py",
    "arrays.py",
    "columns.py",
    "conditions.py",
    "errors.py",
    "hits.py",
    "ids.py",
    "index.py",
    "installed.py",
    "open.py",
    "options.py",
    "recall_warnings.py",
    "reports.py",
    "sources.py",
)
"""Every module of the package that is written in Python."""
_NUMPY_OF_V2 = (2, 4)
"""The first NumPy whose wheels need x86-64-v2."""


def check_library(folder: str) -> None:
    """Refuses a `folder` of this package whose library is missing or cut short."""
    libraries = [name for name in os.listdir(folder) if name.startswith("_pagehop.") and name.endswith(".so")]
    if not libraries:
        raise ImportError(f"{folder} has no library _pagehop; {_ADVICE}")
    for name in libraries:
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            header, size = file.read(_HEADER_BYTES), os.fstat(file.fileno()).st_size
        if size < _elf_bytes(header):
            raise ImportError(f"{path} is cut short at {size:,} bytes; {_ADVICE}")


def check_modules(folder: str) -> None:
    """Refuses a `folder` of this package that lacks a module, or has an empty one."""
    for name in MODULES:
        path = os.path.join(folder, name)
        if not os.path.exists(path) or os.path.getsize(path) == 0:
            raise ImportError(f"{path} is missing or empty; {_ADVICE}")


def _elf_bytes(header: bytes) -> int:
    """Bytes that a file with this header has at least. The table of sections is at the end of a
    file of ELF.
    """
    if len(header) < _HEADER_BYTES or not header.startswith(b"\x7fELF"):
        return _HEADER_BYTES
    places = [(40, 48), (58, 60), (60, 62)]
    begin, entry_bytes, entries = (int.from_bytes(header[at:end], "little") for at, end in places)
    return begin + entry_bytes * entries


def check_numpy(version: str) -> None:
    """Refuses a NumPy that cannot run on a CPU older than x86-64-v2."""
    if tuple(map(int, version.split(".")[:2])) >= _NUMPY_OF_V2:
        raise ImportError(
            f"this CPU is older than x86-64-v2, and NumPy {version} does not run on it: pip install 'numpy<2.4'"
        )


_FOLDER = os.path.dirname(os.path.abspath(__file__))
check_library(_FOLDER)
check_modules(_FOLDER)

# The library needs no NumPy. A NumPy that is imported already runs here.
from pagehop import _pagehop  # noqa: E402

if _pagehop.is_before_x86_64_v2() and "numpy" not in sys.modules:
    from importlib.metadata import version

    check_numpy(version("numpy"))
