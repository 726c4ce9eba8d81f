"""Time, processor time and memory of this process and all it starts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

_PERIOD = 0.1


class Meter:
    """Watches a process tree; processes that were forked elsewhere are not of it."""

    def __init__(self) -> None:
        self.peak_mb: dict[int, float] = {}
        self.core: dict[int, float] = {}
        self._me = psutil.Process()
        self._stop = threading.Event()

    def look(self) -> None:
        for process in [self._me, *self._me.children(recursive=True)]:
            try:
                size, used = process.memory_info().rss / 2**20, process.cpu_times()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            self.peak_mb[process.pid] = max(self.peak_mb.get(process.pid, 0.0), size)
            self.core[process.pid] = used.user + used.system

    def watch(self) -> None:
        while not self._stop.wait(_PERIOD):
            self.look()

    @contextmanager
    def running(self) -> Iterator[dict[str, float]]:
        """Fills in seconds, core_seconds, peak_mb (largest process) and driver_mb at the end."""
        found: dict[str, float] = {}
        self.look()
        before = dict(self.core)
        watcher = threading.Thread(target=self.watch, daemon=True)
        watcher.start()
        start = time.perf_counter()
        yield found
        found["seconds"] = time.perf_counter() - start
        self._stop.set()
        watcher.join()
        self.look()
        spent = {pid: used - before.get(pid, 0.0) for pid, used in self.core.items()}
        found["core_seconds"] = sum(spent.values())
        found["peak_mb"] = max(self.peak_mb.values())
        found["driver_mb"] = self.peak_mb[self._me.pid]
