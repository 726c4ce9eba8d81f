"""A look at a source before anything is computed; the options that its sentences name, joined."""

import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from shlex import quote
from typing import Any

import numpy as np

from flows.engine.results import LabelValue
from flows.intake.coding import annotated, own_source, worth_encoding
from flows.intake.glance import FeatureCandidate, Glance, look_at
from flows.intake.health import COARSE, SHOWN, Finding, Health
from flows.intake.labels import (
    NO_CLASSES,
    NOTHING,
    alike,
    cleaned,
    joins,
    quantity,
    refused,
    spelled_alike,
    too_few,
)
from flows.options.params import CheckParams, Method, TrainParams, as_keywords, is_many, option
from pipeline.arrays import AnyArray, Int64
from pipeline.blocks.scaling import SPREAD_ROWS, spreads
from pipeline.diagnostics.health import (
    constant_near,
    contradictions,
    equal_columns,
    is_coarse_in_float32,
    is_constant,
    is_copy,
    is_like_ids,
    is_row_number,
    nearly_tells,
    oversampled,
    shares_labels,
    squeezing,
)
from storage.errors import InputError, amount, listed
from storage.redaction import bare
from storage.sources.joins import with_corrections
from storage.sources.request import Coding, is_place, separator_hint
from storage.sources.values.labels import LabelCodes, joined_by, label_value
from storage.sources.values.texts import parse_options

_GIVEN = re.compile(r"give (--[a-z-]+ (?:'[^']*'|[^\s;]+))")
READING, DECIMAL = "reading", "decimal"
"""Kinds of findings without whose remedy nothing else can be looked at."""


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


MOST_COLUMNS = 4096
"""Columns that are looked at, one by one."""
BY_CLEAN = "what clean adds; noise that is measured on cleaned labels is far too little"
MANY_COPIES = 0.01
"""Share of rows that copy earlier ones from which it is said."""


@as_keywords(CheckParams, name="check")
def run_check(params: CheckParams) -> dict[str, object]:
    """Look at a source: what is understood of it, and what is suspicious.

    Returns:
        the findings

    Raises:
        storage.errors.KnnoiseError: InputError or StorageError, each with a message for people.
    """
    return checked(params).model_dump(mode="json")


def checked(params: CheckParams) -> Health:
    """A look at a source; where it can only be read with another option, with that, and the whole
    of what training needs to be given."""
    first: list[Finding] = []
    while True:
        try:
            health = look(params)
        except InputError as error:
            again = mended(params, str(error))
            if again is None:
                if {one.text for one in first} <= {str(error)}:  # no remedy after all
                    raise
                before = "; ".join(one.text for one in first)
                raise InputError(f"{before}; with that: {error}") from error
            first.append(Finding(kind=READING, columns=[], text=str(error)))
        else:
            commas = [one for one in health.findings if one.kind == DECIMAL]
            again = mended(params, f"give {commas[0].option}") if commas else None
            first += commas[:1] if again else []
        if again is None:
            if params.annotations is not None:
                health = _with_votes(health, params)
            elif params.corrections is not None and health.label_name is not None:
                _check_corrections(health, params, params.corrections)
            health = health.model_copy(update={"findings": [*first, *health.findings]})
            return health.model_copy(update={"remedies": remedies(params, health)})
        params = again


def _check_corrections(health: Health, params: CheckParams, path: str) -> None:
    """`InputError` where training would refuse the corrections; of a source that was not all looked
    at, for what it knows of rows and labels without reading on."""
    source = own_source(params, with_labels=True)
    joined = joined_by(dict(health.label_counts)) if params.join_labels else {}
    source = replace(source, coding=replace(source.coding, joined=joined))
    used = with_corrections(source, path).corrections
    assert used is not None
    whole = health.n_rows == health.looked_at
    values = [value for value, _ in health.label_counts] if whole else used.values
    used.codes(values, sys.maxsize if health.n_rows is None else health.n_rows)


def _with_votes(health: Health, params: CheckParams) -> Health:
    """What is understood of the annotations, beside."""
    votes = annotated(own_source(params, with_labels=False), params).annotations
    assert votes is not None
    n, rows, who = len(votes.label), len(votes.row), len(votes.annotators)
    text = (
        f"{amount(n, 'label')} of {amount(rows, 'row')} by {amount(who, 'annotator')} "
        f"({n / rows:.1f} per row)"
    )
    if votes.n_empty:
        text += f"; {amount(votes.n_empty, 'line')} without a label left out"
    counts = np.bincount(votes.majority, minlength=len(votes.values)).tolist()
    known = {value: count for value, count in zip(votes.values, counts, strict=True) if count}
    findings = [Finding(kind="annotations", columns=[], text=text)]
    for one in alike(votes.label_name, dict.fromkeys(votes.values, 1)):
        update = {"text": f"{one.text}: recode the annotations", "option": None}
        findings.append(one.model_copy(update=update))
    if alike_names := spelled_alike(votes.annotators):
        text = f"annotators: {alike_names}: recode the annotations"
        findings.append(Finding(kind="alike annotators", columns=[], text=text))
    there = health.n_rows if votes.repeats is None else len(votes.repeats.first)
    if there is not None and there > rows:
        text = f"{amount(there - rows, 'row has', 'rows have')} no label"
        option = "--unlabeled predict"
        findings.append(Finding(kind="missing labels", columns=[], text=text, option=option))
    return health.model_copy(
        update={
            "label_name": votes.label_name,
            "label_counts": _in_order(known),
            "findings": [*health.findings, *findings],
        }
    )


def look(params: CheckParams | TrainParams) -> Health:
    """What is wrong with a source, or may be; what is wrong beyond doubt counts as left out, unless
    `--preflight` says otherwise.

    Raises `InputError` where the source cannot be opened as asked.
    """
    several = params.annotations is not None
    method = params if isinstance(params, TrainParams) else Method()
    wanted = method is params or params.labels is not None or params.label_column is not None
    try:
        source = own_source(params, with_labels=not several)
    except InputError:
        if wanted:
            raise
        source = own_source(params, with_labels=False)
    alone = source.feature_names if source.label_name is None else ()
    if len(alone) == 1 and (hint := separator_hint(alone)):
        raise InputError(f"{source.files[0]}: one column, {alone[0]!r}{hint}")
    glance = look_at(source)
    y = np.full(glance.n_rows, -1, np.int64)
    findings = []
    counts: list[tuple[LabelValue, int]] = []
    n_missing = 0
    if glance.label is not None and source.candidates is not None:
        there = [candidates for candidates in glance.label.tolist() if candidates is not None]
        counts = _in_order(Counter(value for candidates in there for value in candidates))
        n_missing = len(glance.label) - len(there)
        if params.candidates is not None and there and max(map(len, there)) == 1:
            text = (
                f"no label holds {params.candidates!r}, and sets of one have no noise rates; "
                "leave out --candidates, or give what divides them"
            )
            findings.append(Finding(kind="candidates", columns=[], text=text))
    elif glance.label is not None:
        name, labels, known = str(source.label_name), glance.label, _known(glance.label)
        if params.join_labels:
            labels = Coding(joined=joined_by(known)).join(labels)
            known = _known(labels)
        try:
            y = LabelCodes(f"labels {source.label_name!r}").encode(labels).astype(np.int64)
        except InputError as error:  # training refuses them itself
            findings += refused(name, known, error)
        else:
            counts = _in_order(known)
            n_missing = len(labels) - known.total() if known else 0
            sets = joins(name, known)
            findings += [*quantity(name, known), *(sets or alike(name, known))]
            judged = glance.whole and not sets
            few = too_few(name, known, n_missing, method.reads_rates) if judged else []
            n_missing = 0 if few and len(known) < 2 else n_missing  # which is said with it
            findings += few
    findings += _findings(glance, y, method, n_missing, dict(counts))
    if several and params.annotations == params.source:  # each line repeats its row
        findings = [one for one in findings if one.kind not in ("ids", "copies")]
    away = {name for finding in findings if finding.left_out for name in finding.columns}
    return Health(
        source=bare(params.source),
        kind=source.kind,
        n_rows=glance.n_rows if glance.whole else source.n_rows,
        looked_at=glance.n_rows,
        n_features=len(source.feature_names) - len(away),
        label_name=source.label_name,
        label_counts=counts,
        id_name=source.beside.id,
        texts=[
            c.name for c in glance.columns if c.is_text and not c.refused and c.name not in away
        ],
        findings=findings,
    )


def _known(labels: AnyArray) -> Counter[LabelValue]:
    """Rows with each label that is there."""
    known: Counter[LabelValue] = Counter()
    for raw, rows in Counter(labels.tolist()).items():
        value = label_value(raw)
        if value is not None:
            known[value] += rows
    return known


def _in_order(counts: Mapping[LabelValue, int]) -> list[tuple[LabelValue, int]]:
    order = sorted(counts, key=lambda value: (isinstance(value, str), value))
    return [(value, counts[value]) for value in order]


def _findings(
    glance: Glance, y: Int64, method: Method, n_missing: int, counts: Mapping[LabelValue, int]
) -> list[Finding]:
    """All findings, what is left out first."""
    columns, prefix = glance.columns[:MOST_COLUMNS], method.model_probabilities
    names = [c.name for c in columns if prefix is None or not c.name.startswith(prefix)]
    made = cleaned(counts, names)
    columns = [column for column in columns if column.name not in made]
    rows = "" if glance.whole else f" in the {glance.n_rows:,} rows looked at"
    leave_out = method.preflight == "fix"
    certain = leave_out and glance.whole
    constant = [c.name for c in columns if is_constant(c.values)]
    copies = [c.name for c in columns if c.name not in constant and is_copy(c.values, y)]
    numbers = [c.name for c in columns if not c.is_text and is_row_number(c.values)]
    known = {*constant, *copies, *numbers, *made}
    rest = [c for c in columns if c.name not in known]
    equal = equal_columns([(c.values, c.coded) for c in rest])
    doubles = [rest[i].name for i in equal]
    known_or_double = len(known) + len(doubles)
    nothing = known_or_double == len(glance.columns)  # else, which is refused as such
    if nothing:
        certain = leave_out = False
    findings = [
        *_several("constant", constant, f"constant{rows}", certain),
        *_several("leak", copies, f"the label itself, written otherwise{rows}", leave_out),
        *_several("cleaned", made, BY_CLEAN, leave_out),
        *_several("row number", numbers, f"a count of the rows{rows}", leave_out),
        *_doubles({rest[i].name: rest[j].name for i, j in equal.items()}, rows, certain),
    ]
    if nothing:
        text = "there is no other column, and so nothing to learn from"
        findings = [one.model_copy(update={"option": None}) for one in findings]
        findings.append(Finding(kind=NOTHING, columns=[], text=text))
    known |= set(doubles)
    rest = [column for column in columns if column.name not in known]
    findings += doubtful(rest, y, method)
    if glance.ids is not None:
        known_ids = glance.ids[~np.isnan(glance.ids)]
        if len(np.unique(known_ids)) < len(glance.ids):
            text = f"ids occur twice or are missing{rows}: joins by them are ambiguous"
            findings.append(Finding(kind="ids", columns=[], text=text))
    if n_missing:
        predicted = method.unlabeled == "predict"
        more = ", to be predicted" if predicted else ": fill in, or drop such rows"
        text = f"{amount(n_missing, 'label is', 'labels are')} missing{rows}{more}"
        option = None if predicted else "--unlabeled predict"
        findings.append(Finding(kind="missing labels", columns=[], text=text, option=option))
    features = [c.values for c in rest if not is_like_ids(c.values)]
    every = len(glance.columns) <= MOST_COLUMNS  # else rows may differ in what is not looked at
    groups, copied, again = contradictions(features if every else [], y)
    if again.any() and again.mean() >= MANY_COPIES:
        text = (
            f"{again.sum():,} rows{rows} are exact copies of earlier ones: where their labels were "
            "copied with them, training counts one row of each group"
        )
        if glance.label is not None and (often := oversampled(again, y)):
            code, share, other = often
            text += (
                f"; {share:.0%} of the rows labeled {str(glance.label[y == code][0])!r} are, "
                f"{other:.0%} of all others: if that class was oversampled, its mistakes are "
                "hidden; keep one of each row"
            )
        findings.append(Finding(kind="copies", columns=[], text=text))
    if groups:
        text = (
            f"{copied:,} rows{rows} are exact copies of others with another label, in "
            f"{amount(groups, 'group')}: some of these labels are wrong, whatever the features"
        )
        findings.append(Finding(kind="contradiction", columns=[], text=text))
    return sorted(findings, key=lambda finding: not finding.left_out)


def _doubles(equal: Mapping[str, str], rows: str, left_out: bool) -> list[Finding]:
    """One finding on columns that equal an earlier one, which is named."""
    pairs = [f"{name!r} is equal to {earlier!r}" for name, earlier in equal.items()]
    more = f" and {len(pairs) - SHOWN:,} more such columns" if len(pairs) > SHOWN else ""
    return [
        finding.model_copy(update={"text": f"{', '.join(pairs[:SHOWN])}{more}{rows}"})
        for finding in _several("duplicate", list(equal), "", left_out)
    ]


def _several(kind: str, columns: list[str], what: str, left_out: bool) -> list[Finding]:
    """One finding on several columns; none where there are none."""
    if not columns:
        return []
    verb = "is" if len(columns) == 1 else "are"
    return [
        Finding(
            kind=kind,
            columns=columns,
            text=f"{listed(columns, SHOWN)} {verb} {what}",
            option=None if left_out else f"--exclude {quote(columns[0])}",
            left_out=left_out,
        )
    ]


def doubtful(columns: list[FeatureCandidate], y: Int64, method: Method) -> list[Finding]:
    """What may be as it should be, by column."""
    doubts, absent = [], dict[str, int]()
    for column in columns:
        name, values = column.name, column.values
        parsed = column.spellings and not column.refused and method.encode == "none"
        with np.errstate(over="ignore", invalid="ignore"):
            there = np.isfinite(values.astype(np.float32))
        if (parsed or not column.is_text) and not there.all():
            absent[name] = int((~there).sum())
        if column.has_commas and not column.spellings:
            text = f"numbers with a decimal comma, such as {column.example!r}"
            doubts.append(_one("decimal", name, text, "--decimal ,"))
        elif column.refused and not column.spellings:
            text = f"neither numbers nor text, but {column.example}"
            doubts.append(_one("nested", name, text, f"--exclude {quote(name)}"))
        elif column.spellings and (method.encode == "none" or "boolean" not in column.spellings):
            doubts.append(_spelled(column))
        elif column.n_broken:
            text = (
                f"numbers, but for {amount(column.n_broken, 'row')}, such as {column.example!r}: "
                "correct them (an empty cell is a gap), or leave it out"
            )
            doubts.append(_one("broken", name, text, f"--exclude {quote(name)}"))
        elif column.over_lines:
            text = "text over several lines, which may be a quote that is not closed: training"
            doubts.append(_one("lines", name, f"{text} refuses that", f"--exclude {quote(name)}"))
        elif (
            not column.parsed
            and is_like_ids(values)
            and (column.is_text or np.ptp(values) >= len(values) - 1)
        ):
            what = (
                "texts, no two of them equal" if column.is_text else "whole numbers, no two equal"
            )
            either = f"--id-column {quote(name)} or " if column.names_rows else ""
            either += f"--exclude {quote(name)}"
            # so few of so wide a range hardly repeat, whatever they are
            by_chance = not column.is_text and np.ptp(values) > len(values) ** 2 / 8
            if by_chance and not name.lower().endswith("id"):
                text = f"{name!r}: {what}: if it is an id, give {either}"
                doubts.append(Finding(kind="id-like", columns=[name], text=text))
            else:
                doubts.append(_one("id-like", name, f"{what}: it looks like an id", either))
        elif shares_labels(values, y):
            what = "rows of one value have one label, as those of a patient or a video may"
            either = f"--together {quote(name)} or --exclude {quote(name)}"
            doubts.append(_one("together", name, what, either))
        elif column.is_text and method.encode == "none":
            text = f"text, such as {column.example!r}: distances need numbers"
            counts = np.bincount(values[np.isfinite(values)].astype(np.int64))
            encoded = "--encode one-hot or " if worth_encoding(counts) else ""
            doubts.append(_one("text", name, text, f"{encoded}--exclude {quote(name)}"))
        elif nearly_tells(values, y):
            text = "its order alone all but tells the label; was it made from the label?"
            doubts.append(_one("near leak", name, text, f"--exclude {quote(name)}"))
    if absent and method.impute == "none":
        gaps, values_are = [*absent], amount(sum(absent.values()), "value is", "values are")
        text = f"{values_are} missing or infinite in {listed(gaps, SHOWN)}: training refuses that"
        remedy = "--impute median or --impute drop"
        doubts.append(Finding(kind="gaps", columns=gaps, text=text, option=remedy))
    numeric = [c for c in columns if not c.is_text and not is_place(c.name)]
    coarse = [c for c in numeric if is_coarse_in_float32(c.values)]
    if coarse:
        values = coarse[0].values[np.isfinite(coarse[0].values)]
        low, high = values.min(), values.max()
        step = np.spacing(np.float32(max(abs(low), abs(high))))
        lose = "loses" if len(coarse) == 1 else "lose"
        normal = max(abs(low), abs(high)) >= np.finfo(np.float32).tiny
        remedy = (
            f"subtract a constant before, such as {constant_near(values)}"
            if normal
            else "multiply it before"
        )
        text = (
            f"{listed((c.name for c in coarse), SHOWN)} {lose} digits: features are of single "
            f"precision, and {coarse[0].name!r} lies between {low:.10g} and {high:.10g}, where it "
            f"has steps of {step:.3g}; {remedy}"
        )
        doubts.append(Finding(kind=COARSE, columns=[c.name for c in coarse], text=text))
    standard = numeric if method.scale in ("auto", "standard") else []
    far = {c.name: value for c in standard if (value := squeezing(c.values)) is not None}
    if far:
        text = (
            f"{listed(far, SHOWN)}: few values lie so far from the others, such as "
            f"{next(iter(far.values())):.6g}, that standard scaling makes these all but equal; "
            "leave a cell empty where that stands for a gap"
        )
        doubts.append(Finding(kind="squeezed", columns=[*far], text=text))
    if numeric and method.scale in ("none", "auto"):
        wide = spreads(np.column_stack([column.values[:SPREAD_ROWS] for column in numeric]))
        if wide.apart:
            names = [numeric[wide.narrow].name, numeric[wide.wide].name]
            text = (
                f"columns are on very different scales: {wide.described([c.name for c in numeric])}"
            )
            if method.scale == "auto":
                text += " (--scale auto standardizes them)"
            option = "--scale standard" if method.scale == "none" else None
            doubts.append(Finding(kind="scales", columns=names, text=text, option=option))
    return doubts


def _spelled(column: FeatureCandidate) -> Finding:
    """Text that is to be parsed, or cannot be as asked."""
    name, example = column.name, column.example
    if column.refused:
        text = f"{example!r} is not to be read as --parse says: training refuses it"
        return _one("parse", name, text, f"--exclude {quote(name)}")
    text = f"holds what can be read as numbers, such as {example!r}"
    comma = " or --decimal ," if column.has_commas else ""
    return _one("parse", name, text, parse_options(name, list(column.spellings)) + comma)


def _one(kind: str, name: str, text: str, option: str) -> Finding:
    return Finding(kind=kind, columns=[name], text=f"{name!r}: {text}", option=option)
