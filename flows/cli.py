"""The command line. A command imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, TextIO, cast

import click
from click.core import ParameterSource

from flows.engine.guard import check_handles
from flows.engine.signals import Terminated, terminated_by_signal
from storage.errors import ClusterError, InputError, KnnoiseError, StorageError
from storage.redaction import RedactedStream, redacted, redacted_values

Called = tuple[dict[str, Any], str] | tuple[dict[str, Any], str, str | None]
"""What a command prints as JSON and as text, and the damage that it then fails for."""


def process() -> None:
    """The command as a process of its own, whose end nothing holds up."""
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if status == ClusterError.exit_code:  # a part may hang in a thread that would be waited for
        os._exit(status)
    sys.exit(status)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status: 0, 2 bad input, 3 storage, 4 cluster or interrupted."""
    args = sys.argv[1:] if argv is None else [str(arg) for arg in argv]
    with contextlib.redirect_stderr(cast(TextIO, RedactedStream(sys.stderr))), _one_line():
        try:
            with terminated_by_signal():
                return _main(args)
        except Terminated:
            return _fail("interrupted", ClusterError.exit_code)


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Nothing but our line tells of an error: not what destructors of things half made say, nor
    that a coroutine was never awaited."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            yield
    finally:
        sys.unraisablehook = before


def _main(args: list[str]) -> int:
    try:
        check_handles()
        status = cli.main(args, prog_name="knnoise", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return InputError.exit_code
    except click.ClickException as error:
        return _fail(_usage(error), InputError.exit_code)
    except KnnoiseError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", ClusterError.exit_code)
    except OSError as error:
        return _fail(f"storage: {error}", StorageError.exit_code)
    except MemoryError:
        return _fail("out of memory; what is done is kept: run again", ClusterError.exit_code)
    except Exception as error:  # a defect of ours: still one line, and the trace where it helps
        run = args[args.index("--run") + 1] if "--run" in args[:-1] else None
        return _fail(_unexpected(error, run), ClusterError.exit_code)


def _fail(message: str, status: int) -> int:
    print(f"knnoise: {redacted(' '.join(message.splitlines()))}", file=sys.stderr)
    return status


def _usage(error: click.ClickException) -> str:
    """A wrong option or command in one line, with what was meant and where help is."""
    text = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "knnoise"
    return f"{text[:1].lower()}{text[1:].rstrip('.')}; see {command} --help"


def _unexpected(error: Exception, run: str | None) -> str:
    """One line for an error that should not be; the trace goes to a file."""
    with tempfile.NamedTemporaryFile("w", prefix="knnoise-", suffix=".txt", delete=False) as trace:
        trace.write(redacted("".join(traceback.format_exception(error))))
    again = f"; what is done is kept in {run}" if run else ""
    return f"unexpected {type(error).__name__}: {error}{again}; please report {trace.name}"


class _Group(click.Group):
    """Commands, with a guess at what was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = difflib.get_close_matches(args[0], self.list_commands(ctx), 1)
            more = f", did you mean {meant[0]}?" if meant else ""
            raise click.UsageError(f"there is no command {args[0]}{more}", ctx) from error


class _OfModel(click.Command):
    """A command with the fields of a model in `flows.options.params`, read when it is used."""

    model: str

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        from flows.options import params

        fields = getattr(params, self.model).model_fields
        wanted = not getattr(self, "to_submit", False)
        made = [_parameter(name, field, wanted) for name, field in fields.items()]
        config = click.Option(
            ["--config"],
            metavar="FILE",
            is_eager=True,
            expose_value=False,
            callback=_configured,
            help="TOML file of options, those of this command in a table of its name",
        )
        return [*made, config, *super().get_params(ctx)]


def _configured(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Take the options of a file as defaults."""
    if value is None or ctx.resilient_parsing:
        return
    from flows.options.settings import read_settings

    known = {
        p.name: getattr(p, "multiple", False)
        for p in ctx.command.get_params(ctx)
        if p.name is not None and p.name not in ("config", "help")
    }
    ctx.default_map = read_settings(value, ctx.command.name or "", known)


class _Train(_OfModel):
    model = "TrainParams"


class _Check(_OfModel):
    model = "CheckParams"


class _Score(_OfModel):
    model = "ScoreParams"


class _Certify(_OfModel):
    model = "CertifyParams"


class _Review(_OfModel):
    model = "ReviewParams"


class _Acquire(_OfModel):
    model = "AcquireParams"


class _SubmitTrain(_Train):
    to_submit = True


class _SubmitScore(_Score):
    to_submit = True


class _Auto(click.ParamType[Any]):
    """A value, or `auto` for none."""

    def __init__(self, kind: type) -> None:
        self.kind = click.types.convert_type(kind)
        self.name = self.kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "auto" else self.kind.convert(value, param, ctx)


def _parameter(name: str, field: Any, wanted: bool) -> click.Parameter:
    """One field on the command line; `wanted`: the required ones are."""
    from flows.options.params import bare_type, choices, is_many, metavar, option

    if name == "source":
        return click.Argument(["source"], required=wanted)
    kind, allowed = bare_type(field), choices(field)
    names = [option(name), *({"quiet": ["-q"]}.get(name, [])), name]
    if kind is bool:
        return click.Option(names, is_flag=True, help=field.description)
    if is_many(field):
        many = {"multiple": True, "metavar": metavar(field), "help": field.description}
        return click.Option(names, type=str, **many)
    default = None if field.is_required() else field.default
    said = field.description + (f" (default {default})" if default is not None else "")
    return click.Option(
        names,
        type=click.Choice(allowed) if allowed else _Auto(kind) if default is None else kind,
        **({} if default is None else {"default": default}),
        required=wanted and field.is_required(),
        metavar=None if allowed else metavar(field),
        help=said,
    )


def _print(report: dict[str, Any], text: str) -> None:
    """The result of a command, as `--json` has it or as text."""
    context = click.get_current_context()
    as_json = context.params.get("json")
    print(json.dumps(redacted_values(report)) if as_json else redacted(text.rstrip()))


def _command(
    group: click.Group, name: str, text: str, cls: type[click.Command] | None = None
) -> Callable[[Callable[..., Called]], None]:
    """Register a function as a command that prints what it returns."""

    def register(call: Callable[..., Called]) -> None:
        def run(json: bool, **kwargs: Any) -> None:
            report, text, *damage = call(**kwargs)
            _print(report, text)
            for line in damage:
                if line is not None:
                    raise StorageError(line)

        run.__click_params__ = getattr(call, "__click_params__", [])  # type: ignore[attr-defined]
        run = click.option("--json", is_flag=True, help="one JSON object on stdout")(run)
        group.command(name, help=text, short_help=text, cls=cls or click.Command)(run)

    return register


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "--version", package_name="knnoise", message="%(prog)s %(version)s")
def cli() -> None:
    """Learn from wrongly labeled rows: noise rates, scores, suspect labels."""


@_command(cli, "train", "estimate noise rates and find suspect labels", _Train)
def _train(**params: Any) -> Called:
    report = _call("train", params)
    from flows.report.content import train_text, training

    text = train_text(training(report))
    if "unlabeled" in report:
        from flows.report.unlabeled import sentences

        scored = report["unlabeled"]
        named = (scored["n_rows"], scored["classes"], scored["n_predicted"])
        text += "\n".join([*sentences(*named), ""])
    return report, text + f"results: {params['run']}\n"


@_command(cli, "check", "look at a source: what is understood, and what is suspicious", _Check)
def _check(**params: Any) -> Called:
    from flows.intake.health import Health, health_text
    from flows.intake.preflight import run_check

    found = run_check(**params)
    return found, health_text(Health.model_validate(found))


@_command(cli, "score", "score new rows with a finished run", _Score)
def _score(**params: Any) -> Called:
    report = _call("score", params)
    from flows.report.content import new_files_text, score_text, scoring
    from flows.report.model import NewFilesReport

    if params["new_files"]:
        return report, new_files_text(NewFilesReport.model_validate(report))
    return report, score_text(scoring(report))


@_command(cli, "certify", "bound the error of a finished run without held-out rows", _Certify)
def _certify(**params: Any) -> Called:
    report = _call("certify", params)
    from flows.report.certificate import CertifyReport, certify_text

    return report, certify_text(CertifyReport.model_validate(report))


@_command(cli, "review", "check suspect labels on a page of this host", _Review)
def _review(**params: Any) -> Called:
    from flows.review import review_text, run_review

    result = run_review(**params)
    return result, review_text(result)


@_command(cli, "acquire", "buy the few labels of a pool that are worth most", _Acquire)
def _acquire(**params: Any) -> Called:
    result = _call("acquire", params)
    from flows.acquire import acquire_text

    return result, acquire_text(result)


def _call(name: str, params: dict[str, Any]) -> dict[str, Any]:
    from flows.orchestration.calls import call

    return call(name, params)


@cli.group("submit", cls=_Group, help="submit a run to a Prefect deployment")
def _submit_group() -> None:
    pass


def _submit(flow: str, deployment: str | None, watch: bool, params: dict[str, Any]) -> Called:
    from flows.orchestration import submit

    context = click.get_current_context()
    given = {
        name: value
        for name, value in params.items()
        if context.get_parameter_source(name)
        in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)
    }
    run = submit.submit(flow, given, deployment)
    text = submit.submit_text(run)
    if watch:
        from flows.orchestration.watch import watch as follow

        print(text, file=sys.stderr)
        run = follow(run)
        text = f"{run.name}: {run.state}\n"
    return run.as_json(), text


def _submit_command(flow: str, cls: type[click.Command], deployment: str) -> None:
    @click.option("--deployment", metavar="NAME", help=f"name of the deployment ({deployment})")
    @click.option("--watch", is_flag=True, help="follow the run to its end")
    def call(deployment: str | None, watch: bool, **params: Any) -> Called:
        return _submit(flow, deployment, watch, params)

    text = f"submit a run of {flow} to its deployment; paths are as the worker sees them, and what "
    _command(_submit_group, flow, text + "is not given is as the deployment has it", cls)(call)


_submit_command("train", _SubmitTrain, "weekly")
_submit_command("score", _SubmitScore, "nightly")


@_command(cli, "report", "show the report of a finished run")
@click.option("--run", required=True, metavar="DIR", help="folder of the run")
@click.option("--html", metavar="FILE", help="also write it as one self-contained page")
@click.option("--scores", metavar="FILE", help="scores of rows whose labels are known")
@click.option("--truth", metavar="FILE", help="their clean labels: npy, csv, tsv, txt")
@click.option("--truth-column", metavar="NAME", help="column of the clean labels")
def _report(
    run: str, html: str | None, scores: str | None, truth: str | None, truth_column: str | None
) -> Called:
    from flows.report.content import load, train_text
    from storage.location import Location
    from storage.run import Run, below

    folder = Run(Location.of(run))
    if html is None:
        if scores or truth or truth_column:
            raise InputError("--scores and --truth are for the page: give --html FILE too")
        report = load(folder)
        folder.check(below())
        return report.as_json(), train_text(report) + _besides(folder, report)
    from flows.report.page import Truth, write_page

    test = Truth.of(scores, truth, truth_column)
    report = write_page(folder, html, test)
    return report.as_json(), train_text(report) + _besides(folder, report) + f"page: {html}\n"


def _besides(run: Any, report: Any) -> str:
    """What is known of rows without a label, and what people said of labels, if anything."""
    from flows.report.review import measured
    from flows.report.unlabeled import unlabeled

    found = measured(run, report)
    lines = [*unlabeled(run), *([] if found is None else ["", *found.sentences()])]
    return "\n".join([*lines, ""]) if lines else ""


@_command(cli, "settings", "print the settings of a training as a file for --config")
@click.option("--run", required=True, metavar="DIR", help="folder of the run")
def _settings(run: str) -> Called:
    from flows.options.settings import settings_text
    from flows.report.model import RunConfig
    from storage.location import Location
    from storage.run import Run

    config = RunConfig.model_validate(Run(Location.of(run)).config())
    return config.parameters, settings_text(config.parameters, config.label_name)


@_command(cli, "compare", "show what changed between two trainings")
@click.argument("before", metavar="RUN_A")
@click.argument("after", metavar="RUN_B")
@click.option("--html", metavar="FILE", help="also write it as one self-contained page")
def _compare(before: str, after: str, html: str | None) -> Called:
    from flows.report.compare import compare, compare_text

    comparison = compare(before, after)
    text = compare_text(comparison)
    if html is None:
        return comparison.as_json(), text
    from flows.report.page.comparison import write_comparison

    write_comparison(comparison, html)
    return comparison.as_json(), text + f"page: {html}\n"


@_command(cli, "status", "show which steps are done and which parts are missing")
@click.option("--run", required=True, metavar="DIR", help="folder of the run")
def _status(run: str) -> Called:
    from flows.report.status import status, status_text

    state = status(run)
    return state.as_json(), status_text(state), state.damage


@_command(cli, "demo", "train and score on two pools whose noise is known")
@click.option("--dir", default="demo", metavar="DIR", help="folder to work in (default demo)")
def _demo(dir: str) -> Called:
    from flows.demo import demo, demo_text

    results = demo(dir)
    return {name: asdict(shown) for name, shown in results.items()}, demo_text(results)


if __name__ == "__main__":
    process()
