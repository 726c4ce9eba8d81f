"""The lease of a run: one owner at a time, whatever dies, stops or has another clock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from storage.errors import BusyError, StorageError
from storage.files.location import Location
from storage.runs import lease
from storage.runs.lease import Owner, birth, leased, machine

HOLD = """
import sys, time
from storage.runs.lease import leased
from storage.files.location import Location
with leased(Location.of(sys.argv[1]), print):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lease, "STALE_SECONDS", 1.0)


@pytest.fixture(params=["disk", "memory"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    place = Location.of(tmp_path / "run" if request.param == "disk" else "memory://lease-test/run")
    yield place
    place.remove()


def say(_: str) -> None: ...


def lay(location: Location, **changes: Any) -> None:
    """A lease that somebody elsewhere holds."""
    elsewhere = {"machine": "other", "host": "elsewhere", "pid": 77, **changes}
    content = json.loads(Owner.this().to_json()) | elsewhere
    location.replace("lease/00000005.json", json.dumps(content).encode())


@pytest.fixture
def beating(location: Location) -> Iterator[None]:
    """The somebody elsewhere lives."""
    stop = threading.Event()

    def live() -> None:
        beat = 0
        while not stop.wait(0.1):
            beat += 1
            lay(location, beat=beat)

    lay(location)
    heart = threading.Thread(target=live)
    heart.start()
    yield
    stop.set()
    heart.join()


def test_lease_is_released_and_taken_again(location: Location) -> None:
    for _ in range(3):
        with leased(location, say) as held:
            held.fence.check()
        assert len(location.files("lease")) == 1


def test_second_owner_in_this_process_is_refused_by_name(location: Location) -> None:
    with (
        leased(location, say),
        pytest.raises(BusyError, match=rf"process {os.getpid()} on .* works on this run"),
        leased(location, say),
    ):
        pass
    assert BusyError.exit_code == 4


def test_of_many_at_once_one_gets_it(location: Location) -> None:
    """Each holds it for a while; two at once would be seen."""
    inside: list[int] = []
    most: list[int] = []

    def want(number: int) -> bool:
        try:
            with leased(location, say):
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.02)
                inside.remove(number)
                return True
        except BusyError:
            return False

    for _ in range(10):
        with ThreadPoolExecutor(8) as threads:
            assert any(threads.map(want, range(8)))
    assert max(most) == 1


@pytest.mark.usefixtures("beating")
def test_living_owner_elsewhere_is_refused_by_name(location: Location) -> None:
    with pytest.raises(BusyError, match="process 77 on elsewhere"), leased(location, say):
        pass


@pytest.mark.parametrize("since", ["1970-01-01T00:00:00+00:00", "2999-01-01T00:00:00+00:00"])
def test_silent_owner_elsewhere_is_succeeded_whatever_its_clock(
    location: Location, since: str
) -> None:
    lay(location, since=since)
    began = time.monotonic()
    with leased(location, say) as held:
        held.fence.check()
    assert time.monotonic() - began >= 1.0
    assert location.files("lease") == ["lease/00000006.json"]


@pytest.mark.parametrize("shift", [-86_400.0, 86_400.0])
@pytest.mark.usefixtures("beating")
def test_clock_off_by_a_day_takes_no_lease_from_the_living(
    location: Location, shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + shift)
    with pytest.raises(BusyError), leased(location, say):
        pass


def test_dead_process_of_this_machine_is_succeeded_at_once(tmp_path: Path) -> None:
    location = Location.of(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(BusyError, match=f"process {other.pid} "), leased(location, say):
            pass
        other.send_signal(signal.SIGSTOP)  # alive, if silent: it may go on at any time
        time.sleep(0.3)
        with pytest.raises(BusyError, match=f"process {other.pid} "), leased(location, say):
            pass
        other.kill()
        while birth(other.pid) is not None:
            time.sleep(0.01)
        began = time.monotonic()
        with leased(location, say):  # it is not even reaped yet
            assert time.monotonic() - began < 0.9


HIDDEN = """
import os, sys
from storage.runs.lease import Owner, birth, machine
here = machine()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
pid = int(sys.argv[1])
print(birth(pid), Owner("of", "a", here, pid, "1", "while").is_here)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts /proc")
def test_owner_whose_process_is_hidden_from_other_users_is_not_taken_for_dead() -> None:
    """As where /proc is mounted with hidepid=2: its beat is watched, as of one elsewhere."""
    mount = 'mount -t proc -o hidepid=2 proc /proc && exec "$0" "$@"'
    args = ("unshare", "--mount", "sh", "-c", mount, sys.executable, "-c", HIDDEN, str(os.getpid()))
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    if "denied" in done.stderr or "not permitted" in done.stderr:
        pytest.skip("mounts are not allowed")
    assert done.stdout == "None False\n", done.stderr


def test_number_of_a_dead_process_that_another_one_has_now(location: Location) -> None:
    lay(location, machine=machine(), pid=os.getppid(), birth="1")
    with leased(location, say):
        pass


def test_owner_that_was_succeeded_notices(location: Location) -> None:
    with leased(location, say) as held:
        lay(location, beat=1)
        location.remove(held.fence.key)
        with pytest.raises(BusyError, match="taken over"):
            held.fence.check()
        time.sleep(0.3)
    assert location.files("lease") == ["lease/00000005.json"]  # and does not write it again


def test_a_run_that_is_not_there_is_not_said_to_be_taken_over(location: Location) -> None:
    """As for a worker that does not see the folder."""
    with leased(location, say) as held:
        location.remove(held.fence.key)
        with pytest.raises(StorageError, match="is not there, seen from"):
            held.fence.check()


WRONG = {"pid": "abc"}, {"pid": 10**30}, {"pid": -1}, {"host": 3}, {"birth": []}


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_lease_with_wrong_values_is_succeeded(location: Location, wrong: dict[str, Any]) -> None:
    lay(location, **{"machine": machine(), **wrong})
    with leased(location, say):
        pass
    assert location.files("lease") == ["lease/00000006.json"]


@pytest.mark.parametrize("number", ["99999999", "9" * 30])
def test_a_number_of_any_length_is_succeeded(location: Location, number: str) -> None:
    location.replace(f"lease/{number}.json", Owner.this().to_json())
    with leased(location, say) as held:
        held.fence.check()
    assert location.files("lease") == [f"lease/{int(number) + 1}.json"]


@pytest.mark.parametrize("name", ["00000001.json", "99999999.json", "note.json"])
def test_a_folder_in_place_of_a_lease_is_named(tmp_path: Path, name: str) -> None:
    location = Location.of(tmp_path / "run")
    (tmp_path / "run/lease" / name).mkdir(parents=True)
    if name == "00000001.json":
        message = r"lease/00000001\.json: is no lease; remove it"
        with pytest.raises(StorageError, match=message), leased(location, say):
            pass
        (tmp_path / "run/lease" / name).rmdir()
    with leased(location, say):
        pass


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": 3}'])
def test_lease_that_cannot_be_read_is_succeeded(location: Location, content: bytes) -> None:
    location.replace("lease/00000001.json", content)
    with leased(location, say):
        pass


def test_beat_goes_on_after_a_store_was_away(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leased(location, say) as held:
        with monkeypatch.context() as away:

            def gone(*_: object, **__: object) -> None:
                raise OSError("away")

            away.setattr(Location, "replace", gone)
            time.sleep(0.3)
        before = location.read(held.fence.key)
        time.sleep(0.5)
        assert location.read(held.fence.key) != before
        held.fence.check()


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    location = Location.of(tmp_path / "file" / "run")
    with pytest.raises(StorageError, match="cannot be read or written"), leased(location, say):
        pass
