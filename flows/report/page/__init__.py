"""The report of a training as one self-contained HTML page."""
