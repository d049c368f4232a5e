"""Servers with places for their files, which go with them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from devserver import DevServerError
from devserver.processes import server_owner
from devserver.volume import Volume
from pagehop_lab.run.servers import Wrapped


@dataclass
class Place:
    """The place of a server's files: a file system of its own if available, or else a folder."""

    folder: Path
    volume: Volume | None
    why_not: str | None

    @staticmethod
    def of(size_bytes: int, sector_bytes: int = 512) -> Place:
        try:
            volume = Volume(size_bytes, sector_bytes)
        except DevServerError as error:
            folder = Path(tempfile.mkdtemp(prefix="pagehop-lab-"))
            return Place(folder, None, str(error))
        return Place(volume.path, volume, None)

    def owned(self, name: str) -> Path:
        """A folder in it that belongs to the server."""
        path = self.folder / name
        path.mkdir()
        server_owner().own(path)
        return path

    def remove(self) -> None:
        if self.volume is not None:
            self.volume.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class Held(Wrapped):
    """A server, and the places of its files, by their kind."""

    places: Mapping[str, Place]

    def remove(self) -> None:
        with ExitStack() as stack:
            for place in self.places.values():
                stack.callback(place.remove)
            super().remove()
