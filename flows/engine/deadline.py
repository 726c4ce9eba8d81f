"""A limit to how long a step may take, wherever its parts run; and signals that end a process,
raised as an exception so that what is open is closed."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from storage.errors import StepTimeoutError

GRACE = 10.0
"""Seconds that a part may go on after its alarm."""


class Deadline:
    """When a step has to be over."""

    def __init__(self, step: str, seconds: float = math.inf) -> None:
        self.step, self.seconds = step, seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def passed(self, *parts: str) -> StepTimeoutError:
        """The error that names the parts which have not ended."""
        shown = ", ".join(parts[:3]) + (f" and {len(parts) - 3} more" if len(parts) > 3 else "")
        return StepTimeoutError(
            f"{self.step} {shown}: not done {self.seconds:g} s after the step began "
            "(--step-timeout); what is done is kept: run again to resume"
        )

    @contextmanager
    def interrupting(self, part: str) -> Iterator[None]:
        """Raise `StepTimeoutError` in this thread when the time is over, whatever it waits for.

        By an alarm, so in the main thread alone. An alarm that was set before (Prefect, pytest)
        goes off in its time. A compiled kernel hears no alarm: if it goes on for `GRACE`, the
        process is ended.
        """
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or math.isinf(self.seconds):
            yield
            return

        def ring(signum: int, frame: FrameType | None) -> None:
            raise self.passed(part)

        watchdog = threading.Timer(self.left + GRACE, _end_process, [self.passed(part)])
        watchdog.daemon = True
        watchdog.start()
        try:
            with _alarm(self.left, ring):
                yield
        finally:
            watchdog.cancel()


def _end_process(error: StepTimeoutError) -> None:
    """End this process as the command line would for an error, without the main thread."""
    os.write(2, f"knnoise: {error}\n".encode())
    end_at_once(error.exit_code)


def end_at_once(status: int) -> NoReturn:
    """End this process, whatever its threads do; but take down what multiprocessing does at the
    end: semaphores, of which its tracker would tell, and the folder of a fork server's sockets."""
    if util := sys.modules.get("multiprocessing.util"):
        util._run_finalizers(0)
    started = sys.modules.get("multiprocessing.process")
    folder = started and started.current_process()._config.get("tempdir")
    if folder:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
    os._exit(status)


@dataclass(frozen=True)
class _Gap:
    """What rings between steps."""

    seconds: float

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        raise StepTimeoutError(
            f"between two steps nothing was done for {self.seconds:g} s (--step-timeout); what is "
            "done is kept: run again to resume"
        )


@contextmanager
def no_gaps(seconds: float) -> Iterator[None]:
    """Raise `StepTimeoutError` in the main thread where, between two steps, nothing is done for so
    long: a store may be mute there, too. Begins anew after each step."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or math.isinf(seconds) or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return
    with _alarm(seconds, _Gap(seconds)):
        yield


@contextmanager
def _alarm(seconds: float, ring: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    began = time.monotonic()
    earlier, _ = signal.getitimer(signal.ITIMER_REAL)
    handler = signal.getsignal(signal.SIGALRM)
    if 0 < earlier < seconds and not isinstance(handler, _Gap):  # it ends this, too
        yield
        return

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if earlier:
            left = earlier - (time.monotonic() - began)
            if isinstance(handler, _Gap):  # begins anew after each step
                left = handler.seconds
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-3))


class Terminated(BaseException):
    """SIGTERM was received, or SIGHUP: its terminal was closed."""


def send_later(signum: int) -> None:
    """Give the main thread a signal once more, soon."""
    main = threading.main_thread().ident
    threading.Timer(0.05, signal.pthread_kill, [main, signum]).start()


@contextmanager
def terminated_by_signal() -> Iterator[None]:
    """Raise `Terminated` in the main thread when SIGTERM comes, while inside; or SIGHUP, where that
    is not ignored, as under `nohup`. Both, and an interrupt, wait for compiled modules that are
    imported: those lose exceptions, or crash."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_qualname.startswith("ExtensionFileLoader."):
                send_later(signum)
                return
            frame = frame.f_back
        raise KeyboardInterrupt if signum == signal.SIGINT else Terminated

    signals = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signals.append(signal.SIGINT)
    before = {one: signal.signal(one, stop) for one in signals}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
