"""The signals that end a process as an exception, so that what is open is closed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(BaseException):
    """SIGTERM was received, or SIGHUP: its terminal was closed."""


@contextmanager
def terminated_by_signal() -> Iterator[None]:
    """Raise `Terminated` in the main thread when SIGTERM comes, while inside; or SIGHUP, where that
    is not ignored, as under `nohup`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise Terminated

    signals = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    before = {one: signal.signal(one, stop) for one in signals}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
