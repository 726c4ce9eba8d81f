"""`train(DataFrame)` in a real Jupyter kernel, figures included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

CELLS = (
    """
import numpy as np, pandas as pd
from knnoise import check, train
rng = np.random.default_rng(0)
clean = rng.integers(0, 2, 300)
x = rng.normal(size=(300, 3)) + 3 * clean[:, None]
table = pd.DataFrame(x, columns=["a", "b", "c"], index=[f"P{i}" for i in range(300)])
table["sick"] = np.where(clean ^ (rng.random(300) < 0.15), "yes", "no")
print(check(table, label_column="sick"))
""",
    'found = train(table, "run", label_column="sick")\nfound',
    "found.plot_rates();",
    'train(table, label_column="sik", quiet=True)',
)


def test_train_in_a_notebook(tmp_path: Path) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.allow_errors = True
    client.execute()
    looked, trained, drawn, refused = (cell.outputs for cell in book.cells)
    (error,) = refused
    assert error["traceback"] == [
        "InputError: the DataFrame: no column 'sik'; columns are 'index', 'a', 'b', 'c', 'sick'; "
        "did you mean 'sick'?"
    ]
    assert "nothing suspicious" in looked[0]["text"]
    assert "ids: 'index'" in looked[0]["text"]
    bar, shown = trained  # and nothing on stderr
    assert re.fullmatch(r"\d\d steps, \d+(\.\d)? s", bar["data"]["text/plain"])
    assert "labels are suspect" in shown["data"]["text/html"]
    assert "image/png" in drawn[-1]["data"]
