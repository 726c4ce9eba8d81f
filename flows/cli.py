"""The command line."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from storage.errors import ClusterError, KnnoiseError, StorageError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status: 0, 2 bad input, 3 storage, 4 cluster or interrupted."""
    args = _parser().parse_args(argv)
    try:
        report, text = args.call(args)
    except KnnoiseError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", 4)
    except OSError as error:
        return _fail(f"storage: {error}", StorageError.exit_code)
    except Exception as error:  # a defect of ours: still one line, and the trace where it helps
        return _fail(_unexpected(error, getattr(args, "run", None)), ClusterError.exit_code)
    print(json.dumps(report) if args.json else text.rstrip())
    return 0


def _fail(message: str, status: int) -> int:
    print(f"knnoise: {message}", file=sys.stderr)
    return status


def _unexpected(error: Exception, run: str | None) -> str:
    """One line for an error that should not be; the trace goes to a file."""
    with tempfile.NamedTemporaryFile("w", prefix="knnoise-", suffix=".txt", delete=False) as trace:
        traceback.print_exception(error, file=trace)
    again = f"; what is done is kept in {run}" if run else ""
    return f"unexpected {type(error).__name__}: {error}{again}; please report {trace.name}"


RESOURCES = ("workers", "scheduler", "tls_ca", "tls_cert", "tls_key")
"""Options that say where a flow computes."""
Called = tuple[dict[str, Any], str]


def _train(args: argparse.Namespace) -> Called:
    from flows.report import train_text  # Prefect takes seconds to import: only where it is used
    from flows.train import train

    names = ("labels", "label_column", "k", "noise", "p0", "p1", "builder", "block_rows", "scale")
    more = ("target_recall", "seed", *RESOURCES)
    report = _call(train, args.source, args.run, **{n: getattr(args, n) for n in names + more})
    return report, train_text(report) + f"results: {args.run}\n"


def _score(args: argparse.Namespace) -> Called:
    from flows.new_files import new_files_text
    from flows.report import score_text
    from flows.score import score

    more = {name: getattr(args, name) for name in ("new_files", *RESOURCES)}
    report = _call(score, args.source, args.run, args.out, **more)
    return report, (new_files_text if args.new_files else score_text)(report)


def _call(flow: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The flow, on the Prefect server that is configured; as a plain function where none is."""
    from prefect.task_engine import TaskRunTimeoutError

    from flows.tasks import server_configured

    call: Callable[..., dict[str, Any]] = flow if server_configured() else flow.fn
    try:
        return call(*args, **kwargs)
    except TaskRunTimeoutError as error:
        raise ClusterError(f"{error}; what is done is kept: run again to resume") from error


def _report(args: argparse.Namespace) -> Called:
    from flows.report import load, train_text
    from storage.location import Location
    from storage.run import Run

    report = load(Run(Location.of(args.run)))
    return report, train_text(report)


def _status(args: argparse.Namespace) -> Called:
    from flows.status import status, status_text

    found = status(args.run)
    return found, status_text(found)


def _demo(args: argparse.Namespace) -> Called:
    from flows.demo import demo, demo_text

    found = demo(args.dir)
    return found, demo_text(found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="knnoise",
        description="Learn from wrongly labelled rows: noise rates, scores, suspect labels.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    train = _command(commands, "train", _train, "estimate rates and find suspect labels")
    train.add_argument("source", help="CSV, Parquet (file, folder), npy, npz or Zarr; path or URL")
    train.add_argument("--run", required=True, metavar="DIR", help="folder of the run")
    train.add_argument("--labels", metavar="FILE", help="labels, where the source has none")
    train.add_argument("--label-column", metavar="NAME", help="column of the labels")
    train.add_argument("--k", type=_k, metavar="N", help="neighbours of each row; auto (default)")
    train.add_argument("--noise", default="crossfit", help="crossfit (default) or minmax")
    train.add_argument("--p0", type=float, metavar="RATE", help="P(given 1 | true 0), if known")
    train.add_argument("--p1", type=float, metavar="RATE", help="P(given 0 | true 1), if known")
    train.add_argument("--builder", default="auto", help="auto (default), pynndescent or exact")
    train.add_argument("--block-rows", type=int, metavar="N", help="rows to a block (chosen)")
    train.add_argument("--scale", default="none", help="none (default), range or standard")
    train.add_argument("--target-recall", type=float, default=0.95, metavar="R", help="(0.95)")
    train.add_argument("--seed", type=int, default=0)
    _resources(train)
    score = _command(commands, "score", _score, "score new rows with a finished run")
    score.add_argument("source", help="rows with the features of training")
    score.add_argument("--run", required=True, metavar="DIR", help="folder of the finished run")
    score.add_argument("--out", required=True, metavar="FILE", help="Parquet file to write")
    score.add_argument(
        "--new-files",
        action="store_true",
        help="SOURCE and --out are folders: score each file whose scores are not in --out yet",
    )
    _resources(score)
    report = _command(commands, "report", _report, "show the report of a finished run")
    report.add_argument("--run", required=True, metavar="DIR")
    status = _command(commands, "status", _status, "which step, how many parts, what is missing")
    status.add_argument("--run", required=True, metavar="DIR")
    demo = _command(commands, "demo", _demo, "train and score on two pools whose noise is known")
    demo.add_argument("--dir", default="demo", metavar="DIR", help="folder to work in (demo)")
    return parser


def _k(text: str) -> int | None:
    """A number of neighbours, or None for `auto`."""
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor auto") from None


def _command(
    commands: Any, name: str, call: Callable[[argparse.Namespace], Called], text: str
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    command.add_argument("--json", action="store_true", help="one JSON object on stdout")
    command.set_defaults(call=call)
    return command


def _resources(command: argparse.ArgumentParser) -> None:
    command.add_argument("--workers", type=int, metavar="N", help="local processes; 0: none")
    command.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler")
    command.add_argument("--tls-ca", metavar="PEM", help="authority of a tls:// scheduler")
    command.add_argument("--tls-cert", metavar="PEM", help="certificate to show to it")
    command.add_argument("--tls-key", metavar="PEM", help="key of that certificate")


if __name__ == "__main__":
    sys.exit(main())
