"""The command line."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from storage.errors import ClusterError, InputError, KnnoiseError, StorageError


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


Called = tuple[dict[str, Any], str]


def _train(args: argparse.Namespace) -> Called:
    from flows.report import train_text  # Prefect takes seconds to import: only where it is used
    from flows.train import train

    names = ("labels", "label_column", "k", "noise", "rule", "p0", "p1", "builder", "block_rows")
    more = ("scale", "target_recall", "seed", "workers", "scheduler", "performance_report")
    report = _call(train, args.source, args.run, **{n: getattr(args, n) for n in names + more})
    return report, train_text(report) + f"results: {args.run}\n"


def _score(args: argparse.Namespace) -> Called:
    from flows.report import score_text
    from flows.score import score

    report = _call(
        score, args.source, args.run, args.out, workers=args.workers, scheduler=args.scheduler
    )
    return report, score_text(report)


def _call(flow: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The flow, on the Prefect server that is configured; as a plain function where none is."""
    from flows.tasks import server_configured

    call: Callable[..., dict[str, Any]] = flow if server_configured() else flow.fn
    return call(*args, **kwargs)


def _report(args: argparse.Namespace) -> Called:
    from flows.report import load, train_text
    from storage.location import Location
    from storage.run import Run

    run = Run(Location.of(args.run))
    if args.html is None:
        if args.scores or args.truth or args.truth_column:
            raise InputError("--scores and --truth are for the page: give --html FILE too")
        report = load(run)
        return report, train_text(report)
    from flows.page import Truth, write_page

    test = Truth.of(args.scores, args.truth, args.truth_column)
    report = write_page(run, args.html, test)
    return report, train_text(report) + f"page: {args.html}\n"


def _compare(args: argparse.Namespace) -> Called:
    from flows.compare import compare, compare_text

    found = compare(args.before, args.after)
    text = compare_text(found)
    if args.html is None:
        return found, text
    from flows.page.comparison import write_comparison

    write_comparison(found, args.html)
    return found, text + f"page: {args.html}\n"


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
    train.add_argument("--rule", default="corrected", help="corrected (default) or rknn")
    train.add_argument("--p0", type=float, metavar="RATE", help="P(given 1 | true 0), if known")
    train.add_argument("--p1", type=float, metavar="RATE", help="P(given 0 | true 1), if known")
    train.add_argument("--builder", default="auto", help="auto (default), pynndescent or exact")
    train.add_argument("--block-rows", type=int, metavar="N", help="rows to a block (chosen)")
    train.add_argument("--scale", default="none", help="none (default), range or standard")
    train.add_argument("--target-recall", type=float, default=0.95, metavar="R", help="(0.95)")
    train.add_argument("--seed", type=int, default=0)
    train.add_argument(
        "--performance-report",
        action="store_true",
        help="keep Dask's performance report in the run, as performance.html",
    )
    _resources(train)
    score = _command(commands, "score", _score, "score new rows with a finished run")
    score.add_argument("source", help="rows with the features of training")
    score.add_argument("--run", required=True, metavar="DIR", help="folder of the finished run")
    score.add_argument("--out", required=True, metavar="FILE", help="Parquet file to write")
    _resources(score)
    report = _command(commands, "report", _report, "show the report of a finished run")
    report.add_argument("--run", required=True, metavar="DIR")
    report.add_argument("--html", metavar="FILE", help="also write it as one self-contained page")
    report.add_argument("--scores", metavar="FILE", help="scores of rows whose labels are known")
    report.add_argument("--truth", metavar="FILE", help="their clean labels: npy, csv, tsv, txt")
    report.add_argument("--truth-column", metavar="NAME", help="column of the clean labels")
    compare = _command(commands, "compare", _compare, "what changed between two trainings")
    compare.add_argument("before", metavar="RUN_A", help="folder of the earlier training")
    compare.add_argument("after", metavar="RUN_B", help="folder of the later training")
    compare.add_argument("--html", metavar="FILE", help="also write it as one self-contained page")
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


if __name__ == "__main__":
    sys.exit(main())
