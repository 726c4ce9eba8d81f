"""The report of a training as one self-contained HTML page."""

from flows.report.page.build import write_page
from flows.report.truth import Truth

__all__ = ["Truth", "write_page"]
