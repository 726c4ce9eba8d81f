"""The command line."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from flows.options import SCORE, TRAIN, given, score_options, submit_options, train_options
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

    report = _call(train, **given(args, TRAIN))
    return report, train_text(report) + f"results: {args.run}\n"


def _score(args: argparse.Namespace) -> Called:
    from flows.new_files import new_files_text
    from flows.report import score_text
    from flows.score import score

    report = _call(score, **given(args, SCORE))
    return report, (new_files_text if args.new_files else score_text)(report)


def _submit(args: argparse.Namespace) -> Called:
    from flows.submit import submit, submit_text, watch

    names = TRAIN if args.flow == "train" else SCORE
    run = submit(args.flow, given(args, names), args.deployment)
    text = submit_text(run)
    if args.watch:
        print(text, file=sys.stderr)
        run = watch(run)
        text = f"{run['name']}: {run['state']}\n"
    return run, text


def _call(flow: Any, **kwargs: Any) -> dict[str, Any]:
    """The flow, on the Prefect server that is configured; as a plain function where none is."""
    from prefect.task_engine import TaskRunTimeoutError

    from flows.tasks import server_configured

    call: Callable[..., dict[str, Any]] = flow if server_configured() else flow.fn
    try:
        return call(**kwargs)
    except TaskRunTimeoutError as error:
        raise ClusterError(
            f"a step took too long ({error}); what is done is kept: run again to resume"
        ) from error


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
    train_options(train)
    score = _command(commands, "score", _score, "score new rows with a finished run")
    score_options(score)
    text = "submit a run to a Prefect deployment"
    flows = commands.add_parser("submit", help=text, description=text)
    kinds = flows.add_subparsers(required=True, metavar="FLOW", dest="flow")
    for name in ("train", "score"):
        told = f"submit a run of {name} to its deployment"
        command = _command(kinds, name, _submit, told, argument_default=argparse.SUPPRESS)
        submit_options(command, name)
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


def _command(
    commands: Any,
    name: str,
    call: Callable[[argparse.Namespace], Called],
    text: str,
    **more: Any,
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text, **more
    )
    command.add_argument(
        "--json", action="store_true", default=False, help="one JSON object on stdout"
    )
    command.set_defaults(call=call)
    return command


if __name__ == "__main__":
    sys.exit(main())
