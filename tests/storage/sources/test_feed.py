"""Arrow's threads are done with a file before the process that reads it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

SLOW = """
import io, sys, time
from pathlib import Path
from storage.errors import InputError
from storage.sources.opening import open_source
from storage.sources.files import SourcePath

class Slow(io.FileIO):
    def read(self, size=-1):
        found = super().read(size)
        if size == 1 << 20:  # a block of the parser
            time.sleep(0.1)
        return found

SourcePath.open = lambda self, cache_type="": Slow(self.path)
chunks = open_source(sys.argv[1], label_column="y", ignore=None).chunks(1000)
"""
ENDS = {
    "refused": """
try:
    list(chunks)
except InputError as error:
    sys.exit(f"knnoise: {error}")
""",
    "left in the middle": "next(chunks); del chunks; sys.exit('knnoise: does not end')",
    "held to the end": "next(chunks); sys.exit('knnoise: does not end')",
    "held in a circle": "next(chunks); held = [chunks]; held.append(held); del chunks, held\n"
    "sys.exit('knnoise: does not end')",
}


@pytest.mark.parametrize("end", ENDS)
def test_processes_end_while_a_file_is_read_ahead(tmp_path: Path, end: str) -> None:
    """They were aborted: `terminate called without an active exception`."""
    rows = b'1,"' + b"\0" * (8 << 20) if end == "refused" else b"1,0\n" * (8 << 18)
    (tmp_path / "t.csv").write_bytes(b"a,y\n" + rows)
    done = subprocess.run(
        [sys.executable, "-c", SLOW + ENDS[end], tmp_path / "t.csv"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "does not end" in done.stderr
    assert len(done.stderr.splitlines()) == 1
