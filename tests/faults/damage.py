"""Files of a finished run that are harmed, and every command that reads it afterwards."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec

from faults import checker
from faults.bench import Bench, Ended, command, json_of, start
from faults.families import Case, Trial, out_file
from faults.injector import flipped
from faults.outcome import Outcome

Harm = Callable[[dict[str, bytes], str], None]
"""Changes one file of a folder; files by key."""


def _flip(found: dict[str, bytes], key: str) -> None:
    found[key] = flipped(found[key])


def _cut(found: dict[str, bytes], key: str) -> None:
    found[key] = found[key][: len(found[key]) // 2]


def _empty(found: dict[str, bytes], key: str) -> None:
    found[key] = b""


def _remove(found: dict[str, bytes], key: str) -> None:
    del found[key]


def _swap(found: dict[str, bytes], key: str) -> None:
    """Change places with another file of its kind."""
    for other in _siblings(found, key):
        if found[other] != found[key]:
            found[key], found[other] = found[other], found[key]
            return


def _edit(found: dict[str, bytes], key: str) -> None:
    """Another digit in a number; JSON stays JSON."""
    content = found[key]
    digits = list(re.finditer(rb"(?<=[0-9.])[0-9](?![0-9a-f]*\")", content))
    if digits and key.endswith(".json"):
        at = digits[len(digits) // 2].start()
        digit = b"1" if content[at : at + 1] != b"1" else b"2"
        found[key] = content[:at] + digit + content[at + 1 :]
    else:
        _flip(found, key)


def _siblings(found: dict[str, bytes], key: str) -> list[str]:
    """Keys of files of the same kind, in the nearest folder that has any; never the lease, which
    without an owner's name is watched for a minute."""
    kind = PurePosixPath(key).suffix
    for folder in PurePosixPath(key).parents:
        below = "" if str(folder) == "." else f"{folder}/"
        others = [
            other
            for other in sorted(found)
            if other != key
            and other.startswith(below)
            and not other.startswith("lease/")
            and PurePosixPath(other).suffix == kind
        ]
        if others:
            return others
    return []


def _harm(run: str, key: str, harm: str) -> dict[str, bytes]:
    """Do harm to one file of a run; all files afterwards."""
    before = checker.files(run)
    found = dict(before)
    HARMS[harm](found, key)
    fs, root = fsspec.core.url_to_fs(run)
    for one in before:
        if one not in found:
            fs.rm_file(f"{root}/{one}")
        elif found[one] != before[one]:
            fs.pipe_file(f"{root}/{one}", found[one])
    return found


HARMS: dict[str, Harm] = {
    **{"bit flipped": _flip, "cut": _cut, "emptied": _empty, "removed": _remove},
    **{"swapped": _swap, "number edited": _edit},
}


def every(bench: Bench) -> list[Case]:
    """Every file that a run or its scoring rests on, harmed in every way."""
    needed = {"run.json", "run.copy.json", "report.json"}
    for below in ("", bench.scoring):
        for record in checker.records(bench.reference, below).values():
            needed |= {record.key, *(f"{below}{name}" for name in record.files)}
    needed |= {f"{bench.scoring}run.json", f"{bench.scoring}report.json"}
    return [
        Case(f"file {harm}", f"{harm}:{key}", _damaged(key, harm), 3.0)
        for key in sorted(needed & bench.reference.keys())
        for harm in HARMS
    ]


def _damaged(key: str, harm: str) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        in_scoring = key.startswith("scores/")
        run = bench.copy(scored=in_scoring)
        reference = bench.reference if in_scoring else bench.training()
        harmed = _harm(run, key, harm)
        if harmed == reference:
            return  # nothing was there to swap with
        commands = Commands(bench, run, outcome)
        commands.read(needed=not key.startswith(("scratch.zarr/", "run.copy", "scores/")))
        scored = commands.score()
        trained = commands.train()
        whole = checker.files(run)
        rest = {k: v for k, v in whole.items() if not k.startswith("scores/")}
        kept = {k: v for k, v in harmed.items() if not k.startswith("scores/") and k != key}
        outcome.wrong += checker.after_resume(rest, bench.training(), kept)
        outcome.recomputed = checker.recomputed(rest, kept)
        if scored.status or in_scoring:
            scored = commands.score()
            if scored.status:
                outcome.wrong.append(f"score after repair: {scored.status}, {scored.err[-300:]!r}")
        outcome.exit_seconds, outcome.resume_seconds = commands.longest, trained.seconds
        bench.remove(run)

    return trial


class Commands:
    """All that a user may call on a run, each judged."""

    def __init__(self, bench: Bench, run: str, outcome: Outcome) -> None:
        self.bench, self.run, self.outcome, self.longest = bench, run, outcome, 0.0

    def _judged(self, name: str, ended: Ended) -> Ended:
        self.longest = max(self.longest, ended.seconds)
        self.outcome.wrong += [f"{name}: {wrong}" for wrong in ended.wrong]
        return ended

    def read(self, *, needed: bool) -> None:
        """status, report and open_run; `needed`: a file that a finished run needs is harmed."""
        before = checker.files(self.run)
        status = self._judged("status", command("status", "--run", self.run, "--json"))
        if needed and json_of(status).get("finished"):
            self.outcome.wrong.append("status: finished")
        report = self._judged("report", command("report", "--run", self.run, "--json"))
        shown = checker.report_of(json.dumps(json_of(report)).encode())
        if report.status == 0 and shown != self.bench.report:
            self.outcome.wrong.append("report: another result")
        opened = self._judged("open_run", start(lambda: show_arrays(self.run)).wait())
        if opened.status == 0 and opened.out != self.bench.arrays:
            self.outcome.wrong.append("open_run: other arrays")
        if checker.files(self.run) != before:
            self.outcome.wrong.append("reading changed the folder")

    def score(self) -> Ended:
        out = out_file()
        scored = self._judged("score", command(*self.bench.score(self.run, out)))
        if scored.status == 0 and out.read_bytes() != self.bench.scores:
            self.outcome.wrong.append("score: other scores")
        return scored

    def train(self) -> Ended:
        trained = self._judged("train", command(*self.bench.train(self.run)))
        if trained.status:
            self.outcome.wrong.append(f"train: {trained.status}, {trained.err[-300:]!r}")
        return trained


def show_arrays(run: str) -> int:
    """Print a digest of all that `open_run` gives; as a command ends."""
    import sys

    import numpy as np

    from storage import KnnoiseError, open_run

    try:
        tree = open_run(run)
        for path in sorted(node.path for node in tree.subtree):
            for name, found in sorted(tree[path].data_vars.items() if path else []):
                content = np.ascontiguousarray(found.values)
                print(path, name, content.shape, hashlib.sha1(content.tobytes()).hexdigest())
    except KnnoiseError as error:
        print(f"knnoise: {error}", file=sys.stderr)
        return error.exit_code
    return 0


# Whole folders ---------------------------------------------------------------------------------


def folders(bench: Bench) -> list[Case]:
    """What may happen to a run as a whole: its scratch is deleted, its version is another."""
    cases = [Case("scratch deleted", "scratch deleted", _scratch, 3.0)]
    for what, version in (("newer", 99), ("older", 1)):
        for sealed in (True, False):
            name = f"{what} format{', sealed' if sealed else ''}"
            cases.append(Case("format version", name, _version(version, sealed), 2.0))
    cases += [
        Case("parameter added later", f"parameter added later: {name}", _parameter(name), 3.0)
        for name in ("seed", "scale", "target_recall", "noise", "rule")
    ]
    return cases


def _scratch(bench: Bench, outcome: Outcome) -> None:
    run = bench.copy(scored=False)
    shutil.rmtree(f"{run}/scratch.zarr")
    before = checker.files(run)
    commands = Commands(bench, run, outcome)
    status = command("status", "--run", run, "--json")
    if not json_of(status).get("finished"):
        outcome.wrong.append("status: not finished")
    commands.read(needed=False)
    trained = commands.train()
    if _lasting(checker.files(run)) != _lasting(before):
        outcome.wrong.append("train: did something")
    if commands.score().status:
        outcome.wrong.append("score: refused")
    block = next(Path(run, "results.zarr/blocks").rglob("c/0/0"))
    block.write_bytes(b"")
    commands.train()
    found = {k: v for k, v in checker.files(run).items() if not k.startswith("scores/")}
    outcome.wrong += checker.after_resume(found, bench.training(), {})
    outcome.exit_seconds, outcome.resume_seconds = commands.longest, trained.seconds
    bench.remove(run)


def _lasting(found: dict[str, bytes]) -> dict[str, bytes]:
    return {k: v for k, v in found.items() if not k.startswith(("logs/", "lease/"))}


def _reseal(run: str, change: Callable[[dict[str, Any]], None], *, sealed: bool = True) -> None:
    """Write run.json as another version of the program would."""
    from storage.files.durable import seal, unseal

    for name in ("run.json", "run.copy.json"):
        file = Path(run, name)
        fields = unseal(file.read_bytes())
        assert fields is not None
        change(fields)
        file.write_bytes(seal(fields, indent=1) if sealed else json.dumps(fields).encode())


def _version(version: int, sealed: bool) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        run = bench.copy(scored=False)
        _reseal(run, lambda fields: fields.update(format_version=version), sealed=sealed)
        before = checker.files(run)
        for args in (
            bench.train(run),
            bench.score(run, out_file()),
            ("status", "--run", run),
            ("report", "--run", run),
        ):
            ended = command(*args)
            outcome.wrong += [f"{args[0]}: {wrong}" for wrong in ended.wrong]
            if ended.status != 2 or f"format version {version}" not in ended.err:
                outcome.wrong.append(f"{args[0]}: {ended.status}, {ended.err[-300:]!r}")
            outcome.exit_seconds = max(outcome.exit_seconds, ended.seconds)
        if checker.files(run) != before:
            outcome.wrong.append("the run was changed")
        bench.remove(run)

    return trial


def _parameter(name: str) -> Trial:
    """A run of a version that did not have a parameter yet, half done."""

    def trial(bench: Bench, outcome: Outcome) -> None:
        run = bench.copy(scored=False)
        _reseal(run, lambda fields: fields["parameters"].pop(name))
        for key in ("ledger/rates/all.json", "ledger/report/all.json", "report.json"):
            Path(run, key).unlink()
        before = checker.files(run)
        commands = Commands(bench, run, outcome)
        outcome.resume_seconds = commands.train().seconds
        outcome.wrong += checker.after_resume(checker.files(run), bench.training(), before)
        bench.remove(run)

    return trial
