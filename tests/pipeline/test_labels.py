"""Classes: the type of their codes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.labels import check_counts, dtype_of


@pytest.mark.parametrize(
    ("n", "dtype"), [(2, np.int8), (3, np.uint8), (256, np.uint8), (257, np.uint16)]
)
def test_codes_are_as_small_as_they_can_be(n: int, dtype: type) -> None:
    assert dtype_of(n) == dtype
    assert np.iinfo(dtype).max >= n - 1


def test_a_class_of_one_row_is_refused() -> None:
    names = ("shirt", "coat", "bag")
    check_counts(names, np.array([2, 3, 4]))
    with pytest.raises(ValueError, match=r"class 'coat' has 1 row: at least 2"):
        check_counts(names, np.array([2, 1, 4]))
