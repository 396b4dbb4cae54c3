"""The log on stderr, to which libraries write as well."""

import io
import json
import logging
from datetime import UTC, datetime

from mcp_memory.domain.model.scopes import Caller
from mcp_memory.entrypoints.server.server_log import JsonLines, without_words
from mcp_memory.services.access.served_requests import RequestsServed, asked_by


def test_the_words_of_an_error_stay_out_of_the_log_whoever_writes_it() -> None:
    """S4.3: they may be remembered ones."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(without_words)
    library = logging.getLogger("a library")
    library.addHandler(handler)
    try:
        raise ValueError("the port is 5432")
    except ValueError:
        library.exception("Call %d failed", 7)
    library.error("Nothing was raised.", exc_info=True)
    library.warning("%s went", "Something")
    library.removeHandler(handler)
    first, *rest = written.getvalue().splitlines()
    assert first.startswith("Call 7 failed (ValueError at server/test_log.py:")
    assert rest == ["Nothing was raised.", "NoneType: None", "Something went"]


def test_each_line_of_a_structured_log_is_an_object_with_its_request() -> None:
    """S4.3: a request's figures, and who sent it; no field that says nothing."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines())
    log = logging.getLogger("a service")
    log.addHandler(handler)
    log.warning("Of no request: %d", 1)
    ann = Caller(namespace="shop", agent="ann", session_id="s1")
    with RequestsServed(None)("tool recall", agent="somebody") as request:
        log.warning("Before it is known who asks")
        asked_by(ann)
        log.warning("Two\nlines", extra={"figures": {"records": 0}})
    log.removeHandler(handler)
    plain, early, late = map(json.loads, written.getvalue().splitlines())
    assert plain.keys() == {"time", "level", "logger", "message"}
    assert datetime.fromisoformat(plain["time"]).tzinfo == UTC
    assert (plain["level"], plain["logger"], plain["message"]) == ("WARNING", "a service", "Of no request: 1")
    assert (early["request"], early["way"], early["agent"]) == (request.id, "tool recall", "somebody")
    assert "namespace" not in early
    assert (late["agent"], late["namespace"], late["session"]) == ("ann", "shop", "s1")
    assert (late["message"], late["records"]) == ("Two\nlines", 0)
