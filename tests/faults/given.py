"""Faults of what commands are given: a source that changes, answers, oracles, a page's clients, the
files of a lease, a disk that fills.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from faults import checker
from faults.bench import N_ROWS, Bench, Child, begin, command
from faults.conduct import _planted
from faults.families import Case, Trial, resume
from faults.injector import ERRORS
from faults.outcome import Outcome

Change = Callable[[Path], None]


def every() -> list[Case]:
    return [
        *sources(),
        *answers(),
        *oracles(),
        *[Case("page's clients", f"client:{name}", _client(name), 4.0) for name in HOSTILE],
        *leases(),
        *disks(),
    ]


class _Same:
    """A bench, equal to any other for a cache."""

    def __init__(self, of: Bench) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same)

    def __hash__(self) -> int:
        return 0


# A source that changes -------------------------------------------------------------------------


def _appended(file: Path) -> None:
    with file.open("ab") as more:
        more.write(b"more")


def _other(file: Path) -> None:
    """Other content of equal size and time."""
    at, content = file.stat(), bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    file.write_bytes(content)
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))


def _replaced(file: Path) -> None:
    other = file.with_suffix(".other")
    np.savez(other.open("wb"), X=np.ones((N_ROWS, 3), np.float32), y=np.arange(N_ROWS) % 2)
    other.replace(file)


CHANGES: dict[str, Change] = {
    "appended to": _appended,
    "cut": lambda file: os.truncate(file, file.stat().st_size // 2),
    "other content": _other,
    "replaced": _replaced,
    "removed": Path.unlink,
}


def sources() -> list[Case]:
    """The source changes at a commit (before it, or killed then), and is put back later."""
    moments = [("before", "pool"), ("after", "pool"), ("after", "rates")]
    return [
        Case(
            f"source {what}", f"source {what}:{when} {step}:{ends}", _source(what, when, step, ends)
        )
        for what in CHANGES
        for when, step in moments
        for ends in ("goes on", "killed")
    ]


@cache
def _own(bench: _Same) -> Bench:
    """The bench with a source that only this process changes."""
    place = Path(tempfile.mkdtemp())
    own = replace(bench.of, root=f"{bench.of.root}/own", sources=place)  # folders of its own
    shutil.copy2(bench.of.source, own.source)
    run = own.new()
    assert command(*own.train(run)).status == 0
    own.reference = checker.files(run)
    return own


def _source(what: str, when: str, step: str, ends: str) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        here = _own(_Same(bench))
        run = here.new()

        def change() -> None:
            from storage.runs.ledger import Ledger

            commit, done = Ledger.commit, []

            def changing(self: Ledger, made_in: str, *args: Any) -> Any:
                record = commit(self, made_in, *args) if when == "after" else None
                if made_in == step and not done:
                    done.append(step)
                    CHANGES[what](here.source)
                    if ends == "killed":
                        os.kill(os.getpid(), signal.SIGKILL)
                return record or commit(self, made_in, *args)

            Ledger.commit = changing  # type: ignore[method-assign,assignment]

        try:
            ended = command(*here.train(run), before=change)
            found = checker.files(run)
            changed = command(*here.train(run))
        finally:
            shutil.copy2(bench.source, here.source)
        if ends == "killed" and ended.status != -signal.SIGKILL:
            outcome.wrong.append("it was not killed")
        outcome.wrong += [*ended.wrong, *changed.wrong]
        if changed.status not in (0, 2) or (changed.status == 0 and "report.json" not in found):
            outcome.wrong.append(f"went on with another source: {changed.status}")
        again = lambda: command(*here.train(run))  # noqa: E731
        resume(here, outcome, run, here.reference, {}, ended, again)

    return trial


# Answers ---------------------------------------------------------------------------------------

Harm = Callable[[list[bytes]], bytes]


def _line(at: int, change: Callable[[bytes], bytes]) -> Harm:
    return lambda lines: b"\n".join([*lines[:at], change(lines[at]), *lines[at + 1 :]])


DAMAGE: dict[str, Harm] = {
    "bit flipped": _line(3, lambda line: line[:40] + bytes([line[40] ^ 1]) + line[41:]),
    "label changed": _line(3, lambda line: re.sub(rb'"label": ?\d', b'"label": 7', line)),
    "line cut": _line(3, lambda line: line[: len(line) // 2]),
    "zeros": _line(4, lambda line: bytes(len(line))),
    "not a table": _line(4, lambda line: b"[]"),
    "nested": _line(4, lambda line: b"[" * 100_000),
    "no text": _line(4, lambda line: b"\xff\xfe" + line),
    "origin lost": lambda lines: b"\n".join(lines[2:]),
    "origin changed": _line(
        1, lambda line: line.replace(b'"n_rows": %d' % N_ROWS, b'"n_rows": 24')
    ),
    "emptied": lambda lines: b"",
    "joined lines": lambda lines: b"".join(lines),
}


def answers() -> list[Case]:
    """A log of answers that is harmed, and every command that reads it."""
    return [
        Case("answers harmed", f"answers:{harm}:{reader}", _answers(harm, reader))
        for harm in DAMAGE
        for reader in ("train", "export", "import", "acquire")
    ]


def _log(bench: Bench, file: Path) -> None:
    """Five answers on rows of the reference, one of them taken back."""
    from storage.answers import Answer, AnswersFile, Asked, Origin
    from storage.runs.run import Run

    config = Run.of(f"{bench.root}/reference").config()
    log = AnswersFile.open(str(file), Origin.of_config(config, (0, 1), N_ROWS, "reference"))
    for row in range(5):
        asked = (Asked(row, 0, "rows", False),)
        log.add(Answer(f"id{row}", asked, 1, "ann", "2026-01-01T00:00:00+00:00"))
    log.undo("id0")


def _answers(harm: str, reader: str) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        place, run = Path(tempfile.mkdtemp()), bench.new()
        log, out = place / "answers.jsonl", place / "out.csv"
        _log(bench, log)
        right = log.read_bytes()
        copied = bench.copy(scored=False) if reader == "import" else f"{bench.root}/reference"
        review = ("review", "--run", copied, "--workers", 0, "--quiet")
        call = {
            "train": bench.train(run, "--corrections", log),
            "export": (*review, "--answers", log, "--export-to", out),
            "import": (*review, "--answers", place / "own.jsonl", "--import-from", log),
            "acquire": _acquire(bench.sources / "unseen.npz", run, "--answers", log),
        }[reader]
        log.write_bytes(DAMAGE[harm](right.split(b"\n")))
        harmed = log.read_bytes()
        ended = command(*call)
        outcome.wrong += ended.wrong
        outcome.exit_seconds = ended.seconds
        if ended.status not in (2, 3):
            outcome.wrong.append(f"taken as it is: {ended.status}, {ended.out[-200:]!r}")
        if log.read_bytes() != harmed:
            outcome.wrong.append("the log was changed")
        if reader == "train":
            log.write_bytes(right)
            again = command(*call)
            outcome.resume_seconds = again.seconds
            if again.status:
                outcome.wrong.append(f"mended: {again.status}, {again.err[-200:]!r}")
        for one in {run, copied} - {f"{bench.root}/reference"}:
            bench.remove(one)
        shutil.rmtree(place)

    return trial


# Oracles ---------------------------------------------------------------------------------------

BUDGET = 12
ORACLES = ("column", "function", "answers")
FUNCTION = "def label(rows):\n    return [row % 2 for row in rows]\n"


def _acquire(source: Path, run: str, *more: object) -> tuple[object, ...]:
    options = ("--budget", BUDGET, "--builder", "exact", "--workers", 0, "--quiet")
    return ("acquire", source, "--run", run, *options, *more)


def oracles() -> list[Case]:
    """A label that is bought, and what may happen while it is written."""
    effects = ("KILL", "then-KILL", "half-KILL", "EIO", "ENOSPC", "then-ENOSPC", "INT")
    return [
        Case(f"acquire: {oracle}", f"acquire:{oracle}:answer {nth}:{effect}", trial, 3.0)
        for oracle in ORACLES
        for effect in effects
        for nth in ((1,) if oracle == "answers" else (1, 2, 4))  # which are added at once
        for trial in [_bought(oracle, effect, nth)]
    ]


def _appending(effect: str, nth: int) -> None:
    """From now on the nth addition to a log of answers meets the effect."""

    from storage.files import durable

    append, count = durable.append, itertools.count(1)

    def faulty(file: Path, content: bytes) -> None:
        if next(count) != nth:
            return append(file, content)
        first, _, rest = effect.rpartition("-")
        if first == "then":
            append(file, content)
        elif first == "half":
            append(file, content[: len(content) // 2])
        if rest in ERRORS:
            raise ERRORS[rest]()
        os.kill(os.getpid(), getattr(signal, f"SIG{rest}"))
        return append(file, content)

    durable.append = faulty


def _setting(bench: Bench, oracle: str, place: Path, run: str) -> tuple[object, ...]:
    """The call that buys of an oracle."""
    if oracle == "column":
        return _acquire(bench.source, run, "--label-column", "y")
    (place / "given_oracle.py").write_text(FUNCTION)
    rows = "".join(f"{row},{row % 2}\n" for row in range(N_ROWS // 2))
    (place / "answers.csv").write_text(f"row,label\n{rows}")
    more: dict[str, tuple[object, ...]] = {
        "function": ("--oracle", "given_oracle:label"),
        "answers": ("--answers", place / "answers.csv"),
    }
    return _acquire(bench.unseen, run, *more[oracle])


def _said(run: str) -> list[tuple[int, Any]]:
    """Rows and labels as the log has them, in the order of buying."""
    file, found = Path(run, "review/answers.jsonl"), []
    for line in file.read_bytes().split(b"\n") if file.exists() else ():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            found += [(asked["row"], event["label"]) for asked in event.get("rows", ())]
    return found


def _bought(oracle: str, effect: str, nth: int) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        place, run = Path(tempfile.mkdtemp()), bench.new()
        call = _setting(bench, oracle, place, run)
        true = np.load(bench.source)["y"] if oracle == "column" else np.arange(N_ROWS // 2) % 2
        n = len(true) if oracle == "answers" else BUDGET

        def faulty() -> None:
            sys.path.insert(0, str(place))
            _appending(effect, nth)

        ended = command(*call, before=faulty)
        outcome.exit_seconds, kept = ended.seconds, _said(run)
        outcome.wrong += ended.wrong
        if ended.status == 0:
            outcome.wrong.append("the fault was never met")
        if effect.startswith("half"):
            log = Path(run, "review/answers.jsonl")
            refused = command(*call, before=lambda: sys.path.insert(0, str(place)))
            outcome.wrong += refused.wrong
            if refused.status != 3 or "delete what is damaged" not in refused.err:
                outcome.wrong.append(f"torn: {refused.status}, {refused.err}")
            log.write_bytes(log.read_bytes().rpartition(b"\n")[0])
        again = command(*call, before=lambda: sys.path.insert(0, str(place)))
        outcome.resume_seconds, bought = again.seconds, _said(run)
        outcome.wrong += again.wrong
        if again.status or not len(dict(bought)) == len(bought) == n:
            outcome.wrong.append(f"resumed: {again.status}, {bought}; {again.err}")
        if bought[: len(kept)] != kept or any(true[row] != label for row, label in bought):
            outcome.wrong.append(f"kept {kept}, resumed to {bought}")
        bench.remove(run)
        shutil.rmtree(place)

    return trial


# Clients of a page -----------------------------------------------------------------------------


def _url(child: Child) -> str:
    """The address that a page's process prints."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        said = (child.place / "err").read_text() + (child.place / "out").read_text()
        if found := re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", said):
            return found[0]
        time.sleep(0.05)
    raise ValueError("no address")


def _get(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path, timeout=20) as reply:
        return json.load(reply)


def _post(url: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}api/answer", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.load(reply)


def _request(head: str, body: bytes = b"") -> Callable[[str], bytes]:
    return lambda path: (head.format(path=path) + "\r\nHost: 127.0.0.1\r\n\r\n").encode() + body


_JSON = "POST {path}api/answer HTTP/1.1\r\nContent-Type: application/json\r\n"
HOSTILE: dict[str, Callable[[str], bytes]] = {
    "half a line": lambda path: b"GE",
    "half a head": lambda path: f"GET {path}api/next HTTP/1.1\r\nHost:".encode(),
    "half a body": _request(f"{_JSON}Content-Length: 1000", b'{"row": '),
    "length too large": _request(f"{_JSON}Content-Length: 99999999999999999999", b"{}"),
    "negative length": _request(f"{_JSON}Content-Length: -1", b"{}"),
    "two lengths": _request(f"{_JSON}Content-Length: 2\r\nContent-Length: 9", b"{}"),
    "chunks that are none": _request(
        f"{_JSON}Transfer-Encoding: chunked", b"zz\r\n{}\r\n0\r\n\r\n"
    ),
    "a head of 1 MB": _request("GET {path} HTTP/1.1\r\nX: " + "x" * 2**20),
    "a body of 64 MB": _request(f"{_JSON}Content-Length: {2**26}", b"[" * 2**26),
    "no JSON": _request(f"{_JSON}Content-Length: 4", b"\0\xff{]"),
    "deep JSON": _request(f"{_JSON}Content-Length: 100000", b"[" * 100_000),
    "no object": _request(f"{_JSON}Content-Length: 4", b"null"),
    "no such row": _request(
        f"{_JSON}Content-Length: 54", b'{"id":"a","row":1e99,"label":1,"reviewer":"ann"}      '
    ),
    "TLS": lambda path: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "another method": _request("PROPFIND {path} HTTP/1.1"),
    "a path that climbs": _request("GET {path}../../../../etc/passwd HTTP/1.1"),
}
"""What a client sends, by the path of the page."""


def _client(name: str) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        run, place = bench.copy(scored=False), Path(tempfile.mkdtemp())
        log = place / "answers.jsonl"
        options = ("--budget", 10, "--answers", log, "--workers", 0, "--quiet")
        child = begin("review", "--run", run, *options)
        try:
            for text in _hostile(_url(child), name):
                if "root:" in text or "Traceback" in text or re.match(r"HTTP/1.1 5", text):
                    outcome.wrong.append(f"answered {text[:200]!r}")
        except (OSError, ValueError) as error:
            outcome.wrong.append(f"the page: {error}")
        os.kill(child.pid, signal.SIGINT)
        ended = child.wait()
        outcome.exit_seconds = ended.seconds
        outcome.wrong += ended.wrong
        if ended.status or len(log.read_bytes().split(b"\n")) - 1 != 3:
            outcome.wrong.append(f"ended with {ended.status}, {log.read_bytes()!r}")
        bench.remove(run)
        shutil.rmtree(place)

    return trial


def _hostile(url: str, name: str) -> Iterator[str]:
    """Twenty hostile clients, between two answers that are kept; what was answered to them."""
    where, left = urlsplit(url), []
    card = _get(url, "api/next?tab=t")["cards"][0]
    _post(url, {"id": "first-answer", "row": card["row"], "label": 1, "reviewer": "ann"})
    for number in range(2 if "64 MB" in name else 20):
        client = socket.create_connection((where.hostname, where.port), timeout=20)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(HOSTILE[name](where.path))
            if number % 2 or name.startswith("half"):
                left.append(client)  # and says no more
                continue
            client.settimeout(2)
            with contextlib.suppress(TimeoutError):
                yield client.recv(1000).decode("latin1")
        client.close()
    card = _get(url, "api/next?tab=t")["cards"][0]
    _post(url, {"id": "other-answer", "row": card["row"], "label": 1, "reviewer": "ann"})
    for client in left:
        client.close()


# Files of a lease ------------------------------------------------------------------------------

_OWNER = {"owner": "x", "host": "h", "machine": "m", "pid": 1, "birth": None, "since": ""}
LEASES: dict[str, Any] = {
    "garbage": b"\0\xff{",
    "empty": b"",
    "list": [],
    "deep": b"[" * 100_000,
    "16 MB": b"x" * 2**24,
    "pid is text": {**_OWNER, "pid": "abc"},
    "pid is huge": {**_OWNER, "pid": 10**30},
    "pid is negative": {**_OWNER, "pid": -1},
    "machine is a list": {**_OWNER, "machine": []},
    "beat is text": {**_OWNER, "beat": "x"},
    "released is text": {**_OWNER, "released": "no"},
    "other fields": {"a": 1},
    "folder": None,
}


def leases() -> list[Case]:
    """A file of no driver's making in the place of a lease, of the first number or the last."""
    return [
        Case("lease file", f"lease:{name}:{content}", _lease(name, LEASES[content]), 45.0)
        for name in ("00000001.json", "99999999.json", "100000000.json", "x.json", ".json")
        for content in LEASES
    ]


def _lease(name: str, content: Any) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        run = bench.copy(scored=False)
        for key in ("ledger/report/all.json", "report.json"):
            Path(run, key).unlink()
        shutil.rmtree(f"{run}/lease", ignore_errors=True)
        before = checker.files(run)
        file = Path(run, "lease", name)
        file.parent.mkdir()
        if content is None:
            file.mkdir()
        else:
            file.write_bytes(
                content if isinstance(content, bytes) else json.dumps(content).encode()
            )
        status = command("status", "--run", run)
        outcome.wrong += [f"status: {wrong}" for wrong in status.wrong]
        ended = command(*bench.train(run))
        shutil.rmtree(f"{run}/lease", ignore_errors=True)
        resume(
            *(bench, outcome, run, bench.training(), before, ended),
            lambda: command(*bench.train(run)),
        )

    return trial


# Disks that fill -------------------------------------------------------------------------------

SIZES = (4, 16, 64, 128, 192, 256, 320, 384, 448, 512)


def disks() -> list[Case]:
    """No file above a size; and as root, a file system of a size, which then grows."""
    files = [
        Case("file size limit", f"file size limit:{size} B", _planted(None, before=_most(size)))
        for size in (1000, 1500, 2000, 3000, 4000, 6000, 8000, 12000)
    ]
    full = [Case("full disk", f"full disk:{size} kB", _full(size), 3.0) for size in SIZES]
    return files + (full if os.geteuid() == 0 else [])


def _most(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _full(size: int) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        place = tempfile.mkdtemp()
        mount = ("mount", "-t", "tmpfs", "-o")
        subprocess.run([*mount, f"size={size}k", "tmpfs", place], check=True)
        try:
            run = f"{place}/run"
            ended = command(*bench.train(run))
            subprocess.run([*mount, "remount,size=64m", "tmpfs", place], check=True)
            resume(
                *(bench, outcome, run, bench.training(), {}, ended),
                lambda: command(*bench.train(run)),
            )
        finally:
            subprocess.run(["umount", place], check=True)
            Path(place).rmdir()

    return trial
