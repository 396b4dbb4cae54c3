"""The first context of a fresh process: opens a memory, assembles once, and prints what that took in seconds as JSON.

    python -m benchmarks.cold DATA_DIR QUERY [--semantic-store exact] [--warm]

Imports no more than a server has imported when its first call comes. With --warm everything slow is loaded before, as a
server does once it has answered the handshake.
"""

import argparse
import json
import time
from contextlib import closing
from pathlib import Path

from mcp_memory.app import open_app
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.settings import load_settings


def main() -> None:
    """Open, assemble, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path, help="the memory's data directory")
    parser.add_argument("query")
    parser.add_argument("--namespace", default="benchmark")
    parser.add_argument("--semantic-store", default="exact")
    parser.add_argument("--warm", action="store_true")
    chosen = parser.parse_args()
    started = time.perf_counter()
    settings = load_settings(data_dir=chosen.data, namespace=chosen.namespace, semantic_store=chosen.semantic_store)
    with closing(open_app(settings)) as app:
        if chosen.warm:
            app.warm()
        ready = time.perf_counter()
        context = app.assemble_context(ContextRequest(query=chosen.query), app.caller())
        done = time.perf_counter()
        assert context.report.components
    print(json.dumps({"before": ready - started, "first context": done - ready}))


if __name__ == "__main__":
    main()
