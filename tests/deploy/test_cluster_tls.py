"""The Dask cluster of deploy/compose.yaml as processes here, by address and encrypted; one of its
workers is killed."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple

import pytest
import yaml
from distributed import Client, Security
from prefect_service import ROOT
from processes import committed, kill_tree, running, wait_for
from runs import AS_IN_FIT, PoolWriter, fit, results

from flows.engine.cluster import check_reachable
from flows.options.params import TrainParams
from storage import ClusterError, InputError

OPTIONS = ("--k", "10", "--block-rows", "250", "--builder", "exact")  # compiles nothing


class Tls(NamedTuple):
    """PEM files."""

    ca: str
    cert: str
    key: str


def issue(folder: Path) -> Tls:
    """Certificates as deploy/certificates.py makes them."""
    subprocess.run([sys.executable, ROOT / "deploy" / "certificates.py", folder], check=True)
    assert (folder / "key.pem").stat().st_mode & 0o077 == 0
    return Tls(*(str(folder / name) for name in ("ca.pem", "cert.pem", "key.pem")))


def service(name: str, port: int, tls: Path, local: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """Command and environment of a service of the compose file, on this host."""
    found = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"][name]

    def here(text: Any) -> str:
        shown = (
            str(text).replace("/tls", str(tls)).replace("dask-scheduler:8786", f"127.0.0.1:{port}")
        )
        shown = shown.replace("${DASK_WORKERS:-2}", "1").replace("=/tmp", f"={local}")
        return {"8786": str(port), ":8787": "127.0.0.1:0"}.get(shown, shown)

    command = [here(part) for part in found["command"]]
    env = {name: here(value) for name, value in found["environment"].items()}
    return ("-m", *command, "--host", "127.0.0.1"), {**os.environ, **env, "PYTHONPATH": str(ROOT)}


@contextmanager
def encrypted_cluster(
    folder: Path, tls: Tls, n_workers: int
) -> Iterator[tuple[str, list[Popen[bytes]]]]:
    """A scheduler and workers, each a process of its own; the address, and the workers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address, pem = f"tls://127.0.0.1:{port}", folder / "tls"
    with ExitStack() as stack:
        command, env = service("dask-scheduler", port, pem, folder)
        stack.enter_context(running(*command, log=folder / "scheduler.log", env=env))
        workers = []
        for i in range(n_workers):
            command, env = service("dask-worker", port, pem, folder / f"worker-{i}")
            log = folder / f"worker-{i}.log"
            workers.append(stack.enter_context(running(*command, log=log, env=env)))
        security = Security(
            require_encryption=True,
            tls_ca_file=tls.ca,
            tls_client_cert=tls.cert,
            tls_client_key=tls.key,
        )
        with Client(address, timeout="60s", security=security, set_as_default=False) as client:
            client.wait_for_workers(n_workers, timeout=240)
            assert all(worker.startswith("tls://") for worker in client.scheduler_info()["workers"])
        yield address, workers


def test_worker_killed_on_an_encrypted_cluster(pool: PoolWriter, tmp_path: Path) -> None:
    source, run, tls = pool(3000, d=8), tmp_path / "run", issue(tmp_path / "tls")
    fit(source, tmp_path / "undisturbed", block_rows=250, builder="exact")
    with encrypted_cluster(tmp_path, tls, 2) as (address, workers):
        pem = ("--tls-ca", tls.ca, "--tls-cert", tls.cert, "--tls-key", tls.key)
        train = ("-m", "flows.cli", "train", source, "--run", run, *OPTIONS, *AS_IN_FIT)
        with running(*train, "--scheduler", address, *pem, log=tmp_path / "run.log") as process:
            wait_for(lambda: committed(run, "neighbors") >= 1)
            kill_tree(workers[0].pid)  # with its nanny: it does not come back
            assert process.wait(240) == 0, (tmp_path / "run.log").read_text()
        stranger = issue(tmp_path / "stranger")
        more = {"tls_ca": stranger.ca, "tls_cert": stranger.cert, "tls_key": stranger.key}
        with pytest.raises(ClusterError, match="no Dask cluster"):
            fit(source, tmp_path / "refused", workers=None, scheduler=address, **more)
    assert results(run) == results(tmp_path / "undisturbed")


@pytest.mark.parametrize("address", ["tcp://192.0.2.1:8786", "192.0.2.1:8786", "ws://host:1"])
def test_open_address_is_refused(pool: PoolWriter, tmp_path: Path, address: str) -> None:
    with pytest.raises(InputError, match="not encrypted"):
        fit(pool(), tmp_path / "run", workers=None, scheduler=address)
    assert not (tmp_path / "run").exists()


def test_certificates_that_are_not_there(pool: PoolWriter, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="belong together"):
        fit(pool(), tmp_path / "run", tls_ca="ca.pem")
    with pytest.raises(InputError, match="no such file"):
        fit(pool(), tmp_path / "run", tls_ca="ca.pem", tls_cert="cert.pem")
    with pytest.raises(InputError, match=":9: give --tls-ca, --tls-cert and --tls"):
        fit(pool(), tmp_path / "run", workers=None, scheduler="tls://127.0.0.1:9")


def test_files_that_are_something_else_are_named(tmp_path: Path) -> None:
    (ca, cert, key), other = issue(tmp_path / "tls"), issue(tmp_path / "other")
    damaged = tmp_path / "damaged.pem"
    damaged.write_text(Path(ca).read_text()[:200])
    cases = {
        f"--tls-cert {key}: holds no certificate in PEM": (ca, key, cert),
        f"--tls-ca {key}: holds no certificate in PEM": (key, cert, ca),
        f"--tls-key {ca}: holds no private key in PEM": (ca, cert, ca),
        f"--tls-ca {damaged}: is damaged": (str(damaged), cert, key),
        f"--tls-cert {cert}: does not belong to the private key of {other.key}": (
            *(ca, cert, other.key),
        ),
    }
    for message, files in cases.items():
        names = zip(("tls_ca", "tls_cert", "tls_key"), files, strict=True)
        with pytest.raises(InputError, match=f"^{re.escape(message)}"):
            check_reachable(TrainParams.of("pool.npz", "run", **dict(names)))
    check_reachable(TrainParams.of("pool.npz", "run", tls_ca=ca, tls_cert=cert, tls_key=key))


def test_good_certificates_are_kept(tmp_path: Path) -> None:
    first = Path(str(issue(tmp_path / "tls").cert)).read_bytes()
    assert Path(str(issue(tmp_path / "tls").cert)).read_bytes() == first


def test_a_certificate_is_for_addresses_and_for_clients_that_are_strict(tmp_path: Path) -> None:
    """As those of Python 3.13 are."""
    make = [sys.executable, ROOT / "deploy" / "certificates.py", tmp_path, "--host"]
    subprocess.run([*make, "127.0.0.1"], check=True)
    client = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(back, there, server_hostname="127.0.0.1")
    for side in [near, server.wrap_bio(there, back, server_side=True)] * 3:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert near.version() == "TLSv1.3"
    done = subprocess.run([*make, "other"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{tmp_path}/cert.pem: is not for other; remove it, run again")
