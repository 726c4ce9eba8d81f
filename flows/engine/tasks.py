"""Steps as tasks of Prefect, where a flow run of it is under way, and as plain calls elsewhere; it
is not imported to find out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from flows.options.extras import needs
from storage.errors import InputError, reason_of

if TYPE_CHECKING:
    from prefect.context import FlowRunContext

T = TypeVar("T")


def as_task(name: str, call: Callable[[], T]) -> T:
    """One Prefect task for a step; without a flow run just the call.

    The call takes no arguments: Prefect looks into arguments, and a job is not for it to look into.
    """
    if flow_run_context() is None:
        return call()
    from prefect import task
    from prefect.cache_policies import NO_CACHE

    from flows.engine.under_prefect import redacted_errors, step_limits

    def redacted() -> T:
        with redacted_errors():
            return call()

    step = task(name=name, cache_policy=NO_CACHE, persist_result=False, **step_limits())(redacted)
    return step()


def flow_run_context() -> FlowRunContext | None:
    """The flow run under way; None outside one, which it is for sure if nobody imported Prefect."""
    if "prefect.context" not in sys.modules:
        return None
    from prefect.context import FlowRunContext

    return FlowRunContext.get()


def server_configured() -> bool:
    """True where the environment or a profile names a Prefect server.

    Raises `MissingExtra` where the environment does, and Prefect is not installed; `InputError`
    where the settings of Prefect are none, or the file of its profiles cannot be read.
    """
    if sys.modules.get("prefect") is None and find_spec("prefect") is None:
        if os.environ.get("PREFECT_API_URL"):
            needs("prefect", "PREFECT_API_URL")
        return False
    if "prefect" not in sys.modules:
        if not _settings_anywhere():
            return False
        check_profiles()
    try:
        from prefect.settings import PREFECT_API_URL

        url = PREFECT_API_URL.value()
        urlsplit(url or "").port  # noqa: B018
    except ValueError as error:  # pydantic's are such
        raise InputError(
            f"Prefect's settings cannot be used ({reason_of(error)}); mend PREFECT_API_URL, or "
            "what else of Prefect the environment or a profile sets"
        ) from error
    return bool(url)


def _settings_anywhere() -> bool:
    """Whether there is any place in which Prefect would look for an address."""
    if any(name.startswith("PREFECT_API") or name == "PREFECT_PROFILE" for name in os.environ):
        return True
    files = (_profiles(), Path(".env"), Path("prefect.toml"))
    return any(_speaks_of_prefect(file) for file in files) or _table_of_prefect()


def _profiles() -> Path:
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    return Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml"))


def check_profiles() -> None:
    """Refuse profiles that cannot be read: an import of Prefect fails, and does not say which."""
    import tomllib

    file = _profiles()
    try:
        if file.exists():
            dict(tomllib.loads(file.read_text("utf-8")).get("profiles", {}))
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{file}: Prefect cannot read its profiles ({reason_of(error)}); mend or remove it"
        ) from error


def _speaks_of_prefect(file: Path) -> bool:
    try:
        return file.is_file() and "prefect" in file.read_text("utf-8", "replace").lower()
    except OSError:  # somebody else's
        return False


def _table_of_prefect() -> bool:
    """Whether pyproject.toml, which names Prefect as soon as a project depends on it, has a table
    of Prefect's settings; left to Prefect where it cannot be read."""
    file = Path("pyproject.toml")
    if not _speaks_of_prefect(file):
        return False
    import tomllib

    try:
        tool = tomllib.loads(file.read_text("utf-8")).get("tool", {})
    except (ValueError, RecursionError):
        return True
    return not isinstance(tool, dict) or "prefect" in tool
