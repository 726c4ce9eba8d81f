"""Options of the two flows on the command line, to run them here or to submit them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

RESOURCES = ("workers", "scheduler", "tls_ca", "tls_cert", "tls_key")
"""Options that say where a flow computes."""
TRAIN = (
    *("source", "run", "labels", "label_column", "k", "noise", "rule", "p0", "p1"),
    *(
        "builder",
        "block_rows",
        "scale",
        "target_recall",
        "seed",
        "compare_with",
        "performance_report",
        *RESOURCES,
    ),
)
SCORE = ("source", "run", "out", "new_files", *RESOURCES)


def given(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    """Parameters of a flow, as far as the command line has them."""
    return {name: getattr(args, name) for name in names if hasattr(args, name)}


def train_options(train: argparse.ArgumentParser, *, required: bool = True) -> None:
    """What `train` takes; where not `required`, what is not given is absent."""
    default = _defaults(required)
    _source(train, "CSV, Parquet (file, folder), npy, npz or Zarr; path or URL", required)
    train.add_argument("--run", required=required, metavar="DIR", help="folder of the run")
    train.add_argument("--labels", metavar="FILE", help="labels, where the source has none")
    train.add_argument("--label-column", metavar="NAME", help="column of the labels")
    train.add_argument("--k", type=_k, metavar="N", help="neighbours of each row; auto (default)")
    train.add_argument("--noise", default=default("crossfit"), help="crossfit (default) or minmax")
    train.add_argument("--rule", default=default("corrected"), help="corrected (default) or rknn")
    train.add_argument("--p0", type=float, metavar="RATE", help="P(given 1 | true 0), if known")
    train.add_argument("--p1", type=float, metavar="RATE", help="P(given 0 | true 1), if known")
    train.add_argument(
        "--builder", default=default("auto"), help="auto (default), pynndescent or exact"
    )
    train.add_argument("--block-rows", type=int, metavar="N", help="rows to a block (chosen)")
    train.add_argument("--scale", default=default("none"), help="none (default), range or standard")
    train.add_argument(
        "--target-recall", type=float, default=default(0.95), metavar="R", help="(0.95)"
    )
    train.add_argument("--seed", type=int, default=default(0))
    train.add_argument(
        "--compare-with", metavar="DIR", help="earlier training (or pattern): warn of drift since"
    )
    train.add_argument(
        "--performance-report",
        action="store_true",
        default=default(False),
        help="keep Dask's performance report in the run, as performance.html",
    )
    _resources(train)


def score_options(score: argparse.ArgumentParser, *, required: bool = True) -> None:
    """What `score` takes."""
    _source(score, "rows with the features of training", required)
    score.add_argument("--run", required=required, metavar="DIR", help="folder of the finished run")
    score.add_argument("--out", required=required, metavar="FILE", help="Parquet file to write")
    score.add_argument(
        "--new-files",
        action="store_true",
        default=_defaults(required)(False),
        help="SOURCE and --out are folders: score each file whose scores are not in --out yet",
    )
    _resources(score)


def submit_options(command: argparse.ArgumentParser, flow: str) -> None:
    """The same again, where what is not given is left to the deployment.

    command : a parser whose `argument_default` is SUPPRESS
    """
    if flow == "train":
        train_options(command, required=False)
    else:
        score_options(command, required=False)
    command.add_argument(
        "--deployment", metavar="NAME", default=None, help="weekly (train), nightly (score)"
    )
    command.add_argument(
        "--watch", action="store_true", default=False, help="follow the run to its end"
    )
    command.epilog = (
        "Paths are as the worker sees them. What is not given is as the deployment has it."
    )


def _defaults(required: bool) -> Callable[[Any], Any]:
    """A default as it is, or none at all."""
    return lambda value: value if required else argparse.SUPPRESS


def _source(command: argparse.ArgumentParser, text: str, required: bool) -> None:
    if required:
        command.add_argument("source", help=text)
    else:
        command.add_argument("source", help=text, nargs="?")


def _resources(command: argparse.ArgumentParser) -> None:
    command.add_argument("--workers", type=int, metavar="N", help="local processes; 0: none")
    command.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler")
    command.add_argument("--tls-ca", metavar="PEM", help="authority of a tls:// scheduler")
    command.add_argument("--tls-cert", metavar="PEM", help="certificate to show to it")
    command.add_argument("--tls-key", metavar="PEM", help="key of that certificate")


def _k(text: str) -> int | None:
    """A number of neighbours, or None for `auto`."""
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor auto") from None
