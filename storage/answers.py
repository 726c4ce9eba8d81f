"""What people said of labels: a log that is only added to, so that nothing anybody said is lost.

One line per event, with a digest of itself: the origin of the rows first, then answers and what
was taken back. Every line begins with a line break, so that a line which a crash cut off spoils no
other. Any number of processes may add at once; each reads what the others added. A line that is
not as it was written is damage, and named: whoever learns from the answers refuses them.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from storage.errors import InputError, StorageError, stored
from storage.files import durable
from storage.files.durable import seal, unseal
from storage.files.location import Location

if TYPE_CHECKING:
    from storage.sources.values.labels import Label

SUFFIX = ".jsonl"
ANSWER_COLUMNS = ("row", "label", "given_label", "reviewer", "time", "conflict", "source")
"""Columns of answers as a table, besides the ids of rows."""
LONGEST_LINE = 16 << 20
"""Bytes that are read at once; a longer line is damage."""
MOST_ROWS = 1 << 19
"""Rows that a log may hold answers on; each takes 1 kB of memory."""
WRITING_SECONDS = 0.1
"""Time in which a line that is being added is there."""
_COMPARED = 64
"""Bytes of the last line by which a log is known again."""


@dataclass(frozen=True)
class Origin:
    """Which rows the answers are of."""

    source: str
    """Identity of the source's content."""
    label_values: tuple[Label, ...]
    n_rows: int
    run: str
    """Name of the run that was reviewed, for people."""

    @staticmethod
    def of_config(
        config: Mapping[str, Any], label_values: tuple[Label, ...], n_rows: int, run: str
    ) -> Origin:
        """The origin of the rows of a run, by its run.json."""
        return Origin(
            source_identity(config["source"], config["label_name"]), label_values, n_rows, run
        )


def source_identity(fingerprint: Mapping[str, Any], label_name: str | None) -> str:
    """Name of a source's content, whatever corrections it is read with; of files with digests."""
    files = [
        (file["role"], file["size"], file["digest"])
        for file in fingerprint["files"]
        if file["role"] != "corrections"
    ]
    return blake2b(json.dumps([files, label_name]).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Asked:
    """A row as somebody was asked about it."""

    row: int
    given: Label | None
    """The label it had; None where that is not known, or there is none."""
    drawn: str
    """Why it was asked about: `useful`, `suspects` or `rows` (drawn at random from either), `group`
    (answered with another), `wanted` (by whoever buys labels) or `imported`."""
    suspect: bool


@dataclass(frozen=True)
class Answer:
    """What one person said of some rows."""

    id: str
    rows: tuple[Asked, ...]
    label: Label | None
    """None: not known to this person."""
    reviewer: str
    time: str
    """ISO 8601, UTC."""

    @classmethod
    def now(
        cls, rows: Iterable[Asked], label: Label | None, reviewer: str, name: str | None = None
    ) -> Answer:
        """One that is given at this moment; `name` is its id."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        return cls(name or uuid.uuid4().hex, tuple(rows), label, reviewer, time)


@dataclass(frozen=True)
class RowAnswers:
    """What is known of one row."""

    row: int
    labels: dict[str, Label | None]
    """The last label of each reviewer."""

    @property
    def label(self) -> Label | None:
        """The label that all who gave one agree on; None where there is none."""
        given = self._distinct()
        return given[0] if len(given) == 1 else None

    @property
    def conflict(self) -> bool:
        return len(self._distinct()) > 1

    def _distinct(self) -> list[Label]:
        return list(dict.fromkeys(label for label in self.labels.values() if label is not None))


@dataclass
class Answers:
    """The answers of a log that stand, by row; grows event by event."""

    where: str = "answers"
    """The log's name, for messages."""
    origin: Origin | None = None
    answers: dict[str, Answer] = field(default_factory=dict)
    """Those not taken back, by id, in the order they were given."""
    damaged: list[int] = field(default_factory=list)
    """Numbers, from 1, of lines that are not as they were written."""
    _n_lines: int = 0
    _n_questions: int = 0
    _by_row: dict[int, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    known: set[str] = field(default_factory=set)
    """Ids of all answers, those taken back among them."""

    @classmethod
    def of(cls, where: str, file: IO[bytes]) -> Answers:
        """The answers of a whole log.

        Raises `InputError` where it is none, and `StorageError` where it is damaged.
        """
        answers = cls(where)
        while line := file.readline(LONGEST_LINE):
            answers.see(line)
        answers.check(where)
        return answers

    def check(self, where: str) -> None:
        """Raise `StorageError` where lines are damaged, and `InputError` where it is no log."""
        if self.damaged and (self.origin or self.known):
            more = f" and {len(self.damaged) - 1:,} more" if len(self.damaged) > 1 else ""
            raise StorageError(
                f"{where}: line {self.damaged[0]:,}{more} is damaged or cut off, what it said is "
                "lost; take up a copy of the file, or delete what is damaged to go on without"
            )
        if self.origin is None:
            raise InputError(f"{where}: no answers of knnoise; give such a file")

    def see(self, line: bytes) -> None:
        """Take one line of the log, with its line break."""
        number = self._n_lines + 1
        self._n_lines += line.endswith(b"\n")
        if not line.strip():
            return
        event = unseal(line)
        try:
            if event is None:
                raise ValueError("not as it was written")
            if "origin" in event:
                origin = event["origin"]
                self.origin = Origin(**{**origin, "label_values": tuple(origin["label_values"])})
            elif "undo" in event:
                self._forget(event["undo"])
            else:
                rows = tuple(Asked(**row) for row in event["rows"])
                self._add(Answer(**{**event, "rows": rows}))
        except (KeyError, TypeError, ValueError):
            if number not in self.damaged[-1:]:
                self.damaged.append(number)

    def _add(self, answer: Answer) -> None:
        if answer.id in self.known:
            return
        self.check_room(len(answer.rows))
        self._n_questions += len(answer.rows)
        self.known.add(answer.id)
        self.answers[answer.id] = answer
        for one in answer.rows:
            self._by_row[one.row][answer.id] = None

    def check_room(self, n_rows: int) -> None:
        """Raise `InputError` where answers on so many rows more are not held."""
        if self._n_questions + n_rows > MOST_ROWS:
            raise InputError(
                f"{self.where}: answers on more than {MOST_ROWS:,} rows, which are not held in "
                "memory; give --answers another file from here on"
            )

    def _forget(self, name: str) -> None:
        self.known.add(name)
        answer = self.answers.pop(name, None)
        for one in answer.rows if answer else ():
            del self._by_row[one.row][name]
            if not self._by_row[one.row]:
                del self._by_row[one.row]

    def __contains__(self, row: int) -> bool:
        """Whether anybody was asked about a row and said something, if only `not known`."""
        return row in self._by_row

    def of_row(self, row: int) -> RowAnswers:
        """What is known of a row."""
        labels: dict[str, Label | None] = {}
        for name in self._by_row.get(row, {}):
            answer = self.answers[name]
            labels.pop(answer.reviewer, None)
            labels[answer.reviewer] = answer.label
        return RowAnswers(row, labels)

    def rows(self) -> Iterator[RowAnswers]:
        """What is known of each row that somebody was asked about, rows ascending."""
        return (self.of_row(row) for row in sorted(self._by_row))


class AnswersFile:
    """A log on this host; may be open in several processes at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers = Answers(str(path))
        self.rest = b""
        """What follows the last whole line: under way, or cut off."""
        self._read, self._last = 0, b""

    @classmethod
    def open(cls, path: str, origin: Origin | None = None) -> AnswersFile:
        """The log at a path; begun with an origin where there is none yet.

        Raises `InputError` where it is not on this host, is no such log, or is of other rows than
        those of `origin`; `StorageError` where some of it is damaged.
        """
        location = Location.of(path)
        if not location.is_local:
            raise InputError(
                f"{location.name}: answers are kept on this host; give --answers a local path"
            )
        file = cls(Path(location.url))
        if file.path.is_dir():
            raise InputError(f"{location.name}: is a folder; name a file")
        if origin is not None and not file.path.exists():
            folder = Location.of(file.path.parent)
            try:
                folder.create(file.path.name, _line({"origin": asdict(origin)}))
            except StorageError as error:
                raise StorageError(f"{error}; or give --answers a file elsewhere") from error
        file.refresh()
        if file.rest:
            time.sleep(WRITING_SECONDS)
            file.refresh()
        file.answers.see(file.rest)
        file.answers.check(location.name)
        known = file.answers.origin
        assert known is not None
        if origin is not None and known.source != origin.source:
            raise InputError(
                f"{location.name}: holds answers on other rows (of {known.run}); "
                "give --answers another file"
            )
        return file

    def refresh(self) -> None:
        """Read what was added since, by whomever.

        Raises `StorageError` where what was read before is no longer there.
        """
        with stored(str(self.path)):
            try:
                file = self.path.open("rb")
            except FileNotFoundError as error:
                raise InputError(f"{self.path}: no such file; check the path") from error
            with file:
                file.seek(self._read - len(self._last))
                if file.read(len(self._last)) != self._last:
                    raise StorageError(
                        f"{self.path}: was cut or written anew while it was open, what it said is "
                        "lost; take up a copy of the file, and open it again"
                    )
                self.rest = b""
                while line := file.readline(LONGEST_LINE):
                    last = not line.endswith(b"\n") and len(line) < LONGEST_LINE
                    if last and unseal(line) is None:
                        self.rest = line  # to be read again next time
                        return
                    self.answers.see(line)
                    self._read, self._last = file.tell(), line[-_COMPARED:]

    def add(self, *answers: Answer) -> int:
        """Keep answers, all or none; on the disk when this returns. How many were not known."""
        self.refresh()
        new = [answer for answer in answers if answer.id not in self.answers.known]
        self.answers.check_room(sum(len(answer.rows) for answer in new))
        self._append(*map(asdict, new))
        return len(new)

    def undo(self, name: str) -> Answer | None:
        """Take an answer back; the answer, None where there is none that stands."""
        self.refresh()
        answer = self.answers.answers.get(name)
        if answer is not None:
            self._append({"undo": name})
        return answer

    def _append(self, *events: Mapping[str, Any]) -> None:
        lines = [_line(event) for event in events]
        if (longest := max(map(len, lines), default=0)) > LONGEST_LINE:
            raise InputError(
                f"{self.path}: an answer of {longest:,} bytes, and {LONGEST_LINE:,} are read "
                "again; it is not kept: give shorter labels, or fewer rows at once"
            )
        try:
            durable.append(self.path, b"".join(lines))
        except OSError as error:
            raise StorageError(f"{self.path}: the answer is not kept ({error})") from error
        self.refresh()


def _line(event: Mapping[str, Any]) -> bytes:
    return b"\n" + seal(event)
