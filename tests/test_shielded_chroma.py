"""Chroma, imported where others have left files and variables that it would read."""

import subprocess
import sys
from pathlib import Path

import pytest

HOSTILE = {
    "CHROMA_API_IMPL": "",
    "MIGRATIONS": "",
    "ALLOW_RESET": "perhaps",
    "CHROMA_SERVER_HTTP_PORT": "none",
    "ANONYMIZED_TELEMETRY": "true",
}

OPEN_A_STORE = """
import sys, threading
from mcp_memory.shielded_chroma import import_chromadb

given = []
threads = [threading.Thread(target=lambda: given.append(import_chromadb())) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(given) == 4 and set(map(id, given)) == {id(sys.modules["chromadb"])}

chromadb = import_chromadb()
settings = chromadb.PersistentClient(sys.argv[1]).get_settings()
assert settings.migrations == "apply", settings
assert not settings.allow_reset, settings
for made in (settings, chromadb.get_settings(), chromadb.config.Settings()):
    assert not made.anonymized_telemetry, made
assert chromadb.config.Settings(allow_reset=True).allow_reset, "arguments must still count"
assert "grpc" not in sys.modules, "Chroma's exporter of traces takes 5 MB"
import opentelemetry.exporter.otlp.proto.grpc.trace_exporter as exporter
assert exporter.OTLPSpanExporter, "whoever else imports it gets it"
"""

AFTER_OTHERS = "import chromadb\nfrom mcp_memory.shielded_chroma import import_chromadb\nimport os\n" + (
    "os.environ['MIGRATIONS'] = ''\nassert import_chromadb() is chromadb\n"
    "assert chromadb.config.Settings().migrations == 'apply'\n"
)

WITHOUT_CHROMA = """
import sys
from mcp_memory.errors import StoreUnavailable
from mcp_memory.shielded_chroma import import_chromadb

sys.modules["chromadb"] = None
finders = list(sys.meta_path)
try:
    import_chromadb()
except StoreUnavailable as error:
    assert "is not installed. Install mcp-memory-stack, which brings it" in str(error), error
else:
    raise AssertionError("a missing Chroma must be told")
assert sys.meta_path == finders
"""


def run_in(folder: Path, code: str) -> None:
    """Run the code in a new process of that working directory; its complaints become this test's."""
    command = [sys.executable, "-W", "error", "-c", code, str(folder / "index")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("where", ["file and environment", "file that is not UTF-8"])
def test_what_others_configured_does_not_reach_chroma(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2: whatever lies in the working directory and the environment; telemetry is off."""
    lines = "".join(f"{name}={value}\n" for name, value in HOSTILE.items())
    if where == "file and environment":
        for name, value in HOSTILE.items():
            monkeypatch.setenv(name, value)
    (tmp_path / ".env").write_bytes(lines.encode() + (b"NAME=\xff\xfe\n" if "UTF-8" in where else b""))
    run_in(tmp_path, OPEN_A_STORE)


def test_chroma_is_shielded_even_where_someone_else_imported_it_first(tmp_path: Path) -> None:
    """S2.2: from then on."""
    run_in(tmp_path, AFTER_OTHERS)


def test_a_chroma_that_cannot_be_loaded_is_told_with_the_remedy(tmp_path: Path) -> None:
    """S2.2: as an error of ours, and nothing is left behind in the import system."""
    run_in(tmp_path, WITHOUT_CHROMA)
