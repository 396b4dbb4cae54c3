"""The first page of a process: what takes long to load is loaded before anybody asks for it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from mcp_memory.domain.model.records import NewRecord
from tests.entrypoints.page.conftest import memory_of

_FIRST_PAGE = """
import json, sys
from mcp_memory.entrypoints.page import memories, rendering, sign_in, site, visits
from mcp_memory.entrypoints.server.identity import RequestSender, visited_by
from tests.entrypoints.page.conftest import memory_of
from pathlib import Path

app = memory_of(Path(sys.argv[1]))
site.Site(app, sign_in.Doors(app, sign_in.PageSessions(), lambda headers: True), 1.0).warm()
loaded, compiled, loads = set(sys.modules), len(rendering.environment().cache), app.follower.figures().loads
visitor = sign_in.Visitor(sender=RequestSender(grant=None, namespace="", session="p1"), session_id="1", is_owner=True)
with visited_by(visitor.sender):
    visit = visits.visit_of(app, visitor, path="/", query={}, form={}, parts={}, nav=site.SCREENS)
    shown = memories.show_memories(visit)
late = sorted({each.partition(".")[0] for each in set(sys.modules) - loaded} - {"mcp_memory"})
late += ["a partition"] * (app.follower.figures().loads - loads)
print(json.dumps([b"boiler" in shown.body, late, len(rendering.environment().cache) - compiled]))
"""


def test_the_first_page_loads_no_library_and_no_list_and_compiles_no_template(tmp_path: Path) -> None:
    """U1: a vocabulary, numpy and templates took 300 ms of it; the list of 100,000 records takes 1.4 s."""
    with closing(memory_of(tmp_path / "data")) as app:
        app.remember([NewRecord(text="The boiler is in the cellar.")], app.caller())
    command = [sys.executable, "-c", _FIRST_PAGE, str(tmp_path / "data")]
    told = subprocess.run(command, capture_output=True, check=True, cwd=Path(__file__).parents[3]).stdout
    assert json.loads(told) == [True, [], 0]
