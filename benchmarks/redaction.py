"""What redaction costs on ordinary texts, each of which it sees once: notes, this project's pages, and its code.

    python -m benchmarks.redaction

Prints CPU time a character, and what the first text pays for reading the rules.
"""

import random
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mcp_memory.language.secrets_re2 import SecretRedactor

ROOT = Path(__file__).parents[1]
NOTES, NOTE_WORDS = 3_000, 18


def main() -> None:
    """Print the table."""
    redactor = SecretRedactor()
    first = seconds(redactor, ["A first text."])
    pages = [path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))]
    code = [path.read_text("utf-8") for path in sorted((ROOT / "mcp_memory").rglob("*.py"))]
    chance, words = random.Random(1), " ".join(pages).split()
    notes = [" ".join(chance.choices(words, k=NOTE_WORDS)) for _ in range(NOTES)]
    table = Table(
        "texts", "how many", "characters", "µs a text", "ns a character", title=f"first text {first * 1e3:.0f} ms"
    )
    for name, texts in (("notes", notes), ("pages", pages), ("code", code)):
        taken, size = seconds(redactor, texts), sum(map(len, texts))
        table.add_row(name, f"{len(texts)}", f"{size}", f"{taken / len(texts) * 1e6:.0f}", f"{taken / size * 1e9:.0f}")
    Console(width=100).print(table)


def seconds(redactor: SecretRedactor, texts: Sequence[str]) -> float:
    """CPU seconds for all of them, one after the other."""
    start = time.thread_time()
    for text in texts:
        redactor.redact(text)
    return time.thread_time() - start


if __name__ == "__main__":
    main()
