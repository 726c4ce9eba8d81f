"""A Prefect server as an operator starts one: its own process, database and password."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from processes import running, wait_for

from flows.cli import main

ROOT = Path(__file__).parents[1]
POOL = "knnoise"


@dataclass(frozen=True)
class Prefect:
    """A server, and its command line."""

    folder: Path
    env: dict[str, str]

    def call(self, *args: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`python -m ARGS` from the root of the checkout, as a user of this server."""
        done = subprocess.run(
            [sys.executable, "-m", *map(str, args)],
            env=self.env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def knnoise(self, *args: object) -> dict[str, Any]:
        """What a command prints as JSON."""
        status, out, err = self.here(*args, "--json")
        assert status == 0, err
        return dict(json.loads(out))

    def here(self, *args: object) -> tuple[int, str, str]:
        """Exit status, output and errors of a knnoise command in this process, as a user of this
        server."""
        out, err = io.StringIO(), io.StringIO()
        with self.settings(), redirect_stdout(out), redirect_stderr(err):
            status = main([str(arg) for arg in args])
        return status, out.getvalue(), err.getvalue()

    def settings(self) -> AbstractContextManager[object]:
        """This process is a user of this server meanwhile."""
        auth, url = self.env["PREFECT_API_AUTH_STRING"], self.env["PREFECT_API_URL"]
        return temporary_settings({PREFECT_API_AUTH_STRING: auth, PREFECT_API_URL: url})

    def deploy(self) -> None:
        """The deployments of deploy/prefect.yaml, in pools as `prefect work-pool create` makes
        them: with the templates of their types, but ours for Kubernetes."""
        packages = self.ask("collections/views/aggregate-worker-metadata").values()
        made = {name: found for types in packages for name, found in types.items()}
        ours = json.loads((ROOT / "deploy" / "k8s" / "job-template.json").read_text())
        for kind in ("process", "docker", "kubernetes"):
            base = ours if kind == "kubernetes" else made[kind]["default_base_job_configuration"]
            name = POOL if kind == "process" else f"{POOL}-{kind}"
            self.ask("work_pools/", {"name": name, "type": kind, "base_job_template": base})
        file = ROOT / "deploy" / "prefect.yaml"
        self.call("prefect", "--no-prompt", "deploy", "--prefect-file", file, "--all")

    def copy(self, like: str, name: str, **changes: Any) -> str:
        """The id of a new deployment: one like another, without its schedules, but for changes."""
        (found,) = self.ask("deployments/filter", {"deployments": {"name": {"any_": [like]}}})
        kept = ("flow_id", "entrypoint", "path", "pull_steps", "tags", "parameters")
        kept += ("enforce_parameter_schema", "parameter_openapi_schema", "concurrency_options")
        kept += ("work_pool_name", "job_variables")
        limit = found["global_concurrency_limit"]["limit"]
        new = {field: found[field] for field in kept} | {"concurrency_limit": limit}
        return str(self.ask("deployments/", {**new, "name": name, **changes})["id"])

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """A worker of the process pool."""
        start = ("-m", "prefect", "worker", "start", "--pool", POOL)
        with running(*start, log=self.folder / "worker.log", env=self.env) as process:
            yield process

    def flow_runs(self) -> list[dict[str, Any]]:
        """All flow runs the server knows."""
        return list(self.ask("flow_runs/filter", {}))

    def flow_run(self, run_id: str) -> dict[str, Any]:
        (found,) = self.ask("flow_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
        return dict(found)

    def wait(self, run_id: str, *states: str, seconds: float = 180) -> None:
        """Wait until a flow run is in one of some states."""
        wait_for(lambda: self.flow_run(run_id)["state_name"] in states, seconds, every=1.0)

    def log(self, run_id: str) -> str:
        """What a flow run logged."""
        wanted = {"logs": {"flow_run_id": {"any_": [run_id]}}, "limit": 200}
        return "\n".join(line["message"] for line in self.ask("logs/filter", wanted))

    def ask(self, path: str, content: dict[str, Any] | None = None) -> Any:
        """What the server's API answers to a POST, or without content to a GET; 503, which it says
        while its database is locked, asks for another try, as Prefect's own client makes it."""
        user, password = self.env["PREFECT_API_AUTH_STRING"].split(":")
        manager = urllib.request.HTTPPasswordMgrWithPriorAuth()
        url = self.env["PREFECT_API_URL"]
        manager.add_password(None, url, user, password, is_authenticated=True)
        opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager))
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(
            f"{url}/{path}", body, {"Content-Type": "application/json"}
        )
        for tries_left in reversed(range(5)):
            try:
                with opener.open(request, timeout=60) as answer:
                    return json.loads(answer.read() or "null")
            except HTTPError as error:
                if error.code != 503 or not tries_left:
                    raise
                time.sleep(1.0)


def free_port() -> int:
    """A port of this host that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(folder: Path, port: int, **more: str) -> dict[str, str]:
    """For a server at a port and its clients, with a password and a database of their own."""
    clean = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
    return {
        **clean,
        "PYTHONPATH": str(ROOT),
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_API_AUTH_STRING": "knnoise:in-tests",
        "PREFECT_SERVER_API_AUTH_STRING": "knnoise:in-tests",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_WORKER_QUERY_SECONDS": "2",  # not the usual 10 and 30: tests do not wait
        "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "2",
        "DO_NOT_TRACK": "1",
        **more,
    }


@contextmanager
def serving(server: Prefect) -> Iterator[subprocess.Popen[bytes]]:
    """The server's process, once it answers."""
    port = server.env["PREFECT_API_URL"].rsplit(":", 1)[1].split("/")[0]
    start = ("-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port)
    with running(*start, log=server.folder / "server.log", env=server.env) as process:
        wait_for(lambda: answers(int(port)), 180, every=0.5)
        yield process


def answers(port: int) -> bool:
    """Whether a server is up on a port of this host."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)):
            return False
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=30) as answer:
        return bool(answer.status == 200)
