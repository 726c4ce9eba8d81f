"""The label space: the type of its codes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.labels import LabelSpace, dtype_of


@pytest.mark.parametrize(
    ("n", "dtype"), [(2, np.int8), (3, np.uint8), (256, np.uint8), (257, np.uint16)]
)
def test_codes_are_as_small_as_they_can_be(n: int, dtype: type) -> None:
    assert dtype_of(n) == dtype
    assert np.iinfo(dtype).max >= n - 1


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="one class, 'a'"):
        LabelSpace(("a",))
    with pytest.raises(ValueError, match="no class"):
        LabelSpace(())
    with pytest.raises(ValueError, match="1,001 classes: at most 1,000"):
        LabelSpace(tuple(range(1001)))
    with pytest.raises(ValueError, match="'a' occurs more than once"):
        LabelSpace(("a", "b", "a"))
    space = LabelSpace(("shirt", "coat", "bag"))
    space.check_counts(np.array([2, 3, 4]))
    with pytest.raises(ValueError, match=r"class 'coat' has 1 row: at least 2"):
        space.check_counts(np.array([2, 1, 4]))
    with pytest.raises(ValueError, match="2 counts of 3 classes"):
        space.check_counts(np.array([2, 1]))
