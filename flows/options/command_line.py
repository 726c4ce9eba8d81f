"""Options of the command line: those of a model in `flows.options.params`, and paths; and options
in a TOML file, read, and written of a run."""

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flows.options.extras import needs
from storage.errors import InputError, did_you_mean, reason_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

LONGEST = 1 << 20
"""Bytes of a file of options."""
_ALL = "--help-all"
_LONG = 25
"""Options of a command from which its help shows those first that most people need."""
_FIRST = (
    *("run", "out", "label_column", "labels", "id_column", "exclude", "candidates", "annotations"),
    *("budget", "oracle", "answers", "show", "reviewer", "workers", "config"),
    *("json", "verbose", "quiet", "help"),
)
"""The options that most people need, of all commands."""
_FILE, _FOLDER = click.Path(), click.Path(file_okay=False)


class OfModel(click.Command):
    """A command with the fields of a model in `flows.options.params`, read when it is used."""

    model: str
    to_submit = False
    """Whether to a deployment, which has the required ones."""
    tells = True
    """Whether it tells of its progress, and its model has `quiet`."""
    allow_extra_args = True  # refused here, with what they may be

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        needs("flows", ctx.command_path)
        from flows.options import params

        fields = getattr(params, self.model).model_fields
        wanted = not self.to_submit
        made = [one for name, field in fields.items() for one in _options(name, field, wanted)]
        first: dict[str, Any] = {"is_eager": True, "expose_value": False}
        about = "TOML file of options, those of this command in a table of its name"
        config = click.Option(
            ["--config"], metavar="FILE", callback=_configured, help=about, **first
        )
        first |= {"is_flag": True, "help": "show all options and exit"}
        more = (
            [click.Option([_ALL], callback=_with_everything, **first)] if len(made) > _LONG else []
        )
        return [*made, config, *super().get_params(ctx), *more]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse several flags of one parameter, of which click takes the last, and say what was
        meant by what is none, of which click knows neither beginnings nor values."""
        given: dict[str | None, list[str]] = {}
        names = {arg.partition("=")[0] for arg in args}
        params = self.get_params(ctx)
        for one in params:
            if one.opts[0] in names:
                given.setdefault(one.name, []).append(one.opts[0])
        for flags in given.values():
            if len(flags) > 1:
                raise click.UsageError(f"{' and '.join(flags)}: give one of them", ctx)
        try:
            rest = super().parse_args(ctx, args)
        except click.BadParameter as error:
            if error.param is not None and (file := _file_of(ctx, error.param.name)):
                text = error.format_message()
                raise click.UsageError(f"{file}{text[:1].lower()}{text[1:]}", ctx) from error
            raise
        except click.NoSuchOption as error:
            longer = [p.opts[0] for p in params if p.opts[0].startswith(error.option_name)]
            if error.possibilities and longer:
                error.possibilities[:] = longer
            raise
        if rest and not ctx.resilient_parsing:
            meant = "label-column" if any(p.name == "label_column" for p in params) else "run"
            files = ", or several files as a folder" if "source" in ctx.params else ""
            raise click.UsageError(
                f"{rest[0]}: no option stands before it; give it as --{meant} {rest[0]}{files}", ctx
            )
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """What is wrong with an option of a file is said with the file's name."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            option = re.match("--([a-z0-9-]+)", str(error))
            if option and (file := _file_of(ctx, option[1].replace("-", "_"))):
                raise InputError(f"{file}{error}") from error
            raise

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What the command does, and what its source may be."""
        from flows.options import params

        super().format_help_text(ctx, formatter)
        source = getattr(params, self.model).model_fields.get("source")
        if source is not None:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(f"SOURCE: {source.description}")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """By heading, if there are many; first, and unless all are asked for alone, those that most
        people need."""
        from flows.options import params

        model = getattr(params, self.model)
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        if not any(_ALL in one.opts for one in options):
            return super().format_options(ctx, formatter)
        of_heading: dict[str, list[tuple[str, str]]] = {"Options": []}
        for one in options:
            line = one.get_help_record(ctx)
            if line is not None:
                heading = "Options" if one.name in _FIRST else model.heading_of(one.name)
                of_heading.setdefault(heading, []).append(line)
        shown = of_heading if ctx.meta.get(_EVERYTHING) else {"Options": of_heading["Options"]}
        for heading, lines in shown.items():
            with formatter.section(heading):
                formatter.write_dl(lines)
        if len(shown) < len(of_heading):
            left = (f"{len(of_heading[name])} on {name.lower()}" for name in [*of_heading][1:])
            formatter.write_paragraph()
            formatter.write_text(f"More options, by {_ALL}: {', '.join(left)}.")
        return None


_EVERYTHING, _CONFIG = "knnoise.everything", "knnoise.config"


def _file_of(ctx: click.Context, name: str | None) -> str:
    """How a message on a parameter begins that a file gives; empty for any other."""
    given = name is not None and ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP
    return f"--config {ctx.meta[_CONFIG]}: " if given else ""


def _with_everything(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the help with all options."""
    if value and not ctx.resilient_parsing:
        ctx.meta[_EVERYTHING] = True
        click.echo(ctx.get_help())
        ctx.exit()


def of_model(model: str, **more: bool) -> type[click.Command]:
    """The class of commands with the fields of a model."""
    return type(model, (OfModel,), {"model": model, **more})


def _configured(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Take the options of a file as defaults."""
    if value is None or ctx.resilient_parsing:
        return
    group, name = ctx.find_root().command, str(ctx.command.name)
    commands = {**_commands(group), name: ctx.command}
    known = {
        called: {
            p.name: getattr(p, "multiple", False)
            for p in command.get_params(ctx)
            if p.name is not None and p.name not in ("config", "help")
        }
        for called, command in commands.items()
    }
    ctx.default_map = read_settings(value, name, known)
    ctx.meta[_CONFIG] = value


def _commands(of: click.Command, before: str = "") -> dict[str, click.Command]:
    """A group's commands by what is typed for them, those of groups in it included."""
    made: dict[str, click.Command] = {}
    if isinstance(of, click.Group):
        for name, command in of.commands.items():
            made |= {f"{before}{name}": command, **_commands(command, f"{before}{name} ")}
    return made


class _Auto(click.ParamType[Any]):
    """A number, or `auto` for none."""

    def __init__(self, kind: type) -> None:
        self.kind = click.types.convert_type(kind)
        self.name = self.kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "auto" else self.kind.convert(value, param, ctx)


def _options(name: str, field: Any, wanted: bool) -> list[click.Parameter]:
    """One field on the command line: a parameter, or a flag for each of its words."""
    from flows.options.params import Flags, option

    flags = next((note for note in field.metadata if isinstance(note, Flags)), None)
    if flags is None:
        return [_parameter(name, field, wanted)]
    by_value = click.Option([option(name)], type=click.Choice([*flags.help]), hidden=True)
    made = [
        click.Option([option(word), name], flag_value=word, default=field.default, help=about)
        for word, about in flags.help.items()
    ]
    return [*made, by_value]


def _parameter(name: str, field: Any, wanted: bool) -> click.Parameter:
    """One field on the command line; `wanted`: the required ones are."""
    from flows.options.params import bare_type, choices, is_many, metavar, option

    if name == "source":
        return click.Argument(["source"], required=wanted, shell_complete=completed("FILE"))
    kind, allowed = bare_type(field), choices(field)
    names = [option(name), *({"quiet": ["-q"]}.get(name, [])), name]
    if kind is bool:
        return click.Option(names, is_flag=True, help=field.description)
    if is_many(field):
        many = {"multiple": True, "metavar": metavar(field), "help": field.description}
        return click.Option(names, type=str, **many)
    needed = field.is_required()
    default = None if needed else field.default
    about = field.description + (f" (default {default})" if default is not None else "")
    plain = kind if needed or default is not None or kind is str else _Auto(kind)
    return click.Option(
        names,
        type=click.Choice(allowed) if allowed else plain,
        **({} if default is None else {"default": default}),
        required=wanted and needed,
        metavar=None if allowed else metavar(field),
        help=about,
        shell_complete=completed(metavar(field)),
    )


def completed(word: str | None) -> Callable[..., "list[CompletionItem]"] | None:
    """What completes a value: files or folders of the shell, else what click has."""
    kind = {"FILE": _FILE, "PEM": _FILE, "DIR": _FOLDER}.get(word or "")
    return None if kind is None else kind.shell_complete


def quiet(help: str) -> Callable[[Any], Any]:
    """The option `--quiet` of a command without a model."""
    return click.option("-q", "--quiet", is_flag=True, help=help)


def path(name: str, word: str, help: str, **more: Any) -> Callable[[Any], Any]:
    """An option that is a path."""

    def expand(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        return value and os.path.expanduser(value)

    given: dict[str, Any] = {"shell_complete": completed(word), "callback": expand, **more}
    return click.option(name, metavar=word, help=help, **given)


def read_settings(
    path: str, command: str, known: Mapping[str, Mapping[str, bool]]
) -> dict[str, Any]:
    """The options for one command, as text: those of its table, such as `[train]`, and those
    outside any.

    known : the options of every command, and whether each is a list

    Raises `InputError` where the file cannot be read, or there is no such command or option; the
    message names it.
    """
    import tomllib

    try:
        with open(path, "rb") as file:
            text = file.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise InputError(f"--config {path}: over {LONGEST:,} bytes; give a file of options")
        content = tomllib.loads(text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"--config {path}: is not UTF-8; save it as UTF-8") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"--config {path}: {reason_of(error)}") from error
    tables = {key: value for key, value in content.items() if isinstance(value, dict)}
    outside = _spelled({key: value for key, value in content.items() if key not in tables})
    for table in tables:
        if table not in known:
            more = did_you_mean(table, known)
            raise InputError(f"--config {path}: [{table}]: there is no such command{more}")
    here = known[command]
    own = _spelled(tables.get(command, {}))
    other = set().union(*known.values()) if tables else here
    checked = [("", outside, other)]
    for table, keys in tables.items():
        to_submit = {} if table == command else known.get(f"submit {table}", {})
        checked.append((f"[{table}] ", _spelled(keys), {*known[table], *to_submit}))
    for table, keys, of in checked:
        for key in keys:
            if key not in of:
                more = did_you_mean(key, of if table else here)
                raise InputError(f"--config {path}: {table}{key}: there is no such option{more}")
    values = {**{key: value for key, value in outside.items() if key in here}, **own}
    return {
        key: [*map(str, value if isinstance(value, list) else [value])] if here[key] else str(value)
        for key, value in values.items()
    }


def _spelled(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("-", "_"): value for key, value in table.items()}


def settings_text(parameters: Mapping[str, Any], label_name: str | None) -> str:
    """The settings of a training as a TOML file that trains alike."""
    given = {key: value for key, value in parameters.items() if value is not None}
    if label_name is not None:
        given = {"label_column": label_name, **given}
    # TOML has text, numbers, truth and lists as JSON writes them, but no pairs of surrogates
    plain = {key: json.dumps(value, ensure_ascii=False) for key, value in given.items()}
    lines = [f"{key.replace('_', '-')} = {value}" for key, value in plain.items()]
    text = "\n".join(["[train]", *lines, ""])
    return re.sub("[\x7f-\x9f]", lambda control: f"\\u{ord(control[0]):04x}", text)
