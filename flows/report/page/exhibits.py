"""The text or the picture of a row, as a page holds it."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
from markupsafe import Markup

from flows.report.rows import IMAGES, Shown
from storage.errors import InputError

LONGEST = 400
"""Characters of a text."""
LARGEST = 256_000
"""Bytes of a picture; of a larger one the page has the name."""


def exhibits(shown: Shown, rows: list[int]) -> dict[int, str]:
    """The text or picture of each row; raises `InputError` where there is more than a column, or as
    `Shown.read`."""
    if shown.columns:
        raise InputError("--show has several columns: give --show-column one of them")
    shown.read(np.array(rows, np.int64))
    return {row: _picture(shown, row) or _text(shown, row) for row in rows}


def _text(shown: Shown, row: int) -> str:
    text = " ".join(str(next(iter(shown.of(row).values()), "")).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def _picture(shown: Shown, row: int) -> str | None:
    file = shown.file(row)
    try:
        if file is None or file.stat().st_size > LARGEST:
            return None
        content = b64encode(file.read_bytes()).decode()
    except OSError:
        return None
    return Markup('<img alt="{}" src="data:{};base64,{}">').format(
        file.name, IMAGES[file.suffix.lower()], content
    )
