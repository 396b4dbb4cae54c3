"""A small real git repository, a commit a day."""

import os
import subprocess
from pathlib import Path

FIRST_DAY = 1_767_225_600
"""2026-01-01T00:00:00Z: the first commit; each next one is a day later."""
_DAY = 86_400


class MadeRepository:
    """Makes commits: the files that change, then the message."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._commits = 0
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        """Run git there, as somebody without configuration; return what it prints."""
        at = f"{FIRST_DAY + _DAY * self._commits} +0000"
        who = {f"GIT_{role}_{what}": f"ann{mail}" for role in ("AUTHOR", "COMMITTER") for what, mail in _WHO.items()}
        dates = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at, "GIT_CONFIG_GLOBAL": os.devnull}
        command = ["git", "-C", str(self.folder), *arguments]
        environment = {**os.environ, **who, **dates}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, message: str, **files: str) -> str:
        """Write the files, `docs__a_md` for "docs/a.md", and commit all; return the commit's hash."""
        for name, text in files.items():
            self.write(name.replace("__", "/").replace("_md", ".md").replace("_py", ".py"), text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        self._commits += 1
        return self.git("rev-parse", "HEAD")

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    def revert(self, commit: str) -> None:
        """Revert a commit as git does."""
        self.git("revert", "--no-edit", commit)
        self._commits += 1


_WHO = {"NAME": "", "EMAIL": "@example.org"}
