"""Files that are no files, and files that are larger than anybody should read."""

import os
import sys
from io import BytesIO
from pathlib import Path

import pytest

from mcp_memory.bounded_files import MB, bounded_lines, open_regular, read_regular

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes and devices among its files")


@posix
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "nul"])
def test_what_is_no_ordinary_file_is_not_opened(tmp_path: Path, kind: str) -> None:
    """X6.4: a pipe without a writer would wait for ever, a device never end; the reason can be shown."""
    os.mkfifo(tmp_path / "pipe")
    paths = {"pipe": tmp_path / "pipe", "device": Path("/dev/zero"), "folder": tmp_path, "nul": Path("a\0b")}
    with pytest.raises(OSError, match=r".") as caught:
        open_regular(paths[kind])
    assert caught.value.strerror in ("not an ordinary file", "Is a directory", "not a path")


@posix
def test_a_link_is_followed_only_where_it_may_be(tmp_path: Path) -> None:
    """X6.4."""
    (tmp_path / "file").write_bytes(b"here")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", MB) == b"here"
    with pytest.raises(OSError, match="a symbolic link"):
        read_regular(tmp_path / "link", MB, follow_link=False)


def test_a_file_is_read_up_to_its_limit_and_not_a_byte_beyond(tmp_path: Path) -> None:
    """X6.4: a sparse file of a terabyte costs nothing."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * MB)
    assert len(read_regular(path, MB)) == MB
    with path.open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than 1 MB"):
        read_regular(path, MB)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a\nb", [b"a\n", b"b"]),
        (b"1234\n12345\n1\n", [None, None, b"1\n"]),
        (b"123\n1234", [b"123\n", b"1234"]),
        (b"12345678901234567890\n1\n", [None, b"1\n"]),
        (b"1\n12345678901234567890", [b"1\n", None]),
    ],
)
def test_a_line_longer_than_agreed_is_none_and_the_next_is_read(content: bytes, lines: list[bytes | None]) -> None:
    """X6.4: at any place, with or without its end; four bytes are agreed here."""
    assert list(bounded_lines(BytesIO(content), 4)) == lines
