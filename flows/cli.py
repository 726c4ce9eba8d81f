"""The command line. A command imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, TextIO, cast

import click
from click.core import ParameterSource

from flows.engine import stdout
from flows.engine.deadline import Terminated, end_at_once, send_later, terminated_by_signal
from flows.engine.spared import (
    check_counts,
    check_handles,
    collecting_seldom,
    one_heap,
    without_unused,
)
from flows.options.command_line import completed, of_model, path, quiet
from flows.options.extras import needs
from storage.errors import (
    ClusterError,
    InputError,
    KnnoiseError,
    StorageError,
    did_you_mean,
    unsteered,
    without_threads,
)
from storage.redaction import RedactedStream, redacted, redacted_values
from storage.version import VERSION

STDOUT = "-"
"""What `--out` is called for scores that go to stdout."""
_LONGEST = 600
"""Characters of a usage error, which quotes what was given."""
_KEPT_NOWHERE = (
    "compiled code can be kept nowhere, as neither the installation nor HOME nor NUMBA_CACHE_DIR "
    "can be written: set NUMBA_CACHE_DIR to a folder of your own"
)
_NO_THREADS = "no more threads may be started (ulimit -u); allow more, and run again"

Called = tuple[dict[str, Any], str] | tuple[dict[str, Any], str, str | None]
"""What a command prints as JSON and as text, and the damage that it then fails for."""


def process() -> None:
    """The command as a process of its own, whose end nothing holds up: taking apart what it has
    imported would take a tenth of a second."""
    status = 1  # of what `main` does not catch
    if not atexit._ncallbacks():  # else somebody is called after us
        atexit.register(lambda: os._exit(status))
    collecting_seldom()
    one_heap()
    stdout.print_anything()
    theirs = "acquire" in sys.argv  # whose --oracle may import anything
    with contextlib.nullcontext() if theirs else without_unused():
        status = main()
    stdout.flush()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    # It closes a loop that it waits .2 s for to stop, which may take longer under load.
    zarr = sys.modules.get("zarr.core.sync")
    atexit.unregister(getattr(zarr, "cleanup_resources", None))  # type: ignore[arg-type]
    if status == ClusterError.exit_code:  # a part may hang in a thread that would be waited for
        end_at_once(status)
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
    that a coroutine was never awaited. Of signals whose exception a destructor loses one more is
    given."""
    signals = {KeyboardInterrupt: signal.SIGINT, Terminated: signal.SIGTERM}

    def lost(raised: sys.UnraisableHookArgs) -> None:
        if again := signals.get(raised.exc_type):
            send_later(again)

    before, sys.unraisablehook = sys.unraisablehook, lost
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            yield
    finally:
        sys.unraisablehook = before


def _main(args: list[str]) -> int:
    out = sys.stdout
    try:
        check_handles()
        check_counts()
        status = cli.main(args, prog_name="knnoise", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return InputError.exit_code
    except click.ClickException as error:
        return _fail(_usage(error), InputError.exit_code)
    except stdout.Unread:
        return 0
    except SystemExit:
        if sys.stdout is out:
            raise
        sys.stdout = out  # click put another in its place: nobody reads its help any more
        return 0
    except KnnoiseError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", ClusterError.exit_code)
    except OSError as error:
        return _fail(f"storage: {error}", StorageError.exit_code)
    except MemoryError:
        return _fail(
            "out of memory; what a run has done is kept: run again", ClusterError.exit_code
        )
    except Exception as error:
        if "no locator available" in str(error):  # Numba's, of a cache
            return _fail(_KEPT_NOWHERE, StorageError.exit_code)
        if without_threads(error):
            return _fail(_NO_THREADS, ClusterError.exit_code)
        # a defect of ours: still one line, and the trace where it helps
        run = args[args.index("--run") + 1] if "--run" in args[:-1] else None
        return _fail(_unexpected(error, run), ClusterError.exit_code)


def _fail(message: str, status: int) -> int:
    print(f"knnoise: {redacted(' '.join(message.splitlines()))}", file=sys.stderr, flush=True)
    return status


def _usage(error: click.ClickException) -> str:
    """A wrong option or command in one line, with what was meant and where help is."""
    text = " ".join(error.format_message().split())
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "knnoise"
    return f"{text[:1].lower()}{text[1:].rstrip('.')}; see {command} --help"


def _unexpected(error: Exception, run: str | None) -> str:
    """One line for an error that should not be; the trace goes to a file."""
    import tempfile
    import traceback

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
            more = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(f"there is no command {args[0]}{more}", ctx) from error


def _print(report: dict[str, Any], text: str) -> None:
    """The result of a command, as `--json` has it or as text; on stderr where scores are on
    stdout."""
    given = click.get_current_context().params
    plain = redacted(unsteered(text.rstrip()))
    output = json.dumps(redacted_values(report)) if given["json"] else plain
    if given.get("out") == STDOUT:
        print(output, file=sys.stderr)
    else:
        stdout.put(output)


def _command(
    group: click.Group,
    name: str,
    text: str,
    cls: type[click.Command] = click.Command,
    *,
    extra: str | None = "flows",
) -> Callable[[Callable[..., Called]], None]:
    """Register a function as a command that prints what it returns."""

    def register(call: Callable[..., Called]) -> None:
        options: list[click.Parameter] = getattr(call, "__click_params__", [])
        tells = getattr(cls, "tells", False) or any(p.name == "quiet" for p in options)

        def run(json: bool, verbose: bool, **kwargs: Any) -> None:
            if not tells:
                kwargs.pop("quiet")
            if extra is not None:
                needs(extra, click.get_current_context().command_path)
            with stdout.in_detail() if verbose else contextlib.nullcontext():
                report, text, *damage = call(**kwargs)
            _print(report, text)
            for line in damage:
                if line is not None:
                    raise StorageError(line)

        run.__click_params__ = options  # type: ignore[attr-defined]
        if not tells:
            run = quiet("print no progress, of which this command has none")(run)
        run = click.option(
            "--json", is_flag=True, help="one JSON object on stdout, errors on stderr"
        )(run)
        about = "print each part on stderr, and the trace of an error"
        run = click.option("-v", "--verbose", is_flag=True, help=about)(run)
        group.command(name, help=text, short_help=text, cls=cls)(run)

    return register


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, "--version", message="%(prog)s %(version)s")
def cli() -> None:
    """Learn from wrongly labeled rows: noise rates, scores, suspect labels."""


def _flow(name: str, text: str, **more: bool) -> Callable[[Callable[..., Called]], None]:
    """Register a function as a command that has the parameters of a flow."""
    return _command(cli, name, text, of_model(f"{name.capitalize()}Params", **more))


@_flow("train", "estimate noise rates and find suspect labels")
def _train(**params: Any) -> Called:
    from flows.orchestration.run_folders import to_make

    params["run"] = to_make(params["run"])  # one folder, though it be past midnight at the end
    report = _call("train", params)
    from flows.report.content import scoring, train_text, training, unlabeled_text

    text = train_text(training(report))
    if "unlabeled" in report:
        text += f"{unlabeled_text(scoring(report['unlabeled']))}\n"
    return report, text + f"results: {params['run']}\n"


@_flow("check", "look at a source: what is understood, and what is suspicious", tells=False)
def _check(**params: Any) -> Called:
    from flows.intake.health import Health
    from flows.intake.preflight import run_check
    from flows.intake.remedies import command

    content = run_check(**params)
    health = Health.model_validate(content)
    more = f"try: {command(health.remedies)}\n" if health.remedies else ""
    return content, f"{health}{more}"


@_flow("score", "score new rows with a finished run")
def _score(**params: Any) -> Called:
    if params["out"] == STDOUT:
        return _scores_to_stdout(params)
    report = _call("score", params)
    from flows.report.content import new_files_text, score_text, scoring
    from flows.report.model import NewFilesReport

    if params["new_files"]:
        return report, new_files_text(NewFilesReport.model_validate(report))
    return report, score_text(scoring(report))


@_flow(
    "clean",
    "write what a run was trained on for other models, without the suspect labels",
    tells=False,
)
def _clean(**params: Any) -> Called:
    from flows.clean import CleanReport, clean_text, run_clean

    report = run_clean(**params)
    return report, clean_text(CleanReport.model_validate(report))


def _scores_to_stdout(params: dict[str, Any]) -> Called:
    """Scores as CSV, all or none."""
    if params["new_files"]:
        raise InputError("--out -: --new-files writes a file for each; give --out FOLDER")
    import tempfile

    from flows.report.content import score_text, scoring

    with tempfile.TemporaryDirectory(prefix="knnoise-") as folder:
        file = f"{folder}/scores.csv"
        report = {**_call("score", {**params, "out": file}), "out": STDOUT}
        stdout.put_file(file)
    return report, score_text(scoring(report))


@_flow("certify", "bound the error of a finished run without held-out rows")
def _certify(**params: Any) -> Called:
    report = _call("certify", params)
    from flows.report.certificate import CertifyReport, certify_text

    return report, certify_text(CertifyReport.model_validate(report))


@_flow("review", "check suspect labels on a page of this host")
def _review(**params: Any) -> Called:
    from flows.review import review_text, run_review

    result = run_review(**params)
    return result, review_text(result)


@_flow("acquire", "buy the few labels of a pool that are worth most")
def _acquire(**params: Any) -> Called:
    result = _call("acquire", params)
    from flows.acquire import acquire_text

    return result, acquire_text(result)


def _check_page(html: str | None) -> None:
    """Refuse a page that cannot be made or written, before anything is read for it."""
    if html is None:
        return
    needs("report", "--html")
    import logging  # not above: it leaves something to be called when any command ends

    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells where its cache is
    from storage.export import check_target

    check_target(html, page=True)


def _latest(run: str) -> str:
    from flows.orchestration.run_folders import latest

    return latest(run)


def _call(name: str, params: dict[str, Any]) -> dict[str, Any]:
    from flows.orchestration.calls import call

    return call(name, params)


@cli.group("submit", cls=_Group, help="submit a run to a Prefect deployment")
def _submit_group() -> None:
    pass


def _submit(flow: str, deployment: str | None, watch: bool, params: dict[str, Any]) -> Called:
    needs("prefect", "knnoise submit")
    from flows.engine.tasks import check_profiles, server_configured

    check_profiles()  # as the next, tells of settings that an import of Prefect would fail by
    server_configured()
    from flows.orchestration import submit

    if params.get("out") == STDOUT:
        raise InputError("--out -: a run on a worker has no stdout; give --out FILE")
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
    return asdict(run), text


def _submit_command(flow: str, deployment: str) -> None:
    @click.option("--deployment", metavar="NAME", help=f"name of the deployment ({deployment})")
    @click.option("--watch", is_flag=True, help="follow the run to its end")
    def call(deployment: str | None, watch: bool, **params: Any) -> Called:
        return _submit(flow, deployment, watch, params)

    text = f"submit a run of {flow} to its deployment; paths are as the worker sees them, and what "
    cls = of_model(f"{flow.capitalize()}Params", to_submit=True)
    _command(_submit_group, flow, text + "is not given is as the deployment has it", cls)(call)


_submit_command("train", "weekly")
_submit_command("score", "nightly")


@_command(cli, "report", "show the report of a finished run")
@path("--run", "DIR", "folder of the run", required=True)
@path("--html", "FILE", "also write it as one self-contained page")
@path("--scores", "FILE", "scores of rows whose labels are known")
@path("--truth", "FILE", "their clean labels: npy, csv, tsv, txt")
@click.option("--truth-column", metavar="NAME", help="column of the clean labels")
@path("--show", "FILE", "table with a row per training row, shown of the rows listed")
@click.option("--show-column", metavar="NAME", help="the column of it to show: texts or images")
@path("--image-root", "DIR", "folder below which the images lie")
def _report(run: str, html: str | None, **more: str | None) -> Called:
    _check_page(html)
    from flows.report.content import load_any, train_text, unlabeled
    from flows.report.review import measured
    from storage.runs.run import Run, below

    folder = Run.of(_latest(run))
    report = load_any(folder)
    if html is not None:
        from flows.report.page.build import write_page
        from flows.report.rows import shown_of
        from flows.report.truth import reliability

        checked = reliability(report, *map(more.get, ("scores", "truth", "truth_column")))
        rows = map(more.get, ("show", "show_column", "image_root"))
        write_page(folder, html, checked, shown_of(folder, report.n_source_rows, *rows))
    elif any(more.values()):
        raise InputError("--scores, --truth and --show are for the page: give --html FILE too")
    else:
        folder.check(below())
    measures = measured(folder, report)
    lines = [*unlabeled(folder), *([] if measures is None else ["", *measures.sentences()])]
    lines += [] if html is None else [f"page: {html}"]
    return report.as_json(), train_text(report) + "".join(f"{line}\n" for line in lines)


@_command(cli, "settings", "print the settings of a training as a file for --config")
@path("--run", "DIR", "folder of the run", required=True)
def _settings(run: str) -> Called:
    from flows.options.command_line import settings_text
    from flows.report.model import RunConfig, was_in_memory
    from storage.runs.run import Run
    from storage.version import OLDEST_READ

    folder = Run.of(_latest(run))
    config = RunConfig.model_validate(folder.config(OLDEST_READ))
    if (bought := folder.bought()) is not None:
        raise InputError(bought)
    parameters = {**config.parameters, **config.source.written}
    if was_in_memory(parameters.get("annotations") or ""):  # a file that is gone
        del parameters["annotations"]
    return parameters, settings_text(parameters, config.label_column)


@_command(cli, "compare", "show what changed between two trainings")
@click.argument("before", metavar="RUN_A", shell_complete=completed("DIR"))
@click.argument("after", metavar="RUN_B", shell_complete=completed("DIR"))
@path("--html", "FILE", "also write it as one self-contained page")
def _compare(before: str, after: str, html: str | None) -> Called:
    _check_page(html)
    from flows.report.compare import compare, compare_text

    runs = _latest(before), _latest(after)
    comparison = compare(*runs)
    text = compare_text(comparison)
    if html is None:
        return comparison.as_json(), text
    from flows.report.page.build import write_comparison

    write_comparison(comparison, runs, html)
    return comparison.as_json(), text + f"page: {html}\n"


@_command(cli, "status", "show which steps are done and which parts are missing")
@path("--run", "DIR", "folder of the run", required=True)
def _status(run: str) -> Called:
    from flows.report.status import status, status_text

    state = status(_latest(run))
    return asdict(state), status_text(state), state.damage


@_command(cli, "demo", "train and score on two pools whose noise is known")
@path("--dir", "DIR", "folder to work in (default demo)", default="demo")
@quiet("print no progress on stderr")
def _demo(dir: str, quiet: bool) -> Called:
    from flows.demo import demo, demo_text

    results = demo(dir, quiet=quiet)
    return dict(results), demo_text(results)


@_command(cli, "completion", "print a script by which a shell completes commands", extra=None)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def _completion(shell: str) -> Called:
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    script = made(cli, {}, "knnoise", "_KNNOISE_COMPLETE").source()
    return {"shell": shell, "script": script}, script


if __name__ == "__main__":
    process()
