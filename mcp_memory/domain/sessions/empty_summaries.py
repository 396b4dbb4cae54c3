"""Finds summaries that say nothing of what they replace: "none" in any words, placeholders, the headings alone.

A summary says something where lines of its own hold words of the messages. It may be short, and in another language
than they are: then names and numbers are in both. Independent of stores and of who wrote it.
"""

import re
from collections.abc import Iterable

from mcp_memory.domain.text.exact_values import exact_in
from mcp_memory.domain.text.lexicon import STOP_WORDS
from mcp_memory.domain.text.summary_sections import TITLES, says_none, stated
from mcp_memory.domain.text.words import text_stems

LEAST_SHARED = 2
"""Words of the messages that a summary holds at least."""
FEW_SHARED, FOREIGN_WORDS = 1, 12
"""In another language than the messages: the words in common, and words of its own, at least."""
ABSENCE_CHARACTERS = 60
"""A longer line says more than that there is nothing."""
# e.g. "[what the user wants]", "<goal>", "{{decisions}}", "(to be filled in)"
_PLACEHOLDER = re.compile(r"\s*(?:\[[^\]]*\]|<[^>]*>|\{[^}]*\}+|\([^)]*\)|_{2,}|\.{2,}|…)\W*")
# e.g. "No decisions were made.", "Keine Dateien geändert", "There are no open items", "没有决定", "特になし"
_ABSENCE = re.compile(
    r"\W*(?:"
    r"(?:there (?:is|are|was|were) |so far )?"
    r"(?:no|none|not|nothing|nobody|n/?a|nil|null|unknown|unspecified|tb[da]|todo)\b"
    r"|(?:es gibt |es gab )?(?:kein|keine|keinen|keiner|keines|nichts|nicht|entfällt|unbekannt)\b"
    r"|(?:il n'y a |il n’y a )?(?:aucun|aucune|rien|pas de|pas d['’]|néant|sans objet|non)\b"
    r"|(?:no hay |não há |non c'è |non ci sono )?"
    r"(?:ningun|ningún|ninguna|ninguno|nada|nenhum|nenhuma|nessun|nessuna|nessuno|niente|nulla|sin|sem)\b"
    r"|(?:geen|niets|n\.v\.t|ingen|inga|inget|intet|brak|żaden|żadne|žádn\w*|yok|нет|ничего|никаких|отсутству\w*|немає)\b"
    r"|(?:暂|目前|尚|还|並|并)*[无無没沒未]|特に(?:な|無)|(?:該当|特記)?(?:なし|無し|ありません)|없음|없습니다|해당"
    r"|لا (?:يوجد|شيء)|لا\b|אין\b|कोई नहीं"
    r")",
    re.IGNORECASE,
)
# e.g. "Placeholder for the summary", "Same as above", "To be determined"
_FILLERS = frozenset(
    text_stems(
        "placeholder placeholders summary summarise summarize section conversation session message messages text here"
        " above below same see filled fill insert add describe list item items line determined decided later todo tbd"
        " applicable available provided given mentioned reported noted recorded identified specified relevant report"
        " nothing none unknown empty blank lorem ipsum dolor sit amet user assistant agent write"
    )
) | frozenset(stem for title in TITLES.values() for stem in text_stems(title))


def says_nothing(text: str, sources: Iterable[str]) -> bool:
    """Return True where no line of a summary tells anything of its sources, the messages that it is to replace.

    What it quotes of the user's does not count: that is kept without it. A text without sections is read as lines.
    """
    sections = stated(text)
    lines = [line for section, own in sections.items() if section != "instructions" for line in own]
    telling = [line for line in lines or text.split("\n") if not _is_empty(line)]
    told = frozenset(text_stems("\n".join(telling))) - STOP_WORDS - _FILLERS
    said = "\n".join(sources)
    if any(each.text in said for line in telling for each in exact_in(line)):
        return False
    shared = len(told.intersection(text_stems(said)))
    return shared < (FEW_SHARED if len(told) >= FOREIGN_WORDS else LEAST_SHARED)


def _is_empty(line: str) -> bool:
    """Return True for a line that only says that there is nothing, or where something is to be written."""
    if says_none(line) or _PLACEHOLDER.fullmatch(line):
        return True
    return len(line) <= ABSENCE_CHARACTERS and _ABSENCE.match(line) is not None
