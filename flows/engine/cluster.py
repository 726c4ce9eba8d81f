"""The Dask cluster of a run: one given by address, to which all is encrypted, a local one of
processes, or none; and Dask's performance report of what it does, on demand."""

from __future__ import annotations

import ipaddress
import logging
import multiprocessing
import os
import signal
import ssl
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flows.engine.parts import FIRST, other_version
from flows.engine.progress import Reporter, error_text
from flows.engine.spared import IMPORTED, MESSAGE
from flows.options.params import Compute
from pipeline.knn.threads import Process
from storage.errors import ClusterError, InputError, KnnoiseError
from storage.files.location import Location
from storage.redaction import without_known
from storage.version import VERSION

if TYPE_CHECKING:
    from distributed import Client, LocalCluster, Security

_CLOSED = ("tls", "wss", "inproc")
"""Schemes of Dask addresses that nobody on the network can read or write."""
_HELP = "see Encryption in docs/use/operations.md"


def check_encrypted(address: str) -> None:
    """Refuse an address whose traffic would leave this host in the clear.

    Whoever reads or changes it on the way has the data, and runs code on the workers. Dask's
    setting `distributed.comm.require-encryption: false` allows it, for a network one trusts.

    Raises `InputError` where the address is neither encrypted nor of this host.
    """
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme in _CLOSED or _is_loopback(parts.hostname or ""):
        return
    import dask

    if dask.config.get("distributed.comm.require-encryption", None) is not False:
        raise InputError(
            f"{address} is not encrypted, and anyone on the way could read the data or run code; "
            f"use a tls:// address, or set DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=false on a "
            f"network you trust; {_HELP}"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_WORTH_WORKERS = 60.0
"""Core seconds of work from which workers pay, on two to eight cores: starting them takes 4 and one
more a core, and a process holds less than all that its threads would."""

_GROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""Limits of the system's control groups, and of which of them this process is."""
_SHARE = 3
"""The memory of a machine, or of a worker, over that of a part that has its cores to itself."""

_own: dict[str, Security] = {}
"""Certificates of the local clusters of this process, by address; they exist in memory only."""
_LOCAL = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.comm.timeouts.connect": "60s",
    "distributed.worker.http.routes": [],  # pages of workers, which have no password
    # What is set in this process for workers: its own libraries would have one thread from then on,
    # and workers have it from their fork server.
    "distributed.nanny.pre-spawn-environ": {},
    # Every 10, 20 and 100 ms, as is usual, takes a tenth of a core from what is computed.
    "distributed.worker.profile.interval": "100ms",
    "distributed.admin.tick.interval": "500ms",
    "distributed.worker.memory.monitor-interval": "500ms",
}


def check_reachable(compute: Compute) -> None:
    """Raise `InputError` for PEM files that are missing or were forgotten, an encrypted address
    where there is no certificate to show, or data sent unprotected."""
    files = {"ca": compute.tls_ca, "cert": compute.tls_cert, "key": compute.tls_key}
    ca, cert, key = files.values()
    if (ca is None) != (cert is None) or (key is not None and cert is None):
        raise InputError("--tls-ca, --tls-cert and --tls-key belong together: give all or none")
    for option, name in files.items():
        if name is not None and not Path(name).is_file():
            raise InputError(f"--tls-{option} {name}: no such file; {_HELP}")
    if ca is not None and cert is not None:
        _check_pem(ca, cert, key or cert)
    address = address_of(compute)
    if address is None:
        return
    check_encrypted(address)
    if ca is None and address.startswith("tls://") and address not in _own:
        import dask

        if dask.config.get("distributed.comm.tls.ca-file", None) is None:
            raise InputError(f"{address}: give --tls-ca, --tls-cert and --tls-key; {_HELP}")


def _check_pem(ca: str, cert: str, key: str) -> None:
    """Raise `InputError` where OpenSSL takes files for something else, of which it names none."""
    certificate, private = "CERTIFICATE", "PRIVATE KEY"
    for option, name, what in (
        ("ca", ca, certificate),
        ("cert", cert, certificate),
        ("key", key, private),
    ):
        if f"{what}-----" not in Path(name).read_text(errors="replace"):
            other = private if what == certificate else certificate
            raise InputError(
                f"--tls-{option} {name}: holds no {what.lower()} in PEM; give that, not the "
                f"{other.lower()}; {_HELP}"
            )
    try:
        ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise InputError(f"--tls-ca {ca}: is damaged ({error}); {_HELP}") from error
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key)
    except ssl.SSLError as error:
        raise InputError(
            f"--tls-cert {cert}: does not belong to the private key of {key}, or one of them is "
            f"damaged ({error}); {_HELP}"
        ) from error


def _security(compute: Compute) -> Security | None:
    """The certificates by which this process and a scheduler know each other; None leaves them to
    Dask's configuration: `distributed.comm.tls` in its files, or
    DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ...__CLIENT__CERT and ...__CLIENT__KEY."""
    if compute.tls_ca is None:
        return None
    from distributed import Security

    return Security(
        require_encryption=True,
        tls_ca_file=compute.tls_ca,
        tls_client_cert=compute.tls_cert,
        tls_client_key=compute.tls_key,
    )


def address_of(compute: Compute) -> str | None:
    """Address of a running scheduler; None where a local cluster computes, or this process."""
    if compute.scheduler is None and compute.workers is None:
        return os.environ.get("DASK_SCHEDULER_ADDRESS") or None
    return compute.scheduler


def _limits(name: str, controller: str, groups: Path, own: Path) -> Iterator[str]:
    """What files of a name say in the groups that this process is in, its own and those around it:
    a container's, a job's, a service's. Groups of version 2 have no controller of their own."""
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller not in controllers.split(","):
                continue
            inner = Path(path.lstrip("/"))
            for group in (inner, *inner.parents):
                with suppress(OSError):  # a container may not see those around it
                    yield (groups / controller / group / name).read_text()


def n_cores(groups: Path = _GROUPS, own: Path = _OWN) -> int:
    """CPUs that this process may use at once, by its affinity and the quotas of its groups."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores, of = cores or 1, ("cpu", groups, own)
    older = zip(_limits("cpu.cfs_quota_us", *of), _limits("cpu.cfs_period_us", *of), strict=False)
    for quota in [*_limits("cpu.max", "", groups, own), *map(" ".join, older)]:
        with suppress(ValueError):
            most, period = map(int, quota.split())
            cores = max(1, min(cores, most // period)) if most > 0 else cores
    return cores


def machine_memory(groups: Path = _GROUPS, own: Path = _OWN) -> int:
    """Bytes of memory that this process may take, of its machine or of its groups."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    names = ("memory.max", ""), ("memory.limit_in_bytes", "memory")
    for limit in chain.from_iterable(_limits(*name, groups, own) for name in names):
        with suppress(ValueError):
            memory = min(memory, int(limit))
    return memory


@dataclass(frozen=True)
class Machine:
    """What one part may take that has a machine to itself."""

    threads: int
    memory: int
    """Bytes; 0 where no part has a machine to itself."""
    number: int = 1
    """Of such machines."""

    @staticmethod
    def here(threads: int) -> Machine:
        return Machine(threads, machine_memory() // _SHARE)

    @staticmethod
    def of_workers(client: Client) -> Machine:
        """The least that a worker of a cluster has, as soon as there is one; those of one thread
        share their machines with others.

        Raises `ClusterError` where no worker came.
        """
        try:  # a cluster may have workers only where there is work
            client.submit(int, pure=False).result(timeout=FIRST)
        except TimeoutError as error:
            raise ClusterError(
                f"there was no worker for {FIRST:.0f} s; start workers, and run again to resume"
            ) from error
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        threads = min((worker["nthreads"] for worker in workers), default=1)
        if threads == 1:
            return SHARED
        memory = min(worker["memory_limit"] or 0 for worker in workers) // _SHARE
        return Machine(threads, memory, len(workers))


SHARED = Machine(1, 0)
"""No part has a machine to itself."""


def fitting(compute: Compute, core_seconds: float) -> Compute:
    """The same; or threads of this process, where the choice is left to us and the work is done
    before workers would have started, or none can be."""
    chosen = compute.workers is not None or address_of(compute) is not None
    if chosen or compute.performance_report:
        return compute
    if core_seconds >= _WORTH_WORKERS and not _is_worker():
        return compute
    return compute.in_threads(n_cores())


_SERVED: set[int] = set()
"""Processes that started workers: this one, and the one that it was forked from, whose fork server
and threads it has not."""


def _is_worker() -> bool:
    """Whether this process is one of a pool's, or of Dask's, which may start no others, of
    joblib's, whose children are told to start theirs by a way that they do not know, or forked
    from one that had workers."""
    starts = multiprocessing.get_start_method(allow_none=True)
    forked = bool(_SERVED - {os.getpid()})
    return multiprocessing.current_process().daemon or starts == "loky" or forked


_REPORT = "performance.html"


class Workers:
    """A cluster that may still be starting."""

    def __init__(
        self, compute: Compute, reporter: Reporter, location: Location | None = None
    ) -> None:
        """`location`: of a run, which keeps Dask's performance report, where one is wanted."""
        self.compute, self.reporter = compute, reporter
        self._client: Client | None = None
        self._kept_in = location if compute.performance_report else None
        self._opened, self._recording = ExitStack(), ExitStack()
        self._error: Exception | None = None
        self._ready = threading.Event()
        """Set where none starts any more: a thread that is waited for is said to have ended where
        the wait is interrupted."""
        if compute.workers == 0:
            self._ready.set()
        else:
            threading.Thread(target=self._start, daemon=True).start()

    def client(self) -> Client | None:
        """The cluster's client, as soon as it has started; None where there is no cluster.

        Raises `ClusterError` where the cluster did not start or does not answer, `InputError` where
        the current folder has been deleted.
        """
        self._ready.wait()
        if isinstance(self._error, KnnoiseError):
            raise self._error
        if self._error is not None:
            raise ClusterError(
                f"no Dask cluster: {self._error}; run again, or see --scheduler and --workers"
            ) from self._error
        if self._client is not None and self._kept_in is not None:
            self._record(self._client, self._kept_in)
            self._kept_in = None
        return self._client

    def _record(self, client: Client, location: Location) -> None:
        """Begin the performance report, which is written in the end."""
        from distributed import performance_report

        page = Path(self._recording.enter_context(TemporaryDirectory())) / _REPORT

        def keep() -> None:  # without secrets: Dask quotes the code that called it
            location.replace(_REPORT, without_known(page.read_text()).encode())

        self._recording.callback(keep)
        self._recording.enter_context(client.as_current())
        # All that the page needs is in it: it can be opened without a network.
        self._recording.enter_context(performance_report(str(page), mode="inline"))

    def _start(self) -> None:
        from distributed import Client

        address, opened = address_of(self.compute), self._opened.enter_context
        try:
            opened(_LOGGERS.changed(_silence()))
            if address is not None:
                security = _own.get(address) or _security(self.compute)
                client = opened(
                    Client(address, timeout="10s", set_as_default=False, security=security)
                )
                _check_versions(client)
            else:
                # Nannies read these again whenever they restart a worker.
                opened(_SETTINGS.changed({"settings": _local_settings}))
                opened(_importable_program())
                Location.of(os.curdir)  # workers begin in it
                _start_fork_server()
                cluster = opened(_local_cluster(self.compute.workers))
                client = opened(Client(cluster, set_as_default=False))
            self._client = client
            self.reporter.say(f"Dask dashboard: {client.dashboard_link}")
        except Exception as error:  # told by client(), in the thread that asks
            self._error = error
        finally:
            self._ready.set()

    def close(self) -> None:
        if not self._ready.is_set():
            _stop_importing()
        self._ready.wait()
        if self._client is not None and self._client.status == "running":
            try:
                self._recording.close()
            except Exception as error:  # a cluster that has just gone, a store that is full
                self.reporter.say(f"no performance report: {error_text(error)}")
        self._opened.close()


def _version() -> str:
    return VERSION


def _check_versions(client: Client) -> None:
    """Raise `ClusterError` where a worker imports no knnoise, or another version."""
    try:
        theirs = set(client.run(_version).values()) - {VERSION}
    except OSError:  # the connection's
        raise
    except Exception as error:  # without a type of its own, where they cannot import it
        theirs = {f"none like this ({error})"}
    if theirs:
        raise other_version(theirs.pop())


@contextmanager
def _local_cluster(n_workers: int | None) -> Iterator[LocalCluster]:
    """Single-threaded worker processes that only this process can talk to.

    Who connects has to show a certificate that exists in the memory of these processes alone.
    Dask imports from its folder of temporary files, and would share one with all users of the host.
    """
    from distributed import LocalCluster, Security

    from flows.engine.pages import PATH, private

    security = Security.temporary()
    with ExitStack() as stack:
        temporary = TemporaryDirectory(prefix="knnoise-", ignore_cleanup_errors=True)
        folder = stack.enter_context(temporary)
        with _PAGES.changed({"pages": private}):
            cluster = LocalCluster(
                n_workers=n_workers or n_cores(),
                threads_per_worker=1,
                memory_limit=machine_memory(),  # a part may have the machine to itself
                processes=True,
                host="127.0.0.1",
                protocol="tls://",
                security=security,
                dashboard_address="127.0.0.1:8787",
                scheduler_kwargs={"http_prefix": PATH, "local_directory": folder},
                local_directory=folder,
                silence_logs="CRITICAL",  # errors reach the client; the rest is noise of closing
            )
        stack.enter_context(cluster)
        stack.callback(_own.pop, cluster.scheduler_address)
        _own[cluster.scheduler_address] = security
        yield cluster


_LOGGERS, _SETTINGS, _PAGES = Process(), Process(), Process()
"""What Dask has one of, while any thread has a cluster, has a local one, or begins that."""


def _silence() -> dict[str, Callable[[], Callable[[], object]]]:
    """What keeps Dask's traces off the terminal: what it has to say reaches us as an exception, and
    where its dashboard is, as a link.

    Its configuration gives several of its loggers a level of their own.
    """
    warnings.filterwarnings("ignore", "Port .* is already in use", UserWarning)
    names = ["distributed", "tornado", *logging.root.manager.loggerDict]
    return {name: partial(_silenced, name) for name in names if name.partition(".")[0] in names[:2]}


def _silenced(name: str) -> Callable[[], object]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    return partial(logger.setLevel, before)


def _local_settings() -> Callable[[], object]:
    import dask

    from flows.engine.pages import PATH

    link = {"distributed.dashboard.link": f"{{scheme}}://{{host}}:{{port}}{PATH}/status"}
    return partial(dask.config.set({**_LOCAL, **link}).__exit__, None, None, None)


@contextmanager
def _importable_program() -> Iterator[None]:
    """Processes that are started import this program by its file; one that is in none, as it came
    by standard input or its file is gone, they do without."""
    program: Any = sys.modules["__main__"]
    file = getattr(program, "__file__", None)
    if file is None or Path(file).exists():
        yield
        return
    del program.__file__
    try:
        yield
    finally:
        program.__file__ = file


def _start_fork_server() -> None:
    """Start the process that workers are forked from; returns when it holds all they import.

    A server that runs already is kept.
    """
    from distributed.utils import get_mp_context

    if _is_worker():
        raise ClusterError(
            "this process is a worker of a pool, or of Dask, or forked from one that had workers, "
            "and may start none; give --workers 0, or the address of a --scheduler"
        )
    _SERVED.add(os.getpid())
    get_mp_context()  # its first call sets the server's imports, and would undo ours later
    server: Any = forkserver._forkserver
    modules = ["flows.engine.forked", "distributed", "flows.engine.preloaded"]
    if not set(modules) <= set(server._preload_modules):
        server._stop()
        server.set_forkserver_preload(modules)
    _start_resource_tracker()
    probe = multiprocessing.get_context("forkserver").Process(target=_nothing)
    _WAITING.append(probe)
    try:
        forkserver.ensure_running()
        if probe in _WAITING:  # who has given up meanwhile would start another server
            probe.start()
            probe.join()
    except OSError as error:
        if "AF_UNIX" not in str(error):
            raise
        raise ClusterError(
            f"{gettempdir()} has too long a name for the sockets of workers; set TMPDIR to a "
            "shorter one, or give --workers 0"
        ) from error
    finally:
        if probe in _WAITING:
            _WAITING.remove(probe)
    if probe.exitcode == IMPORTED:
        raise ClusterError(MESSAGE)
    if probe.exitcode != 0:
        raise ClusterError("the fork server died while it imported the project")


_WAITING: list[multiprocessing.process.BaseProcess] = []
"""First processes of those who wait for the fork server."""


def _stop_importing() -> None:
    """End the fork server where one alone waits until it has imported all, which takes seconds.

    Returns when it is gone: who would start another meanwhile takes one that is dying for its own.
    """
    server: Any = forkserver._forkserver
    with server._lock:
        if len(_WAITING) == 1 and server._forkserver_pid is not None:
            _WAITING.clear()
            os.kill(server._forkserver_pid, signal.SIGKILL)
            server._stop_unlocked()


def _start_resource_tracker() -> None:
    """Start the process that clears up after this one and its workers, as one that does so without
    a word, and that a terminal which is closed does not end before them.

    It inherits what this thread blocks, and which warnings are wanted.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.pop()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _nothing() -> None:
    """What the first process forked runs."""
