"""Modules planted in a folder, named like those that programs import."""

from __future__ import annotations

import sys
from pathlib import Path

LIBRARIES = ("numpy", "zarr", "dask", "distributed", "numba", "fsspec", "pyarrow", "prefect")
LIBRARIES += ("uvicorn", "flows", "pipeline", "storage", "sitecustomize", "usercustomize")


def plant(folder: Path) -> Path:
    """Plant a module for each name of the standard library and of ours; each that is imported
    adds its name to the file returned.
    """
    mark = folder / "imported.txt"
    code = f"with open({str(mark)!r}, 'a') as file:\n    print(__name__, file=file)\n"
    for name in (*sys.stdlib_module_names, *LIBRARIES):
        (folder / f"{name}.py").write_text(code)
    return mark
