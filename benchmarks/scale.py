"""What pools beyond this machine cost, by measured constants: the table of docs/lab/scale.md.

python benchmarks/scale.py
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.blocks.cost import row_cost

D, K, COPIES = 32, 30, 1.05
PART_ROWS = (128 << 20) // (4 * D)

LISTS_US = 19.5
"""Core time a row in blocks of 50,000; `row_cost` tells that of others by its ratios."""
ROUTE_US = (1.0, 0.0012)
"""Core time a row: constant, and to a block."""
ANCHORS_US = 5.0
OTHER_US = 12.0
"""Blocks, merge, audit, counts and labels, with what is read and written."""
SERIAL_US = 2.5
"""Wall time a row in the driver alone: reading the source, writing label_issues.parquet."""
FUTURE_CORE_MS, FUTURE_DRIVER_MS = 25.0, 3.7
"""Of each part: in its worker (reading, committing), and in the driver that schedules it."""
DISK_BYTES = 30 * K + 10 * D + 100
"""Results and scratch a row; about three times as much is written, read back and read."""
DRIVER_MB, SLICE_BYTES = 300.0, 490
"""Of the driver: what it imports, and a slice held for a part to come."""
WORKER_MB, BLOCK_ROW_BYTES = 480.0, 2800
"""Of a worker: compiled kernels, and what a row of a block takes at most."""


@dataclass(frozen=True)
class Cost:
    """A training of `n` rows in blocks of `block_rows`."""

    n: int
    block_rows: int

    @property
    def blocks(self) -> int:
        return round(self.n / self.block_rows)

    @property
    def parts(self) -> int:
        return -(-self.n // PART_ROWS)

    @property
    def tasks(self) -> int:
        """Of `blocks`, `neighbors`, `graph`, `audit`, `regression`; `anchors`, `pairs`, `route`,
        `labels`."""
        return 5 * self.blocks + 4 * self.parts

    @property
    def core_us(self) -> dict[str, float]:
        """Core microseconds a row by what they go to."""
        return {
            "neighbors": COPIES * LISTS_US * row_cost(self.block_rows) / row_cost(50_000),
            "route": ROUTE_US[0] + ROUTE_US[1] * self.blocks,
            "anchors": ANCHORS_US,
            "other": OTHER_US,
            "parts": FUTURE_CORE_MS * 1e3 * self.tasks / self.n,
        }

    @property
    def core_hours(self) -> float:
        return sum(self.core_us.values()) * self.n / 3.6e9

    @property
    def serial_hours(self) -> float:
        return (SERIAL_US * self.n + FUTURE_DRIVER_MS * 1e3 * self.tasks) / 3.6e9

    @property
    def driver_gb(self) -> float:
        held = SLICE_BYTES * self.parts * self.blocks + self.n * 3
        return DRIVER_MB / 1e3 + held / 1e9

    @property
    def worker_gb(self) -> float:
        return (WORKER_MB + BLOCK_ROW_BYTES * COPIES * 1.4 * self.block_rows / 1e6) / 1e3


def main() -> None:
    head = ("rows", "block_rows", "blocks", "tasks", "µs·core/row", "of it routing", "core h")
    more = ("hours on 100 cores", "driver alone, h", "driver GB", "worker GB", "disk TB")
    print("| " + " | ".join(head + more) + " |")
    print("|" + "---|" * len(head + more))
    for n in (10**7, 10**8, 10**9):
        for block_rows in (25_000, 50_000, 200_000):
            cost = Cost(n, block_rows)
            us = cost.core_us
            cells = (
                f"{n // 10**6:,}M",
                f"{block_rows:,}",
                f"{cost.blocks:,}",
                f"{cost.tasks:,}",
                f"{sum(us.values()):.0f}",
                f"{us['route']:.1f}",
                f"{cost.core_hours:,.1f}",
                f"{cost.core_hours / 100 + cost.serial_hours:.2f}",
                f"{cost.serial_hours:.2f}",
                f"{cost.driver_gb:.1f}",
                f"{cost.worker_gb:.1f}",
                f"{n * DISK_BYTES / 1e12:.2f}",
            )
            print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
