"""The label space: codes, the absent code, counts that add up, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.labels import LabelSpace, class_shares, distinct_names

names = st.one_of(
    st.lists(st.text(max_size=5), min_size=2, max_size=40, unique=True),
    st.lists(st.integers(-1000, 1000), min_size=2, max_size=40, unique=True),
    st.just([False, True]),
)


def space_of(n: int, missing: bool = False) -> LabelSpace:
    return LabelSpace(tuple(range(n)), missing)


def test_two_classes_are_coded_as_ever() -> None:
    space = LabelSpace((0, 1))
    codes = space.encode(np.array([0, 1, 1, 0]))
    assert codes.dtype == np.int8
    np.testing.assert_array_equal(codes, [0, 1, 1, 0])
    assert LabelSpace((0, 1), has_missing=True).absent == -1


@pytest.mark.parametrize(
    ("n", "missing", "dtype", "absent"),
    [
        (2, True, np.int8, -1),
        (3, True, np.uint8, 255),
        (255, True, np.uint8, 255),
        (256, False, np.uint8, None),
        (256, True, np.uint16, 65535),
        (257, False, np.uint16, 65535),
        (1000, True, np.uint16, 65535),
    ],
)
def test_codes_are_as_small_as_they_can_be(
    n: int, missing: bool, dtype: type, absent: int | None
) -> None:
    space = space_of(n, missing)
    assert space.dtype == dtype
    if absent is None:
        with pytest.raises(ValueError, match="no code is left"):
            _ = space.absent
    else:
        assert space.absent == absent


@given(names, st.data())
@settings(max_examples=60, deadline=None)
def test_names_come_back_and_counts_add_up(classes: list[object], data: st.DataObject) -> None:
    space = LabelSpace(tuple(classes), has_missing=True)  # type: ignore[arg-type]
    labels = data.draw(st.lists(st.sampled_from([*classes, None]), max_size=60))
    codes = space.encode(labels)
    assert codes.dtype == space.dtype
    assert space.decode(codes).tolist() == labels
    np.testing.assert_array_equal(space.is_known(codes), [label is not None for label in labels])
    counts = space.class_counts(codes)
    assert counts.tolist() == [labels.count(name) for name in classes]
    half = len(codes) // 2
    parts = space.class_counts(codes[:half]) + space.class_counts(codes[half:])
    np.testing.assert_array_equal(parts, counts)
    assert class_shares(counts).sum() == pytest.approx(1.0 if counts.any() else 0.0)
    assert LabelSpace.from_json(json.loads(json.dumps(space.to_json()))) == space


@given(st.lists(st.lists(st.one_of(st.text(max_size=3), st.integers(-9, 9)))), st.randoms())
@settings(max_examples=60, deadline=None)
def test_names_of_blocks_do_not_depend_on_their_order(blocks: list[list[object]], rnd) -> None:  # type: ignore[no-untyped-def]
    found = distinct_names(blocks)  # type: ignore[arg-type]
    rnd.shuffle(blocks)
    assert distinct_names(blocks) == found  # type: ignore[arg-type]
    assert set(found) == {name for block in blocks for name in block}


def test_numbers_come_before_text() -> None:
    assert distinct_names([["b", 10], ["A", 9, "b"]]) == (9, 10, "A", "b")


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="one class, 'a'"):
        LabelSpace(("a",))
    with pytest.raises(ValueError, match="no class"):
        LabelSpace(())
    with pytest.raises(ValueError, match="1,001 classes: at most 1,000"):
        space_of(1001)
    with pytest.raises(ValueError, match="'a' occurs more than once"):
        LabelSpace(("a", "b", "a"))
    space = LabelSpace(("shirt", "coat", "bag"))
    with pytest.raises(ValueError, match=r"row 1 \(from 0\): label 'hat' is none of"):
        space.encode(["bag", "hat", "coat"])
    with pytest.raises(ValueError, match="label None"):
        space.encode(["bag", None])
    space.check_counts(np.array([2, 3, 4]))
    with pytest.raises(ValueError, match=r"class 'coat' has 1 row: at least 2"):
        space.check_counts(np.array([2, 1, 4]))
    with pytest.raises(ValueError, match="2 counts of 3 classes"):
        space.check_counts(np.array([2, 1]))
