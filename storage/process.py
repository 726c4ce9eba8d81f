"""This process among others: on which machine it runs, and whether another one is alive."""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path

import psutil

_GONE = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def machine() -> str:
    """What processes share that see each other's process numbers, and nothing else does.

    Linux: this boot of the kernel and the namespace of process numbers, as containers have their
    own. Elsewhere the name of the host with its network address.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{socket.gethostname()}/{uuid.getnode():x}"


def birth(pid: int) -> str | None:
    """What tells a process of this machine from a later one of the same number; None: not alive."""
    try:
        if psutil.Process(pid).status() in _GONE:
            return None
        stat = Path(f"/proc/{pid}/stat")  # ticks since boot, which no change of the clock moves
        if stat.exists():
            return stat.read_text().rpartition(")")[2].split()[19]
        return str(psutil.Process(pid).create_time())
    except (psutil.Error, OSError, ValueError, OverflowError):
        return None
