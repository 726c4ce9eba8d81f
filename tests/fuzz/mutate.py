"""Mutations of bytes, of text, of JSON and of the headers that formats have."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from typing import Any

from fuzz.seeds import Files, Rng, Seed

NUMBERS = (0, 1, -1, 3, 127, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 10**15)
WORDS = (
    *("", "nan", "NaN", "inf", "-inf", "1e400", "-0", "NULL", "None", "true", "0x1p3", "1_0"),
    *('"', '""', '"a', "'", "\\", "\0", "\n", "\r", "\t", ",", ";", "\ufeff", "\u202e", "\x1b[31m"),
    *("=cmd|' /C calc'!A0", "${jndi:ldap://a/b}", "../../etc/passwd", "%s%n", "{0}", "[bold]a"),
    *("\udcff", "é", "١٢", "𝟏", "1,5", "1 000", "12%", "2020-01-01", "x" * 5000, "9" * 5000),
)
TOKENS = (b"\0", b"\xff", b"\n", b"\r\n", b'"', b",", b"{", b"[" * 3000, b"PK\x05\x06", b"PAR1")


class Canary:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def pick(rng: Rng, options: tuple[Any, ...] | list[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def span(rng: Rng, size: int) -> tuple[int, int]:
    """Two places in so many bytes, mostly near to each other."""
    a = int(rng.integers(size + 1))
    return a, min(size, a + int(2.0 ** (rng.random() * 10)))


def in_bytes(rng: Rng, content: bytes) -> bytes:
    """One change of some bytes."""
    data = bytearray(content)
    a, b = span(rng, len(data))
    kind = int(rng.integers(9))
    if kind == 0 and data:
        for at in rng.integers(len(data), size=int(rng.integers(1, 5))):
            data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del data[a:]
    elif kind == 2:
        del data[a:b]
    elif kind == 3:
        data[a:a] = data[a:b] * int(rng.integers(1, 40))
    elif kind == 4:
        data[a:a] = pick(rng, TOKENS)
    elif kind == 5:
        data[a:b] = rng.bytes(b - a)
    elif kind == 6:
        form = pick(rng, ["<H", "<I", "<Q"])
        value = pick(rng, NUMBERS) % 2 ** (8 * struct.calcsize(form))
        data[a : a + struct.calcsize(form)] = struct.pack(form, value)
    elif kind == 7:
        tail = min(len(data), 64)  # footers and directories are there
        at = len(data) - tail + int(rng.integers(tail + 1))
        data[at : at + 1] = rng.bytes(1)
    else:
        data[a:b] = bytes(b - a)
    return bytes(data)


def in_text(rng: Rng, content: bytes) -> bytes:
    """One change of a table of text: cells, rows, separators."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    at = int(rng.integers(len(lines)))
    mark = "\t" if "\t" in lines[0] else ","
    cells = lines[at].split(mark)
    kind = int(rng.integers(7))
    if kind <= 2:
        cells[int(rng.integers(len(cells)))] = pick(rng, WORDS)
        lines[at] = mark.join(cells)
    elif kind == 3:
        lines[at] = mark.join(cells * int(rng.integers(2, 60)))
    elif kind == 4:
        lines.insert(at, pick(rng, WORDS))
    elif kind == 5:
        lines = [line.replace(mark, pick(rng, [";", "|", " ", mark * 2])) for line in lines]
    else:
        lines[at] = lines[at][: int(rng.integers(len(lines[at]) + 1))]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def in_json(rng: Rng, content: bytes) -> bytes:
    """One value of a document replaced, removed or doubled."""
    try:
        document = json.loads(content)
    except ValueError:
        return in_bytes(rng, content)
    places = list(_places(document))
    if not places:
        return in_bytes(rng, content)
    holder, key = pick(rng, places)
    odd = [*NUMBERS, *WORDS[:12], None, True, [], {}, [0], [-1, 3], [10**15, 3], 1.5, "[" * 99]
    if rng.random() < 0.15 and isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = pick(rng, odd)
    return json.dumps(document).encode("utf-8", "surrogatepass")


def _places(document: Any) -> Any:
    if isinstance(document, dict | list):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield document, key
            yield from _places(document[key])


def in_header(rng: Rng, content: bytes) -> bytes:
    """The header of an `.npy` written anew, its length right or wrong."""
    descr = pick(rng, ["'<f8'", "'|O'", "'<U9'", "'|S0'", "'|V8'", "[('a','<f8')]", "3", "'<f16'"])
    size = pick(rng, ["24", "-24", "0", "True", "24L", "1e3", str(10**15), "9" * 40, "(1,)", "x"])
    wide = pick(rng, ["3", "1", "0", "-3", "70000", str(2**40)])
    order = pick(rng, ["False", "True", "1", "None"])
    end = pick(rng, [" }\n", "}", "", " }\x00\n", " 'z': 1}", "}" * 9, "$\n", "'''"])
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': ({size}, {wide}),{end}"
    version = pick(rng, [(1, 0), (2, 0), (3, 0), (9, 9)])
    form = "<H" if version == (1, 0) else "<I"
    length = (
        len(header) if rng.random() < 0.8 else pick(rng, NUMBERS) % 2 ** (8 * struct.calcsize(form))
    )
    start = b"\x93NUMPY" + bytes(version) + struct.pack(form, length) + header.encode()
    return start + content[128:]


def in_zip(rng: Rng, content: bytes) -> bytes:
    """A field of the headers of a zip file changed, in both of its places or in one."""
    data = bytearray(content)
    offset, form = pick(rng, [(6, "<H"), (8, "<H"), (14, "<I"), (18, "<I"), (22, "<I"), (26, "<H")])
    value = pick(rng, NUMBERS) % 2 ** (8 * struct.calcsize(form))
    for signature, more in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        at = data.find(signature)
        if at >= 0 and rng.random() < 0.8:
            place = at + offset + more
            data[place : place + struct.calcsize(form)] = struct.pack(form, value)
    return bytes(data)


def in_workbook(rng: Rng, content: bytes) -> bytes:
    """A part of a workbook changed, and packed again."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # whatever an earlier change made of it
        return in_bytes(rng, content)
    name = pick(rng, [*parts, "xl/worksheets/sheet1.xml"])
    part = parts.get(name, b"")
    inside = part.replace(b"<v>", b"<v>" + pick(rng, TOKENS))
    parts[name] = inside if rng.random() < 0.2 else in_bytes(rng, part)
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return sink.getvalue()


def poison(rng: Rng, seed: Seed, canary: str) -> None:
    """Something that would run code, were it loaded."""
    load = pickle.dumps(Canary(canary))
    if seed.kind == "zarr":
        for name in [name for name in seed.files if name.endswith("x/.zarray")]:
            meta = json.loads(seed.files[name])
            meta |= {"filters": [{"id": "pickle", "protocol": 5}], "compressor": None}
            meta["dtype"] = pick(rng, ["|O", meta["dtype"]])
            seed.files[name] = json.dumps(meta).encode()
        for name in [name for name in seed.files if "/x/" in name and name[-1].isdigit()]:
            seed.files[name] = load
        return
    name = seed.labels if seed.labels and rng.random() < 0.5 else seed.source
    shape = f"({len(load)},)" if rng.random() < 0.5 else "(24, 3)"
    header = f"{{'descr': '|O', 'fortran_order': False, 'shape': {shape}, }}".encode()
    whole = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + load
    if name in seed.files:
        seed.files[name] = pick(rng, [whole, load, seed.files[name] + load])


def mutated(rng: Rng, seed: Seed, canary: str) -> Seed:
    """The seed after one to four changes; one in twenty stays as it is."""
    if rng.random() < 0.05:
        return seed
    if rng.random() < 0.1:
        poison(rng, seed, canary)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3, 4]))):
        name = _victim(rng, seed)
        if rng.random() < 0.05:
            _in_folder(rng, seed.files, name)
            continue
        content, change = seed.files[name], in_bytes
        if rng.random() < 0.7:
            if name.endswith(("json", ".zarray", ".zgroup", ".zmetadata", ".zattrs")):
                change = in_json
            elif name.endswith((".csv", ".tsv", ".txt", ".toml", ".jsonl", ".ndjson")):
                change = in_text
            elif name.endswith(".npy"):
                change = in_header
            elif name.endswith(".npz"):
                change = in_zip
            elif name.endswith(".xlsx"):
                change = in_workbook
        seed.files[name] = change(rng, content)
    return seed


def _victim(rng: Rng, seed: Seed) -> str:
    """The file to change: of labels their file, of a group its metadata half of the time."""
    names = list(seed.files)
    if seed.kind == "labels" and seed.labels in names:
        return str(seed.labels)
    metadata = [name for name in names if "json" in name or "/.z" in name]
    return str(pick(rng, metadata if metadata and rng.random() < 0.5 else names))


def _in_folder(rng: Rng, files: Files, name: str) -> None:
    """A file removed, doubled, emptied, or put in the place of another."""
    content = files[name]
    kind = int(rng.integers(4))
    if kind == 0 and len(files) > 1:
        del files[name]
    elif kind == 1:
        files[f"{name}x"] = content
    elif kind == 2:
        files[name] = b""
    else:
        files[str(pick(rng, list(files)))] = content
