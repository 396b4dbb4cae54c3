"""The log on stderr, to which libraries write as well."""

import io
import logging

from mcp_memory.entrypoints.server.server_log import without_words


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
