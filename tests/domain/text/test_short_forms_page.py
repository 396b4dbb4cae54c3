"""docs/short-forms.md shows what the code makes."""

from tools.short_forms_examples import PAGE, page


def test_the_page_of_examples_is_what_the_code_makes() -> None:
    """C2.1: `python tools/short_forms_examples.py` writes it anew."""
    text = page()
    assert PAGE.read_text(encoding="utf-8") == text
    assert text.count("\n## ") == 20
