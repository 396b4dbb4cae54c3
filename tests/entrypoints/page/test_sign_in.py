"""Who comes in to the page, how far, and what they are told before."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.cli import app as program
from mcp_memory.entrypoints.http.page_server import LINK_LASTS
from mcp_memory.entrypoints.page.sign_in import (
    IDLE_SECONDS,
    MAX_SESSIONS,
    SESSIONS_A_DOOR,
    PageSessions,
    SignInLink,
    new_link_file,
)
from tests.entrypoints.http.conftest import (
    PATIENCE_SECONDS,
    HttpServer,
    command_line,
    environment_of,
    make_token,
    revoke_token,
    wait_until,
    web,
)
from tests.entrypoints.page.conftest import NAMESPACE, Person, attributes_of, memory_of, person, words_of
from tests.forked import ForkedProcess

HOSTILE = "<script>alert(1)</script> \"quoted' \u202etxt.exe\u2066 \u200b \ufeff \U000e0041 & </textarea><b onclick=x>"


@dataclass(frozen=True)
class Team:
    """A server that asks for tokens, and those it knows."""

    server: HttpServer
    ann: str
    reader: str
    chief: str
    shared: str
    private: str
    elsewhere: str


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, start_http: Callable[..., HttpServer]) -> Team:
    data_dir = tmp_path_factory.mktemp("team") / "data"
    ann = make_token(data_dir, "ann", NAMESPACE, "base")
    reader = make_token(data_dir, "reader", NAMESPACE, right="read")
    chief = make_token(data_dir, "chief", NAMESPACE, right="admin")
    memory = memory_of(data_dir)
    caller = memory.caller()
    [shared] = memory.remember([NewRecord(text=f"Shared: {HOSTILE}", tags=(HOSTILE,))], caller)
    [private] = memory.remember([NewRecord(text="Ann's own words.", visibility="private")], caller)
    other = memory.tokens.recognise(make_token(data_dir, "other", "secret"))
    assert other
    [elsewhere] = memory.remember([NewRecord(text="Of another project.")], other.grant.caller("secret", "s", ()))
    memory.close()
    return Team(start_http(data_dir), ann, reader, chief, shared.id, private.id, elsewhere.id)


def raw(server: HttpServer, head: str) -> str:
    """The answer to the head of a request alone: nothing of its body is sent."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_SECONDS) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        connection.settimeout(PATIENCE_SECONDS)
        return connection.recv(65_536).decode("utf-8", "replace")


def test_a_token_opens_the_page_and_stays_on_the_server(team: Team) -> None:
    somebody = person(team.server, team.ann)
    cookie = somebody.page.history[0].headers["set-cookie"]
    assert cookie.startswith(f"mcp-memory-{team.server.port}=")
    assert {"HttpOnly", "Path=/ui", "SameSite=strict"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert team.ann not in cookie
    assert "the agent ann sees" in words_of(somebody.page)


def test_the_cookie_is_secure_where_a_proxy_took_the_tls_off(team: Team) -> None:
    origin = f"https://127.0.0.1:{team.server.port}"
    answer = web.post(
        team.server.address("/ui/sign-in"), data={"token": team.ann}, headers={"origin": origin}, follow_redirects=False
    )
    assert answer.headers["set-cookie"].startswith("__Secure-mcp-memory-")
    assert "Secure" in answer.headers["set-cookie"].split("; ")


@pytest.mark.parametrize("path", ["/", "/record/r000001", "/record/r000001/edit", "/nowhere", "/../secret", "/undo"])
def test_without_a_cookie_every_address_asks_for_a_token_and_tells_nothing(team: Team, path: str) -> None:
    answer = web.get(team.server.address("/ui") + path)
    if path == "/undo":  # Only a form goes there.
        assert answer.status_code in (401, 405)
        return
    assert answer.status_code in (401, 404)
    if path != "/../secret":
        assert "Your token" in answer.text
    for told in (str(team.server.data_dir), "Traceback", NAMESPACE, "ann"):
        assert told not in answer.text


def test_without_a_right_cookie_nothing_of_a_body_is_read(team: Team) -> None:
    """The answer comes though not one of the ten million announced bytes was sent."""
    for cookie in ("", f"\ncookie: mcp-memory-{team.server.port}=wrong"):
        head = (
            f"POST /ui/record/r000001/edited HTTP/1.1\nhost: 127.0.0.1:{team.server.port}\ncontent-length: 10000000"
            f"\ncontent-type: application/x-www-form-urlencoded{cookie}"
        )
        assert raw(team.server, head).startswith("HTTP/1.1 401")
    head = f"POST /ui/sign-in HTTP/1.1\nhost: 127.0.0.1:{team.server.port}\ncontent-length: 5000"
    typed = f"{head}\ncontent-type: application/x-www-form-urlencoded"
    assert raw(team.server, typed).startswith("HTTP/1.1 413")
    chunked = typed.replace("content-length: 5000", "transfer-encoding: chunked")
    with socket.create_connection(("127.0.0.1", team.server.port), PATIENCE_SECONDS) as connection:
        connection.sendall(chunked.replace("\n", "\r\n").encode() + b"\r\n\r\n1388\r\n" + b"a" * 5000 + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_form_of_another_site_is_refused(team: Team) -> None:
    somebody = person(team.server, team.chief)
    csrf = somebody.csrf
    fields = {"csrf": csrf, "version": "1"}
    path = f"/record/{team.shared}/pin"
    assert somebody.post(path, fields, sec_fetch_site="cross-site").status_code == 403
    assert somebody.post(path, fields, sec_fetch_site="same-site").status_code == 403
    assert somebody.post(path, fields, origin="https://evil.example").status_code == 403
    assert somebody.post(path, fields, origin="null").status_code == 403
    assert somebody.post(path, fields, host="evil.example").status_code == 421
    assert somebody.post(path, {**fields, "csrf": "0" * 64}).status_code == 403
    assert somebody.post(path, {**fields, "csrf": person(team.server, team.chief).csrf}).status_code == 403
    assert somebody.post(path, {"version": "1"}).status_code == 403
    sign_in = {"token": team.ann}
    assert somebody.post("/sign-in", sign_in, sec_fetch_site="cross-site").status_code == 403
    assert "not pinned" not in words_of(somebody.get(f"/record/{team.shared}"))
    assert not re.search(r"\bpinned\b", words_of(somebody.page).partition("Versions")[0])


def test_a_token_sees_what_its_agent_sees(team: Team) -> None:
    ann, reader = person(team.server, team.ann), person(team.server, team.reader)
    assert "Ann's own words." in words_of(ann.get("/"))
    assert ann.get(f"/record/{team.private}").status_code == 200
    assert "Ann's own words." not in words_of(reader.get("/"))
    chief = person(team.server, team.chief)
    for path in ("", "/edit", "/supersede", "/erase"):  # A form that a token may not send is refused before any look.
        assert reader.get(f"/record/{team.private}{path}").status_code == (403 if path else 404)
        assert ann.get(f"/record/{team.elsewhere}{path}").status_code == (403 if path == "/erase" else 404)
        assert chief.get(f"/record/{team.private}{path}").status_code == 404
        assert chief.get(f"/record/{team.elsewhere}{path}").status_code == 404


def test_a_token_that_may_read_changes_nothing(team: Team) -> None:
    reader = person(team.server, team.reader)
    page = reader.get(f"/record/{team.shared}").text
    actions = re.findall(r'<form method="post" action="([^"]+)"', page)
    assert set(actions) == {"/ui/sign-out"}
    fields = {
        "csrf": reader.csrf,
        "version": "9999",
        "typed": team.shared,
        "text": "x",
        "ids": team.shared,
        "seen": "1",
    }
    for form in ("edit", "supersede", "erase"):
        assert reader.get(f"/record/{team.shared}/{form}").status_code == 403, form
    before = reader.get(f"/record/{team.shared}").text
    for action in ("edited", "superseded", "wrong", "pin", "unpin", "promote", "retire", "restore", "erased"):
        assert reader.post(f"/record/{team.shared}/{action}", fields).status_code == 403, action
    for form in ("/access",):
        assert reader.get(form).status_code == 403, form
    for action in ("/access/token-added", "/access/token-revoked", "/access/folder-revoked"):
        assert reader.post(action, {**fields, "name": "chief"}).status_code == 403, action
    for action in ("/undo", "/bulk", "/bulk/made"):
        assert reader.post(action, {**fields, "change": "1"}).status_code == 403, action
    assert reader.get(f"/record/{team.shared}").text == before


def test_a_token_that_may_write_erases_nothing(team: Team) -> None:
    ann = person(team.server, team.ann)
    assert ">Erase" not in ann.get(f"/record/{team.shared}").text
    fields = {"csrf": ann.csrf, "version": "9999", "typed": team.shared}
    assert ann.post(f"/record/{team.shared}/erased", fields).status_code == 403
    assert ann.get(f"/record/{team.shared}/erase").status_code == 403
    assert ann.get(f"/record/{team.shared}").status_code == 200


def test_only_who_may_administer_sees_who_has_access_and_of_the_own_projects_alone(team: Team) -> None:
    """U1.1, S4.1."""
    for token in (team.ann, team.reader):
        somebody = person(team.server, token)
        assert ">Access<" not in somebody.get("/").text
        assert somebody.get("/access").status_code == 403
    chief = person(team.server, team.chief)
    page = words_of(chief.get("/access"))
    assert "Whoever has the memory’s files makes new ones" in page
    assert "agent reader" in page
    assert "agent ann" not in page, "its token opens another project, too"
    assert "secret" not in page
    assert not chief.has_form("/access/token-added")
    fields = {"csrf": chief.csrf, "name": "mine", "agent": "ann", "right": "admin", "namespaces": NAMESPACE}
    assert chief.post("/access/token-added", fields).status_code == 404
    assert chief.post("/access/folder-revoked", {**fields, "folder": "/"}).status_code == 404


def test_hostile_texts_are_shown_as_text(team: Team) -> None:
    chief = person(team.server, team.chief)
    for path in ("/", f"/record/{team.shared}", f"/record/{team.shared}/edit", f"/?q={HOSTILE}", f"/?tag={HOSTILE}"):
        page = chief.get(path)
        assert "<script>alert" not in page.text, path
        assert "<b " not in page.text
        assert "onclick" not in attributes_of(page), path
        assert not re.search("[\u202e\u2066\u200b\ufeff\U000e0041]", words_of(page)), path
        assert "&lt;script&gt;" in page.text, path
    page = chief.get(f"/record/{team.shared}").text
    for number in ("202E", "2066", "200B", "FEFF", "E0041"):
        assert f"⟦U+{number}⟧" in page
    edit = chief.get(f"/record/{team.shared}/edit")
    assert chief.fields(f"/record/{team.shared}/edited")["text"] == [f"Shared: {HOSTILE}"]
    assert edit.headers["content-security-policy"].startswith("default-src 'self';")


@pytest.mark.parametrize(
    "some_id", ["r0", "t000001", "r" + "9" * 400, "%3Cscript%3E", "..%2f..%2fmemory.db", "r00000l", "%00", "r000001%27"]
)
def test_an_id_that_is_none_is_not_repeated(team: Team, some_id: str) -> None:
    answer = person(team.server, team.chief).get(f"/record/{some_id}")
    assert answer.status_code == 404
    assert "script" not in words_of(answer)
    assert "Traceback" not in team.server.log


def test_every_answer_says_what_browsers_hold_it_to(team: Team) -> None:
    chief = person(team.server, team.chief)
    for path in ("/", "/nowhere", f"/record/{team.shared}", "/static/page.css", "/static/nothing"):
        headers = chief.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
    css = re.findall(r'href="(/ui/static/page.css\?v=\w+)"', chief.get("/").text)
    kept = web.get(team.server.address(css[0]))
    assert kept.status_code == 200
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
    page = chief.get("/")
    assert not re.search(r"<style|<script(?! src=\"/ui/static/)", page.text)
    assert not [each for each in attributes_of(page) if each.startswith("on") or each == "style"]


def test_a_revoked_token_is_out_at_once(team: Team) -> None:
    token = make_token(team.server.data_dir, "leaver", NAMESPACE)
    leaver = person(team.server, token)
    revoke_token(team.server.data_dir, "leaver")
    assert leaver.get("/").status_code == 401


def test_signing_out_ends_the_session_on_the_server(team: Team) -> None:
    ann = person(team.server, team.ann)
    cookie = ann.cookie
    ann.send("/sign-out")
    assert "signed out" in words_of(ann.page)
    assert web.get(team.server.address("/ui/"), headers=cookie).status_code == 401
    assert Person(team.server.address("")).sign_in("mcpm_wrong").status_code == 403


def test_a_token_of_two_projects_switches_between_them(team: Team) -> None:
    ann = person(team.server, team.ann)
    ann.get("/projects")
    ann.send("/namespace", namespace="base")
    assert "Nothing is stored here yet." in words_of(ann.page)
    fields = {"csrf": ann.csrf, "namespace": "secret"}
    assert ann.post("/namespace", fields).status_code == 403
    assert "secret" not in ann.get("/projects").text
    assert "Ann's own words." in words_of(ann.send("/namespace", namespace=NAMESPACE))
    assert "/ui/projects" not in person(team.server, team.chief).get("/").text, "it has one alone"


def test_a_page_stays_at_its_project_when_that_is_renamed(
    tmp_path: Path, start_http: Callable[..., HttpServer]
) -> None:
    """P4.1."""
    secret = make_token(tmp_path / "data", "ann", "shop", "base")
    ann = person(start_http(tmp_path / "data"), secret)
    command_line(tmp_path / "data", "add", "A heron at the base.", "--namespace", "base")
    ann.get("/projects")
    ann.send("/namespace", namespace="base")
    assert command_line(tmp_path / "data", "projects", "rename", "base", "harbour").returncode == 0
    assert "A heron at the base." in words_of(ann.get("/"))


def test_where_no_token_is_asked_for_a_cookie_decides_alone(
    tmp_path: Path, start_http: Callable[..., HttpServer]
) -> None:
    """A wrong cookie never falls through to the owner; and once a token was made, nobody comes in without one."""
    server = start_http(tmp_path / "data")
    anybody = Person(server.address(""))
    assert anybody.get("/").status_code == 401, "a visit alone signs nobody in"
    owner = person(server)
    assert owner.get("/").status_code == 200
    wrong = {"cookie": f"mcp-memory-{server.port}=wrong"}
    assert web.get(server.address("/ui/"), headers=wrong).status_code == 401
    make_token(server.data_dir, "first", NAMESPACE)
    assert owner.get("/").status_code == 401
    assert Person(server.address("")).sign_in("").status_code == 403


def test_a_cookie_of_a_revoked_token_opens_nothing_on_an_anonymous_server(
    tmp_path: Path, start_http: Callable[..., HttpServer]
) -> None:
    token = make_token(tmp_path / "data", "ann", NAMESPACE)
    server = start_http(tmp_path / "data", "--port", "0", "--anonymous")
    ann = person(server, token)
    assert "the agent ann sees" in words_of(ann.page)
    revoke_token(server.data_dir, "ann")
    assert ann.get("/").status_code == 401
    assert person(server).get("/").status_code == 200, "who has no cookie may still come in without a token"


def test_a_memory_that_is_not_available_names_no_file(tmp_path: Path, start_http: Callable[..., HttpServer]) -> None:
    server = start_http(tmp_path / "data")
    owner = person(server)
    database = tmp_path / "data" / "memory.db"
    database.rename(tmp_path / "moved.db")
    database.write_bytes(b"not a database" * 400)
    for answer in (Person(server.address("")).sign_in(""), web.get(server.address("/ui/record/r000001"))):
        assert answer.status_code == 503
        assert "memory.db" not in answer.text
        assert str(tmp_path) not in answer.text
    assert owner.get("/").status_code == 503


@pytest.fixture
def started(tmp_path: Path) -> Callable[..., tuple[ForkedProcess, str]]:
    """Starts `mcp-memory ui`; the process and its link."""
    memory_of(tmp_path / "data").close()

    def start(*options: str, **environment: str) -> tuple[ForkedProcess, str]:
        process = ForkedProcess(
            "ui",
            *options,
            env=environment_of(tmp_path / "data") | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        assert process.stdout
        line = process.stdout.readline()
        link = re.search(r"http://127\.0\.0\.1:\d+/ui/enter\?key=\S+", line)
        assert link, line
        return process, link[0]

    return start


def ended(process: ForkedProcess, number: int = signal.SIGINT) -> int:
    process.send_signal(number)
    code = process.wait(PATIENCE_SECONDS)
    assert process.stdout
    assert process.stderr
    os.set_blocking(process.stderr.fileno(), False)  # The memory's owner, which lives on, has it open, too.
    assert b"Run `mcp-memory ui` again" in os.read(process.stderr.fileno(), 4_096)
    process.stdout.close()
    process.stderr.close()
    return code


@pytest.mark.skipif(sys.platform == "win32", reason="a signal ends it")
def test_the_link_of_ui_works_as_long_as_it_runs(
    started: Callable[..., tuple[ForkedProcess, str]],
) -> None:
    """Its help and its first words say so."""
    assert LINK_LASTS in " ".join(CliRunner().invoke(program, ["ui", "--help"]).output.split())
    process, link = started("--no-browser")
    other, other_link = started("--no-browser")
    try:
        assert process.stdout
        assert LINK_LASTS in process.stdout.readline()
        first = Person(link.partition("/ui")[0])
        key = link.partition("key=")[2]
        assert first.client.head(f"/ui/enter?key={key}").status_code == 403, "a preview begins no session"
        assert first.client.get("/ui/enter?key=wrong").status_code == 403
        assert first.client.get(link).status_code == 200
        assert first.get("/").status_code == 200
        again = Person(first.address)
        assert again.client.get(link).status_code == 200
        assert again.get("/").status_code == first.get("/").status_code == 200
        # A second `ui` on this machine has a cookie of its own: browsers share cookies between ports.
        assert first.client.get(other_link).status_code == 200
        assert first.get("/").status_code == 200
        assert first.client.post("/mcp", json={}).status_code in (400, 404), "it serves the page alone"
        assert Person(first.address).sign_in("").status_code == 403
        assert "mcp-memory ui" in Person(first.address).get("/").text
    finally:
        assert ended(process) == 0
        assert ended(other, signal.SIGTERM) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="the browser is a script for a shell")
def test_the_browser_is_given_a_private_file_and_never_the_key(
    tmp_path: Path, started: Callable[..., tuple[ForkedProcess, str]]
) -> None:
    """Other users of the machine read the arguments of programs."""
    said, browser = tmp_path / "said", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$*" > {said}.part && mv {said}.part {said}\n')
    browser.chmod(0o755)
    process, link = started(BROWSER=f"{browser} %s")
    try:
        wait_until(said.exists)
        assert link.partition("key=")[2] not in said.read_text()
        file = Path(said.read_text().removeprefix("file://"))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.is_relative_to(tmp_path / "data")
        redirect = re.search(r'url=([^"]+)"', file.read_text())
        assert redirect
        assert redirect[1] == link
        assert Person(link.partition("/ui")[0]).client.get(link).status_code == 200
        wait_until(lambda: not file.exists())
    finally:
        assert ended(process) == 0
    assert [*(tmp_path / "data" / "page").iterdir()] == []


@pytest.mark.skipif(sys.platform == "win32", reason="the browser is a script for a shell")
@pytest.mark.parametrize("number", [signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)])
def test_ui_ends_when_it_is_told_to_though_the_browser_stays(
    tmp_path: Path, started: Callable[..., tuple[ForkedProcess, str]], number: int
) -> None:
    """Also when the terminal closes; and its file goes."""
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("below nohup it stays when the terminal closes, as it should")
    pid, browser = tmp_path / "pid", tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\necho $$ > {pid}.part && mv {pid}.part {pid}\nexec sleep 600\n")
    browser.chmod(0o755)
    process, _ = started(BROWSER=f"{browser} %s")
    try:
        wait_until(pid.exists)
        assert ended(process, number) == 0
        os.kill(int(pid.read_text()), 0)  # It is there still.
    finally:
        os.kill(int(pid.read_text()), signal.SIGTERM)
    assert [*(tmp_path / "data" / "page").iterdir()] == []


def test_ui_goes_on_where_it_cannot_write_a_file_for_the_browser(
    tmp_path: Path, started: Callable[..., tuple[ForkedProcess, str]]
) -> None:
    (tmp_path / "data" / "page").write_text("no folder")
    process, link = started()
    try:
        assert Person(link.partition("/ui")[0]).client.get(link).status_code == 200
        assert process.stderr
        assert any("Open the link above" in line for line in process.stderr)
    finally:
        assert ended(process) == 0


def test_ui_needs_a_memory(tmp_path: Path) -> None:
    done = ForkedProcess("ui", env=environment_of(tmp_path / "none"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, told = done.communicate(timeout=PATIENCE_SECONDS)
    assert done.returncode == 1
    assert b"No memory at" in told
    assert not (tmp_path / "none").exists()


def slow_form(server: HttpServer, path: str, cookie: str = "", length: int = 100) -> socket.socket:
    """A form of which one byte was sent."""
    connection = socket.create_connection(("127.0.0.1", server.port), PATIENCE_SECONDS)
    head = (
        f"POST /ui{path} HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\ncontent-length: {length}\r\n"
        f"content-type: application/x-www-form-urlencoded\r\ncookie: {cookie}\r\n\r\na"
    )
    connection.sendall(head.encode())
    connection.settimeout(PATIENCE_SECONDS)
    return connection


def cookie_of(somebody: Person) -> str:
    return "; ".join(f"{name}={value}" for name, value in somebody.client.cookies.items())


def test_who_sends_a_sign_in_slowly_keeps_nobody_out(team: Team) -> None:
    """As many as once took all places of the page, without a token."""
    with ExitStack() as held:
        for _ in range(70):
            held.enter_context(slow_form(team.server, "/sign-in"))
        assert person(team.server, team.ann).get("/").status_code == 200


def test_large_forms_that_are_slow_keep_nobody_else_from_sending_one(team: Team) -> None:
    """One of a session is taken at a time, and none without the right to it."""
    ann, reader = person(team.server, team.ann), person(team.server, team.reader)
    edited = f"/record/{team.shared}/edited"
    with ExitStack() as held:
        refused = held.enter_context(slow_form(team.server, edited, cookie_of(reader), 10_000_000))
        assert b" 403 " in refused.recv(65_536)
        held.enter_context(slow_form(team.server, edited, cookie_of(ann), 10_000_000))
        second = held.enter_context(slow_form(team.server, edited, cookie_of(ann), 10_000_000))
        assert b" 503 " in second.recv(65_536)
        chief = person(team.server, team.chief)
        assert chief.post(edited, {"csrf": chief.csrf}).status_code != 503


def test_a_session_ends_when_it_is_idle_or_is_told_to() -> None:
    now = 1_000_000.0
    sessions = PageSessions(lambda: now)
    session_id = sessions.begin("0123456789abcdef", "a project")
    now += IDLE_SECONDS - 1
    found = sessions.find(session_id)
    assert found
    assert (found.door, found.namespace) == ("0123456789abcdef", "a project")
    now += IDLE_SECONDS - 1
    assert sessions.find(session_id), "it was seen meanwhile"
    sessions.move(session_id, "another")
    moved = sessions.find(session_id)
    assert moved
    assert moved.namespace == "another"
    now += IDLE_SECONDS + 1
    assert sessions.find(session_id) is None
    again = sessions.begin("owner")
    sessions.end(again)
    sessions.move(again, "another")
    assert sessions.find(again) is None
    assert sessions.find("") is None


def test_the_table_of_sessions_is_bounded_and_the_one_idle_longest_goes_first() -> None:
    now = 1_000_000.0
    sessions = PageSessions(lambda: now)
    first = sessions.begin("owner")
    ids: list[str] = []
    for number in range(MAX_SESSIONS - 1):
        now += 1
        ids.append(sessions.begin(f"door {number // SESSIONS_A_DOOR}"))
    now += 61
    assert sessions.find(first)
    now += 1
    sessions.begin("another")
    assert sessions.find(first), "it was seen since"
    assert sessions.find(ids[0]) is None
    assert sessions.find(ids[1])


def test_who_signs_in_again_and_again_ends_no_session_of_another() -> None:
    now = 1_000_000.0
    sessions = PageSessions(lambda: now)
    other = sessions.begin("other")
    mine: list[str] = []
    for _ in range(2 * MAX_SESSIONS):
        now += 61
        mine.append(sessions.begin("mine"))
    assert sessions.find(other)
    assert [bool(sessions.find(each)) for each in mine] == [False] * (2 * MAX_SESSIONS - SESSIONS_A_DOOR) + [
        True
    ] * SESSIONS_A_DOOR


def test_the_file_of_a_link_goes_with_its_first_use(tmp_path: Path) -> None:
    link = SignInLink(new_link_file(tmp_path))
    file = link.file_for("http://127.0.0.1:1")
    assert not link.use("wrong")
    assert not link.use("\udcff")
    assert file.exists()
    key = link.at("").partition("key=")[2]
    assert link.use(key)
    assert not file.exists()
    assert link.use(key), "a browser that was closed comes back by it"


def test_files_that_a_killed_process_left_are_removed_and_those_of_others_are_not(tmp_path: Path) -> None:
    left, others = (SignInLink(new_link_file(tmp_path)).file_for("http://127.0.0.1:1") for _ in range(2))
    os.utime(left, (1.0, 1.0))
    own = SignInLink(new_link_file(tmp_path)).file_for("http://127.0.0.1:1")
    assert {*own.parent.iterdir()} == {own, others}


@pytest.mark.skipif(sys.platform == "win32", reason="not everybody may make links there")
def test_a_file_for_the_browser_is_written_to_no_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "page").symlink_to(tmp_path / "open")
    with pytest.raises(NotADirectoryError):
        SignInLink(new_link_file(tmp_path)).file_for("http://127.0.0.1:1")
    assert [*(tmp_path / "open").iterdir()] == []


def test_json_is_no_form(team: Team) -> None:
    chief = person(team.server, team.chief)
    body = json.dumps({"csrf": chief.csrf})
    headers = {"content-type": "application/json", "origin": chief.address}
    assert chief.client.post("/ui/undo", content=body, headers=headers).status_code == 400
    many = f"csrf={chief.csrf}&" + "&".join(f"f{number}=1" for number in range(3_000))
    headers["content-type"] = "application/x-www-form-urlencoded"
    assert chief.client.post("/ui/undo", content=many, headers=headers).status_code == 400
    assert chief.client.post("/ui/undo", content="a" * 70_000, headers=headers).status_code == 413
