"""D12.1: passes, presets and watchers from outside, as docs/compaction.md shows them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.sessions.compact import CompactRequest

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "extension.py"
_SPLITS = """
from mcp_memory.domain.model.session_log import PassPlan, replacing

class Splits:
    name = "splits"
    def __init__(self, count):
        self.count = count
    def plan(self, log, options):
        call = next(entry for entry in log.entries if entry.kind == "tool_call")
        return PassPlan(reason="", replacements=(replacing((call,), "tools", lambda own: "gone", self.count),))

def passes(count):
    return [Splits(count)]

def watch(done):
    raise OSError
"""


def _talk(app: App, session_id: str) -> None:
    said = [
        NewRecord(text=text, kind="message", role=role)
        for place in range(40)
        for role, text in (("user", f"Step {place}: rename it."), ("assistant", "Ok."))
    ]
    call = NewRecord(text="{}", kind="tool_call", tool="bash", call_id="c")
    result = NewRecord(text="done", kind="tool_result", tool="bash", call_id="c")
    app.feed([call, result, *said], app.caller(session_id))


@pytest.mark.uncounted
def test_the_example_of_the_docs_adds_a_pass_a_preset_and_a_watcher(
    open_memory: Callable[..., App], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = open_memory(compaction_extensions=[EXAMPLE], compaction_window=1_000)
    _talk(app, "one")
    done = app.compact(CompactRequest(preset="polite", window=1_000), app.caller("one"))
    assert done.runs[0].name == "greetings"
    assert done.made[0].text.startswith("[SUMMARIZED] Greetings.")
    assert Path("compactions.log").read_text().startswith(f"call: {done.before.tokens} -> {done.after.tokens}")
    _talk(app, "two")
    assert app.compact(CompactRequest(passes=("greetings",)), app.caller("two")).runs[0].ran


def test_an_installed_package_is_an_extension_by_its_entry_point(
    open_memory: Callable[..., App], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real distribution on the path, as an installer leaves it."""
    (tmp_path / "polite.py").write_text(EXAMPLE.read_text().replace("compactions.log", "/dev/null"))
    described = tmp_path / "polite-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: polite\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[mcp_memory.extensions]\npolite = polite\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    app = open_memory()
    _talk(app, "one")
    assert app.compact(CompactRequest(preset="polite", window=1_000), app.caller("one")).runs[0].ran


def test_an_extension_harms_nobody(open_memory: Callable[..., App], tmp_path: Path) -> None:
    """E1.2, E2.5: it does not load, fails, or would leave a call without its result."""
    files = [tmp_path / name for name in ("none.py", "none.txt", "splits.py")]
    files[1].write_text("")
    files[2].write_text(_SPLITS)
    app = open_memory(compaction_extensions=files)
    _talk(app, "one")
    before = app.logs.log(app.caller("one"))
    done = app.compact(CompactRequest(passes=("splits",)), app.caller("one"))
    assert done.runs[0].error == "ValueError"
    assert app.logs.log(app.caller("one")) == before


def test_unknown_names_are_refused_with_the_known_ones(open_memory: Callable[..., App]) -> None:
    app = open_memory()
    _talk(app, "one")
    with pytest.raises(InvalidRequest, match="the passes are: mask, tool_calls"):
        app.compact(CompactRequest(passes=("greetings",)), app.caller("one"))
    with pytest.raises(InvalidRequest, match="the presets are: default"):
        app.compact(CompactRequest(preset="polite"), app.caller("one"))
    with pytest.raises(InvalidRequest, match="the presets are: default"):
        open_memory(compaction="polite").compact(CompactRequest(), app.caller("one"))
