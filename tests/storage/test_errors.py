"""What errors and reports are put together from."""

from __future__ import annotations

from storage.errors import InputError, amount, unsteered


def test_amounts_agree_in_number() -> None:
    assert [amount(n, "row") for n in (0, 1, 2, 1000)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "1,000 rows",
    ]
    assert [amount(n, "row is", "rows are") for n in (1, 2)] == ["1 row is", "2 rows are"]


def test_nothing_steers_a_terminal() -> None:
    assert unsteered("a\x1b[2J\r\x9b\tü\u200f\n") == "a\\x1b[2J\\x0d\\x9b\tü\u200f\n"
    assert str(InputError("t\x1b]0;\x07.csv:\nno rows")) == "t\\x1b]0;\\x07.csv: no rows"
