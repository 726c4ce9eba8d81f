"""What every command owes to a hostile source."""

from __future__ import annotations

from dataclasses import dataclass

MOST_MB, MOST_SECONDS, HANG_SECONDS = 512, 10.0, 120.0
N_HANDMADE = 75
"""Cases made by hand: the first ones."""
MOST_RESIDENT_MB = 400
"""Beyond it a process is replaced."""
SECRET = "s3cret-fuzz-7"
"""Part of the path of every source, as a password."""


@dataclass(frozen=True)
class Verdict:
    """What one case did."""

    number: int
    kind: str
    status: int
    """Exit status; -1: an exception left the command, -2: the process died, -3: it hung."""
    error: str
    """What it wrote to standard error."""
    output: str
    """What it wrote to standard output, though it failed."""
    raw_bytes: int
    """Bytes that compiled libraries wrote past Python."""
    wall: float
    cpu: float
    """Seconds."""
    peak_mb: float
    """Largest resident size of the process during the command."""
    resident_mb: float
    """Its resident size afterwards."""
    n_files: int
    """Open files of the process afterwards."""
    canary: bool
    """Whether code of the source was executed."""

    @property
    def end(self) -> str:
        """How the command ended, for the table."""
        if self.status == 0:
            return "succeeded"
        return "read" if "rows are too few" in self.error else "refused"

    def broken(self) -> str | None:
        """The part of the law that is broken; None if none is."""
        lines = self.error.splitlines()
        laws = {
            "exit status": self.status in (0, 2, 3),
            "one line": len(lines) == (self.status != 0),
            "length of the line": len(self.error) < 1000,
            "no traceback": "Traceback" not in self.error
            and not self.error.startswith("knnoise: unexpected"),
            "no output": not self.output,
            "no raw output": self.raw_bytes == 0,
            "memory": self.peak_mb <= MOST_MB,
            "seconds": self.cpu <= MOST_SECONDS,
            "open files": self.n_files < 200,
            "nothing executed": not self.canary,
            "no secret": SECRET not in self.error + self.output,
        }
        return next((name for name, kept in laws.items() if not kept), None)
