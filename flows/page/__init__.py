"""The report of a training as one self-contained HTML page."""

from flows.page.build import write_page
from flows.page.truth import Truth

__all__ = ["Truth", "write_page"]
