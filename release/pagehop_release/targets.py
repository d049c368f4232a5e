"""The architectures that packages are made for."""

from __future__ import annotations

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """An architecture, with its names in different tools."""

    name: str
    """The kernel's and Python's name."""
    debian: str

    @property
    def rust(self) -> str:
        return f"{self.name}-unknown-linux-gnu"

    @property
    def is_ours(self) -> bool:
        """Whether this machine runs the target's programs without an emulator."""
        return platform.machine() == self.name

    @property
    def emulator(self) -> str:
        """The emulator of Debian's package qemu-user-static."""
        return f"/usr/bin/qemu-{self.name}-static"


X86_64 = Target("x86_64", "amd64")
AARCH64 = Target("aarch64", "arm64")
TARGETS = (X86_64, AARCH64)
