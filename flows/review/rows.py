"""What is shown of a row: its features, and a text or an image where a file has them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flows.steps.graph.lookup import pick
from storage.errors import InputError, listed, no_column
from storage.runs.run import Run
from storage.sources.formats.tables import batches
from storage.sources.opening import open_cells

KEPT_ROWS = 4096
MOST_FEATURES = 4096
"""Features of one row that are sent to the page."""
LONGEST_TEXT = 20_000
IMAGES = {
    **{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"},
    **{".webp": "image/webp", ".bmp": "image/bmp"},
}


class Features:
    """Features of rows of a training's pool; the last ones asked for are kept."""

    def __init__(self, run: Run, n_features: int, place: Mapping[int, int] | None = None) -> None:
        """`place` of a row in the pool, where rows of the source were left out."""
        self.run = run
        self._place = place
        self.n = min(n_features, MOST_FEATURES)
        self._kept: OrderedDict[int, list[float]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, rows: Iterable[int]) -> dict[int, list[float]]:
        """Feature values by row; whole chunks of the pool are read, never more."""
        wanted = list(dict.fromkeys(rows))
        with self._lock:
            missing = sorted(row for row in wanted if row not in self._kept)
            if missing:
                at = missing if self._place is None else [self._place[row] for row in missing]
                x = pick(self.run, "pool", "x", np.array(at, np.int64))
                for row, values in zip(missing, x, strict=True):
                    self._kept[row] = [_short(value) for value in values[: self.n].tolist()]
            rows_of = {}
            for row in wanted:
                self._kept.move_to_end(row)
                rows_of[row] = self._kept[row]
            while len(self._kept) > KEPT_ROWS:
                self._kept.popitem(last=False)
            return rows_of


def _short(value: float) -> float:
    return float(f"{value:.6g}")


class Shown:
    """One column of a file with a row per training row, as far as the review needs it."""

    def __init__(self, path: str, column: str | None, n_rows: int, root: str | None) -> None:
        """n_rows : that the file is to have. No value is read yet.

        Raises `InputError` where the file cannot be read, or has no such column.
        """
        self.root, self.n_rows = root, n_rows
        self.values: dict[int, str] = {}
        self._table = open_cells(path, lambda name, names: [_chosen(name, names, column)])
        self._name = _chosen(self._table.files[0], self._table.feature_names, column)

    def read(self, rows: npt.NDArray[np.int64]) -> None:
        """Read the values of some rows, in one pass.

        Raises
        ------
        InputError
            the file cannot be read, or has another number of rows.
        """
        table, n_rows, wanted, stop = self._table, self.n_rows, np.unique(rows), 0
        for start, batch in batches(table):
            stop = start + batch.num_rows
            here = wanted[(wanted >= start) & (wanted < stop)]
            taken = batch.column(self._name).take(pa.array(here - start)).to_pylist()
            for row, value in zip(here.tolist(), taken, strict=True):
                if value is not None:
                    self.values[row] = str(value)[:LONGEST_TEXT]
            if stop > n_rows:
                break
        if stop != n_rows:
            more = "more" if stop > n_rows else f"{stop:,}"
            raise InputError(
                f"{table.files[0]}: {more} rows, the training has {n_rows:,}; give --show a file "
                "with a row per training row, in the same order"
            )

    def of(self, row: int) -> dict[str, str]:
        """What the page shows of a row: a text, or the address of an image."""
        value = self.values.get(row)
        if value is None:
            return {}
        if self.root is None:
            return {"text": value}
        if _is_url(self.root):
            inside = value.startswith(_folder(self.root)) or not _is_url(value)
            address = value if _is_url(value) else _folder(self.root) + value.lstrip("/")
            return {"image": address} if inside and ".." not in value else {"text": value}
        return {"image": f"image/{row}"} if self.file(row) else {"text": value}

    def file(self, row: int) -> Path | None:
        """The image of a row, if there is one below the root; links out of it are none."""
        if self.root is None or _is_url(self.root) or row not in self.values:
            return None
        root = Path(self.root).resolve()
        try:
            path = (root / self.values[row]).resolve()
            known = path.suffix.lower() in IMAGES and path.is_relative_to(root) and path.is_file()
        except (OSError, ValueError):  # too long for a name, or with what no name can hold
            return None
        return path if known else None


def _is_url(address: str) -> bool:
    return address.startswith(("https://", "http://"))


def _folder(root: str) -> str:
    return root.rstrip("/") + "/"


def _chosen(name: str, names: tuple[str, ...], column: str | None) -> str:
    """The column to show, of those of a file."""
    if column is None and len(names) == 1:
        return names[0]
    if column is None:
        raise InputError(f"{name}: {len(names)} columns; give --show-column one of {listed(names)}")
    if column not in names:
        raise InputError(f"{name}: {no_column(column, names)}")
    return column
