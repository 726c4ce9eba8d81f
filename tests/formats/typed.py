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
OF_ANY_TYPE = {"labels"}


def rendered() -> str:
    """The module."""
    lines = [
        '"""Keywords of `knnoise.train` and the like, for editors and type checkers; written by',
        '`make formats` from the parameters of the command line."""',
        "",
        "from typing import Any, Literal, TypedDict",
    ]
    for name, own in GIVEN.items():
        lines += ["", "", f"class {name}Options(TypedDict, total=False):"]
        lines += [f'    """Of `knnoise {name.lower()}`."""', ""]
        for field, info in getattr(params, f"{name}Params").model_fields.items():
            if field not in own:
                kind = "Any" if field in OF_ANY_TYPE else _type(info.annotation)
                lines.append(_wrapped(f"    {field}: {kind}"))
                text = params.described(info)
                lines += textwrap.wrap(
                    f'"""{text}"""',
                    98,
                    initial_indent="    ",
                    subsequent_indent="    ",
                    break_on_hyphens=False,
                )
    return "\n".join(lines) + "\n"


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
