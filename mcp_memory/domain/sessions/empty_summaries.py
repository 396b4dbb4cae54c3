"""Finds summaries that say nothing: "none" in any words, placeholders, the headings alone, a refusal to write one.

Refused is only what is empty for certain. A summary may be short, in another language than its messages, and say that
something was not found. Independent of stores and of who wrote it.
"""

import re

from mcp_memory.domain.text.exact_values import exact_in
from mcp_memory.domain.text.lexicon import STOP_WORDS
from mcp_memory.domain.text.summary_sections import TITLES, says_none, stated
from mcp_memory.domain.text.words import text_stems

MOST_ABSENT = 4
"""Words of its own, at most, behind "no" or "nothing" in a line that only says that there is nothing."""
# e.g. "[what the user wants]", "<goal>", "{{decisions}}", "(to be filled in)"
_PLACEHOLDER = re.compile(r"\s*(?:\[[^\]]*\]|<[^>]*>|\{[^}]*\}+|\([^)]*\)|_{2,}|\.{2,}|…)\W*")
# e.g. "No decisions were made.", "Keine Dateien geändert", "There are no open items", "没有决定", "特になし"
_ABSENCE = re.compile(
    r"\W*(?:"
    r"(?:there (?:is|are|was|were) |so far )?"
    r"(?:no|none|not|nothing|nobody|n/?a|nil|null)\b"
    r"|(?:es gibt |es gab )?(?:kein|keine|keinen|keiner|keines|nichts|nicht|entfällt|unbekannt)\b"
    r"|(?:il n'y a |il n’y a )?(?:aucun|aucune|rien|pas de|pas d['’]|néant|sans objet|non)\b"
    r"|(?:no hay |não há |non c'è |non ci sono )?"
    r"(?:ningun|ningún|ninguna|ninguno|nada|nenhum|nenhuma|nessun|nessuna|nessuno|niente|nulla|sin|sem)\b"
    r"|(?:geen|niets|n\.v\.t|ingen|inga|inget|intet|brak|żaden|żadne|žádn\w*|yok|нет|ничего|никаких|отсутству\w*|немає)\b"
    r"|(?:暂|目前|尚|还|並|并)*[无無没沒未]有?|特に(?:な|無)し?|(?:該当|特記)?(?:なし|無し|ありません)|없음|없습니다|해당"
    r"|لا (?:يوجد|شيء)|لا\b|אין\b|कोई नहीं"
    r")",
    re.IGNORECASE,
)
# e.g. "I'm sorry, I can't summarise this conversation.", "I am unable to see the messages"
_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m |i am )?(?:so |very )?sorry\W+|i apologi[sz]e\W+|unfortunately\W+|but )*"
    r"i(?:['’]m| am)? (?:cannot|can['’]?t|can not|unable to|not able to|could not|couldn['’]t) "
    r"(?:summari[sz]e|(?:see|access|find|read|view|write|create|provide|give) "
    r"(?:you with )?(?:an?|the|this|that|any|your|our|previous|earlier)\W(?:\w+ ){0,2}"
    r"(?:summary|conversation|messages?|transcript|history|session)\b)",
    re.IGNORECASE,
)
# e.g. "Placeholder for the summary", "Same as above", "To be determined"
_FILLERS = frozenset(
    text_stems(
        "placeholder placeholders summary summarise summarize section conversation session message messages text here"
        " above below same see filled fill insert add describe list item items line determined decided later todo tbd"
        " applicable available provided given mentioned reported noted recorded identified specified relevant report"
        " nothing none unknown unspecified tba empty blank lorem ipsum dolor sit amet consectetur user assistant agent"
        " write"
    )
) | frozenset(stem for title in TITLES.values() for stem in text_stems(title))


def says_nothing(text: str) -> bool:
    """Return True where no line of a summary tells anything. A text without sections is read as lines.

    What it quotes of the user's does not count: that is kept without it.
    """
    sections = stated(text)
    lines = [line for section, own in sections.items() if section != "instructions" for line in own]
    return not any(map(_tells, lines or text.split("\n")))


def _tells(line: str) -> bool:
    """Return False for a line that only says that there is nothing, or where something is to be written."""
    if says_none(line) or _PLACEHOLDER.fullmatch(line):
        return False
    if exact_in(line):
        return True
    absence = _ABSENCE.match(line)
    told = frozenset(text_stems(line[absence.end() :] if absence else line)) - STOP_WORDS - _FILLERS
    return not _REFUSAL.match(line) and len(told) > (MOST_ABSENT if absence else 0)
