"""Faults by family: what is planted, what is run, and which laws hold then."""

from __future__ import annotations

import itertools
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from faults import checker
from faults.bench import Bench, Ended, command
from faults.injector import Fault
from faults.kinds import KINDS
from faults.outcome import Outcome

Trial = Callable[[Bench, Outcome], None]


@dataclass(frozen=True)
class Case:
    """One fault to inject."""

    family: str
    name: str
    trial: Trial
    seconds: float = 1.5
    """About what it takes on one idle core."""
    bench: str = "disk"
    """Name of the bench that it is tried on."""

    def judge(self, benches: Mapping[str, Bench]) -> Outcome:
        outcome = Outcome(self.family, self.name)
        self.trial(benches[self.bench], outcome)
        return outcome


# Operations ------------------------------------------------------------------------------------

READ_EFFECTS = ("EIO", "reset", "5xx", "timeout", "late")
WRITE_EFFECTS = (
    *("EIO", "ENOSPC", "reset", "5xx", "torn-EIO", "torn-ENOSPC", "half", "twice", "late"),
    *("lost-reset", "lost-5xx", "KILL", "then-KILL"),
)
CHECK_EFFECTS = ("EIO", "5xx", "late", "KILL", "TERM", "INT", "STOP")
COMMIT_EFFECTS = (
    *("EIO", "ENOSPC", "reset", "5xx", "torn-EIO", "twice", "late", "lost-reset", "lost-5xx"),
    *("KILL", "then-KILL", "TERM", "then-TERM", "INT", "then-INT", "STOP", "then-STOP"),
)
GET_EFFECTS = ("EIO", "5xx", "flip", "gone", "late")


def points(bench: Bench, below: str = "") -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
    """(part, moment, op, key, effects) for the first and last part of every step.

    below : prefix of a scoring; empty for the training
    """
    made = checker.records(bench.reference, below)
    of_step: dict[str, list[checker.Committed]] = {}
    for record in made.values():
        of_step.setdefault(record.key.removeprefix(below).split("/")[1], []).append(record)
    for records in of_step.values():
        ordered = sorted(records, key=lambda record: record.key)
        for record in {ordered[0].key: ordered[0], ordered[-1].key: ordered[-1]}.values():
            part = record.key.removeprefix(f"{below}ledger/").removesuffix(".json")
            yield part, "before", "read", record.key, READ_EFFECTS
            files = [f"{below}{name}" for name in record.files]
            stored = [name for name in files if ".zarr/" in name]
            places = ((0, "begin"), (len(stored) // 2, "middle"), (-1, "end"))
            for at, moment in places if stored else ():
                plain = part == "report/all" or stored[at].endswith(".run")
                op = "replace" if plain else "set"
                yield part, f"write-{moment}", op, stored[at], WRITE_EFFECTS
            if stored and part != "report/all":
                op = "read" if stored[-1].endswith(".run") else "get"
                yield part, "use", op, stored[-1], GET_EFFECTS
            if files:
                yield part, "verify", "digest", files[-1], CHECK_EFFECTS
            yield part, "commit", "create", record.key, COMMIT_EFFECTS


def operations(bench: Bench) -> list[Case]:
    """Every operation of `points` with every effect, in a training and in a scoring."""
    cases = []
    for what, below in (("train", ""), ("score", bench.scoring)):
        for part, moment, op, key, effects in points(bench, below):
            for effect in effects:
                name = f"{what}:{part}:{moment}:{effect}"
                family = f"{_kind(effect)} at {op}"
                cases.append(Case(family, name, _operation(what, below, Fault(op, key, effect))))
    return cases


def other_kinds(benches: Mapping[str, Bench]) -> list[Case]:
    """The operations of trainings whose labels or metric are of other kinds, at their own steps."""
    return [
        replace(case, family=f"pools: {kind}", name=f"{kind}:{case.name}", bench=kind)
        for kind in KINDS
        if kind != "disk"
        for case in operations(benches[kind])
        if case.name.startswith("train:")
    ]


def _kind(effect: str) -> str:
    words = {"half": "silently torn", "twice": "duplicate", "late": "delay", "silent": "silence"}
    words |= {"flip": "misread", "gone": "not found"}
    first = effect.partition("-")[0]
    prefix = {"lost": "lost reply", "torn": "torn write", "then": ""}.get(first)
    if prefix == "":
        return f"signal {effect.partition('-')[2]}"
    if effect in ("KILL", "TERM", "INT", "STOP"):
        return f"signal {effect}"
    return prefix or words.get(effect, effect)


def _operation(what: str, below: str, fault: Fault) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        scoring, out = what == "score", out_file()
        run = bench.copy(scored=False) if scoring else bench.new()
        reference = bench.reference if scoring else bench.training()
        args = bench.score(run, out) if scoring else bench.train(run)
        before = checker.files(run)
        with tempfile.TemporaryDirectory() as place:
            planted = replace(fault, counter=f"{place}/count")
            ended = command(*args, fault=planted, root=run)
            if not Path(planted.counter).exists():
                outcome.wrong.append("the fault was never met")
        resume(bench, outcome, run, reference, before, ended, lambda: command(*args), below)
        if what == "score" and out.read_bytes() != bench.scores:
            outcome.wrong.append("other scores")

    return trial


def out_file() -> Path:
    handle, name = tempfile.mkstemp(suffix=".parquet")
    os.close(handle)
    return Path(name)


def resume(
    bench: Bench,
    outcome: Outcome,
    run: str,
    reference: dict[str, bytes],
    before: dict[str, bytes],
    ended: Ended,
    again: Callable[[], Ended],
    below: str = "",
) -> None:
    """Judge a folder after a fault, run the command again, and judge it as a whole."""
    found = checker.files(run)
    outcome.exit_seconds = ended.seconds
    outcome.wrong += ended.wrong
    outcome.wrong += checker.after_fault(found, reference, before, below)
    if ended.status == 0:
        outcome.wrong += checker.after_resume(found, reference, before, below)
    resumed = again()
    outcome.resume_seconds = resumed.seconds
    if resumed.status:
        outcome.wrong.append(f"resumed with {resumed.status}: {resumed.err[-300:]!r}")
    whole = checker.files(run)
    outcome.wrong += checker.after_resume(whole, reference, found, below)
    outcome.recomputed = checker.recomputed(whole, found, below)
    bench.remove(run)


BUDGET = 90.0
"""Seconds on one core that a family of faults may take."""


def sample(cases: list[Case], n: int, seed: int) -> list[Case]:
    """n cases, spread evenly over families, by a seed; of each as many as `BUDGET` allows."""
    chance = random.Random(seed)
    by_family: dict[str, list[Case]] = {}
    for case in cases:
        by_family.setdefault(case.family, []).append(case)
    for family in by_family.values():
        chance.shuffle(family)
        del family[max(1, int(BUDGET / family[0].seconds)) :]
    turns = itertools.chain.from_iterable(
        itertools.zip_longest(*(by_family[family] for family in sorted(by_family)))
    )
    chosen = [case for case in turns if case is not None][:n]
    chance.shuffle(chosen)  # slow ones, which wait for one server, among quick ones
    return chosen
