"""A Dask cluster of separate processes, by address and encrypted; one of its workers is killed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen

import pytest
from certificates import Certificates, issue
from distributed import Client
from faults import committed, kill_tree, running, wait_for
from runs import PoolWriter, fit, results

from flows.security import Tls
from storage import ClusterError, InputError

OPTIONS = ("--k", "10", "--block-rows", "250", "--builder", "exact")  # compiles nothing


@contextmanager
def encrypted_cluster(
    folder: Path, pem: Certificates, n_workers: int
) -> Iterator[tuple[str, list[Popen[bytes]]]]:
    """A scheduler and workers, each a process of its own; the address, and the workers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address, tls = f"tls://127.0.0.1:{port}", pem.options("tls-ca-file")
    scheduler = ("-m", "distributed.cli.dask_scheduler", "--protocol", "tls", "--port", port)
    worker = ("-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard")
    local = ("--host", "127.0.0.1")
    with ExitStack() as stack:
        dashboard = ("--dashboard-address", "127.0.0.1:0")
        stack.enter_context(
            running(*scheduler, *local, *dashboard, *tls, log=folder / "scheduler.log")
        )
        workers = [
            stack.enter_context(
                running(
                    *(*worker, *local, *tls),
                    *("--local-directory", folder / f"worker-{i}"),
                    log=folder / f"worker-{i}.log",
                )
            )
            for i in range(n_workers)
        ]
        security = Tls(str(pem.ca), str(pem.cert), str(pem.key)).security()
        with Client(address, timeout="60s", security=security, set_as_default=False) as client:
            client.wait_for_workers(n_workers, timeout=240)
        yield address, workers


def test_worker_killed_on_an_encrypted_cluster(pool: PoolWriter, tmp_path: Path) -> None:
    source, run, pem = pool(8000, d=8), tmp_path / "run", issue(tmp_path / "tls")
    fit(source, tmp_path / "undisturbed", block_rows=250, builder="exact")
    with encrypted_cluster(tmp_path, pem, 3) as (address, workers):
        where = ("--scheduler", address, *pem.options("tls-ca"))
        train = ("-m", "flows.cli", "train", source, "--run", run, *OPTIONS, *where)
        with running(*train, log=tmp_path / "run.log") as process:
            wait_for(lambda: committed(run, "neighbours") >= 1)
            kill_tree(workers[0].pid)  # with its nanny: it does not come back
            assert process.wait(240) == 0, (tmp_path / "run.log").read_text()
        stranger = issue(tmp_path / "stranger")
        with pytest.raises(ClusterError, match="no Dask cluster"):
            fit(
                source,
                tmp_path / "refused",
                workers=None,
                scheduler=address,
                tls_ca=str(stranger.ca),
                tls_cert=str(stranger.cert),
                tls_key=str(stranger.key),
            )
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
