"""Sorts a sentence into a section of a summary, by its speaker, its place, and the shape of its words.

Has English, Chinese and Japanese cues; a sentence without one is a fact. Only users set constraints, and a tool's
output is never a constraint, a decision or a next step, whatever its words. Independent of embeddings and ranking.
"""

import re
from collections.abc import Mapping

from mcp_memory.domain.sessions.sentences import MOST_CHARACTERS, Utterance
from mcp_memory.domain.text import lexicon
from mcp_memory.domain.text.segments import unquoted
from mcp_memory.domain.text.statements import comes_to_nothing, is_momentary, statement
from mcp_memory.domain.text.summary_sections import Section

# e.g. "Next steps:", "What failed:", "## Decisions"
_LABELS: Mapping[Section, re.Pattern[str]] = {
    "dead_ends": re.compile(
        r"dead.?ends?|did ?n[o'’]t work|what failed|failed attempts|tried|失败|死路|失敗|試した", re.IGNORECASE
    ),
    "next_steps": re.compile(
        r"next|to.?do|remaining|still open|left|follow.?ups?|下一步|待办|剩余|次|残り", re.IGNORECASE
    ),
    "in_progress": re.compile(r"in progress|working on|wip|ongoing|进行中|作業中|対応中", re.IGNORECASE),
    "decisions": re.compile(r"decisions?|decided|agreed|决定|決定", re.IGNORECASE),
    "completed": re.compile(
        r"done|completed?|finished|changes?|what (?:i|we) did|implemented|完成|完了|変更", re.IGNORECASE
    ),
}
"""The section of an item under a heading or a "…:"."""

# "If it fails, restart" constrains nothing
_CONDITION = re.compile(
    rf"^(?:{lexicon.CONDITIONS}|when|whenever|in case|should)\b|^(?:{lexicon.CONDITIONS_UNSPACED}|若)", re.IGNORECASE
)
# "but it still fails", "it was not the cause", "we dropped it", "made it worse", "尝试重启失败"
_DEAD_END = re.compile(
    r"\b(?:tried|attempted|attempt(?:s|ing)? to)\b.{0,200}?\b(?:but|did ?n[o'’]t|failed|no luck|still)\b"
    r"|\b(?:did not|didn['’]t|does not|doesn['’]t|do not|don['’]t|won['’]t) (?:really )?(?:work|help|solve|fix)\b"
    r"|\bbut\b.{0,80}?\bstill (?:fail|appear|happen|occur|crash|leak|there|slow|broken|the same|wrong|hang)"
    r"|\bfailed because\b|\breverted\b|\brolled (?:\w+ ){0,3}back\b|\bbacked (?:\w+ ){0,3}out\b|\bdead end\b"
    r"|\bgave up\b|\babandoned\b|\bruled out\b|\bmade (?:it|things) worse\b|\bred herring\b|\bno improvement\b"
    r"|\b(?:isn['’]t|wasn['’]t|is not|was not|not) (?:it\b(?! \w)|the (?:root )?(?:cause|reason|problem|culprit)\b)"
    r"|\bturned out (?:to be )?(?:wrong|useless)\b|\b(?:i|we) (?:dropped|discarded) (?:it|that)\b"
    rf"|(?:{lexicon.unspaced('tried')}).{{0,40}}(?:但|没|{lexicon.unspaced('failed')})|没用|无效|撤销了|失敗し|取り消し",
    re.IGNORECASE,
)
# "I went with Redis because it is there", "Use X instead"
_CHOSEN = re.compile(
    r"^(?:(?:i|we|so|ok(?:ay)?|then)\b[\s,]*)*(?:(?:have|'ve|'ll|will|am|are|'m|'re) )?"
    r"(?:chose|picked|opted for|going with|go with|went with|settled on|switch(?:ed|ing) to|using|use)\b"
    r".{1,200}?\b(?:because|over|instead|rather than|since|so that|not)\b"
    r"|(?:^|[,.;]\s*(?:so|then|and)\s+)use\b.{1,200}?\b(?:instead|rather|only)\b|^(?:decision|decided|agreed)\s*[:：]"
    rf"|{lexicon.unspaced('decided')}",
    re.IGNORECASE,
)
# "wir nehmen Postgres", "on garde la file", "nos quedamos con SQLite"
_CHOSEN_ELSEWHERE = re.compile(rf"\b(?:{lexicon.spaced('chosen')})\b", re.IGNORECASE)
# "Ask Jonas first", "das machen wir morgen", "Next step: the invoices of May"
_PUT_OFF = re.compile(
    rf"\b(?:{lexicon.spaced('put_off')}|{lexicon.spaced('due')})\b|{lexicon.unspaced('put_off')}|{lexicon.unspaced('due')}"
    rf"|^(?:(?:{lexicon.spaced('left_labels')}|{lexicon.spaced('open_labels')})\b|{lexicon.unspaced('left_labels')})[^.:：]{{0,30}}[:：]",
    re.IGNORECASE,
)
# "No, Postgres", "nee lass das"
_REFUSAL = re.compile(
    rf"(?:^|[.!?,;]\s+)(?:(?:{lexicon.spaced('refusals')})\b|{lexicon.unspaced('refusals')})", re.IGNORECASE
)
# "not sure whether to use Redis"
_UNCHOSEN = re.compile(
    rf"\b(?:{lexicon.DENIALS}|{lexicon.HEDGES}|{lexicon.CONDITIONS}|{lexicon.spaced('undecided')})\b.{{0,40}}"
    rf"\b(?:decid|choos|chose|switch|use|go)|\b(?:{lexicon.CONDITIONS})\b"
    rf"|{lexicon.HEDGES_UNSPACED}|{lexicon.CONDITIONS_UNSPACED}|{lexicon.unspaced('undecided')}",
    re.IGNORECASE,
)
# "Please never touch prod", "must stay under 2 s", "no more than 3"
_CONSTRAINT = re.compile(
    r"(?:^|[,;:.!?—–-]\s*|\b(?:please|and|but|so|you|we|should|then)\s+)"
    r"(?:never|always|do not|don['’]t|avoid|only|make sure|under no circumstances)\s+"
    r"(?!know|think|see|understand|remember|care|worry|mind|get it)"
    r"|\bmust(?! (?:have|be (?:the|a|an|some|that))\b)|\bmustn['’]t\b|\bmay not\b"
    r"|\b(?:has|have|needs?) to (?:stay|remain|be|work|run|support|keep|fit|pass)\b"
    r"|\b(?:is|are) not allowed\b|\bforbidden\b|\bno more than\b|\bat (?:most|least) \d"
    r"|\bnot exceed\b|\bwithout (?:changing|breaking|touching|adding|using|new|any)\b|\b(?:requirement|constraint)s?\b"
    r"|\bi(?:['’]d| would) rather\b|\bi(?:['’]d)? prefer\b"
    r"|(?:^|[,;:.!?]\s*|\b(?:also|and|please)\s+)(?:leave out|exclude)\b"
    rf"|\b(?:{lexicon.spaced('demands')})\b|{lexicon.unspaced('rules')}|{lexicon.unspaced('demands')}|(?:^|[，,。；])(?:请)?别",
    re.IGNORECASE,
)
# "Next: the index", "I'll add the tests", "still needs a lock"
_NEXT = re.compile(
    rf"^(?:{lexicon.spaced('open_labels')})\b|\bnext (?:steps?|up|comes?|is|i|we)\b"
    rf"|\b(?:todo|remaining|open (?:questions?|points?|issues?)|{lexicon.spaced('open_steps')}|still (?:ha(?:s|ve)|to)"
    r"|left (?:to|is|are)|(?:is|are) left|what(?: is|['’]s) (?:left|missing)|not yet|haven['’]t yet)\b"
    r"|\b(?:i|we)(?:['’]ll| will| am going to|['’]m going to| are going to| need to| should| plan to)\b"
    rf"|{lexicon.unspaced('open_steps')}",
    re.IGNORECASE,
)
# "working on the export", "half done"
_GOING_ON = re.compile(
    r"\bworking on\b|\bin progress\b|\bcurrently\b|\bhalf(?:way)?(?:[ -]done)?\b|\bpart(?:ly|ially)\b|\bwip\b"
    r"|\bunder ?way\b"
    r"|\b(?:am|i['’]m|we['’]re) (?:now )?\w+ing\b|\bso far\b|\bstarted (?:on|to|with|\w+ing)\b"
    rf"|{lexicon.unspaced('going_on')}",
    re.IGNORECASE,
)
# "Currently I am moving the tests"
_OF_SELF = re.compile(r"(?:(?:currently|so far|right now),? )?(?:i|we)\b|我|正在", re.IGNORECASE)
# e.g. "fixed" in "I fixed the lock"
_DID = (
    r"(?:done|fixed|added|implemented|created|updated|removed|deleted|renamed|wrote|written|moved|migrated|refactored"
    r"|replaced|deployed|released|committed|merged|pushed|installed|configured|resolved|completed|finished|extracted"
    r"|ported|enabled|disabled|rewrote|rewritten|verified|documented|wired|split|bumped|upgraded|switched|excluded"
    r"|converted|changed|built|set up|put|made|cut|sent|published|tested|copied|cleaned|introduced|restored|reduced)"
)
# e.g. "checked", "noticed": looking is not doing
_LOOKED = r"(?:look|check|notic|tri|want|need|expect|assum|wonder|guess|suspect|start|search|open|decid|learn)\w*"
# "Fixed the lock", "I have added a test", "12 passed"
_DONE = re.compile(
    rf"^(?:(?:ok(?:ay)?|all|and|also|so|then|now|great|both)\b[\s,:.!]*)*{_DID}\b"
    rf"|\b(?:i|we)(?:['’]ve| have)?(?: (?:also|now|just|already|then|have))* (?:{_DID}|(?!{_LOOKED})\w{{2,}}ed)\b"
    rf"|\b(?:is|are|has been|have been)(?: (?:now|already|all))? {_DID}\b"
    r"|^(?:[\w.,'’/-]+ ){1,5}(?:moved|switched|migrated|converted|upgraded) (?:to|from)\b"
    r"|\b(?:tests?|checks?|suite|build|ci|pipeline|everything|all)\b.{0,40}\b(?:pass(?:es|ed)?|green|succeed(?:s|ed)?)\b"
    r"|\b\d+ passed\b|\bworks now\b|\bnow (?:works?|passes)\b|✅"
    r"|完成|已经?[修加改删更部实创移]|修复了|添加了|更新了|实现了|删除了|通过了|完了|しました|済み|通りました",
    re.IGNORECASE,
)
# "will be | fixed", "not yet | added"
_NOT_DONE = re.compile(
    rf"\b(?:{lexicon.DENIALS}|{lexicon.CONDITIONS}|{lexicon.spaced('undecided')}|will|must|can|needs?|to be|once|after"
    r"|before|when|get|be)\b[^.;]{0,16}$",
    re.IGNORECASE,
)
"""Words before a verb of doing that show it was not done."""
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
# "Edited src/app.py"
_WRITTEN = re.compile(r"(?:edited|wrote|created)\b", re.IGNORECASE)
"""The opening of a block for calls that changed something."""
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
    """Return the sentence's section; None for one to leave out: narrated steps, questions, overtaken plans."""
    if said.speaker == "output":
        return "dead_ends"
    if said.text.endswith(lexicon.QUESTION_SIGNS):
        return None
    if said.speaker == "user":
        return _of_user(said.text)
    if said.speaker == "block":
        return "completed" if _WRITTEN.match(said.text) else "facts"
    section = _labelled(said) or _of_assistant(said)
    is_overtaken = section in ("in_progress", "next_steps") and not said.is_last
    return None if is_overtaken else section


def changes_direction(text: str) -> bool:
    """Return True where the user states a new goal."""
    return bool(_TURNS.search(text[:MOST_CHARACTERS]))


def decides(text: str) -> bool:
    """Return True where the sentence states a choice."""
    stated = statement(text)
    if stated and stated.kind == "decision":
        return True
    is_chosen = _CHOSEN.search(text) or _CHOSEN_ELSEWHERE.search(unquoted(text))
    return bool(is_chosen) and not _UNCHOSEN.search(text)


def demands(text: str) -> bool:
    """Return True where the user sets a condition for the work; a condition of something else is none."""
    return bool(_CONSTRAINT.search(text)) and not _CONDITION.match(text)


def is_put_off(text: str) -> bool:
    """Return True where something is left for later, or waits for somebody."""
    return bool(_PUT_OFF.search(text))


def refuses(text: str) -> bool:
    """Return True where an answer refuses what was proposed."""
    return bool(_REFUSAL.search(text))


def is_narration(text: str) -> bool:
    """Return True for step-by-step talk."""
    return bool(_NARRATION.match(text))


def _labelled(said: Utterance) -> Section | None:
    """Return the section that the sentence's label names."""
    return next((section for section in _LABELS if said.label and _LABELS[section].match(said.label)), None)


def _of_user(text: str) -> Section | None:
    if decides(text):
        return "decisions"
    if demands(text):
        return "constraints"
    if _is_dead_end(text):
        return "dead_ends"
    # The user's requests are quoted verbatim; only statements are facts.
    return "facts" if statement(text) else None


def _of_assistant(said: Utterance) -> Section | None:
    text = said.text
    if decides(text):
        return "decisions"
    if _is_dead_end(text):
        return "dead_ends"
    if _GOING_ON.search(text) and (said.is_last or _OF_SELF.match(text)):
        return "in_progress"
    if _is_done(text):
        return "completed"
    if said.is_last and _NEXT.search(text):
        return "next_steps"
    is_idle = _NARRATION.match(text) or (is_momentary(text) and not said.is_last)
    return None if is_idle else "facts"


def _is_dead_end(text: str) -> bool:
    return not _CONDITION.match(text) and (comes_to_nothing(unquoted(text)) or bool(_DEAD_END.search(text)))


def _is_done(text: str) -> bool:
    return any(not _NOT_DONE.search(text, max(found.start() - 40, 0), found.start()) for found in _DONE.finditer(text))
