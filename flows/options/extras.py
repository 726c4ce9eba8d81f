"""Packages that a small installation is without, by the extra that brings them."""

import sys
from importlib.util import find_spec

from storage.errors import InputError

EXTRAS = {
    "flows": (
        *("pydantic", "dask", "distributed", "bokeh", "cryptography", "zarr", "xarray", "pyarrow"),
        *("fsspec", "google_crc32c", "psutil", "rich", "fastapi", "uvicorn"),
        *("jinja2", "markupsafe"),
    ),
    "prefect": ("prefect", "sqlalchemy"),
    "report": ("matplotlib",),
}
"""What is imported of each extra of pyproject.toml."""


class MissingExtra(InputError, ImportError):
    """An extra is asked for that is not installed."""


def needs(extra: str, what: str) -> None:
    """Refuse `what` where a package of its extra is not installed.

    Raises `MissingExtra`, whose message says what to install.
    """
    for name in EXTRAS[extra]:
        if sys.modules.get(name) is None and find_spec(name) is None:
            raise MissingExtra(
                f'{what} needs {name}, which is not installed: pip install "knnoise[{extra}]"'
            )
