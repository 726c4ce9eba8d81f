"""The judge: what a run's folder holds, by its own reading of the files.

Shares no code with the ledger, with the steps or with the stores. It knows the layout as the docs
tell it, JSON, and CRC-32C.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fsspec
import google_crc32c

LONGEST = 60.0
"""Seconds within which a failure ends."""
SILENCE = 60.0
"""Seconds for which a store may be mute while a run goes well."""
STATUSES = {0, 2, 3, 4}
MEASURED = {"seconds", "peak_rss_mb", "driver_peak_rss_mb", "worker_peak_rss_mb", "out", "steps"}
"""Fields of a report that may differ between equal runs."""

Files = Mapping[str, bytes]


def files(url: str) -> dict[str, bytes]:
    """Every file below a folder or URL, by key; staged ones left out."""
    fs, root = fsspec.core.url_to_fs(url)
    fs.invalidate_cache()
    try:
        names = fs.find(root)
    except FileNotFoundError:
        return {}
    keys = {str(name)[len(root) :].lstrip("/"): name for name in names}
    return {
        key: fs.cat_file(name)
        for key, name in keys.items()
        if not key.rsplit("/", 1)[-1].startswith(".")
    }


@dataclass(frozen=True)
class Committed:
    """A record as it lies there."""

    key: str
    content: bytes
    files: dict[str, tuple[int, str]]
    result: Any

    @property
    def outcome(self) -> tuple[Any, ...]:
        return sorted(self.files.items()), self.result  # type: ignore[return-value]


def records(found: Files, below: str = "") -> dict[str, Committed]:
    """The records of a run (of a scoring below it), by key."""
    read = {}
    for key, content in found.items():
        if not key.startswith(f"{below}ledger/"):
            continue
        try:
            fields = json.loads(content)
            if "step" in fields and key != f"{below}ledger/{fields['step']}/{fields['part']}.json":
                continue  # another part's
            listed = {name: (int(size), str(crc)) for name, (size, crc) in fields["files"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        read[key] = Committed(key, content, listed, fields.get("result"))
    return read


def whole(found: Files, record: Committed, below: str = "") -> bool:
    """Whether every file of a record is there, byte by byte; what only the next step reads is not
    needed once a run is finished."""
    finished = f"{below}ledger/report/all.json" in found
    for name, (size, crc) in record.files.items():
        if finished and name.startswith("scratch.zarr/"):
            continue
        content = found.get(f"{below}{name}")
        if content is None or len(content) != size:
            return False
        if f"{google_crc32c.value(content[:-4]):08x}{content[-4:].hex()}" != crc:
            return False
    return True


def results(found: Files, below: str = "") -> dict[str, bytes]:
    """What equal runs have in common, bit for bit: arrays with their metadata, and tables."""
    root = f"{below}results.zarr/zarr.json"  # carries the report
    wanted = (f"{below}results.zarr/", f"{below}label_issues.parquet")
    return {k: v for k, v in found.items() if k.startswith(wanted) and k != root and _named(k)}


def _named(key: str) -> bool:
    """Whether a file is part of the hierarchy: leftovers of writes that were killed are not."""
    return not key.endswith(".partial")


def report_of(content: bytes | None) -> dict[str, Any] | None:
    """The fields of a report that equal runs have in common."""
    if content is None:
        return None
    try:
        fields = json.loads(content)
    except ValueError:
        return None
    return {k: v for k, v in fields.items() if k not in {*MEASURED, "config"}}


def after_fault(found: Files, reference: Files, before: Files, below: str = "") -> list[str]:
    """What is wrong with a folder in which a fault has just happened.

    before : the folder before it happened
    """
    wrong = []
    made, right = records(found, below), records(reference, below)
    for key, record in made.items():
        if key not in right:
            wrong.append(f"{key}: no such part")
        elif "/report/" not in key and record.outcome != right[key].outcome:
            wrong.append(f"{key}: committed with another outcome")
        elif not whole(found, record, below):
            wrong.append(f"{key}: committed and not whole")
    for key, record in records(before, below).items():
        if whole(before, record, below) and key not in made:
            wrong.append(f"{key}: was committed and is lost")
    published = report_of(found.get(f"{below}report.json"))
    if published not in (None, report_of(reference[f"{below}report.json"])):
        wrong.append("report.json: another result")
    return wrong


def after_resume(found: Files, reference: Files, before: Files, below: str = "") -> list[str]:
    """What is wrong with a folder whose run was resumed to its end.

    before : the folder before it was resumed
    """
    wrong = after_fault(found, reference, before, below)
    made, right = results(found, below), results(reference, below)
    for key in sorted(made.keys() | right.keys()):
        if made.get(key) != right.get(key):
            what = "missing" if key not in made else "extra" if key not in right else "different"
            wrong.append(f"{key}: {what}")
    if report_of(found.get(f"{below}report.json")) is None:
        wrong.append("no report.json")
    missing = records(reference, below).keys() - records(found, below).keys()
    wrong += [f"{key}: no record" for key in sorted(missing)]
    for key, record in records(before, below).items():
        again = found.get(key) != record.content and not _of_a_pass(before, key, below)
        if again and whole(before, record, below):
            wrong.append(f"{key}: computed again")
    return wrong


def _of_a_pass(before: Files, key: str, below: str) -> bool:
    """Whether a record is of a pass over a source that had not ended, which begins anew."""
    step = key.removeprefix(f"{below}ledger/").split("/")[0]
    first, _, group = step.partition("ingest-")
    return not first and f"{below}ledger/{group}/all.json" not in records(before, below)


def recomputed(found: Files, before: Files, below: str = "") -> int:
    """Parts that were committed and computed again."""
    done = records(found, below)
    return sum(
        key in done and done[key].content != record.content
        for key, record in records(before, below).items()
    )


def ended(status: int, seconds: float, stderr: str) -> list[str]:
    """What is wrong with how a command ended by itself."""
    wrong = []
    if status not in STATUSES:
        wrong.append(f"exit status {status}")
    if seconds > (LONGEST if status else LONGEST + SILENCE):
        wrong.append(f"took {seconds:.0f} s")
    said = [line for line in stderr.splitlines() if line.startswith("knnoise: ")]
    if status and len(said) != 1:
        wrong.append(f"{len(said)} lines say what went wrong: {stderr[-300:]!r}")
    if re.search(r"Traceback|unexpected \w+|please report", stderr):
        wrong.append(f"raw words: {stderr[-300:]!r}")
    return wrong
