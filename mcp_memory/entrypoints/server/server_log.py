"""Logs what a server's process has to say, without remembered text. Imports no protocol, which is slow to load."""

import io
import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from mcp_memory.services.access.served_requests import present_request

logger = logging.getLogger(__name__)


class JsonLines(logging.Formatter):
    """Writes each entry as a JSON object in one line, with the request that it belongs to."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Fields that say nothing are left out."""
        told: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := present_request():
            by = request.caller
            told |= {"request": request.id, "way": request.way, "agent": request.agent, "token": request.token}
            told |= {"namespace": by.namespace, "session": by.session_id} if by else {}
        told |= getattr(record, "figures", {})
        return json.dumps({name: value for name, value in told.items() if value != ""})


def log_to_stderr(level: str, form: Literal["text", "json"] = "text") -> None:
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
    log.setFormatter(JsonLines() if form == "json" else logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=of_libraries, handlers=[log])
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
