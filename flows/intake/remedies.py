"""The options that sentences of a look name, joined: with what is given, and as the shell takes
them."""

import re
import shlex
from typing import Any

from flows.intake.health import Finding, Health
from flows.intake.labels import NO_CLASSES
from flows.options.params import CheckParams, TrainParams, is_many, option

_GIVEN = re.compile(r"give (--[a-z-]+ (?:'[^']*'|[^\s;]+))")


def mended(params: CheckParams, message: str) -> CheckParams | None:
    """The parameters with the option that a refusal names; None where it names none that helps."""
    match = _GIVEN.search(message)
    options = _typed(match[1]) if match else {}
    new = {name: value for name, value in options.items() if name in CheckParams.model_fields}
    if not new or any(getattr(params, name) is not None for name in new):
        return None
    return params.model_copy(update=new)


def remedies(params: CheckParams, health: Health) -> dict[str, Any] | None:
    """The parameters of a training on the source, with what is given and every remedy; None where
    no label is known to be one."""
    if health.label_name is None or any(finding.kind in NO_CLASSES for finding in health.findings):
        return None
    options = params.model_dump(exclude_defaults=True)
    doubted = [one for one in health.findings if one.kind in ("id-like", "near leak")]
    doubted = [one for one in doubted if not {*one.columns} & {*health.texts}]
    spared = doubted if len(doubted) == health.n_features else []  # else nothing would be left
    for finding in health.findings:
        if finding.option is not None and not finding.left_out and finding not in spared:
            _add(options, finding)
    if options.get("noise") == "minmax":  # its rates are too low for groups
        for name in [one for one in ("by", "together") if one in options]:
            options["exclude"] = [*options.get("exclude", []), options.pop(name)]
    return options


def _add(given: dict[str, Any], finding: Finding) -> None:
    """The first of a finding's options that can still be given."""
    for words in re.split(r" or (?=--)", finding.option or ""):
        options = _typed(words)
        if not options or not options.keys() <= TrainParams.model_fields.keys():
            continue
        many = {name for name in options if is_many(TrainParams.model_fields[name])}
        if any(
            given.get(name, value) != value for name, value in options.items() if name not in many
        ):
            continue
        for name, value in options.items():
            before = given.get(name) or []
            given[name] = list(dict.fromkeys([*before, value])) if name in many else value
        return


def _typed(words: str) -> dict[str, Any]:
    """Parameters by name, of options as they are typed."""
    options: dict[str, Any] = {}
    name = ""
    for word in shlex.split(words):
        if word.startswith("--"):
            name = word[2:].replace("-", "_")
            options[name] = True
        elif name:
            options[name] = word
    return options


def command(options: dict[str, Any]) -> str:
    """A training as the shell takes it."""
    words = ["knnoise", "train", options["source"]]
    for name, value in options.items():
        if name != "source":
            for one in value if isinstance(value, list) else [value]:
                words += [option(name)] if one is True else [option(name), str(one)]
    return shlex.join([*words, "--run", "run"])
