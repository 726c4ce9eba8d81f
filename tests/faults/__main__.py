"""`make faults`: inject faults, judge every one, print the table and what broke a law."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from faults.bench import Bench
from faults.families import Case, sample
from faults.kinds import KINDS
from faults.outcome import Outcome, table

QUICK = 3.0
"""Seconds that a fault of a quick sample takes at most."""


def every_case(benches: Mapping[str, Bench]) -> list[Case]:
    """All faults there are."""
    from faults import clusters, conduct, damage, families, given, s3

    disk = benches["disk"]
    return [
        *families.operations(disk),
        *conduct.every(disk),
        *damage.every(disk),
        *damage.folders(disk),
        *clusters.every(disk),
        *given.every(),
        *families.other_kinds(benches),
        *(s3.every(benches["S3"]) if "S3" in benches else []),
    ]


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A folder in memory, if there is such: syncing to a disk is not what is tried here."""
    memory = Path("/dev/shm")
    place = tempfile.mkdtemp(prefix="knnoise-faults-", dir=memory if memory.is_dir() else None)
    tempfile.tempdir, before = place, tempfile.tempdir
    try:
        yield Path(place)
    finally:
        tempfile.tempdir = before
        shutil.rmtree(place, ignore_errors=True)


def prepared(stack: contextlib.ExitStack, *, with_s3: bool) -> dict[str, Bench]:
    """The benches, for as long as the stack is open."""
    from faults import s3

    place = stack.enter_context(workplace())
    benches = {
        name: Bench.prepare(f"{place}/{name}/runs", place / name / "sources", kind)
        for name, kind in KINDS.items()
    }
    if with_s3 and s3.installed():
        stack.enter_context(s3.served())
        benches["S3"] = Bench.prepare(f"{s3.BUCKET}/runs", place / "S3")
    gc.freeze()  # else each of the forked searches what all share for garbage, and copies it
    return benches


def judge_all(
    benches: Mapping[str, Bench], cases: list[Case], jobs: int, end: float
) -> Iterator[Outcome]:
    """Outcomes as they come, from `jobs` forked processes, until the clock is at `end`."""
    reading, writing = os.pipe()
    turn, take = os.pipe()
    os.write(take, b"".join(number.to_bytes(4, "big") for number in range(len(cases))))
    os.close(take)
    for _ in range(jobs):
        if os.fork() == 0:
            _work(benches, cases, turn, writing, end)
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            yield Outcome(**json.loads(line))
    for _ in range(jobs):
        os.wait()


def _work(
    benches: Mapping[str, Bench], cases: list[Case], turn: int, writing: int, end: float
) -> None:
    """Judge one case after the other, until there is none left."""
    while time.monotonic() < end and (number := os.read(turn, 4)):
        case = cases[int.from_bytes(number, "big")]
        try:
            outcome = case.judge(benches)
        except BaseException:
            outcome = Outcome(case.family, case.name, [f"the trial: {traceback.format_exc()}"])
        os.write(writing, (json.dumps(asdict(outcome)) + "\n").encode())
    os._exit(0)


def kept(file: Path | None) -> list[Outcome]:
    """Outcomes of an earlier call."""
    if file is None or not file.exists():
        return []
    return [Outcome(**json.loads(line)) for line in file.read_text().splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--faults", type=int, default=1100, help="faults to inject (1100)")
    parser.add_argument("--seed", type=int, default=0, help="chooses them (0)")
    parser.add_argument("--jobs", type=int, default=4, help="processes, of which some wait (4)")
    parser.add_argument("--only", default="", help="faults whose name or family contains this")
    parser.add_argument("--quick", action="store_true", help="only faults that take seconds, no S3")
    parser.add_argument("--no-s3", action="store_true", help="leave the object store out")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which it ends (60)")
    parser.add_argument(
        "--keep", type=Path, help="file of outcomes, which a later call goes on from"
    )
    args = parser.parse_args()
    tests = str(Path(__file__).parents[1])  # workers import the injector
    os.environ["PYTHONPATH"] = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    began, outcomes = time.monotonic(), kept(args.keep)
    with contextlib.ExitStack() as stack:
        benches = prepared(stack, with_s3=not (args.no_s3 or args.quick))
        cases = [c for c in every_case(benches) if args.only in c.name or args.only in c.family]
        cases = [c for c in cases if not args.quick or c.seconds <= QUICK]
        cases = sample(cases, args.faults, args.seed)
        done = {outcome.name for outcome in outcomes}
        cases = [case for case in cases if case.name not in done]
        print(f"{len(cases):,} faults, seed {args.seed}", file=sys.stderr)
        for outcome in judge_all(benches, cases, args.jobs, began + 60 * args.minutes):
            outcomes.append(outcome)
            if args.keep is not None:
                with args.keep.open("a") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
            for wrong in outcome.wrong:
                print(f"{outcome.name}: {wrong}", flush=True)
            if len(outcomes) % 50 == 0:
                minutes = (time.monotonic() - began) / 60
                print(f"{len(outcomes):,} done, {minutes:.1f} min", file=sys.stderr, flush=True)
    print(table(outcomes))
    if missing := len(cases) + len(done) - len(outcomes):
        print(f"{missing:,} faults were not judged: the time was up, or a process was killed")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"seed {args.seed}; {(time.monotonic() - began) / 60:.1f} min, "
        f"{used.ru_utime + used.ru_stime:,.0f} s of processors; replay one by --only NAME"
    )
    return int(missing > 0 or any(outcome.wrong for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
