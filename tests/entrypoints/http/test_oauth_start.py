"""`serve --http --oauth`: how a server starts with an issuer, and without."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from mcp_memory.entrypoints.cli.serve import open_issuer
from mcp_memory.errors import InvalidRequest
from mcp_memory.settings import load_settings
from tests.chroma import free_port
from tests.entrypoints.http.conftest import (
    PATIENCE_SECONDS,
    HttpServer,
    command_line,
    environment_of,
    headers_of,
    make_token,
    web,
)
from tests.entrypoints.http.issuer import issuing
from tests.forked import run_forked


def test_without_the_flag_nobody_is_asked_and_nothing_said(
    tmp_path: Path, start_http: Callable[..., HttpServer]
) -> None:
    with issuing("http://127.0.0.1:1/mcp") as issuer:
        settings = {"oauth_issuer": issuer.url, "oauth_audience": issuer.audience}
        own = make_token(tmp_path / "data", "ann")
        server = start_http(tmp_path / "data", "--port", "0", **settings)
        answer = web.get(server.address("/metrics"), headers=headers_of(issuer.token()))
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert web.get(server.address("/.well-known/oauth-protected-resource/mcp")).status_code == 404
        assert web.get(server.address("/metrics"), headers=headers_of(own)).status_code == 403
        assert issuer.asked == []


def test_with_an_issuer_this_machine_needs_a_token_too(tmp_path: Path, start_http: Callable[..., HttpServer]) -> None:
    """M2: it starts though the issuer is away, and lets nobody in without a token, the page neither."""
    issuer = f"http://127.0.0.1:{free_port()}"
    settings = {"oauth_issuer": issuer, "oauth_audience": "https://memory.example.com/mcp"}
    server = start_http(tmp_path / "data", "--port", "0", "--oauth", **settings)
    assert web.get(server.url).status_code == 401
    assert web.get(server.address("/healthz")).status_code == 200
    public = {"host": "memory.example.com"}
    where = 'resource_metadata="https://memory.example.com/.well-known/oauth-protected-resource/mcp"'
    assert where in web.get(server.url, headers=public).headers["www-authenticate"]
    entered = web.post(server.address("/ui/enter"), data={"token": ""})
    assert "set-cookie" not in entered.headers


def test_what_the_flag_needs_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M2: without it nothing of the kind is imported, and the flag says what to install."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setitem(sys.modules, "joserfc", None)
    for name in ("issued_tokens", "issuer_requests"):
        monkeypatch.delitem(sys.modules, f"mcp_memory.entrypoints.http.{name}", raising=False)
    with pytest.raises(InvalidRequest, match=r"install mcp-memory-stack\[oauth\]"):
        open_issuer(load_settings(), anonymous=False)
    script = (
        "import sys; import mcp_memory.entrypoints.http.server, mcp_memory.entrypoints.http.request_checks;"
        "import mcp_memory.entrypoints.cli.serve; print('joserfc' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True)
    assert said.stdout.strip() == "False"


def started(data_dir: Path, environment: Mapping[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """A server that ends at once."""
    whole = environment_of(data_dir, **environment)
    return run_forked("serve", "--http", "--port", "0", *options, env=whole, encoding="utf-8", timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "set MCP_MEMORY_OAUTH_ISSUER"),
        ({"issuer": "https://id.example.com"}, "set MCP_MEMORY_OAUTH_AUDIENCE"),
        ({"issuer": "http://id.example.com"}, "must begin with https://"),
        ({"issuer": "https://id.example.com", "audience": "memory"}, "must be http:// or https://"),
        ({"issuer": "https://id.example.com", "audience": "https://m.example.com/mcp?a=1"}, "Setting oauth_audience"),
        ({"algorithms": "RS256,HS256"}, "Setting oauth_algorithms"),
        ({"algorithms": "none"}, "Setting oauth_algorithms"),
        ({"algorithms": ","}, "Setting oauth_algorithms"),
        ({"introspection_secret": "x"}, "set MCP_MEMORY_OAUTH_INTROSPECTION_CLIENT"),
        ({"introspection_client": "x"}, "set MCP_MEMORY_OAUTH_INTROSPECTION_URL"),
    ],
    ids=str,
)
def test_settings_that_are_wrong_are_refused_at_the_start(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    good = {"issuer": "https://id.example.com", "audience": "https://memory.example.com/mcp"}
    chosen = settings if not settings or "issuer" in settings else good | settings
    environment = {f"MCP_MEMORY_OAUTH_{name.upper()}": value for name, value in chosen.items()}
    ended = started(tmp_path / "data", environment, "--oauth")
    assert ended.returncode != 0
    assert said in ended.stderr
    assert not (tmp_path / "data" / "memory.db").exists()


def test_the_flag_excludes_anonymous_clients_and_needs_http(tmp_path: Path) -> None:
    ended = started(tmp_path / "data", {}, "--oauth", "--anonymous")
    assert "--oauth asks every client for a token" in ended.stderr
    ended = command_line(tmp_path / "data", "serve", "--oauth")
    assert "--oauth needs --http." in ended.stderr
