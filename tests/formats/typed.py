"""`make formats`: the keywords of Python's functions as types, written from the parameters."""

from __future__ import annotations

import textwrap
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from flows.options import params

FILE = Path(__file__).parents[2] / "knnoise" / "options.py"
GIVEN = {
    "Train": ("source", "run"),
    "Score": ("source", "run", "out"),
    "Check": ("source",),
    "Clean": ("source", "run", "out"),
    "Certify": ("run",),
    "Review": ("run",),
    "Acquire": ("source", "run"),
}
"""By the name of a flow what its function has as parameters of its own."""
OF_ANY_TYPE = {"labels", "annotations"}


def rendered() -> str:
    """The module."""
    lines = [
        '"""Keywords of `knnoise.train` and the like, for editors and type checkers; written by',
        '`make formats` from the parameters of the command line, where each is described."""',
        "",
        "from typing import Any, Literal, TypedDict",
    ]
    flows = {name: getattr(params, f"{name}Params") for name in GIVEN}
    above = [base for flow in flows.values() for base in flow.__mro__[1:]]
    shared = [base for base in dict.fromkeys(above) if above.count(base) > 1 and _fields(base)]
    for base in shared:
        lines += _class(base.__name__, [], f"{base.heading}, of several commands.", _fields(base))
    for name, own in GIVEN.items():
        bases = [base for base in shared if issubclass(flows[name], base)]
        apart = {*own, *(field for base in bases for field in _fields(base))}
        fields = {key: of for key, of in flows[name].model_fields.items() if key not in apart}
        names = [base.__name__ for base in bases]
        lines += _class(name, names, f"Of `knnoise {name.lower()}`.", fields)
    return "\n".join(lines) + "\n"


def _fields(base: Any) -> dict[str, Any]:
    """Those of its own that are keywords."""
    fields = getattr(base, "model_fields", {}).items()
    return {key: of for key, of in fields if key in base.__annotations__ and key != "source"}


def _class(name: str, bases: list[str], text: str, fields: dict[str, Any]) -> list[str]:
    above = ", ".join(f"{base}Options" for base in bases) or "TypedDict"
    head = f"class {name}Options({above}, total=False):"
    if len(head) > 100:  # as the formatter has it
        head = f"class {name}Options(\n    {above}, total=False\n):"
    lines = ["", "", head, f'    """{text}"""']
    lines += [""] if fields else []
    for field, info in fields.items():
        kind = "Any" if field in OF_ANY_TYPE else _type(info.annotation)
        lines.append(_wrapped(f"    {field}: {kind}"))
    return lines


def _wrapped(line: str) -> str:
    """As the formatter has it."""
    if len(line) <= 100:
        return line
    name, _, values = line.partition("Literal[")
    values = textwrap.indent(",\n".join(values.rstrip("]").split(", ")), " " * 8)
    return f"{name}Literal[\n{values},\n    ]"


def _type(found: Any) -> str:
    if get_origin(found) is Annotated:
        return _type(get_args(found)[0])
    if get_origin(found) in (Union, UnionType):
        return " | ".join(map(_type, get_args(found)))
    if get_origin(found) is Literal:
        return f"Literal[{', '.join(f'{chr(34)}{value}{chr(34)}' for value in get_args(found))}]"
    if get_origin(found) is list:
        return f"list[{_type(*get_args(found))}]"
    return "None" if found is NoneType else str(found.__name__)


if __name__ == "__main__":
    FILE.write_text(rendered())
