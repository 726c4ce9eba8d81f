"""A run belongs to one process at a time: the lease, kept with the run.

`lease/NNNNNNNN.json` names the owner, and its `beat` grows while the owner lives; the file of the
highest number counts. Each number is created once and at once, so of several processes that want a
run one gets it. An owner that has lost its lease finds its own file gone. No clock is compared:
whether an owner elsewhere lives is seen by watching its beat.
"""

import contextlib
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import psutil

from storage.errors import BusyError, StorageError
from storage.files.durable import parsed
from storage.files.location import Location

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


def _is_hidden(pid: int) -> bool:
    """Whether a process lives that nobody but its user may look at (`/proc` with `hidepid`)."""
    if birth(pid) is not None:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        pass
    return False


BEAT_SECONDS = 5.0
STALE_SECONDS = 60.0
"""Time in which the beat of a living owner grows, if only now and then: a part that computes in the
owner's process may hold up its beat."""

_LEASE = re.compile(r"lease/[0-9]{1,99}\.json")
_OWNED: set[str] = set()
"""Owners in this process."""


@dataclass(frozen=True)
class Owner:
    """Who has a run."""

    owner: str
    host: str
    machine: str
    pid: int
    birth: str | None
    since: str
    """For people; never compared."""
    beat: int = 0
    released: bool = False

    @classmethod
    def this(cls) -> "Owner":
        now = datetime.now(UTC).isoformat(timespec="seconds")
        pid = os.getpid()
        return cls(uuid.uuid4().hex, socket.gethostname(), machine(), pid, birth(pid), now)

    @classmethod
    def of(cls, content: bytes | None) -> "Owner | None":
        """None for what is no lease."""
        with contextlib.suppress(ValueError, TypeError):
            owner = cls(**parsed(content or b""))
            texts = (owner.owner, owner.host, owner.machine, owner.birth or "", owner.since)
            if type(owner.pid) is int and all(isinstance(text, str) for text in texts):
                return owner
        return None

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @property
    def is_here(self) -> bool:
        """Whether this process can see the owner's."""
        return self.machine == machine() and not _is_hidden(self.pid)

    @property
    def is_alive(self) -> bool:
        """Of an owner that is here: whether its process has not ended."""
        if self.pid == os.getpid():
            return self.owner in _OWNED
        return self.birth is not None and birth(self.pid) == self.birth


@dataclass(frozen=True)
class Fence:
    """Tells a part, in whatever process, whether the run is still its driver's."""

    location: Location
    key: str

    def check(self) -> None:
        """Raise `BusyError` where another process has taken the run over, `StorageError` where
        there is no run."""
        if self.location.read(self.key) is None:  # an answer that no cache of listings gives
            if not self.location.files("lease"):  # who takes over writes a lease first
                raise StorageError(
                    f"{self.location.url} is not there, seen from {socket.gethostname()}: was it "
                    "removed? Workers need the run's folder under the same path or URL"
                )
            raise BusyError(f"another process has taken over {self.location.url}; this one stops")


class Lease:
    """A run that belongs to this process, until it ends or the lease is lost."""

    def __init__(self, location: Location, number: int, owner: Owner) -> None:
        self.location, self.owner = location, owner
        self.fence = Fence(location, _key(number))
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._heart = threading.Thread(target=self._live, name="lease", daemon=True)
        self._heart.start()

    def _live(self) -> None:
        while not self._stopped.wait(BEAT_SECONDS):
            with contextlib.suppress(Exception):  # a store that is away may come back
                if not self._beat():
                    return

    def _beat(self) -> bool:
        """Give a sign of life; False where the lease is lost."""
        with self._lock:
            if self._stopped.is_set():
                return False
            if _newest(self.location) != self.fence.key or not self._is_mine():
                self._end()
                self.location.remove(self.fence.key)
                return False
            self.owner = replace(self.owner, beat=self.owner.beat + 1)
            self.location.replace(self.fence.key, self.owner.to_json(), synced=False)
            return True

    def _is_mine(self) -> bool:
        owner = Owner.of(self.location.read(self.fence.key))
        return owner is None or owner.owner == self.owner.owner

    def _end(self) -> None:
        self._stopped.set()
        _OWNED.discard(self.owner.owner)

    def release(self, *, forget: bool = False) -> None:
        """Let others have the run; `forget`: without a trace, as the folder will be removed."""
        with self._lock:
            if self._stopped.is_set():
                return
            self._end()
            with contextlib.suppress(Exception):  # the next one sees that this process has ended
                if not forget and self.location.exists(self.fence.key):
                    owner = replace(self.owner, released=True)
                    self.location.replace(self.fence.key, owner.to_json())


@contextmanager
def leased(location: Location, say: Callable[[str], None]) -> Iterator[Lease]:
    """The lease of a run, while inside.

    An owner whose process has ended on this machine is succeeded at once; one elsewhere after its
    beat has not grown for `STALE_SECONDS`.

    Raises `BusyError`, which names it, where a living process has the run; `StorageError` where
    the folder cannot be written, or something else lies where the lease belongs.
    """
    lease = _take(location, say)
    try:
        yield lease
    finally:
        lease.release()


def has_owner(location: Location) -> bool:
    """Whether a process has a run, or was ended while it had."""
    newest = _newest(location)
    owner = None if newest is None else Owner.of(location.read(newest))
    return owner is not None and not owner.released


def _take(location: Location, say: Callable[[str], None]) -> Lease:
    refused = ""
    while True:
        newest = _newest(location)
        if newest is not None:
            _wait_until_free(location, newest, say)
        number = 1 if newest is None else _number(newest) + 1
        owner = Owner.this()
        if _create(location, _key(number), owner):
            return Lease(location, number, owner)
        if refused == _key(number) != _newest(location):  # another process would have it by now
            raise StorageError(f"{location.path(refused)}: is no lease; remove it and run again")
        refused = _key(number)


def _create(location: Location, key: str, owner: Owner) -> bool:
    """Create a lease and remove the older ones; False where another process was quicker."""
    _OWNED.add(owner.owner)  # before others in this process can see it
    won = False
    try:
        if location.create(key, owner.to_json()):
            if _newest(location) != key:  # others have taken, and released, the ones between
                location.remove(key)
                return False
            for older in location.files("lease"):
                if older != key:
                    location.remove(older)
            won = True
    finally:
        if not won:
            _OWNED.discard(owner.owner)
    return won


def _wait_until_free(location: Location, key: str, say: Callable[[str], None]) -> None:
    """Return where nobody has the run any more; raise `BusyError` where a living process has."""
    first = location.read(key)
    owner = Owner.of(first)
    if first is None or (owner is not None and owner.released):
        return
    if owner is not None and owner.is_here:
        if owner.is_alive:
            raise _busy(location, owner)
        return
    who = _who(owner)
    say(f"{location.url} belongs to {who}: watching up to {STALE_SECONDS:g} s for a sign of life")
    end = time.monotonic() + STALE_SECONDS
    while time.monotonic() < end:
        time.sleep(min(1.0, STALE_SECONDS / 10))
        content = location.read(key)
        if content is None:
            return
        if content != first:
            owner = Owner.of(content)
            if owner is not None and owner.released:
                return
            raise _busy(location, owner)


def _busy(location: Location, owner: Owner | None) -> BusyError:
    since = "" if owner is None else f" (since {owner.since})"
    who = _who(owner) + since
    return BusyError(f"{location.url}: {who} works on this run; wait for it to end, or end it")


def _who(owner: Owner | None) -> str:
    return "another process" if owner is None else f"process {owner.pid} on {owner.host}"


def _key(number: int) -> str:
    return f"lease/{number:08d}.json"


def _number(key: str) -> int:
    return int(key.rsplit("/", 1)[1].removesuffix(".json"))


def _newest(location: Location) -> str | None:
    """Key of the lease that counts."""
    keys = [key for key in location.files("lease") if _LEASE.fullmatch(key)]
    return max(keys, key=_number, default=None)
