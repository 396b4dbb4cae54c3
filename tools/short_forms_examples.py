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

- `segments.py` takes the text apart: sentences, headings, items, and the telling lines of code, output, traces, patches
  and JSON.
- `salience.py` says what each segment is worth: its place, the text's frequent words, words that announce a point,
  names and numbers; greetings, hedges, questions and boilerplate count against it.
- `excerpts.py` chooses: for the summary the best segments in their order, nothing said twice; for the micro the
  best one. A sentence that does not fit ends early, with an ellipsis; where a denial or an exception would be lost so,
  its clause stands behind the ellipsis. A line of output loses its time and place first. docs/decisions/0032 says why
  sentences are not compressed.
- `micro_and_summary.py` makes both. The short forms of a session's summary show where the session stood: goal, state,
  next step, decision.

A text that fits is its own summary. When an outcome is recorded, both forms are rebuilt and end with it. An ellipsis
marks what was left out. No word is added. At most the first 8,000 and the last 2,000 characters are read.

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
