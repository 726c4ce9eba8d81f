"""A Prefect server as an operator starts one: its own process, database and password."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import yaml
from processes import running, wait_for

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
        found: dict[str, Any] = json.loads(self.call("flows.cli", *args, "--json").stdout)
        return found

    def deploy(
        self, names: dict[str, str], *, own: Mapping[str, dict[str, Any]] = {}, **changes: Any
    ) -> None:
        """Deployments by name, each like one of deploy/prefect.yaml but for some changes: those of
        all, and its own."""
        config = yaml.safe_load((ROOT / "deploy" / "prefect.yaml").read_text())
        entries = {entry["name"]: entry for entry in config["deployments"]}
        config["deployments"] = [
            {**entries[like], "name": name, **changes, **own.get(name, {})}
            for name, like in names.items()
        ]
        file = self.folder / f"{next(iter(names))}.yaml"
        file.write_text(yaml.safe_dump(config))
        self.call("prefect", "--no-prompt", "deploy", "--prefect-file", file, "--all")

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """A worker of the process pool."""
        start = ("-m", "prefect", "worker", "start", "--pool", POOL)
        with running(*start, log=self.folder / "worker.log", env=self.env) as process:
            yield process

    def flow_runs(self) -> list[dict[str, Any]]:
        """All flow runs the server knows."""
        return list(self.post("flow_runs/filter", {}))

    def flow_run(self, run_id: str) -> dict[str, Any]:
        (found,) = self.post("flow_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
        return dict(found)

    def wait(self, run_id: str, *states: str, seconds: float = 180) -> None:
        """Wait until a flow run is in one of some states."""
        wait_for(lambda: self.flow_run(run_id)["state_name"] in states, seconds, every=1.0)

    def log(self, run_id: str) -> str:
        """What a flow run logged."""
        wanted = {"logs": {"flow_run_id": {"any_": [run_id]}}, "limit": 200}
        return "\n".join(line["message"] for line in self.post("logs/filter", wanted))

    def post(self, path: str, content: dict[str, Any]) -> Any:
        """What the server's API answers; 503, which it says while its database is locked, asks for
        another try, as Prefect's own client makes it."""
        user, password = self.env["PREFECT_API_AUTH_STRING"].split(":")
        manager = urllib.request.HTTPPasswordMgrWithPriorAuth()
        url = self.env["PREFECT_API_URL"]
        manager.add_password(None, url, user, password, is_authenticated=True)
        opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager))
        request = urllib.request.Request(
            f"{url}/{path}", json.dumps(content).encode(), {"Content-Type": "application/json"}
        )
        for tries_left in reversed(range(5)):
            try:
                with opener.open(request, timeout=60) as answer:
                    return json.load(answer)
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
