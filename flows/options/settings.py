"""Options of a command in a TOML file: read, and written of a run."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

from storage.errors import InputError, did_you_mean, reason_of

LONGEST = 1 << 20
"""Bytes of a file of options."""


def read_settings(path: str, command: str, known: Mapping[str, bool]) -> dict[str, Any]:
    """The options for one command: those of its table, such as `[train]`, and those outside any.

    known : the options of the command, and whether each is a list

    Raises
    ------
    InputError
        the file cannot be read, or the command has no such option; the message names it.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise InputError(f"--config {path}: over {LONGEST:,} bytes; give a file of options")
        content = tomllib.loads(text.decode())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"--config {path}: {reason_of(error)}") from error
    tables = {key: value for key, value in content.items() if isinstance(value, dict)}
    outside = _spelled({key: value for key, value in content.items() if key not in tables})
    shared = {key: value for key, value in outside.items() if key in known}
    own = _spelled(tables.get(command, {}))
    for table, keys in ((f"[{command}] ", own), ("", {} if tables else outside)):
        for key in keys:
            if key not in known:
                more = did_you_mean(key, known)
                raise InputError(f"--config {path}: {table}{key}: there is no such option{more}")
    values = {**shared, **own}
    return {
        key: [value] if known[key] and not isinstance(value, list) else value
        for key, value in values.items()
    }


def _spelled(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("-", "_"): value for key, value in table.items()}


def settings_text(parameters: Mapping[str, Any], label_name: str | None) -> str:
    """The settings of a training as a TOML file that trains alike."""
    given = {key: value for key, value in parameters.items() if value is not None}
    if label_name is not None:
        given = {"label_column": label_name, **given}
    # TOML has text, numbers, truth and lists as JSON writes them
    lines = [f"{key.replace('_', '-')} = {json.dumps(value)}" for key, value in given.items()]
    return "\n".join(["[train]", *lines]) + "\n"
