"""What is shown of a row: its features, and a text or an image where a file has them."""

import struct
import threading
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeGuard
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from flows.steps.graph.lookup import ids_of, pick
from pipeline.arrays import Float32, Floating, Int64
from storage.errors import InputError, listed, no_column, shown
from storage.runs.run import Run
from storage.sources.files import readable
from storage.sources.formats.tables import batches
from storage.sources.ids import StoredIds
from storage.sources.opening import open_cells
from storage.sources.request import PLAIN, Dialect
from storage.sources.values.texts import plain_values, text_ids

KEPT_ROWS = 4096
MOST_COLUMNS = 60
"""Columns of a table that are shown as they stand, the first."""
MOST_FEATURES = 4096
"""Features of one row that are sent to the page."""
LONGEST_TEXT = 20_000
IMAGES = {
    **{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"},
    **{".webp": "image/webp", ".bmp": "image/bmp"},
}


class Features:
    """Features of rows of a training's pool; those asked for are kept for a while."""

    def __init__(
        self, run: Run, place: Mapping[int, int] | None = None, shape: tuple[int, int] | None = None
    ) -> None:
        """place : of a row in the pool, where rows of the source were left out
        shape : (height, width) where a row is the pixels of a gray image
        """
        self.run, self.shape = run, shape
        self._place = place
        self._kept: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def of(self, rows: Iterable[int]) -> dict[int, dict[str, Any]]:
        """By row its `features`, or the `image` that they are, and its `id` if it has one; whole
        chunks of the pool are read, never more."""
        wanted = list(dict.fromkeys(rows))
        with self._lock:
            if len(self._kept) > KEPT_ROWS:
                self._kept.clear()
            missing = sorted(row for row in wanted if row not in self._kept)
            if missing:
                at = np.array([self.at(row) for row in missing], np.int64)
                x = pick(self.run, "pool", "x", at)
                for row, values, own in zip(missing, x, ids_of(self.run, at), strict=True):
                    self._kept[row] = self._content(values) | ({} if own is None else {"id": own})
            return {row: self._kept[row] for row in wanted}

    def at(self, row: int) -> int:
        """Where a row lies in the pool."""
        return row if self._place is None else self._place[row]

    def _content(self, values: Float32) -> dict[str, Any]:
        if self.shape is not None:
            return {"image": gray_image(values.reshape(self.shape))}
        return {"features": [_short(value) for value in values[:MOST_FEATURES].tolist()]}


def gray_image(values: Floating) -> str:
    """A gray image, its least value black and its greatest white, as a PNG in a data URI.

    values : (height, width)
    """
    low, high = float(values.min()), float(values.max())
    gray = np.rint((values - low) * (255 / ((high - low) or 1))).astype(np.uint8)
    height, width = gray.shape
    lines = np.insert(gray, 0, 0, axis=1)  # each with its filter, which is none
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(of)) + name + of + struct.pack(">I", zlib.crc32(name + of))
        for name, of in parts
    )
    return f"data:image/png;base64,{b64encode(png).decode()}"


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def shown_of(
    run: Run, n_rows: int, show: str | None, column: str | None, image_root: str | None
) -> "Shown | None":
    """What `--show` and the options that belong to it ask for; raises `InputError`."""
    if show is not None:
        return Shown(show, column, n_rows, image_root, ids=StoredIds.of(run.group("pool")))
    if column is not None or image_root is not None:
        raise InputError("--show-column and --image-root belong to a file: give --show FILE too")
    return None


class Shown:
    """A table with a row per training row: one column of it, a text or a picture, or all as they
    stand, as far as the review needs its rows."""

    def __init__(
        self,
        path: str,
        column: str | None,
        n_rows: int,
        root: str | None,
        dialect: Dialect = PLAIN,
        ids: StoredIds | None = None,
    ) -> None:
        """n_rows : that the file is to have; ids : those of the training's rows, which the file is
        held to where it has such a column. No value is read yet.

        Raises `InputError` where the file cannot be read, or has no such column.
        """
        self.root, self.n_rows = root, n_rows

        def choose(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
            if column is not None and column not in names:
                raise InputError(f"{name}: {no_column(column, names)}")
            if column is None and root is not None and len(names) > 1:
                raise InputError(
                    f"{name}: {len(names)} columns; give --show-column one of {listed(names)}"
                )
            self._names = names[:MOST_COLUMNS] if column is None else (column,)
            return self._names

        self._ids = ids
        self._table = open_cells(path, choose, dialect, None if ids is None else ids.name)
        self.columns = self._names if len(self._names) > 1 else ()
        """Those that are shown as they stand."""
        self._cells: dict[int, list[str | None]] = {}

    def read(self, rows: Int64) -> None:
        """Read the values of some rows, in one pass.

        Raises `InputError` where the file cannot be read, or has another number of rows.
        """
        table, n_rows, wanted, stop = self._table, self.n_rows, np.unique(rows), 0
        ids: list[str] = []
        for start, batch in batches(table):
            stop = start + batch.num_rows
            here = wanted[(wanted >= start) & (wanted < stop)]
            if len(here):
                taken = batch.select(list(self._names)).take(pa.array(here - start))
                with readable(table.files[0], "has values that cannot be shown", "drop the column"):
                    columns = [map(_text, plain_values(column)) for column in taken.columns]
                if self._ids is not None and self._ids.name in batch.schema.names:
                    own = batch.column(self._ids.name).take(pa.array(here - start))
                    ids += text_ids(own, table.files[0]).tolist()
                cells = map(list, zip(*columns, strict=True))
                self._cells |= dict(zip(here.tolist(), cells, strict=True))
            if stop > n_rows:
                break
        if stop != n_rows:
            more = "more" if stop > n_rows else f"{stop:,}"
            raise InputError(
                f"{table.files[0]}: {more} rows, the training has {n_rows:,}; give --show a file "
                "with a row per training row, in the same order"
            )
        if ids:
            self._check_ids(wanted, ids)

    def _check_ids(self, rows: Int64, ids: list[str]) -> None:
        """Raise `InputError` where rows of the file have other ids than those of the training."""
        assert self._ids is not None
        name = self._table.files[0]
        known = text_ids(self._ids.of_rows(rows.tolist()), name).tolist()
        for row, one, other in zip(rows.tolist(), ids, known, strict=True):
            if other and one != other:
                raise InputError(
                    f"{name}: row {row:,} has {self._ids.name} {shown(one)}, that of the training "
                    f"{shown(other)}; give --show a file in the order of its rows"
                )

    def of(self, row: int) -> dict[str, Any]:
        """What the page shows of a row: its cells, a text, or the address of an image."""
        cells = self._cells.get(row)
        if cells is None:
            return {}
        if self.columns:
            return {"cells": cells}
        value = cells[0]
        if value is None:
            return {}
        if self.root is None:
            return {"text": value}
        if is_url(self.root):
            inside = value.startswith(_folder(self.root)) or not is_url(value)
            address = value if is_url(value) else _folder(self.root) + value.lstrip("/")
            return {"image": address} if inside and ".." not in value else {"text": value}
        return {"image": f"image/{row}"} if self.file(row) else {"text": value}

    def address(self, row: int) -> str:
        """The image of a row for Label Studio, which serves files below a root of its own."""
        if self.root is None or is_url(self.root):
            return str(self.of(row).get("image", ""))
        return f"/data/local-files/?d={quote(self._cells[row][0] or '')}"

    def file(self, row: int) -> Path | None:
        """The image of a row, if there is one below the root; links out of it are none."""
        value = next(iter(self._cells.get(row, ())), None)
        if self.root is None or is_url(self.root) or value is None:
            return None
        root = Path(self.root).resolve()
        try:
            path = (root / value).resolve()
            known = path.suffix.lower() in IMAGES and path.is_relative_to(root) and path.is_file()
        except (OSError, ValueError):  # too long for a name, or with what no name can hold
            return None
        return path if known else None


def is_url(address: str | None) -> TypeGuard[str]:
    """Whether it is one, and no path."""
    return address is not None and address.startswith(("https://", "http://"))


def _folder(root: str) -> str:
    return root.rstrip("/") + "/"


def _text(value: Any) -> str | None:
    """A cell as people write it."""
    if value is None:
        return None
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:LONGEST_TEXT]
