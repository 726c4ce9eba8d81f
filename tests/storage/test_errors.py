"""What errors and reports are put together from."""

from __future__ import annotations

from storage.errors import amount


def test_amounts_agree_in_number() -> None:
    assert [amount(n, "row") for n in (0, 1, 2, 1000)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "1,000 rows",
    ]
    assert [amount(n, "row is", "rows are") for n in (1, 2)] == ["1 row is", "2 rows are"]
