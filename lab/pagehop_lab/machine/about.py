"""The machine of a measurement: processor, memory, kernel, disk and file system of the data.

Also how the cores are clocked, and whether the machine is virtual. Nothing identifies the machine.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from pagehop_lab.machine import counters

_SYS = Path("/sys")
_GIB = 2**30
_SECTOR_BYTES = 512


def processor() -> dict[str, Any]:
    """CPU, cores, memory and kernel."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.*)", cpuinfo)
    flags = re.search(r"flags\s*:\s*(.*)", cpuinfo)
    wide = [
        flag for flag in ["avx2", "avx512f", "avx512_vpopcntdq", "avx512_vnni"] if flags and flag in flags[1].split()
    ]
    return {
        "cpu": model[1].strip() if model else platform.machine(),
        "simd": wide,
        "cores": counters.cores(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
    }


def kind() -> str:
    """A short name for machines like this one, for file names."""
    about = processor()
    cpu = re.sub(r"[^a-z0-9]+", "-", about["cpu"].lower()).strip("-")
    return f"{cpu}-{about['cores']}c-{about['memory_gib']:.0f}g"


def surroundings(folder: Path, sys: Path = _SYS) -> dict[str, Any]:
    """The surroundings of the data folder.

    None for facts that the kernel does not give in `sys`.
    """
    return {
        "disk": _disk(folder, sys),
        "file_system": _file_system(folder),
        "governor": _line(sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "virtualization": _virtualization(sys),
        "cpu_quota": _cpu_quota(sys),
        "compilers": _compilers(),
    }


def _disk(folder: Path, sys: Path) -> str | None:
    """The model or the driver of the disk, its size, and its kind."""
    device = folder.stat().st_dev
    place = sys / f"dev/block/{os.major(device)}:{os.minor(device)}"
    if not place.exists():
        return None
    place = place.resolve()
    if (place / "partition").exists():
        place = place.parent
    name = _line(place / "device/model")
    if name is None and (place / "device/driver").exists():
        name = (place / "device/driver").resolve().name
    sectors, rotational = _line(place / "size"), _line(place / "queue/rotational")
    size = f"{int(sectors) * _SECTOR_BYTES / _GIB:.0f} GiB" if sectors else None
    # Virtual disks report 1 unless their host sets 0, so only 0 means something.
    kind = "not rotational" if rotational == "0" else None
    return ", ".join(filter(None, [name or "unknown", size, kind]))


def _file_system(folder: Path) -> str | None:
    """The type of the file system, and the mount options that decide when data reach the disk."""
    found: tuple[int, str] | None = None
    place = str(folder.resolve())
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mounted, kind, options = line.split()[:4]
        inside = mounted == "/" or place == mounted or place.startswith(f"{mounted}/")
        if inside and (found is None or len(mounted) >= found[0]):
            told = re.findall(r"\b(?:noatime|data=\w+|barrier=\d|nobarrier|discard|compress=\S+?)(?=,|$)", options)
            found = len(mounted), " ".join([kind, *told])
    return None if found is None else found[1]


def _virtualization(sys: Path) -> str | None:
    """The hypervisor of a virtual machine, or `none`."""
    flags = re.search(r"^flags\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    if flags is None:
        return None
    if "hypervisor" not in flags[1].split():
        return "none"
    return _line(sys / "hypervisor/type") or _line(sys / "class/dmi/id/sys_vendor") or "yes"


def _cpu_quota(sys: Path) -> float | None:
    """Cores that a control group allows this process, if it limits them."""
    told = (_line(sys / "fs/cgroup/cpu.max") or "").split()
    if len(told) == 2 and told[0] != "max":
        return int(told[0]) / int(told[1])
    quota, period = (_line(sys / f"fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
    return int(quota) / int(period) if quota and period and int(quota) > 0 else None


def _compilers() -> str | None:
    """The compilers of Pagehop, the load generator and servers, if they are installed."""
    places = os.pathsep.join([os.environ.get("PATH", ""), str(Path.home() / ".cargo/bin")])
    told = []
    for name, words in (("rustc", 2), ("cc", None)):
        program = shutil.which(name, path=places)
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False) if program else None
        if done is not None and done.returncode == 0 and done.stdout:
            told.append(" ".join(done.stdout.splitlines()[0].split()[:words]))
    return ", ".join(told) or None


def _line(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None
