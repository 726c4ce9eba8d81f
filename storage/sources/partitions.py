"""Folders named `key=value`, one level or several, whose names are columns of the files below."""

from urllib.parse import unquote

from storage.errors import InputError
from storage.sources.paths import SourcePath

MISSING = "__HIVE_DEFAULT_PARTITION__"
"""The value that stands for none."""


def partitions(root: SourcePath) -> dict[SourcePath, dict[str, str | float | None]]:
    """The files below folders named `key=value`, in order of name, with the values of their
    folders; none where the folder has no such folders.

    A key whose values are all numbers is a column of numbers.
    """
    found = _below(root, {})
    if not any(values for _, values in found):
        return {}
    keys = set(found[0][1])
    for file, values in found:
        if set(values) != keys:
            raise InputError(
                f"{file.name}: lies in folders {sorted(values)}, {found[0][0].name} in "
                f"{sorted(keys)}; give one table"
            )
    numeric = {key for key in keys if all(_is_number(values[key]) for _, values in found)}
    return {
        file: {key: _value(raw, key in numeric) for key, raw in values.items()}
        for file, values in found
    }


def _below(folder: SourcePath, values: dict[str, str]) -> list[tuple[SourcePath, dict[str, str]]]:
    found = []
    for child, is_folder in folder.entries():
        key, equals, value = child.basename.partition("=")
        if child.basename[:1] in "._":
            continue
        if not is_folder:
            found.append((child, values))
        elif equals:
            found += _below(child, {**values, unquote(key): unquote(value)})
    return found


def _is_number(raw: str) -> bool:
    try:
        float(raw)
    except ValueError:
        return raw == MISSING
    return "_" not in raw


def _value(raw: str, numeric: bool) -> str | float | None:
    if raw == MISSING:
        return None
    return float(raw) if numeric else raw
