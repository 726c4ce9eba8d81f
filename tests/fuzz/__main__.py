"""`python -m fuzz --cases 20000`: the table of what hostile sources did."""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict

from fuzz.law import Verdict
from fuzz.supervise import verdicts


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="a line for each case")
    args = parser.parse_args()
    start, rows = time.perf_counter(), defaultdict[str, list[Verdict]](list)
    broken: list[Verdict] = []
    numbers = range(args.first, args.first + args.cases)
    for verdict in verdicts(numbers, args.seed, args.jobs):
        rows[verdict.kind].append(verdict)
        if args.verbose:
            print(
                verdict.number,
                verdict.kind,
                verdict.status,
                f"{verdict.wall:.2f} s",
                f"{verdict.peak_mb:.0f} MB",
                verdict.error[-160:].strip(),
                flush=True,
            )
        law = verdict.broken()
        if law is not None:
            broken.append(verdict)
            print(f"case {verdict.number} ({verdict.kind}): {law}: {verdict}", file=sys.stderr)
    print(table(rows))
    minutes = (time.perf_counter() - start) / 60
    print(f"{args.cases:,} cases, seed {args.seed}, {minutes:.1f} min: {len(broken)} broke the law")
    print("again: python -m fuzz --seed SEED --first NUMBER --cases 1")
    return 1 if broken else 0


def table(rows: dict[str, list[Verdict]]) -> str:
    """Markdown, a row for each kind of source."""
    lines = [
        "| source | cases | refused | read to the end | succeeded | broke the law "
        "| most MB | most CPU s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for kind, found in [*sorted(rows.items()), ("all", [v for r in rows.values() for v in r])]:
        ends = [sum(v.end == end for v in found) for end in ("refused", "read", "succeeded")]
        cells = [len(found), *ends, sum(v.broken() is not None for v in found)]
        counted = " | ".join(f"{count:,}" for count in cells)
        peak, cpu = max(v.peak_mb for v in found), max(v.cpu for v in found)
        lines.append(f"| {kind} | {counted} | {peak:,.0f} | {cpu:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
