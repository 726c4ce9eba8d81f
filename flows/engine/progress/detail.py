"""What `--verbose` adds on stderr: each part of a step, and the trace of an error."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from storage.redaction import redacted

LOGGER = "knnoise"


class _Parts(logging.Handler):
    """Prints records of level DEBUG; of greater ones the terminal tells."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno <= logging.DEBUG

    def emit(self, record: logging.LogRecord) -> None:
        print(redacted(record.getMessage()), file=sys.stderr, flush=True)


@contextmanager
def in_detail() -> Iterator[None]:
    """Print each part that is done, and the trace of the error that ends the block."""
    logger, handler = logging.getLogger(LOGGER), _Parts()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    except Exception as error:
        print(redacted("".join(traceback.format_exception(error))), file=sys.stderr, end="")
        raise
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
