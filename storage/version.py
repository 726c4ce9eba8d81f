"""Which software this is, and of which format the runs are that it makes."""

VERSION = "0.2.0"
"""Of the software; recorded with every run."""
FORMAT_VERSION = 3
"""Of runs; raised where a type that reaches disk changes between releases."""
OLDEST_READ = 2
"""Format of the oldest runs whose state, settings and report are read still. Nothing else is: what
computes takes runs of its own format alone."""
