"""Questions as tasks of Label Studio, and its answers: its JSON and JSON-MIN exports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Any
from xml.sax.saxutils import quoteattr

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from storage.answers import MOST_ROWS, Origin
from storage.errors import InputError, listed, shown
from storage.export import NO_XML, write_bytes
from storage.sources.files import SourcePath, readable
from storage.sources.values.labels import Label
from storage.sources.values.texts import ID_BYTES

TASKS = ".json"
"""Ending of a file of tasks, and of an export."""
CONTROL, OBJECT = "label", "question"
"""Names of the choices, and of what they are on."""
MOST_BYTES, MOST_MARKS = 32 << 20, 2 << 20
"""Bytes of an export, which is in memory as a whole, and marks between its values, which take more
than they are long."""


def write_tasks(
    target: str, tasks: Sequence[Mapping[str, Any]], labels: Sequence[Label], origin: Origin
) -> None:
    """Tasks for Label Studio, and beside them the labeling configuration that fits their data.

    tasks : `row`, `given`, `likely` (None where there is none), `wrong` (the chance that the given
        label is), `nearest` (name → value); of `columns` (name → value), `text` and `image` (an
        address, or a data URI) what there is, and `row_id` where rows have ids

    Raises `InputError` where a label has characters that XML cannot hold; `StorageError` where a
    file cannot be written.
    """
    bad = next((label for label in labels if NO_XML.search(str(label))), None)
    if bad is not None:
        raise InputError(f"{target}: label {shown(bad)} has characters that no XML can hold")
    kinds = [kind for kind in ("image", "text", "columns") if any(kind in task for task in tasks)]
    drawn = any(task.get("image", "").startswith("data:") for task in tasks)
    pixels = ' maxWidth="280px" smoothing="false"' if drawn else ""
    config = [
        "<View>",
        f'  <Text name="{OBJECT}" value="$question"/>',
        *([f'  <Image name="row_image" value="$image"{pixels}/>'] if "image" in kinds else []),
        *(['  <Text name="row_text" value="$text"/>'] if "text" in kinds else []),
        f'  <Choices name="{CONTROL}" toName="{OBJECT}" choice="single" required="true">',
        *(f"    <Choice value={quoteattr(str(label))}/>" for label in labels),
        "  </Choices>",
        *(['  <Table name="row_columns" value="$columns"/>'] if "columns" in kinds else []),
        '  <Table name="row_nearest" value="$nearest"/>',
        "</View>",
    ]
    written = [_task(task, kinds, origin) for task in tasks]
    write_bytes(f"{target[: -len(TASKS)]}.xml", "\n".join([*config, ""]).encode())
    write_bytes(target, json.dumps(written, indent=1).encode())


def _task(task: Mapping[str, Any], kinds: Sequence[str], origin: Origin) -> dict[str, Any]:
    name = f"row {task['row']:,}" + (f", id {task['row_id']}" if "row_id" in task else "")
    question = f"{name}: labeled {task['given']}. Is it?"
    data = dict.fromkeys(kinds, "") | dict(task)
    likely, wrong = data.pop("likely"), data.pop("wrong")
    value = {"choices": [str(likely)]}
    result = {"from_name": CONTROL, "to_name": OBJECT, "type": "choices", "value": value}
    prediction = {"model_version": f"knnoise {origin.run}", "score": wrong, "result": [result]}
    return {
        "data": {**data, "question": question, "source": origin.source},
        "predictions": [] if likely is None else [prediction],
    }


class _Exported(BaseModel):
    model_config = ConfigDict(strict=True)


_Name = Annotated[str, Field(max_length=ID_BYTES)]
"""Of a person; it is kept with each answer."""


class _Annotator(_Exported):
    id: int
    email: _Name = ""


class _ControlValue(_Exported):
    choices: list[str] = []


class _ControlResult(_Exported):
    from_name: str = ""
    value: _ControlValue = _ControlValue()


class _TaskAnnotation(_Exported):
    """What one person latest, in either export."""

    id: int = 0
    completed_by: int | _Name | _Annotator
    result: list[_ControlResult] = []
    was_cancelled: bool = False
    updated_at: str = ""

    @property
    def reviewer(self) -> str:
        who = self.completed_by
        name = (who.email or str(who.id)) if isinstance(who, _Annotator) else str(who)
        return name.encode("utf-8", "replace").decode()

    @property
    def choices(self) -> list[str]:
        """Labels; none of somebody who skipped the task."""
        given = [one.value.choices for one in self.result if one.from_name == CONTROL]
        return [] if self.was_cancelled else [choice for some in given for choice in some]


class _TaskData(_Exported):
    row: int = Field(ge=0)
    source: str


class _LabeledTask(_Exported):
    data: _TaskData
    annotations: list[_TaskAnnotation] = []


def read_tasks(path: str, origin: Origin) -> list[tuple[int, str, Label | None]]:
    """(row, reviewer, label) of every annotation, the last one of each row and reviewer; the label
    is None where the task was skipped.

    Raises `InputError` where the file cannot be read, or a task has other rows or labels.
    """
    location = SourcePath.of(path)
    name = location.name
    with readable(name), location.open() as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES or sum(map(content.count, b",:[{")) > MOST_MARKS:
        raise InputError(
            f"{name}: more than {MOST_BYTES >> 20} MiB or {MOST_MARKS:,} commas, colons and "
            "brackets; export fewer tasks at once"
        )
    with readable(name):
        tasks = json.loads(content)
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InputError(f"{name}: no list of tasks; give Label Studio's JSON or JSON-MIN export")
    known = {str(label): label for label in origin.label_values}
    latest: dict[tuple[int, str], tuple[tuple[str, int], Label | None]] = {}
    for place, fields in enumerate(tasks):
        at = f"{name}: task {shown(fields.get('id', place))}"
        try:
            task = _LabeledTask.model_validate(fields if "data" in fields else _whole(fields))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(
                f"{at}: {where}: {first['msg']}; give Label Studio's JSON or JSON-MIN export of "
                "tasks that were written here; nothing was imported"
            ) from error
        row = task.data.row
        if task.data.source != origin.source or row >= origin.n_rows:
            raise InputError(f"{at}: is on rows of another source; nothing was imported")
        for one in task.annotations:
            if len(one.choices) > 1 or any(choice not in known for choice in one.choices):
                raise InputError(
                    f"{at}: choice {listed(one.choices)} is not one of "
                    f"{listed(list(origin.label_values))}; nothing was imported"
                )
            label = known[one.choices[0]] if one.choices else None
            key, when = (row, one.reviewer), (one.updated_at, one.id)
            if key not in latest or latest[key][0] <= when:
                latest[key] = when, label
    if len(latest) > MOST_ROWS:
        raise InputError(f"{name}: more than {MOST_ROWS:,} answers; export fewer tasks at once")
    return [
        (row, who, label) for (row, who), (_, label) in sorted(latest.items(), key=itemgetter(0))
    ]


def _whole(flat: Mapping[str, Any]) -> dict[str, Any]:
    """A line of JSON-MIN, which has one annotation, as a task of JSON."""
    data = {name: flat[name] for name in ("row", "source") if name in flat}
    if flat.get("annotator") is None:
        return {"data": data}
    choice = flat.get(CONTROL)
    value = choice if isinstance(choice, dict) else {"choices": [] if choice is None else [choice]}
    one = {
        "completed_by": flat["annotator"],
        "result": [{"from_name": CONTROL, "value": value}],
        "updated_at": flat.get("updated_at", ""),
        "id": flat.get("annotation_id", 0),
    }
    return {"data": data, "annotations": [one]}
