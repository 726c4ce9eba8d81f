"""A look at a source before anything is computed."""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from shlex import quote
from typing import NamedTuple

import numpy as np

from flows.engine.results import LabelValue
from flows.intake.coding import annotated, own_source
from flows.intake.features import DECIMAL, doubtful
from flows.intake.glance import FeatureCandidate, Glance, look_at
from flows.intake.health import SHOWN, Finding, Health
from flows.intake.labels import (
    NOTHING,
    alike,
    cleaned,
    joins,
    quantity,
    refused,
    spelled_alike,
    too_few,
)
from flows.intake.remedies import mended, remedies
from flows.options.params import CheckParams, Method, TrainParams, as_keywords
from pipeline.arrays import AnyArray, Float64, Int64
from pipeline.diagnostics.health import (
    contradictions,
    equal_columns,
    is_constant,
    is_copy,
    is_like_ids,
    is_row_number,
    oversampled,
)
from storage.errors import InputError, amount, listed
from storage.redaction import bare
from storage.sources.base import Source
from storage.sources.joins import with_corrections
from storage.sources.request import Coding, separator_hint
from storage.sources.values.labels import LabelCodes, joined_by, label_value

READING = "reading"
"""The kind of finding without which a source cannot be read."""
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
    labels = _labels(glance, source, params, method)
    findings = [*labels.findings, *_findings(glance, labels, method)]
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
        label_counts=labels.counts,
        id_name=source.beside.id,
        texts=[
            c.name for c in glance.columns if c.is_text and not c.refused and c.name not in away
        ],
        findings=findings,
    )


class _Labels(NamedTuple):
    """What is understood of labels."""

    y: Int64
    """(row,) codes; -1 where labels are sets, or are refused, or there are none."""
    counts: list[tuple[LabelValue, int]]
    """As of a `Health`."""
    n_missing: int
    findings: list[Finding]


def _labels(
    glance: Glance, source: Source, params: CheckParams | TrainParams, method: Method
) -> _Labels:
    unread = np.full(glance.n_rows, -1, np.int64)
    if glance.label is None:
        return _Labels(unread, [], 0, [])
    if source.candidates is not None:
        sets = [candidates for candidates in glance.label.tolist() if candidates is not None]
        counts = _in_order(Counter(value for candidates in sets for value in candidates))
        findings = []
        if params.candidates is not None and sets and max(map(len, sets)) == 1:
            text = (
                f"no label holds {params.candidates!r}, and sets of one have no noise rates; "
                "leave out --candidates, or give what divides them"
            )
            findings = [Finding(kind="candidates", columns=[], text=text)]
        return _Labels(unread, counts, len(glance.label) - len(sets), findings)
    name, labels, known = str(source.label_name), glance.label, _known(glance.label)
    if params.join_labels:
        labels = Coding(joined=joined_by(known)).join(labels)
        known = _known(labels)
    try:
        y = LabelCodes(f"labels {source.label_name!r}").encode(labels).astype(np.int64)
    except InputError as error:  # training refuses them itself
        return _Labels(unread, [], 0, refused(name, known, error))
    n_missing = len(labels) - known.total() if known else 0
    joined = joins(name, known)
    findings = [*quantity(name, known), *(joined or alike(name, known))]
    if glance.whole and not joined:
        few = too_few(name, known, n_missing, method.reads_rates)
        n_missing = 0 if few and len(known) < 2 else n_missing  # which is said with it
        findings += few
    return _Labels(y, _in_order(known), n_missing, findings)


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


def _findings(glance: Glance, labels: _Labels, method: Method) -> list[Finding]:
    """What is found beside that, what is left out first."""
    rows = "" if glance.whole else f" in the {glance.n_rows:,} rows looked at"
    no_features, rest = _no_features(glance, labels, method, rows)
    features = [c.values for c in rest if not is_like_ids(c.values)]
    every = len(glance.columns) <= MOST_COLUMNS  # else rows may differ in what is not looked at
    findings = [
        *no_features,
        *doubtful(rest, labels.y, method),
        *_ids(glance, rows),
        *_missing(labels.n_missing, method, rows),
        *_copies(features if every else [], labels.y, glance, rows),
    ]
    return sorted(findings, key=lambda finding: not finding.left_out)


def _no_features(
    glance: Glance, labels: _Labels, method: Method, rows: str
) -> tuple[list[Finding], list[FeatureCandidate]]:
    """Columns that are none, whatever their values mean; and the others, looked at on."""
    columns, prefix = glance.columns[:MOST_COLUMNS], method.model_probabilities
    names = [c.name for c in columns if prefix is None or not c.name.startswith(prefix)]
    made = cleaned(dict(labels.counts), names)
    columns = [column for column in columns if column.name not in made]
    constant = [c.name for c in columns if is_constant(c.values)]
    copies = [c.name for c in columns if c.name not in constant and is_copy(c.values, labels.y)]
    numbers = [c.name for c in columns if not c.is_text and is_row_number(c.values)]
    known = {*constant, *copies, *numbers, *made}
    rest = [column for column in columns if column.name not in known]
    equal = equal_columns([(c.values, c.coded) for c in rest])
    doubles = {rest[i].name: rest[j].name for i, j in equal.items()}
    nothing = len(known) + len(doubles) == len(glance.columns)  # else, which is refused as such
    leave_out = method.preflight == "fix" and not nothing
    certain = leave_out and glance.whole
    findings = [
        *_several("constant", constant, f"constant{rows}", certain),
        *_several("leak", copies, f"the label itself, written otherwise{rows}", leave_out),
        *_several("cleaned", made, BY_CLEAN, leave_out),
        *_several("row number", numbers, f"a count of the rows{rows}", leave_out),
        *_doubles(doubles, rows, certain),
    ]
    if nothing:
        text = "there is no other column, and so nothing to learn from"
        findings = [one.model_copy(update={"option": None}) for one in findings]
        findings.append(Finding(kind=NOTHING, columns=[], text=text))
    return findings, [column for column in rest if column.name not in doubles]


def _ids(glance: Glance, rows: str) -> list[Finding]:
    """Ids that name no row, or several."""
    if glance.ids is None or len(np.unique(glance.ids[~np.isnan(glance.ids)])) == len(glance.ids):
        return []
    text = f"ids occur twice or are missing{rows}: joins by them are ambiguous"
    return [Finding(kind="ids", columns=[], text=text)]


def _missing(n_missing: int, method: Method, rows: str) -> list[Finding]:
    """Rows without a label."""
    if not n_missing:
        return []
    predicted = method.unlabeled == "predict"
    more = ", to be predicted" if predicted else ": fill in, or drop such rows"
    text = f"{amount(n_missing, 'label is', 'labels are')} missing{rows}{more}"
    option = None if predicted else "--unlabeled predict"
    return [Finding(kind="missing labels", columns=[], text=text, option=option)]


def _copies(features: list[Float64], y: Int64, glance: Glance, rows: str) -> list[Finding]:
    """Rows that copy others, with their label or another."""
    findings = []
    groups, copied, again = contradictions(features, y)
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
    return findings


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
