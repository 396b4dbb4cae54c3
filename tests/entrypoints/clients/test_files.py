"""Replacing a file: whole or not at all, with its mode, behind its links, and not over somebody else's change."""

import os
import subprocess
import sys
import tempfile
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mcp_memory.entrypoints.clients.files import kept_copies, read_file, replace_file
from mcp_memory.errors import Conflict

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions and asks for rights to link")


def test_the_former_file_is_kept_beside_it(tmp_path: Path) -> None:
    """S7.1: named after the time; a second one of that second gets a number, and no other file is left."""
    path = tmp_path / "mcp.json"
    path.write_bytes(b"one\r\n")
    assert replace_file(read_file(path), "two\r\n", NOW) == tmp_path / "mcp.json.bak-20261120-120000"
    assert replace_file(read_file(path), "three", NOW) == tmp_path / "mcp.json.bak-20261120-120000-1"
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        "mcp.json": b"three",
        "mcp.json.bak-20261120-120000": b"one\r\n",
        "mcp.json.bak-20261120-120000-1": b"two\r\n",
    }


def test_a_new_file_gets_its_folders_and_nothing_is_kept(tmp_path: Path) -> None:
    """S7.1."""
    path = tmp_path / "a" / "b" / "mcp.json"
    assert replace_file(read_file(path), "ü", NOW) is None
    assert [file.name for file in path.parent.iterdir()] == ["mcp.json"]
    assert path.read_bytes() == "ü".encode()


@posix
def test_mode_and_symbolic_links_stay(tmp_path: Path) -> None:
    """S7.1: as those have it who keep their settings in a repository; the copy is as private as the file."""
    kept = tmp_path / "dotfiles" / "mcp.json"
    kept.parent.mkdir()
    kept.write_text("one", "utf-8")
    kept.chmod(0o640)
    link = tmp_path / "mcp.json"
    link.symlink_to(kept)
    copy = replace_file(read_file(link), "two", NOW)
    assert link.is_symlink()
    assert kept.read_text("utf-8") == "two"
    assert copy is not None
    assert copy.parent == kept.parent
    assert [file.stat().st_mode & 0o777 for file in (kept, copy)] == [0o640, 0o640]


@posix
def test_a_circle_of_links_is_named(tmp_path: Path) -> None:
    """S7.1."""
    path = tmp_path / "mcp.json"
    path.symlink_to(path)
    with pytest.raises(Conflict, match=r"mcp\.json cannot be read: "):
        read_file(path)


def test_a_byte_order_mark_stays(tmp_path: Path) -> None:
    """S7.1: as some editors of Windows write it."""
    path = tmp_path / "mcp.json"
    path.write_bytes(b"\xef\xbb\xbf{}")
    found = read_file(path)
    assert found.text == "{}"
    replace_file(found, "{1}", NOW)
    assert path.read_bytes() == b"\xef\xbb\xbf{1}"


@pytest.mark.parametrize("meanwhile", [b"changed", None])
def test_a_change_made_meanwhile_is_not_written_over(tmp_path: Path, meanwhile: bytes | None) -> None:
    """S7.1: by the client, say, which writes its file too."""
    path = tmp_path / "mcp.json"
    path.write_bytes(b"one")
    found = read_file(path)
    path.unlink()
    if meanwhile is not None:
        path.write_bytes(meanwhile)
    with pytest.raises(Conflict, match="was changed meanwhile"):
        replace_file(found, "two", NOW)
    assert (path.read_bytes() if path.exists() else None) == meanwhile
    assert len(list(tmp_path.iterdir())) == (meanwhile is not None)


def test_what_is_no_utf_8_or_no_file_is_named(tmp_path: Path) -> None:
    """S7.1."""
    path = tmp_path / "mcp.json"
    path.write_bytes("{}".encode("utf-16"))
    with pytest.raises(Conflict, match="is not UTF-8; save it as UTF-8"):
        read_file(path)
    with pytest.raises(Conflict, match=r"cannot be read: .* Make it readable"):
        read_file(tmp_path)
    with pytest.raises(Conflict, match=r"cannot be changed: .* Nothing was written"):
        replace_file(read_file(path / "below.json"), "{}", NOW)
    with pytest.raises(Conflict, match="Nothing was written"):
        replace_file(read_file(tmp_path / "new.json"), "\ud800", NOW)
    assert [file.name for file in tmp_path.iterdir()] == ["mcp.json"]


AS_ANOTHER_USER = """
    import os, sys
    from datetime import UTC, datetime
    from pathlib import Path
    from mcp_memory.entrypoints.clients.files import kept_copies, read_file, replace_file
    from mcp_memory.errors import Conflict
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        replace_file(read_file(Path(sys.argv[1])), "two", datetime(2026, 11, 20, tzinfo=UTC))
    except Conflict as error:
        print(error)
"""


@posix
@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_file_that_may_not_be_read_or_changed_is_left_as_it_is(mode: int) -> None:
    """S7.1: run as a user whom permission bits bind, also where root runs the tests; one line says so."""
    # Not in tmp_path: the folders above it admit nobody else.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "mcp.json"
        path.write_text("one", "utf-8")
        path.chmod(mode)
        folder.chmod(0o555)
        command = [sys.executable, "-c", textwrap.dedent(AS_ANOTHER_USER), str(path)]
        child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        folder.chmod(0o755)
        path.chmod(0o644)
        assert [file.name for file in folder.iterdir()] == ["mcp.json"]
        assert path.read_text("utf-8") == "one"
    assert child.returncode == 0, child.stderr
    assert len(child.stdout.splitlines()) == 1
    assert child.stdout.startswith(f"{path} cannot be {'read' if mode == 0 else 'changed'}: {os.strerror(13)}.")


ON_A_FULL_DISK = """
    import resource, signal, sys
    from datetime import UTC, datetime
    from pathlib import Path
    from mcp_memory.entrypoints.clients.files import kept_copies, read_file, replace_file
    from mcp_memory.errors import Conflict
    found = read_file(Path(sys.argv[1]))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        replace_file(found, sys.argv[2], datetime(2026, 11, 20, tzinfo=UTC))
    except Conflict as error:
        print(error)
"""


@posix
@pytest.mark.parametrize(("former", "text"), [("x" * 5000, "short"), ("short", "x" * 5000)])
def test_where_there_is_no_room_the_file_stays_and_nothing_is_left(tmp_path: Path, former: str, text: str) -> None:
    """S7.1, S2.3: neither for the copy nor for the new file; a limit on sizes stands for a full disk."""
    path = tmp_path / "mcp.json"
    path.write_text(former, "utf-8")
    command = [sys.executable, "-c", textwrap.dedent(ON_A_FULL_DISK), str(path), text]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert child.returncode == 0, child.stderr
    assert child.stdout.endswith("Nothing was written.\n")
    assert {file.name: file.read_text("utf-8") for file in tmp_path.iterdir()} == {"mcp.json": former}


@posix
def test_what_is_no_ordinary_file_is_left_alone(tmp_path: Path) -> None:
    """X6.4: a pipe would keep the command waiting for ever."""
    os.mkfifo(tmp_path / "mcp.json")
    with pytest.raises(Conflict, match="cannot be read: not an ordinary file"):
        read_file(tmp_path / "mcp.json")
    (tmp_path / "large.json").touch()
    os.truncate(tmp_path / "large.json", 1 << 40)
    with pytest.raises(Conflict, match="cannot be read: larger than 64 MB"):
        read_file(tmp_path / "large.json")


@posix
def test_kept_copies_are_read_newest_first(tmp_path: Path) -> None:
    """S7.1: what is no copy of ours is passed over."""
    path = tmp_path / "mcp.json"
    path.write_text("now", "utf-8")
    (tmp_path / "mcp.json.bak-20261120-120000").write_text("older", "utf-8")
    (tmp_path / "mcp.json.bak-20261121-120000").write_text("newer", "utf-8")
    (tmp_path / "mcp.json.bak-20261122-120000").write_bytes(b"\xff")
    (tmp_path / "mcp.json.bak-20261123-120000").symlink_to(path)
    os.mkfifo(tmp_path / "mcp.json.bak-20261124-120000")
    (tmp_path / "other.json.bak-20261121-120000").write_text("other", "utf-8")
    assert list(kept_copies(read_file(path))) == ["newer", "older"]
