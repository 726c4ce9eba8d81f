"""Well-formed small sources of every kind, for mutations to start from."""

from __future__ import annotations

import bz2
import decimal
import gzip
import io
import json
import lzma
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import zarr

from storage.answers import Answer, AnswersFile, Asked, Origin

ROWS = 24
"""Too few to learn from: a source that is read to its end is refused for that, quickly."""
MODEL_ROWS = 60
"""Rows of the training that is scored with, reviewed and reported."""

Rng = np.random.Generator
Files = dict[str, bytes]
"""Content by path below the folder of a case."""


@dataclass
class Seed:
    """A source as files, and how a command is told of it."""

    kind: str
    files: Files
    source: str
    """Path of the source among the files."""
    labels: str | None = None
    column: str | None = None
    options: list[str] = field(default_factory=list)
    """`{folder}` in them is the folder of the case."""
    command: str = "train"
    corrections: str | None = None
    annotations: str | None = None


def table(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of `ROWS` rows."""
    x = rng.normal(size=(ROWS, int(rng.integers(1, 5)))).round(3)
    return x, np.arange(ROWS) % 2


def _zip(content: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", content)
    return sink.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pa.compress(content, "zstd", asbytes=True),
    ".zip": _zip,
}


def workbook(rng: Rng) -> Seed:
    """A sheet of numbers, texts, dates and truth values."""
    x, y = table(rng)
    odd = [datetime(2024, 3, 5), "1,234.5", "5 %", True, None, "#N/A"]
    more = odd[int(rng.integers(len(odd)))] if rng.random() < 0.4 else 1
    book = openpyxl.Workbook()
    book.active.append([*(f"c{i}" for i in range(x.shape[1])), "odd", "y"])
    for row, label in zip(x.tolist(), y.tolist(), strict=True):
        book.active.append([*row, more, ("no", "yes")[label]])
    sink = io.BytesIO()
    book.save(sink)
    kinds = ["thousands", "percent", "datetime", "boolean", "%d.%m.%Y"]
    options = ["--parse", f"odd={kinds[int(rng.integers(5))]}"] if rng.random() < 0.3 else []
    return Seed("xlsx", {"t.xlsx": sink.getvalue()}, "t.xlsx", None, "y", options)


def csv(rng: Rng) -> Seed:
    if rng.random() < 0.2:
        return workbook(rng)
    x, y = table(rng)
    separator = str(rng.choice([",", "\t"]))
    end = str(rng.choice(["\n", "\r\n"]))
    names = [*(f"c{i}" for i in range(x.shape[1])), "y"]
    rows = [[*map(str, row), ("no", "yes")[label]] for row, label in zip(x, y, strict=True)]
    text = end.join(separator.join(cells) for cells in [names, *rows]) + end
    name = "t.tsv" if separator == "\t" else "t.csv"
    how = ["--sep", ";", "--decimal", ",", "--encoding", "utf-16"]
    options = how if rng.random() < 0.1 else []
    content = text.encode("utf-16" if options else "utf-8")
    packing = str(rng.choice(["", "", "", *PACKERS]))
    name += packing
    return Seed("csv", {name: PACKERS.get(packing, bytes)(content)}, name, None, "y", options)


def arrow(rng: Rng) -> pa.Table:
    """A table whose columns have any types, features among them."""
    x, y = table(rng)
    odd: list[Callable[[], pa.Array]] = [
        lambda: pa.array([[1.0, 2.0]] * ROWS),
        lambda: pa.array([[1.0, 2.0]] * ROWS, pa.list_(pa.float32(), 2)),
        lambda: pa.array([[1.0], None, []] * (ROWS // 3)),
        lambda: pa.array([{"a": 1}] * ROWS),
        lambda: pa.array([decimal.Decimal("1.5")] * ROWS),
        lambda: pa.array(["a"] * ROWS).dictionary_encode(),
        lambda: pa.array(x[:, 0]).dictionary_encode(),
        lambda: pa.array(x[:, 0].astype("f2")),
        lambda: pa.array(y.astype("M8[ns]")),
        lambda: pa.nulls(ROWS),
        lambda: pa.array([b"\x00\xff"] * ROWS),
        lambda: pa.array([None, *x[1:, 0]]),
        lambda: pa.array([True, False] * (ROWS // 2)),
        lambda: pa.array([10**18] * ROWS, pa.uint64()),
        lambda: pa.array(["x" * 1000] * ROWS, pa.large_string()),
        lambda: pa.array([np.inf] * ROWS),
    ]
    columns: dict[str, Any] = {f"c{i}": pa.array(x[:, i]) for i in range(x.shape[1])}
    if rng.random() < 0.4:
        columns["odd"] = odd[int(rng.integers(len(odd)))]()
    columns["y"] = pa.array(y) if rng.random() < 0.7 else odd[int(rng.integers(len(odd)))]()
    return pa.table(columns)


def feather(rng: Rng) -> Seed:
    sink = io.BytesIO()
    compression = str(rng.choice(["uncompressed", "lz4", "zstd"]))
    pyarrow.feather.write_feather(arrow(rng), sink, compression=compression, chunksize=7)
    name = str(rng.choice(["t.feather", "t.arrow"]))
    return Seed("arrow", {name: sink.getvalue()}, name, column="y")


def lines(rng: Rng) -> Seed:
    """JSON lines, some without all keys, some with what JSON has no word for."""
    rows = arrow(rng).to_pylist()
    for row in rows:
        if rng.random() < 0.1:
            row.popitem()
    content = "".join(json.dumps(row, default=str) + "\n" for row in rows).encode()
    packing = str(rng.choice(["", "", "", *PACKERS]))
    name = f"t.{rng.choice(['jsonl', 'ndjson'])}{packing}"
    return Seed("jsonl", {name: PACKERS.get(packing, bytes)(content)}, name, column="y")


def parquet(rng: Rng) -> Seed:
    if rng.random() < 0.3:
        return feather(rng) if rng.random() < 0.7 else lines(rng)
    sink = io.BytesIO()
    pq.write_table(
        arrow(rng),
        sink,
        compression=str(rng.choice(["none", "snappy", "zstd", "gzip"])),
        use_dictionary=bool(rng.integers(2)),
        row_group_size=int(rng.choice([7, ROWS])),
        data_page_version=str(rng.choice(["1.0", "2.0"])),
        write_page_index=bool(rng.integers(2)),
    )
    if rng.random() < 0.2:
        folders = [["a", "b"], ["k=1/a", "k=x/b"]][int(rng.integers(2))]
        parts = {f"t/{name}.parquet": sink.getvalue() for name in folders}
        return Seed("parquet", parts, "t", column="y")
    return Seed("parquet", {"t.parquet": sink.getvalue()}, "t.parquet", column="y")


def _npy(array: np.ndarray) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=True)
    return sink.getvalue()


def npy(rng: Rng) -> Seed:
    x, y = table(rng)
    x = x.astype(str(rng.choice(["f2", "f4", "f8", ">f8", "i2", "c8", "U3"])))
    x = np.asfortranarray(x) if rng.random() < 0.3 else x
    files = {"x.npy": _npy(x), "y.npy": _npy(y)}
    return Seed("npy", files, "x.npy", labels="y.npy")


def npz(rng: Rng) -> Seed:
    x, y = table(rng)
    sink = io.BytesIO()
    (np.savez, np.savez_compressed)[int(rng.integers(2))](sink, X=x, y=y)
    return Seed("npz", {"t.npz": sink.getvalue()}, "t.npz")


def labels(rng: Rng) -> Seed:
    """Sound features with labels in a text file."""
    x, y = table(rng)
    rows = [("no", "yes")[label] for label in y]
    header = [[], ["label"], ["id,label"]][int(rng.integers(3))]
    if header == ["id,label"]:
        rows = [f"{i},{row}" for i, row in enumerate(rows)]
    name = str(rng.choice(["y.txt", "y.csv", "y.csv.gz"]))
    text = "\n".join([*header, *rows]).encode()
    content = gzip.compress(text) if name.endswith(".gz") else text
    column = "label" if header == ["id,label"] else None
    return Seed("labels", {"x.npy": _npy(x), name: content}, "x.npy", name, column)


def corrections(rng: Rng) -> Seed:
    """Labels that somebody checked, as a table or as a review keeps them; the source is added."""
    rows = rng.permutation(ROWS)[: int(rng.integers(1, 6))].tolist()
    said = [("no", "yes")[int(rng.integers(2))] for _ in rows]
    name = str(rng.choice(["c.csv", "c.parquet", "c.jsonl"]))
    if name == "c.csv":
        lines = ["row,label", *(f"{row},{label}" for row, label in zip(rows, said, strict=True))]
        content = "\n".join(lines).encode()
    elif name == "c.parquet":
        sink = io.BytesIO()
        pq.write_table(pa.table({"row": rows, "label": said, "reviewer": ["a"] * len(rows)}), sink)
        content = sink.getvalue()
    else:
        with tempfile.TemporaryDirectory() as place:
            file = AnswersFile.open(f"{place}/{name}", Origin("0" * 32, ("no", "yes"), ROWS, "run"))
            for number, (row, label) in enumerate(zip(rows, said, strict=True)):
                asked = (Asked(row, "no", "useful", False),)
                file.add(Answer(f"answer-{number}", asked, label, "a", "2026-01-01T00:00:00.000"))
            content = Path(f"{place}/{name}").read_bytes()
    return Seed("corrections", {name: content}, "t.csv", column="y", corrections=name)


def annotations(rng: Rng) -> Seed:
    """Several labels per row, a line each, some of them beside the rows; the source is added."""
    lines = [(row, who) for row in range(ROWS) for who in range(3) if rng.random() < 0.9]
    cells = [[str(row), f"a{who}", ("no", "yes")[(row + who // 2) % 2]] for row, who in lines]
    hostile: list[Callable[[int], list[str]]] = [
        lambda at: [f"9{cells[at][0]}", *cells[at][1:]],  # a row that is not there
        lambda at: cells[at - 1],  # the same row and annotator
        lambda at: [*cells[at][:2], ""],
        lambda at: ["", *cells[at][1:]],
        lambda at: [cells[at][0], "", cells[at][2]],
        lambda at: ["-1", *cells[at][1:]],
        lambda at: cells[at][:2],
        lambda at: [*cells[at], "more"],
    ]
    for _ in range(int(rng.integers(0, 3))):
        at = int(rng.integers(len(cells)))
        cells[at] = hostile[int(rng.integers(len(hostile)))](at)
    names = ["row", "annotator", "label"]
    if rng.random() < 0.1:
        names[int(rng.integers(3))] = "other"
    content = "\n".join(",".join(row) for row in [names, *cells]).encode()
    if rng.random() < 0.2 and all(len(row) == 3 for row in cells):
        sink = io.BytesIO()
        columns = [list(column) for column in zip(*cells, strict=True)]
        pq.write_table(pa.table(columns, names=names), sink)
        return Seed("annotations", {"v.parquet": sink.getvalue()}, "t.csv", annotations="v.parquet")
    return Seed("annotations", {"v.csv": content}, "t.csv", annotations="v.csv")


def config(rng: Rng) -> Seed:
    """A file of options; the source is added."""
    lines = ['label-column = "y"', "seed = 3", "[train]", "k = 5", 'noise = "minmax"', "[score]"]
    rng.shuffle(lines[:2])
    options = ["--config", "{folder}/c.toml"]
    return Seed("config", {"c.toml": "\n".join(lines).encode()}, "t.csv", options=options)


def bought(rng: Rng) -> Seed:
    """Labels that people filled in for `acquire`; the source is added."""
    content = corrections(rng).files.popitem()[1] if rng.random() < 0.3 else b"row,label\n3,no\n"
    options = ["--budget", "5", "--answers", "{folder}/w.csv"]
    return Seed("bought", {"w.csv": content}, "t.csv", options=options, command="acquire")


def show(rng: Rng) -> Seed:
    """What a review shows of the rows of the model: texts, or names of images."""
    texts = [f"{'../' * int(rng.integers(3))}{row}.png" for row in range(MODEL_ROWS)]
    if rng.random() < 0.5:
        sink = io.BytesIO()
        pq.write_table(pa.table({"text": texts}), sink)
        return Seed("show", {"s.parquet": sink.getvalue()}, "s.parquet", command="show")
    content = "\n".join(["text", *texts]).encode()
    packing = str(rng.choice(["", *PACKERS]))
    name = f"s.csv{packing}"
    return Seed("show", {name: PACKERS.get(packing, bytes)(content)}, name, command="show")


def answers(rng: Rng, folder: Path) -> Seed:
    """The answers of the model's review, taken over from or into, or exported."""
    log = (folder / "answers.jsonl").read_bytes()
    way = rng.random()
    if way < 0.3:
        origin = AnswersFile.open(str(folder / "answers.jsonl")).answers.origin
        assert origin is not None
        choice = {"from_name": "label", "value": {"choices": ["1"]}}
        said = {"id": 1, "completed_by": 1, "result": [choice], "updated_at": "2026"}
        data = {"row": int(rng.integers(MODEL_ROWS)), "source": origin.source}
        tasks = [{"id": 1, "data": data, "annotations": [said]}, {**data, "label": "0"}]
        options = ["--import-from", "{folder}/t.json", "--answers", "{folder}/new.jsonl"]
        content = {"t.json": json.dumps(tasks).encode()}
        return Seed("answers", content, "t.json", options=options, command="review")
    if way < 0.6:
        options = ["--answers", "{folder}/a.jsonl", "--export-to", "{folder}/out.csv"]
    else:
        options = ["--import-from", "{folder}/a.jsonl", "--answers", "{folder}/new.jsonl"]
    return Seed("answers", {"a.jsonl": log}, "a.jsonl", options=options, command="review")


def old_run(rng: Rng, folder: Path) -> Seed:
    """The model itself, reported or scored with."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    command = "report" if rng.random() < 0.5 else "score"
    content = {f"m/{path.relative_to(folder)}": path.read_bytes() for path in files}
    return Seed("run", content, "m", command=command)


def group(rng: Rng, folder: Path) -> Seed:
    """A Zarr group, written below `folder` and taken from there."""
    x, y = table(rng)
    form: Any = int(rng.integers(2, 4))
    root = zarr.open_group(folder / "g", mode="w", zarr_format=form)
    compressor = rng.integers(2)
    for name, values in (("x", x), ("y", y)):
        more: dict[str, Any] = {} if compressor else {"compressors": None}
        if form == 3 and name == "x" and rng.random() < 0.3:
            more["shards"] = (12, values.shape[1])
        chunks = (6, *values.shape[1:])
        root.create_array(name, data=values, chunks=chunks, **more)
    if rng.random() < 0.2:
        zarr.consolidate_metadata(root.store)
    files = [path for path in sorted((folder / "g").rglob("*")) if path.is_file()]
    return Seed("zarr", {str(f.relative_to(folder)): f.read_bytes() for f in files}, "g")
