"""Logs what a server's process has to say, without remembered text. Imports no protocol, which is slow to load."""

import io
import logging
import sys
import traceback
from pathlib import Path

logger = logging.getLogger(__name__)


def log_to_stderr(level: str) -> None:
    """Send the log to stderr, which may be a narrow console, or gone.

    Libraries say no more than INFO: at DEBUG they log whole messages, and so what is remembered.
    """
    logging.raiseExceptions = False
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    of_libraries = "INFO" if level == "DEBUG" else level
    log = logging.StreamHandler()
    log.addFilter(without_words)
    logging.basicConfig(level=of_libraries, handlers=[log], format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("mcp_memory").setLevel(level)
    logger.debug("The log says all that this process has to say.")
    logging.captureWarnings(capture=True)


def without_words(entry: logging.LogRecord) -> bool:
    """Reduce a library's logged error to its type and place: its message may hold remembered text."""
    kind, _, trace = entry.exc_info or (None, None, None)
    if kind is None:
        return True
    places = [f" at {'/'.join(Path(each.filename).parts[-2:])}:{each.lineno}" for each in traceback.extract_tb(trace)]
    entry.msg, entry.args = f"{entry.getMessage()} ({kind.__name__}{''.join(places[-1:])})", None
    entry.exc_info = entry.exc_text = None
    return True


def log_defect(where: str, error: BaseException) -> None:
    """Log what happened where, without the error's own words, which may hold remembered text."""
    places = traceback.extract_tb(error.__traceback__)
    path = " > ".join(f"{'/'.join(Path(place.filename).parts[-2:])}:{place.lineno}" for place in places)
    cause = f" from {type(error.__cause__).__name__}" if error.__cause__ else ""
    logger.error("%s failed: %s%s at %s", where, type(error).__name__, cause, path)
