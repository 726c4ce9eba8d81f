"""Runs of this version, kept for those that come; `make release` makes them where there are none.

They are trained on the sources of the runs that are kept already.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

from flows.cli import main as knnoise
from storage.version import VERSION

HERE = Path(__file__).parent
TRAINED = {
    "two": ["two.csv", "--label-column", "label", "--k", "5"],
    "three": ["three.csv", "--label-column", "kind", "--k", "5"],
    "sets": ["sets.csv", "--label-column", "kind", "--candidates", "|"],
    "votes": ["votes.csv", "--annotations", "annotations.csv", "--k", "5"],
}
"""How each run is trained: one for each kind of labels."""


def extract(version: str, folder: Path) -> None:
    """The sources and runs of a version, into a folder."""
    with tarfile.open(HERE / f"{version}.tar.xz") as runs:
        runs.extractall(folder, filter="data")


def main() -> int:
    """Keep runs of this version, without what they do not rest on."""
    kept = HERE / f"{VERSION}.tar.xz"
    if kept.exists():
        return 0
    with TemporaryDirectory() as name, chdir(name):
        folder = Path(name)
        extract("0.1.0", folder)
        for run, source in TRAINED.items():
            shutil.rmtree(run)
            if status := knnoise(["train", *source, "--run", run, "--workers", "0", "-q"]):
                return status
            for passing in ("scratch.zarr", "logs", "lease"):
                shutil.rmtree(folder / run / passing)
        files = sorted(folder.iterdir())
        with tarfile.open(kept.name, "w:xz") as runs:
            for file in files:
                runs.add(file, file.name, filter=_anonymous)
        shutil.move(kept.name, kept)
    print(f"{kept.name}: commit it with the release")
    return 0


def _anonymous(file: tarfile.TarInfo) -> tarfile.TarInfo:
    """A file without its owner and its times."""
    return file.replace(deep=False, mtime=0, uid=0, gid=0, uname="", gname="")


if __name__ == "__main__":
    sys.exit(main())
