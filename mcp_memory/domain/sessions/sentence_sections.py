"""Sorts a sentence into a section of a summary, by its speaker and its words.

Only what pays on foreign sessions has a rule: the user's choices and conditions. Only users choose and set constraints,
unless a label says so. Independent of embeddings and ranking.
"""

import re
from collections.abc import Iterable
from itertools import dropwhile, groupby

from mcp_memory.domain.sessions.sentences import MOST_CHARACTERS, Utterance
from mcp_memory.domain.text import lexicon
from mcp_memory.domain.text.segments import sentences_of, unquoted
from mcp_memory.domain.text.statements import CONDITION, decides, tells_of_trouble
from mcp_memory.domain.text.summary_sections import Section
from mcp_memory.domain.text.words import text_stems

LEAST_CONTENT = 2
"""Words with a meaning of a limit or a refusal: what "no, not that" refuses nobody can tell."""
SHORT_CHARACTERS, LEAST_JUDGED, LEAST_ENGLISH = 400, 12, 0.15
"""The characters of some 60 words; the words by which a language is told; the share of function words in English."""
LEAST_PASTED, LEAST_SHOWN = 4, 5
"""The lines of a message with an error's text, and the labels and values of a page in a row."""
LEAST_CHARACTERS = 30
"""A shorter wish needs what it answers: "do whatever is optimal"."""
QUESTION_SENTENCES = 3
"""A longer message that ends in a question says more than it asks."""

# "Next step: the invoices of May", "Offen: die Stanza"
_LABELLED_OPEN = re.compile(
    rf"^(?:still )?(?:{lexicon.spaced('left_labels')}|{lexicon.spaced('open_labels')}"
    rf"|{lexicon.unspaced('left_labels')})[^\w.:：]{{0,3}}[:：]",
    re.IGNORECASE,
)
# "/add app.py", "/compact"; not "/srv/app is full"
TO_CLIENT = re.compile(r"^/[a-z][\w:-]{0,40}(?=\s|\Z).*", re.MULTILINE)
# "No, Postgres", "nee lass das", "84 MB on that machine, no."; not the rules "No longer support 3.9", "Never push"
_REFUSAL = re.compile(
    rf"(?:(?!(?:no longer|nicht mehr|never)\b)(?:{lexicon.spaced('refusals')})\b|{lexicon.unspaced('refusals')})"
    rf"|.{{0,300}}[,;]\s(?:{lexicon.spaced('refusals')})[.!]{{0,3}}\Z",
    re.IGNORECASE,
)
# "Actually, scrap the half resolution", "doch lieber SQLite"
_TAKEN_BACK = re.compile(rf"\b(?:{lexicon.spaced('taken_back')})\b|{lexicon.unspaced('taken_back')}", re.IGNORECASE)
# "Decision: amounts are kept in cents"
_LABELLED = re.compile(r"(?:decisi(?:on|one|ón)|entscheidung|décision|решение|决定|決定) ?[:：]", re.IGNORECASE)
# "Please never touch prod", "must stay under 2 s", "no more than 3"
_CONSTRAINT = re.compile(
    r"(?:^|[,;:.!?—–-]\s*|\b(?:please|and|but|so|you|we|should|then)\s+)"
    r"(?:never|always|do not|don['’]t|avoid|only|make sure|under no circumstances)\s+"
    r"(?!know|think|see|understand|remember|care|worry|mind|get it)"
    r"|\bmust(?! (?:have|be (?:the|a|an|some|that))\b)|\bmustn['’]t\b|\bmay not\b"
    r"|\b(?:has|have|needs?) to (?:stay|remain|be|work|run|support|keep|fit|pass)\b"
    r"|\b(?:is|are) not allowed\b|\bforbidden\b|\bno more than\b|\bat (?:most|least) \d"
    r"|\bnot exceed\b|\bwithout (?:changing|breaking|touching|adding|using|new|any)\b|\b(?:requirement|constraint)s?\b"
    r"|\bi still want\b|\bi(?:['’]d| would) rather\b|\bi(?:['’]d)? prefer\b"
    r"|(?:^|[,;:.!?]\s*|\b(?:also|and|please)\s+)(?:leave out|exclude)\b"
    rf"|\b(?:{lexicon.spaced('demands')})\b|{lexicon.unspaced('rules')}|{lexicon.unspaced('demands')}|(?:^|[，,。；])(?:请)?别",
    re.IGNORECASE,
)
# "no rgb indices!", "the report without tables", "nur zwischen 2 und 4"
_LIMIT = re.compile(
    rf"\b(?:{lexicon.DENIALS}|{lexicon.ABSENCES}|{lexicon.EXCEPTIONS}|{lexicon.spaced('not')})\b"
    rf"|{lexicon.unspaced('limits')}",
    re.IGNORECASE,
)
# "tell her before you merge", "it stays until the check is clean", "prune erst ab März"
_BOUND = re.compile(rf"\b(?:{lexicon.spaced('bounds')})", re.IGNORECASE)
# "so Krystyna's garden, 2 may", "the code block was #b5bd68"; not "in 5 seconds"
_NUMBERS = re.compile(rf"\d[\d.,:]*\d|\b(?=\w*\d)\w{{4,}}|\d\.? (?:{lexicon.MONTHS})\b", re.IGNORECASE)
# "use the staging database", "please follow camelCase"
_WAY = re.compile(
    rf"(?:(?:{lexicon.spaced('lead_ins')})\b[,\s]*){{0,3}}(?:{lexicon.spaced('ways')})\b"
    rf"|{lexicon.unspaced('lead_ins')}?(?:{lexicon.unspaced('ways')})",
    re.IGNORECASE,
)
# "use pnpm going forward", "ab jetzt in Cent"
_FROM_NOW_ON = re.compile(
    rf"\b(?:{lexicon.spaced('from_now_on')}|going forward)\b|{lexicon.unspaced('from_now_on')}", re.IGNORECASE
)
# "write another one without an offer": its limit is over with the answer
_ASKS_FOR = re.compile(
    rf"(?:(?:{lexicon.spaced('lead_ins')})\b[,\s]*){{0,3}}(?:{lexicon.spaced('texts_asked_for')})\b", re.IGNORECASE
)
# "I think it is KHIK97": a guess
_GUESSED = re.compile(rf"\b(?:{lexicon.HEDGES})\b|{lexicon.HEDGES_UNSPACED}", re.IGNORECASE)
# "$ make test", "➜  app git:(main) ✗ ls", "'/tmp/Screenshot 2.png'": lines of a terminal, and files that were dropped
_PASTED = re.compile(r"^[ \t]*+(?:[➜❯$%]|'/|\w++@[\w.-]++[: ])", re.MULTILINE)
# "Traceback (most recent call last)", "TypeError: no", "---> 16 print(x)", "    at handle (app.js:3:9)": an error
_TRACED = re.compile(
    r"^[ \t]*+(?:Traceback \(|File \"[^\n\"]{1,300}\", line \d|at \S{1,200} \(|-{1,9}> ?\d"
    r"|[\w.]{1,240}+(?:(?<=Error)|(?<=Exception)): )",
    re.MULTILINE,
)
# "Current Balance\n0.00 USDC\nVault\n2SuRKJ...ZJa5x6\nProgram": the labels and values of a page
_LABEL = re.compile(r"\s*(?![-*+>#]+ |\w{1,3}[.)] ?)\S+(?: \S+)?\s*\Z")
# "IT's not working", "the icon is not there": a complaint limits nothing
_COMPLAINT = re.compile(
    r"\b(?:is|are|was|were|does|do|did|still|it)(?: still| yet)?(?: not|n['’]t)\b|['’]s not\b", re.IGNORECASE
)
# "does this make sense in godot", "how would I cut it": questions, also without their sign; not "can you …"
_ASKS = re.compile(
    r"(?:do|does|did|is|are|was|were|should|isn['’]t|aren['’]t|wouldn['’]t|shouldn['’]t)"
    r" (?:i|we|you|it|this|that|the|they|there|these|those)\b"
    r"|(?:what|why|how|where|which|who)\b.{0,40}?\b(?:is|are|was|were|do|does|did|would|should|can|could)\b",
    re.IGNORECASE,
)
# "I don't have the id on hand", "ich weiß es nicht": what one lacks limits nobody
_OF_ONESELF = re.compile(r"\b(?:i|i['’]\w{1,2}|ich|je|yo)\b|\bj['’]|我", re.IGNORECASE)
# "Let me check the logs", "Great, now I run it"
_NARRATION = re.compile(
    rf"^(?:(?:{lexicon.spaced('announcements')}|i need to|i should) |let['’]s (?:look|check|see|try|start|run|open)"
    r"|now for\b|(?:now|next|first|then),? (?:i|let|we|(?:re-?)?run|restart|test|check|try|verify|open)\b"
    r"|i (?:can )?see\b"
    r"|(?:looking|checking|running|reading|searching|opening)\b"
    r"|(?:great|perfect|good|okay|ok|sure|right|got it|understood|done|alright)[,.!]"
    rf"|{lexicon.unspaced('announcements')}|好的|では|見てみ)",
    re.IGNORECASE,
)
"""Step-by-step talk."""
_WORDS, _DIGIT = re.compile(r"[^\W\d_]+"), re.compile(r"\d")
# "claude, como se trunca un float", "und wie kann man das kürzen"
_INQUIRY = re.compile(rf"(?:\w+[\s,]+){{0,2}}(?:{lexicon.spaced('inquiries')})\b", re.IGNORECASE)
# "does this make sense?:\n- 15 %\n- 3 %"
_ASKED_OF = re.compile(r"\s{0,9}[^\n]{0,400}[?？]\s{0,3}[:：]\s{0,9}\n")
# "if not genero:", "(\"Masc\", \"Sing\"): [],", "}", "[image sha256:aa23… 16 kB image/png]"
_CODE = re.compile(r"^\s*[\[{(<}\])>]|[{}\[\]();,=]\s{0,9}$|^\s+\S|\w = \S|^(?:if|for|while|def|return|print)\b.*[:)]$")
# "Change of plan: …", "Actually, drop that"
_TURNS = re.compile(
    r"^(?:(?:ok(?:ay)?|actually|right|thanks?|great|good|wait|hmm|no)\b[\s,.!—-]*)*"
    r"(?:forget (?:about |that|it|the)|change of plan|new (?:task|goal|topic|plan)|let['’]s (?:move on|switch|turn) to"
    r"|switch(?:ing)? to|drop (?:that|this|it)|stop (?:that|this|working)|instead of (?:that|this)"
    r"|leave that|put that aside"
    r"|now (?:i (?:want|need)|let['’]s|we need)|next task|a different (?:task|thing|topic))"
    r"|新任务|换个|不做了|先不|改做|接下来我们|次のタスク|やめて|方針を変え|別のタスク",
    re.IGNORECASE,
)


def section_of(said: Utterance) -> Section | None:
    """Return the sentence's section; None for one to leave out."""
    if said.speaker == "block":
        return "facts"
    if said.text.endswith(lexicon.QUESTION_SIGNS) or _INQUIRY.match(said.text):
        return None
    if _LABELLED.match(said.text) or (said.speaker == "user" and decides(said.text)):
        return "decisions"
    return "constraints" if said.speaker == "user" and demands(said.text) else None


def is_standing_order(text: str, *, is_served: bool = False) -> bool:
    """Return True where a message of the user's says how the work is to be done, refuses, corrects, or gives a value.

    Such words still hold; a wish that names no limit holds until it is served, and a report of a fault until it is
    repaired. Of one that `is_served`, limits, values and changes hold no longer; nor does anything that is asked.
    """
    sentences = [*sentences_of(TO_CLIENT.sub("", text))]
    if any(demands(said) or refuses(said) or decides(said) or _holds_on(said) for said in sentences):
        return True
    if is_served:
        return False
    is_question = len(sentences) <= QUESTION_SENTENCES and any(map(_asks, sentences[-1:]))
    gives = _NUMBERS if not _is_pasted(text) else _BOUND
    return any(
        takes_back(said) or _gives(said, gives) or (_limits(said) and not is_question)
        for said in sentences
        if not _asks(said)
    )


def only_asks(text: str) -> bool:
    """Return True where a message in any language ends in a question, perhaps with the code that it is about.

    Once answered it is over.
    """
    lines = [line for line in text.strip().split("\n") if line.strip()]
    words = [*dropwhile(_CODE.search, reversed(lines))]
    last = [said.rstrip(": ：)") for said in [*sentences_of("\n".join(words[::-1]))][-1:]]
    is_marked = any(said.endswith(lexicon.QUESTION_SIGNS) or _INQUIRY.match(said) for said in last)
    return is_marked or text.lstrip().startswith("¿") or asks_of_material(text)


def asks_of_material(text: str) -> bool:
    """Return True where a message begins with a question about what it then shows."""
    return bool(_ASKED_OF.match(text))


def unread(texts: Iterable[str]) -> frozenset[str]:
    """Return the short ones of the user's messages where they are, taken together, in another language than English.

    Nobody can tell by rules which of them still hold.
    """
    short = frozenset(text for text in texts if len(text) <= SHORT_CHARACTERS)
    words = [word.casefold() for text in short for word in _WORDS.findall(text)]
    known = sum(word in lexicon.STOP_WORDS for word in words)
    is_foreign = len(words) >= LEAST_JUDGED and known < LEAST_ENGLISH * len(words)
    return frozenset(text for text in short if is_foreign and not _is_pasted(text))


def without_commands(text: str) -> str:
    """Return the user's words to the byte, without commands to the client."""
    return TO_CLIENT.sub("", text).strip() if TO_CLIENT.search(text) else text


def is_short_wish(text: str) -> bool:
    """Return True for a short message of the user's own words that says what is wanted, and does more than ask."""
    is_own = LEAST_CHARACTERS <= len(text) <= SHORT_CHARACTERS and not _is_pasted(text) and not TO_CLIENT.search(text)
    return is_own and not all(map(_asks, sentences_of(text)))


def _is_pasted(text: str) -> bool:
    """Return True where most of a message is no sentence of the user's: a terminal's lines, an error, a page."""
    lines = [line for line in text.split("\n") if line.strip()]
    if _PASTED.search(text) or (len(lines) >= LEAST_PASTED and _TRACED.search(text)):
        return True
    labels = [[*run] for is_label, run in groupby(lines, lambda line: bool(_LABEL.match(line))) if is_label]
    return any(len(run) >= LEAST_SHOWN and any(map(_DIGIT.search, run)) for run in labels)


def _holds_on(sentence: str) -> bool:
    """Return True for a rule: a way to work, also under a condition; "when I say bump, write the changelog, always"."""
    is_rule = _WAY.match(sentence) or _FROM_NOW_ON.search(sentence) or _CONSTRAINT.search(sentence)
    return bool(is_rule) and not _asks(sentence)


def _asks(sentence: str) -> bool:
    return sentence.endswith(lexicon.QUESTION_SIGNS) or bool(_ASKS.match(sentence))


def _gives(sentence: str, gives: re.Pattern[str]) -> bool:
    """Return True where a sentence states a value, and names its subject: "f0c674" does not."""
    is_value = bool(gives.search(unquoted(sentence))) and not _GUESSED.search(sentence)
    return is_value and (" " in sentence or not sentence.isascii())


def _limits(sentence: str) -> bool:
    is_wrong = tells_of_trouble(sentence) or bool(_COMPLAINT.search(sentence))
    is_denied = bool(_LIMIT.search(sentence)) and not _OF_ONESELF.search(sentence) and _says_of_what(sentence)
    return bool(_BOUND.search(sentence)) or (is_denied and not is_wrong and not _ASKS_FOR.match(sentence))


def changes_direction(text: str) -> bool:
    """Return True where the user states a new goal."""
    return bool(_TURNS.search(text[:MOST_CHARACTERS]))


def demands(text: str) -> bool:
    """Return True where the user sets a condition for the work; a condition of something else is none."""
    return bool(_CONSTRAINT.search(text)) and not CONDITION.match(text)


def is_labelled_open(text: str) -> bool:
    """Return True where a label says that something is left to do."""
    return bool(_LABELLED_OPEN.match(text))


def refuses(text: str) -> bool:
    """Return True where a sentence begins with a refusal, or ends in one, and names its subject."""
    return bool(_REFUSAL.match(text)) and _says_of_what(text)


def _says_of_what(text: str) -> bool:
    return not text.isascii() or len(frozenset(text_stems(text)) - lexicon.STOP_WORDS) >= LEAST_CONTENT


def takes_back(text: str) -> bool:
    """Return True where a choice is taken back, or another one is put in its place."""
    return bool(_TAKEN_BACK.search(text))


def is_narration(text: str) -> bool:
    """Return True for step-by-step talk."""
    return bool(_NARRATION.match(text))
