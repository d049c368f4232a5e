"""Refuses a package that was not installed to its end, before the system loads its library.

The system loads a library that is cut short as if it were whole, and the process ends by a signal
at the first page that is not there. Importing this module looks.
"""

from __future__ import annotations

import os

_ADVICE = "the package was not installed to its end: pip install --force-reinstall pagehop"
_HEADER_BYTES = 64


def check(folder: str) -> None:
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


def _elf_bytes(header: bytes) -> int:
    """Bytes that a file with this header has at least. The table of sections is at the end of a
    file of ELF.
    """
    if len(header) < _HEADER_BYTES or not header.startswith(b"\x7fELF"):
        return _HEADER_BYTES
    places = [(40, 48), (58, 60), (60, 62)]
    begin, entry_bytes, entries = (int.from_bytes(header[at:end], "little") for at, end in places)
    return begin + entry_bytes * entries


check(os.path.dirname(os.path.abspath(__file__)))
