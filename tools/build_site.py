"""Builds the documentation as a site in build/site: `just site`.

Zensical makes the pages, and stops at a link that leads nowhere. The Markdown of each page is put beside it, for agents
that follow llms.txt. Each thing that a page or a style would load from elsewhere is named, and the exit code is 1 then.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc(?:set)?=["']?(?P<source>(?:https?:)?//[^"'\s>]+)
    | <link\b(?=[^>]*\brel=["']?(?:stylesheet|icon|preload|preconnect|modulepreload|manifest)\b)
      [^>]*?\bhref=["']?(?P<link>(?:https?:)?//[^"'\s>]+)
    | url\(["']?(?P<style>(?:https?:)?//[^"')]+) | @import\s+["'](?P<import>(?:https?:)?//[^"']+)
    | class=["']?(?P<mermaid>mermaid)\b""",
    re.VERBOSE,
)
"""`<script src="https://…">`, `<link rel=stylesheet href=//…>`, `url(https://…)`, `@import "https://…"`.

The theme's script loads Mermaid from elsewhere, where an element has that class.
"""


def loaded_from_elsewhere(text: str) -> list[str]:
    """Return each address that a browser would ask for a page or a style, in order; a link to follow is none."""
    return [str(found[found.lastgroup or 0]) for found in _LOADED.finditer(text)]


def faults(site: Path) -> Iterator[str]:
    """Yield the file and the address of each thing that is loaded from elsewhere."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        yield from (f"{path.relative_to(site)}: {each}" for each in loaded_from_elsewhere(path.read_text("utf-8")))


if __name__ == "__main__":
    shutil.rmtree(SITE, ignore_errors=True)
    subprocess.run(["zensical", "build", "--strict"], cwd=ROOT, check=True)
    shutil.copytree(ROOT / "docs", SITE, dirs_exist_ok=True)
    found = list(faults(SITE))
    print(*found, f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}", sep="\n")
    sys.exit(1 if found else 0)
