"""Reads what a shell command does to files, and which programs it runs, by the form of the command alone.

Independent of what the command printed, and of whether it went well.
"""

import re
from collections.abc import Iterable, Iterator

# "rm -f src/ticker.go", "git rm old.py"
_REMOVED = re.compile(r"(?:^|[;&|]\s*)(?:git )?rm (?:-\w+ )*(?P<removed>[^;&|\n]{1,300})")
# "sed -i 's/a/b/' app.py", "sed -i -e s/a/b/ app.py"
_IN_PLACE = re.compile(
    r"\bsed (?:-\w{1,20} ){0,3}(?:-\w{0,3}i\S{0,20}|--in-place\S{0,20}) [^\n]{0,200}? "
    r"(?P<path>[\w./~@+-]{1,120}) ?(?=['\"]?(?:$|[;&|\n]))"
)
# "cat > app.toml <<EOF", "echo x >> .env", "tee -a app.toml"; not "pytest > out.log"
_POURED = re.compile(
    r"\b(?:(?:cat|echo|printf)\b[^\n;&|>]{0,200}>>?|tee(?: -\w+)*) ?(?!/dev/|/tmp/)"
    r"(?P<path>[\w./~@+-]{1,120}) ?(?=$|[;&|<>\n])"
)
# "report.py --out out/report.html", "touch notes.md", "cp a.env b.env"; not the download "curl -o data.csv URL"
_MADE = re.compile(
    r"(?: -o|--out(?:put)?(?:-file)?|\btouch|\bcp (?:-\w{1,20} ){0,3}[\w./~@+-]{1,120})[ =](?!/dev/|/tmp/)"
    r"(?P<path>[\w./~@+-]{0,120}\.[A-Za-z]\w{0,9})(?=$|[\s;&|'\"])"
)
# "cd /srv/app && make", "cd '/srv/my app'\nmake"; not "cd app"
_BEGUN_IN = re.compile(r"\s{0,9}cd ['\"]?(?P<folder>/[^;&|\n'\"]{1,200}?)/?['\"]?\s{0,9}(?:[;&\n]|\Z)")
_DOWNLOADS = re.compile(r"\b(?:curl|wget|xh|gdown|yt-dlp)\b")
# "open('rows.csv', 'w')", "Path('notes.md').write_text(", "frame.to_csv('rows.csv'", "figure.savefig('a.png'"
_NAMED_FILE = r"\( ?['\"](?!/dev/|/tmp/)(?P<path>[\w./~@+-]{1,120})['\"]"
_WRITTEN = (
    re.compile(rf"\bopen{_NAMED_FILE}, ?(?:mode=)?['\"][wax]"),
    re.compile(rf"\bPath{_NAMED_FILE}\)\.write_(?:text|bytes)\("),
    re.compile(rf"\.(?:to_(?:csv|json|excel|parquet|html|markdown)|savefig){_NAMED_FILE}"),
)
# "mv a.py b.py", "git mv a.py b.py"
_MOVED = re.compile(
    r"(?:^|[;&|\n] {0,3})(?:git )?mv (?:-\w{1,20} ){0,3}(?P<old>[\w./~@+-]{1,120}) "
    r"(?P<path>[\w./~@+-]{1,120}) ?(?=['\"]?(?:$|[;&|\n]))"
)
# "git checkout -- app.py", "git checkout main app.py", "git restore app.py"; not "git restore --staged app.py"
_UNDONE = re.compile(r"\bgit (?:checkout|restore(?! --staged)) (?P<undone>[^;&|\n]{1,300})")
# "git checkout -- .", "git restore .", "git reset --hard"
_ALL_UNDONE = re.compile(
    r"\bgit (?:(?:checkout|restore)(?: HEAD)?(?: --)? \.|reset --hard(?: HEAD)?) ?(?=$|[;&|\n])", re.MULTILINE
)
# "git stash", "git stash push -m wip"; what is put aside and taken out again in one command is where it was
_STASHED = re.compile(r"\bgit stash\b(?! (?:pop|apply|list|show|drop|clear|branch|create))")
_TAKEN_OUT = re.compile(r"\bgit stash (?:pop|apply)\b")
# "cd app && FOO=1 go test ./..." → "go", "test"
_STEP = re.compile(r"&&|\|\||[;|\n]")
# Steps that prepare or look: "cd app", "FOO=1", "grep -c x"
_BESIDE = re.compile(
    r"(?:cd|export|source|set|env|sleep|echo|cat|ls|grep|rg|head|tail|sed|awk|wc|find|mkdir|true|pwd|date"
    r"|pgrep|which|findstr|test|type)\b|\w+="
)
# What stands before the program: "FOO=1 go test", "sudo systemctl", "bash -lc 'make lint'", "ssh web 'make lint'"
_LEAD = re.compile(
    r"\A(?:['\"]|\w{1,60}=\S{0,200} |(?:sudo|time|nice|nohup|exec) |(?:/\S{0,40}/)?(?:ba|z)?sh -l?c "
    r"|ssh (?:-\w \S{1,60} ){0,5}\S{1,80} ){1,8}"
)


def programs(command: str) -> frozenset[str]:
    """Return the programs that a command runs, with their subcommands: two runs of one program share one."""
    steps = [_LEAD.sub("", step.strip()).strip(" '\"") for step in _STEP.split(_LEAD.sub("", command))]
    named = (_named([word for word in step.split() if not word.startswith("-")]) for step in steps)
    return frozenset(each for each in named if each and not _BESIDE.match(each))


def _named(words: list[str]) -> str:
    """Return a program with its subcommand, or with the address that it asks."""
    address = next((word.strip("'\"") for word in words if "://" in word), "")
    return f"{words[0]} {address}" if address else " ".join(words[:2])


def paths_written(command: str, is_python: bool = False) -> list[str]:
    """Return the paths that a command writes, changes or makes, each once; those of Python code only in Python."""
    patterns, shell = (_IN_PLACE, _POURED, _MOVED, _MADE), _outside(command)
    found = [each["path"] for pattern in patterns for each in pattern.finditer(shell) if not _downloads(shell, each)]
    if is_python or "python" in shell:
        found += (each["path"] for pattern in _WRITTEN for each in pattern.finditer(command))
    return [*dict.fromkeys(found)]


def begun_in(command: str) -> str:
    """Return the whole path of the folder to which a command changes first; empty where it names none."""
    begun = _BEGUN_IN.match(command)
    return begun["folder"] if begun else ""


def within(folder: str, path: str) -> str:
    """Return the whole path of a relative one in a folder; a whole one, and any without a folder, stays."""
    is_whole = not folder or path[:1] in "/~" or path[1:2] == ":"
    return path if is_whole else f"{folder}/{path.removeprefix('./')}"


def paths_gone(command: str, known: Iterable[str]) -> Iterator[str]:
    """Yield those of the known paths that a command removes or moves away."""
    shell = _outside(command)
    removed = " ".join(each["removed"] for each in _REMOVED.finditer(shell)).split()
    gone = (*removed, *(each["old"] for each in _MOVED.finditer(shell)))
    yield from (path for path in known if any(_is_meant(path, name) for name in gone))


def paths_put_back(command: str, known: Iterable[str]) -> Iterator[str]:
    """Yield those of the known paths that a command puts back as they were committed: "git checkout -- app.py"."""
    shell = _outside(command)
    named = " ".join(each["undone"] for each in _UNDONE.finditer(shell)).split()
    yield from (path for path in known if any(_is_meant(path, name) for name in named))


def puts_all_back(command: str) -> bool:
    """Return True for a command that puts back all files that git knows."""
    return bool(_ALL_UNDONE.search(_outside(command)))


def stashes(command: str) -> bool | None:
    """Return True for a command that puts the changes of all files aside, False for one that takes them out again."""
    is_stashed, is_taken_out = bool(_STASHED.search(command)), bool(_TAKEN_OUT.search(command))
    return None if is_stashed == is_taken_out else is_stashed


def _downloads(shell: str, made: re.Match[str]) -> bool:
    """Return True where what makes a file is the download of it."""
    step = _STEP.split(shell[: made.start()])[-1]
    return made.re is _MADE and bool(_DOWNLOADS.search(step))


def _is_meant(path: str, name: str) -> bool:
    return path == name or path.endswith(f"/{name.removeprefix('./')}")


def paths_retired(command: str) -> list[str]:
    """Return the paths that a command moves away, or removes from a repository; "rm app.db" may be a daily habit."""
    done = _outside(command)
    moved = [match["old"] for match in _MOVED.finditer(done)]
    removed = [match["removed"] for match in _REMOVED.finditer(done) if "git rm " in match[0]]
    return [path.removeprefix("./") for path in " ".join([*moved, *removed]).split() if not path.startswith("-")]


def _outside(command: str) -> str:
    """Return a command up to the text that it pours into a file: the line with "<<EOF" is the last."""
    head, mark, rest = command.partition("<<")
    return head + mark + rest.partition("\n")[0]
