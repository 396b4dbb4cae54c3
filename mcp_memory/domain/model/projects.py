"""Treats a folder as a project: its identity, and the namespace that its processes work in. Reads no file."""

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from unicodedata import normalize
from urllib.parse import quote, unquote, urlsplit

from mcp_memory.domain.model.records import Instant

DEFAULT_NAMESPACE = "default"
"""The namespace of the home directory and the file-system root: clients start servers there for all work at once."""
LOCAL = "@local"
"""Replaces the host where a remote is a folder. No real host has this spelling."""
MAX_NAMESPACE = 200
MAX_ADDRESS = 2_000
_SAFE = "-._~+"
_NAMESPACE_BYTES = 10
_NAME_CHARACTERS = 60
_STANDARD_PORTS = {"http": 80, "https": 443, "ssh": 22, "git+ssh": 22, "ssh+git": 22, "git": 9418, "ftp": 21}
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]")
"""`github.com`, `localhost`, `[::1]`; not `..`, `-x` or anything beyond ASCII."""
_DRIVE = re.compile(r"/?[A-Za-z]:(?=[\\/]|$)")
"""`C:\\repos\\shop`, `C:/repos/shop`, and the `/C:/repos/shop` of a file:// address."""
_SCP = re.compile(r"(?:[^:/]*@)?(\[[^\]/]*\]|[^:/@]*):(?!:)(.*)")
"""`git@github.com:acme/shop.git`, `[::1]:shop`; not `ext::command`, which names a program."""
_ELSEWHERE = re.compile(r"[\\/]{2}")
"""`\\\\server\\share`, `//server/share`: resolving it would reveal us to another machine."""

# e.g. "shop" in "shop-mfrggzdfmztwq2lk", the own namespace of a folder
OWN_NAMESPACE = re.compile(r"(?P<name>.+)-[a-z2-7]{16}")

State = Literal["named", "own", "inside", "joined", "free", "refused"]
NOTICE = (
    "This is not the project's shared memory: the folder says that it belongs to a project, but was not given that"
    " project's memory, so it has one of its own. Only the user can join it: by `mcp-memory trust` in this folder."
)
SHORT_NOTICE = "Not the project's memory; only the user can join it: `mcp-memory trust`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A folder's own statement of its identity; the statement grants nothing.

    `folder` is the real path of the repository's top folder, or of a folder without git. `repository` is the real
    path of git's common directory, "" without git. It is proven where it is inside the folder, or names the folder
    back. `root` represents all proven folders of a repository: its main folder, or the directory of a bare one; for
    any other it is the folder. `claim` is the namespace that the folder asks for, "" where it asks only for `own`,
    which nobody else has. `mark` is what `root` keeps when it is renamed, "" where it cannot be seen. `around` are the
    folders around one without git that may be its project, the nearest first.
    """

    folder: str
    root: str
    own: str
    repository: str = ""
    claim: str = ""
    is_proven: bool = True
    mark: str = ""
    around: tuple["Project", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFolder:
    """A folder in which a namespace was used, and the mark that it had; "" for one that the project around lent it."""

    namespace: str
    folder: str
    repository: str
    mark: str
    noted_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerName:
    """The present namespace of a name that a person changed, and when; a `mark` binds it to one folder."""

    namespace: str
    at: Instant
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedProject:
    """The number of live records and tasks that got another namespace, and the names of the tokens that now hold it.

    `not_live` counts the other records: retired, proven wrong, or only noted.

    `readers` are the valid tokens that now read what they did not: of two projects that became one they held one alone.
    """

    records: int
    not_live: int
    tasks: int
    tokens: tuple[str, ...]
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedFolder:
    """A folder that may use a namespace: it was the first (`is_first`), or a person approved it."""

    namespace: str
    folder: str
    repository: str
    since: Instant
    is_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The namespace that processes in a folder work in, and the reason.

    named: a person named it, and `project` is None. own: the folder asks for no other. inside: it is that of the folder
    around. joined: it is the claimed one, or the one that a person put in its place. free: nobody has the claimed
    namespace; the folder works in its own until its first write takes the claimed one. refused: it works in its own,
    since the claimed one is another's.

    `renamed_at` is when a person gave the namespace's former project, of another folder at this path, another name.
    """

    namespace: str
    state: State
    project: Project | None = None
    renamed_at: Instant | None = None

    @property
    def is_refused(self) -> bool:
        """True where the folder claims a namespace that it was not given."""
        return self.state == "refused"


def own_namespace(folder: str, *, is_bare: bool = False) -> str:
    """Return a folder's own namespace, from its real path: its name, and 80 bits of a digest, as `shop-4f2k…`.

    It holds no slash, so no remote can map to it. A bare repository differs from its parent folder, where anybody
    who can write files could create something that looks like a repository.
    """
    marked = f"{folder}\0bare" if is_bare else folder
    digest = hashlib.blake2b(marked.encode("utf-8", "surrogatepass"), digest_size=_NAMESPACE_BYTES).digest()
    name = re.split(r"[\\/]", folder.rstrip("\\/"))[-1]
    shown = "".join(c if c.isprintable() and not c.isspace() and c != ":" else "-" for c in normalize("NFC", name))
    return f"{shown[:_NAME_CHARACTERS] or 'root'}-{base64.b32encode(digest).decode().lower()}"


def short_name(namespace: str) -> str:
    """Return the name by which people know a project: "shop" of `shop-4f2k…` and of `github.com/acme/shop`."""
    last = namespace.rpartition("/")[2] or namespace
    own = OWN_NAMESPACE.fullmatch(last)
    return own["name"] if own else unquote(last)


def remote_namespace(address: str, real_path: Callable[[str], str]) -> str:
    """Return a git remote's namespace: `host/owner/name`, `@local/name-digest` for a folder, or "" for none.

    Clones of one remote share a namespace however they were cloned. User, password, query and fragment are left out.
    An address that cannot be parsed with certainty has none. Ports stay, unless they are the scheme's default.
    `real_path` returns the real path of a path in the address, which may be relative to the repository's folder, or
    "" where there can be none.
    """
    if not address.isprintable() or len(address) > MAX_ADDRESS or _ELSEWHERE.match(address):
        return ""
    if any(not c.isascii() and c.lower().isascii() for c in address):  # The Kelvin sign is a k in lower case.
        return ""
    try:
        if "://" in address:
            name = _of_url(address, real_path)
        elif ":" in address.partition("/")[0] and not _DRIVE.match(address):
            scp = _SCP.fullmatch(address)
            name = _joined(scp[1], re.split(r"[?#]", scp[2])[0].split("/")) if scp else ""
        else:
            name = _of_path(address, real_path)
    except ValueError:  # A port that is no number, an unbalanced bracket, bytes that are not UTF-8.
        return ""
    return name if len(name) <= MAX_NAMESPACE else ""


def _of_url(address: str, real_path: Callable[[str], str]) -> str:
    """Return a URL's namespace. Raises ValueError."""
    url = urlsplit(address)
    if url.scheme == "file":
        is_here = url.netloc in ("", "localhost")
        return _of_path(unquote(url.path, errors="strict"), real_path) if is_here else ""
    host = _bracketed(url.hostname or "")
    segments = [unquote(segment, errors="strict") for segment in url.path.split("/")]
    is_standard = url.port is None or url.port == _STANDARD_PORTS.get(url.scheme)
    return _joined(host, segments, "" if is_standard else f":{url.port}")


def _of_path(path: str, real_path: Callable[[str], str]) -> str:
    """Return the namespace of a folder on this machine, by its real path. Raises ValueError."""
    path = path.removeprefix("/") if _DRIVE.match(path) else path
    if not path or not path.isprintable() or _ELSEWHERE.match(path):
        return ""
    real = re.sub(r"(?<=[^\\/])[\\/]\.git$", "", real_path(path))
    return f"{LOCAL}/{own_namespace(real)}" if real else ""


def _joined(host: str, segments: list[str], port: str = "") -> str:
    """Join host and path in lower case, all but ASCII letters, digits and `-._~+` percent-encoded; "" if unsound."""
    host = host.lower().removesuffix(".")
    # The text after a semicolon is a parameter, as in `shop;token=…`.
    parts = [normalize("NFC", segment.partition(";")[0].lower()) for segment in segments if segment]
    if parts:
        parts[-1] = parts[-1].removesuffix(".git")
    # An @ may be the end of a password with a slash in it, as in https://ann:12/34@host/shop.
    is_sound = all(part not in ("", ".", "..") and part.isprintable() and "@" not in part for part in parts)
    if not parts or not is_sound or not _HOST.fullmatch(host) or ".." in host:
        return ""
    return "/".join([host + port, *(quote(part, safe=_SAFE) for part in parts)])


def _bracketed(host: str) -> str:
    """Return a host as an address writes it: urlsplit strips the brackets of `[::1]`."""
    return f"[{host}]" if ":" in host else host
