"""What run.json says: parameters, source and versions, compared when a run is resumed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

from flows.intake.health import Health
from flows.options.params import Method
from storage.errors import InputError
from storage.sources.base import Source, same
from storage.version import VERSION

RECORDED = ("numpy", "pynndescent", "zarr")
"""Packages besides ours whose versions are recorded with a run."""


def describe(
    params: Mapping[str, Any], source: Source, health: Health | None = None
) -> dict[str, Any]:
    """The content of run.json; `health` is what a look at the source found."""
    return {
        "parameters": dict(params),
        "source": source.fingerprint(with_digest=True),
        "label_name": source.label_name,
        "feature_names": list(source.feature_names),
        **({} if source.id_name is None else {"id_name": source.id_name}),
        **({} if health is None else {"health": health.model_dump(mode="json")}),
        **({} if source.coding.as_json() is None else {"coding": source.coding.as_json()}),
        "versions": {
            "knnoise": VERSION,
            **{name: importlib.metadata.version(name) for name in RECORDED},
        },
    }


def defaults() -> dict[str, Any]:
    """The default of each parameter that decides the results."""
    return {name: field.get_default() for name, field in Method.model_fields.items()}


def check_same(
    before: Mapping[str, Any],
    params: Mapping[str, Any],
    default: Mapping[str, Any],
    source: Source,
) -> None:
    """Raise `InputError` naming what differs from the run being resumed.

    default : what a parameter counts as in a run that was begun before there was such a one
    """
    old = {**default, **before["parameters"]}
    unknown = [name for name in old if name not in params]
    if unknown and before["versions"]["knnoise"] == VERSION:
        raise InputError("the run was begun by another command; use another --run folder")
    if unknown:
        raise InputError(
            f"the run was begun with parameters that this version does not know "
            f"({', '.join(unknown)}), by knnoise {before['versions']['knnoise']}; use that version"
        )
    differing = [
        f"{name} was {_shown(old.get(name))} and is {_shown(value)}"
        for name, value in params.items()
        if old.get(name) != value
    ]
    if before["label_name"] != source.label_name:
        differing.append(f"labels were {before['label_name']!r} and are {source.label_name!r}")
    changed = same(before["source"], source)
    if changed:
        differing.append(changed)
    if differing:
        raise InputError(
            f"the run was begun otherwise: {'; '.join(differing)}; use another --run folder"
        )


def _shown(value: object) -> str:
    return "not given" if value is None else repr(value)
