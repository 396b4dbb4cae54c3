"""Write docs/short-forms.md: what the short forms of real texts are, made by the code from docs/short-forms.toml.

python tools/short_forms_examples.py

tests/domain/text/test_short_forms_page.py compares the page with what this makes.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from mcp_memory.domain.model.records import Kind, Outcome
from mcp_memory.domain.text.micro_and_summary import short_forms
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter

DOCS = Path(__file__).resolve().parent.parent / "docs"
EXAMPLES, PAGE = DOCS / "short-forms.toml", DOCS / "short-forms.md"
INTRODUCTION = """# Short forms

Every record has a micro (at most 20 tokens) and a summary (at most 100) from the moment it is stored, made without a
model by `domain/text/micro_and_summary.py` and its neighbours. Contexts show them where the text itself does not fit.

A text that fits is its own form. Of a longer one both forms are the beginning, on one line, up to a word and an
ellipsis (`domain/text/cut_to_tokens.py`); where the first sentence does not fit and would lose a denial or an
exception, its clause stands behind the ellipsis. No word is added. The short forms of a session's summary show where
the session stood: goal, state, next step, decision. When an outcome is recorded, both forms are rebuilt and end with
it. docs/decisions/0032 says why nothing cleverer chooses.

Twenty examples, made by `python tools/short_forms_examples.py` from `short-forms.toml`; numbers are tokens.
"""


def page() -> str:
    """The whole page."""
    counter = TiktokenCounter()
    examples = tomllib.loads(EXAMPLES.read_text(encoding="utf-8"))["example"]
    return "\n".join([INTRODUCTION, *(_example(n, each, counter) for n, each in enumerate(examples, 1))])


def _example(number: int, example: Mapping[str, str], counter: TiktokenCounter) -> str:
    text = example["text"].strip()
    kind, outcome = cast(Kind, example["kind"]), cast(Outcome | None, example.get("outcome"))
    forms = short_forms(text, counter.count, counter.truncate, kind=kind, outcome=outcome)
    came_of_it = f", outcome {outcome}" if outcome else ""
    return f"""## {number}. {example["title"]}

**Text** ({counter.count(text)}; {kind}{came_of_it})

~~~~text
{text}
~~~~

**Micro** ({counter.count(forms.micro)})

~~~~text
{forms.micro}
~~~~

**Summary** ({counter.count(forms.summary)})

~~~~text
{forms.summary}
~~~~
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
