"""Settings of the index behind search by meaning."""

import json
from pathlib import Path

import pytest

from mcp_memory.errors import InvalidRequest
from mcp_memory.settings import load_settings
from mcp_memory.stores.vectors.chroma.location import IndexPlace


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "config.toml"
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(file))
    return file


def test_keys_come_from_the_environment_and_are_not_shown(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S4.3: neither in the settings' text nor in a file."""
    monkeypatch.setenv("MCP_MEMORY_SEMANTIC_STORE", "cloud")
    monkeypatch.setenv("MCP_MEMORY_CHROMA_API_KEY", "ck-hidden")
    monkeypatch.setenv("MCP_MEMORY_CHROMA_HEADERS", '{"Authorization": "Bearer hidden"}')
    settings = load_settings()
    assert settings.semantic_store == "cloud"
    assert settings.chroma_api_key is not None
    assert settings.chroma_api_key.get_secret_value() == "ck-hidden"
    assert settings.chroma_headers["Authorization"].get_secret_value() == "Bearer hidden"
    assert "hidden" not in repr(settings)


@pytest.mark.parametrize("line", ['chroma_api_key = "ck-hidden"', 'chroma_headers = { Authorization = "hidden" }'])
def test_a_key_in_the_file_is_refused(config: Path, line: str) -> None:
    """S4.3: files are copied and committed; the message names the variable, not the key."""
    config.write_text(f"{line}\n")
    with pytest.raises(InvalidRequest, match="set MCP_MEMORY_CHROMA_") as refused:
        load_settings()
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("value", ["Authorization: hidden", '{"Authorization": "hidden"', "[1]"])
def test_headers_that_are_no_json_object_are_refused_unseen(
    config: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """S4.3, S3.1: told as any other wrong setting, but for the file, which may not hold them."""
    monkeypatch.setenv("MCP_MEMORY_CHROMA_HEADERS", value)
    with pytest.raises(
        InvalidRequest, match=r"Setting chroma_headers: .*Change MCP_MEMORY_CHROMA_HEADERS\.$"
    ) as refused:
        load_settings()
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("url", ["ftp://host", "host:8000", "http://", "http://me:hidden@host", "http://host/path"])
def test_a_url_that_is_no_server_is_refused(config: Path, url: str) -> None:
    """S2.2: and credentials do not belong there."""
    with pytest.raises(InvalidRequest, match="Setting semantic_store: must be auto, chroma") as refused:
        load_settings(semantic_store=url)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "mode", "least", "url"),
    [
        (None, "embedded", 20_000, ""),
        ("auto", "embedded", 20_000, ""),
        ("500", "embedded", 500, ""),
        ("chroma", "embedded", 0, ""),
        ("exact", "off", 0, ""),
        ("cloud", "cloud", 0, ""),
        ("https://chroma.example:8443", "http", 0, "https://chroma.example:8443"),
    ],
)
def test_one_setting_says_who_searches_by_meaning(
    config: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, mode: str, least: int, url: str
) -> None:
    """O4.1: from a size, from the first record, never, or a server."""
    if value is not None:
        monkeypatch.setenv("MCP_MEMORY_SEMANTIC_STORE", value)
    place = IndexPlace.named(load_settings().semantic_store, root="", embedder="")
    assert (place.mode, place.least_vectors, place.url) == (mode, least, url)


def test_pgvector_goes_with_a_memory_in_postgresql(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M1.1: from the usual size, or from another; a file has none."""
    with pytest.raises(InvalidRequest, match="pgvector needs a memory in PostgreSQL; set MCP_MEMORY_DATABASE_URL too"):
        load_settings(semantic_store="pgvector")
    monkeypatch.setenv("MCP_MEMORY_DATABASE_URL", "postgresql://host/name")
    for value, least in (("pgvector", 20_000), ("pgvector:500", 500)):
        place = IndexPlace.named(load_settings(semantic_store=value).semantic_store, root="", embedder="")
        assert (place.mode, place.least_vectors) == ("pgvector", least)


@pytest.mark.parametrize("value", ["pgvector:", "pgvector:few", "embedded", "-1", "1.5", "\u0661", "20000 vectors"])
def test_what_names_no_store_is_refused_with_what_does(config: Path, value: str) -> None:
    """S2.2: also where a file gives it."""
    config.write_text(f'semantic_store = "{value}"\n', "utf-8")
    with pytest.raises(InvalidRequest, match="auto, chroma, exact, cloud, the number of vectors"):
        load_settings()
    config.write_text("semantic_store = 500\n")
    assert load_settings().semantic_store == "500"


@pytest.mark.parametrize("name", ["chroma", "chroma_least_vectors", "chroma_url"])
def test_a_former_setting_is_refused_with_the_one_that_took_its_place(
    config: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """S3.1: an environment that says something which nobody reads any more would be believed."""
    wanted = f"Setting {name}: it is semantic_store now.*MCP_MEMORY_SEMANTIC_STORE"
    with monkeypatch.context() as patch:
        patch.setenv(f"MCP_MEMORY_{name.upper()}", "0")
        with pytest.raises(InvalidRequest, match=wanted):
            load_settings()
    config.write_text(f'{name} = "0"\n')
    with pytest.raises(InvalidRequest, match=wanted):
        load_settings()


@pytest.mark.parametrize("ending", ["\n", "\r\nX-Other: 1", "\u00e9", "\x7f"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(
    config: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """S4.3: an HTTP client would repeat it in its message."""
    with pytest.raises(InvalidRequest, match="Setting chroma_api_key: must hold ASCII") as refused:
        load_settings(chroma_api_key=f"hidden{ending}")
    assert "hidden" not in str(refused.value)
    monkeypatch.setenv("MCP_MEMORY_CHROMA_HEADERS", json.dumps({"Authorization": f"Bearer hidden{ending}"}))
    with pytest.raises(InvalidRequest, match="Setting chroma_headers: must hold ASCII") as refused:
        load_settings()
    assert "hidden" not in str(refused.value)
