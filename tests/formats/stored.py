"""A fingerprint of every type that reaches disk, a line each; `make formats` confirms a change.

Runs of a format that was released must be read as they were written: of such a format nothing is
confirmed, and FORMAT_VERSION in storage/version.py has to be raised first.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, fields
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from pydantic import TypeAdapter

HERE = Path(__file__).parent
FILE = HERE / "stored.txt"


def fingerprint() -> list[str]:
    """The format, then each type and a digest of its fields."""
    from storage.version import FORMAT_VERSION

    told: dict[str, list[str]] = defaultdict(list)
    for name, about in _types():
        told[name].append(json.dumps(about, sort_keys=True, default=str))
    lines = []
    for name in sorted(told):  # two modules may have a type of one name
        content = "\n".join(sorted(told[name])).encode()
        lines.append(f"{name} {blake2b(content, digest_size=6).hexdigest()}")
    return [f"format {FORMAT_VERSION}", *lines]


def _types() -> Iterator[tuple[str, Any]]:
    """Name and fields of every type: of results and reports, of records and answers, of arrays."""
    import flows
    from flows.report.model import RunConfig, Saved
    from flows.steps.queries.searching import Scored
    from storage import answers
    from storage.arrays import schema
    from storage.runs import ledger

    names = [module.name for module in pkgutil.walk_packages(flows.__path__, "flows.")]
    results = [kind for name in names for kind in _read_in(importlib.import_module(name))]
    for kind in {*results, Scored, *_below(Scored), *_below(Saved), RunConfig}:
        name = str(kind) if get_args(kind) else kind.__name__
        yield name, _bare(TypeAdapter(kind).json_schema(mode="serialization"))
    for kind in (ledger.Record, answers.Origin, answers.Asked, answers.Answer):
        yield kind.__name__, [(field.name, str(field.type)) for field in fields(kind)]
    for name, columns in schema.GROUPS.items():
        about = {key: asdict(column) for key, column in columns.items()}
        yield f"arrays.{name}", _bare(about)


def _read_in(module: ModuleType) -> Iterator[Any]:
    """The kinds that a module reads results of parts as, which it names last where it does so."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            kind = ast.unparse(node.args[-1])
            if called in ("result_of", "result", "left") and kind not in (
                "kind",
                "model.rule.counted",
            ):
                yield eval(kind, vars(module))


def _below(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def _bare(told: Any) -> Any:
    """A schema without the words that are there for people."""
    if isinstance(told, dict):
        words = ("title", "description")
        return {
            key: _bare(value)
            for key, value in told.items()
            if not (key in words and isinstance(value, str))
        }
    return [_bare(value) for value in told] if isinstance(told, list) else told


def released() -> dict[str, int]:
    """The kept runs, and the format of each."""
    found = {}
    for kept in sorted(HERE.glob("*.tar.xz")):
        with tarfile.open(kept) as runs:
            content = runs.extractfile("two/run.json")
            assert content is not None
            found[kept.name.removesuffix(".tar.xz")] = json.load(content)["format_version"]
    return found


def main() -> int:
    """Confirm what reaches disk, unless its format was released."""
    from storage.version import FORMAT_VERSION

    old, new = FILE.read_text().splitlines() if FILE.exists() else [], fingerprint()
    if old != new and FORMAT_VERSION in released().values():
        print(f"format {FORMAT_VERSION} was released: raise it in storage/version.py, then confirm")
        return 1
    FILE.write_text("\n".join(new) + "\n")
    print(f"{FILE.name}: {len(set(new) - set(old))} lines changed; commit it with the change")
    return 0


if __name__ == "__main__":
    sys.exit(main())
