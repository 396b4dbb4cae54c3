"""An independent judge: whether a stored text, as it is rendered, still looks like a fence, heading, item or author.

It was written from the words of the contract, without the code that it judges: keep it so. What it takes for
neutralised: a real backslash before the mark (an odd number before a fence); an entity or escape that the product wrote
(`stored` tells its escapes from those of the text); the mark gone, or something visible before the line that is no
quote, list mark or white space. Indentation, unseen characters and look-alikes in the place of a mark do not count.

Per character: NFKD without combining marks; format, default-ignorable and control characters gone; look-alikes by a
table of its own. Escapes are decoded up to three levels. Tags and fillers are read both ways, and what stands under a
right-to-left override also backwards. It takes time linear in the length of the text.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence

PROT = "\ue000"  # stands for a character the product escaped
BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
FILLERS = "\u115f\u1160\u3164\uffa0\u2800"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
TITLES = [
    "Identity",
    "Active Constraints",
    "Current Approach",
    "Task",
    "Current Focus",
    "Relevant Past Decisions",
    "Known Information",
    "Procedure",
    "Applicable Patterns",
    "Known Entities",
    "Relationships",
    "Relevant Content",
    "Past Experience",
    "Recent Activity",
    "Additional Context",
    "Note",
]

# ---------------------------------------------------------------- the table
_LOOK: dict[str, str] = {}


def _add(ascii_char: str, others: str) -> None:
    for ch in others:
        if not ch.isspace():
            _LOOK[ch] = ascii_char


for _a, _o in {
    # marks
    "<": "‹〈⟨＜﹤ᐸ˂❮❬≺𝈶⧼⪡ᚲ≤⩽⪦⋖𐌂",
    ">": "›〉⟩＞﹥ᐳ˃❯❭≻𖼿⧽⪢≥⩾⋗",
    "/": "∕⁄⧸╱⟋／〳Ⳇノ丿᜵𝈺⫽∣",
    "-": "‐‑‒–—―−﹘﹣－⁃˗➖ー一㇐⎯─━╴╶⸺⸻᠆۔ⲻ𐆑⁻₋╌┄▬•‣◦∙·●▪",
    "#": "＃﹟♯⌗⋕⧣ⵌ⩨",
    "*": "＊﹡∗⁎✱✲✳✴✻٭𐌟⚹❋⋆★☆✶✷✸✹❉🞰🞱🞲🞴🞵",
    "[": "［⁅⟦【〚⦋⦍⦏❴⟬「⌈⌊⎡⎣",
    "]": "］⁆⟧】〛⦌⦎⦐❵⟭」⌉⌋⎤⎦",
    "(": "（❨﹙⁽₍⟮⸨﴾❪❲〔﹝⦅｟⦗⎛",
    ")": "）❩﹚⁾₎⟯⸩﴿❫❳〕﹞⦆｠⦘⎞",
    ":": "：﹕∶꞉ː׃։܃܄᛬⁚ꓽˑ⠆",
    "&": "＆﹠ꝸ🙰",
    # letters (those NFKD does not reach)
    "a": "аАαΑɑᴀꓮᎪⲀⲁᗅᗩ𐊠ⱥȺ⍺ąꭺ",
    "b": "ЬьвВβΒʙꓐᏴⲂⲃᗷᏏƀɓᖯ𐌁ƃƄƅъЪ",
    "c": "сСϲϹᴄꓚᏟⲤⲥᑕⅽƈȼꞓ𐐕¢ↄς℃ҫ",
    "d": "ԁԀᴅꓓᎠᏧᗞᗪđɖɗƌᑯꓒժ",
    "e": "еЕεΕᴇꓰᎬⲈⲉɇɛҽ℮єЄэЭⱸ⋿ǝəᗴ乇ﻉ",
    "f": "ꜰꓝϝϜƒᖴꞘꞙքẝ",
    "g": "ɡɢꓖᏀցԍԌǥɠᶃᏳ",
    "h": "һҺнНΗʜꓧᎻⲎⲏհħɦᕼዘңҥ",
    "i": "іІιΙıɪꓲᎥⲒⲓɨӏӀⵏΐɩ⍳ꙇ",
    "j": "јЈϳͿᴊꓙᎫյɉʝᒍ",
    "k": "кКκΚᴋꓗᏦⲔⲕƙҝᛕҡқ",
    "l": "ʟꓡᏞԼłƚɭᒪ∣׀ⵏاǀ|⏐ⳑⳐ",
    "m": "мМΜμᴍꓟᎷⲘⲙɱᗰᵯᶆϻϺᛖ",
    "n": "пПΝɴηꓠⲚⲛոռɳƞᑎղŋɲᶇ",
    "o": "оОοΟσᴏꓳⲞⲟօՕøɵⵔᗝᝪ○◯੦໐ఠΘθӨөѲѳᎾ௦",
    "p": "рРρΡᴘꓑᏢⲢⲣᑭƥϱþ⍴𐊕",
    "q": "ԛԚզգɋʠꞯգ",
    "r": "гГʀꓣᎡᏒɾɍⲄⲅᴦᖇɽɼяЯꭇꭈꮁƦ",
    "s": "ſѕЅꜱꓢՏᏕᏚƨʂꮪʃ",
    "t": "тТτΤᴛꓔᎢⲦⲧŧƭʈꞇ⊤⟙ե",
    "u": "υᴜꓴՍսᑌʉʋцЦʊᴗ∪⋃",
    "v": "νѵѴᴠꓦᏙᐯ∨⋁ט",
    "w": "ωᴡꓪᎳԝԜᗯⱳᏔшШɯա",
    "x": "хХχΧꓫⲬⲭ᙭×⤫⤬⨯ҳᕽ✕✖╳",
    "y": "уУγΥʏꓬᎩᎽⲨⲩүҮɏƴɣчЧ¥ყ",
    "z": "ᴢꓜΖᏃƶʐɀ",
}.items():
    _add(_a, _o)
for _i in range(26):
    _l = chr(97 + _i)
    _LOOK[chr(0x249C + _i)] = _l  # parenthesised
    _LOOK[chr(0x1F110 + _i)] = _l
    _LOOK[chr(0x1F150 + _i)] = _l  # negative circled
    _LOOK[chr(0x1F170 + _i)] = _l  # negative squared
    _LOOK[chr(0x1F1E6 + _i)] = _l  # regional indicators
for _c in "＼﹨∖⧵⧹╲⟍":
    _LOOK[_c] = "∖"  # no real backslash: never an escape
_LOOK["→"] = _LOOK["⟶"] = _LOOK["➔"] = _LOOK["➜"] = "->"
_LOOK["…"] = "..."


def _ignorable(ch: str) -> bool:
    o = ord(ch)
    if o < 0xAD:
        return False
    return (
        o in (0xAD, 0x34F, 0x61C, 0x3164, 0xFEFF, 0xFFA0)
        or 0x115F <= o <= 0x1160
        or 0x17B4 <= o <= 0x17B5
        or 0x180B <= o <= 0x180F
        or 0x200B <= o <= 0x200F
        or 0x202A <= o <= 0x202E
        or 0x2060 <= o <= 0x206F
        or 0xFE00 <= o <= 0xFE0F
        or 0xFFF0 <= o <= 0xFFFB
        or 0x1BCA0 <= o <= 0x1BCA3
        or 0x1D173 <= o <= 0x1D17A
        or 0xE0000 <= o <= 0xE0FFF
        or unicodedata.category(ch) in ("Cf", "Cs")
    )


def _is_tag(ch: str) -> bool:
    return 0xE0020 <= ord(ch) <= 0xE007E


_prep_cache: dict[str, str] = {}
_fold_cache: dict[str, str] = {}
_Unit = tuple[str, int, str]
"""A spelling, how deep it is encoded, and what it stands for; a run of literal text has depth 0."""


def _prep_char(ch: str) -> str:
    """Compatibility form without marks and ignorables; case and look-alikes are still there.

    Per character, hence linear: no reordering of long runs of combining marks.
    """
    got = _prep_cache.get(ch)
    if got is None:
        got = _prepared(ch)
        if len(_prep_cache) < 200_000:
            _prep_cache[ch] = got
    return got


def _prepared(ch: str) -> str:
    if ch in BREAKS or ch in BIDI:
        return "\n" if ch in BREAKS else ch
    if ch in _LOOK and ord(ch) > 127:  # Folded later, by the table, but for a full-width & # ; of an entity.
        plain = unicodedata.normalize("NFKD", ch)
        return plain if len(plain) == 1 and " " < plain < "\x7f" and plain != "\\" else ch
    if ch == PROT or ch.isspace():  # The former where it is the attacker's own private use.
        return " "
    if _ignorable(ch) or unicodedata.category(ch) in ("Cc", "Mn", "Me"):
        return ""
    return "".join(
        " " if d.isspace() else d
        for d in unicodedata.normalize("NFKD", ch)
        if not (_ignorable(d) or unicodedata.category(d) in ("Mn", "Me", "Cc"))
    )


def _fold_char(ch: str) -> str:
    """Lower-case ASCII look of one prepared character."""
    got = _fold_cache.get(ch)
    if got is None:
        if ch in BIDI:
            got = ""
        elif ch == PROT or ch == "\n":
            got = ch
        elif ch in _LOOK and ord(ch) > 127:
            got = _LOOK[ch]
        elif 0xAB70 <= ord(ch) <= 0xABBF:  # small Cherokee
            got = _LOOK.get(chr(ord(ch) - 0xAB70 + 0x13A0), ch)
        else:
            got = "".join(
                _LOOK.get(d, d) if ord(d) > 127 else d
                for d in ch.lower()
                if unicodedata.category(d) not in ("Mn", "Me")
            )
        if len(_fold_cache) < 200000:
            _fold_cache[ch] = got
    return got


_ANSI = re.compile(r"\x1b\[[0-9;?]{0,24}[A-Za-z]")


def _prep(text: str, tags: bool, fill: bool) -> str:
    text = _ANSI.sub("", text).replace("\r\n", "\n")
    out: list[str] = []
    for ch in text:
        if ch in FILLERS:
            out.append(" " if fill else "")
        elif tags and _is_tag(ch):
            out.append(chr(ord(ch) - 0xE0000))
        else:
            out.append(_prep_char(ch))
    return "".join(out)


# ---------------------------------------------------------------- escapes
_ESC = re.compile(
    r"&(?:amp;|AMP;|#0{0,8}38;|#[xX]0{0,8}26;){0,8}"
    r"(?:#[xX][0-9a-fA-F]{1,12};?|#[0-9]{1,12};?"
    r"|[A-Za-z][A-Za-z0-9]{1,30};|lt|gt|LT|GT)"
    r"|%(?:25){0,8}[0-7][0-9a-fA-F]"
    r"|\\(?:u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}"
    r"|x[0-9a-fA-F]{2}|[01][0-7]{2})"
)


def _decode(tok: str) -> tuple[int, str]:
    """(depth, value) of one escape; depth 0: it is none."""
    if tok[0] == "&":
        v, depth = tok, 0
        while depth < 9:
            w = html.unescape(v)
            if w == v:
                break
            v, depth = w, depth + 1
        if depth == 0 or len(v) > 2:
            return 0, tok
        return depth, v
    if tok[0] == "%":
        return 1 + tok.count("25", 1, len(tok) - 2), chr(int(tok[-2:], 16))
    try:
        kind = tok[1]
        if kind in "01":
            return 1, chr(int(tok[1:], 8))
        return 1, chr(int(tok[2:].strip("{}"), 16))
    except (ValueError, OverflowError):
        return 0, tok


def _units(text: str) -> list[_Unit]:
    """[(spelling, depth, value)]: runs of literal text have depth 0."""
    out: list[_Unit] = []
    at = 0
    for m in _ESC.finditer(text):
        depth, val = _decode(m.group())
        if not depth:
            continue
        if m.start() > at:
            out.append((text[at : m.start()], 0, ""))
        out.append((m.group(), depth, val))
        at = m.end()
    if at < len(text):
        out.append((text[at:], 0, ""))
    return out


def _key(val: str) -> str:
    return "".join(_fold_char(c) for p in val for c in _prep_char(p))


def _sequence(units: Iterable[_Unit], wanted: Iterable[str]) -> dict[str, list[tuple[str, int]]]:
    """For each wanted folded value: its spellings, in order."""
    seq: dict[str, list[tuple[str, int]]] = {k: [] for k in wanted}
    for spell, depth, val in units:
        if depth:
            k = _key(val)
            if k in seq:
                seq[k].append((spell, depth))
        else:
            for c in spell:
                k = _fold_char(c)
                if k in seq:
                    seq[k].append((c, 0))
    return seq


def _unescape(rendered: str, stored: str | None) -> str:
    """Decode the attacker's escapes (up to three levels); put PROT where the product escaped."""
    units = _units(rendered)
    if not any(depth for _, depth, _ in units):
        return rendered
    wanted = {_key(value) for _, depth, value in units if depth} - {""}
    shown = _sequence(units, wanted)
    given = _sequence(_units(stored), wanted) if stored is not None else None
    seen = dict.fromkeys(wanted, 0)
    out: list[str] = []
    for spell, depth, value in units:
        if not depth:
            for c in spell:
                if (k := _fold_char(c)) in seen:
                    seen[k] += 1
            out.append(spell)
            continue
        k = _key(value)
        if given is not None and k in seen and _is_the_products(spell, depth, shown[k], given[k], seen[k]):
            out.append(PROT)
        else:
            out.append("".join(map(_prep_char, value)) if depth <= 3 else spell)
        if k in seen:
            seen[k] += 1
    return "".join(out)


def _is_the_products(
    spell: str, depth: int, shown: Sequence[tuple[str, int]], given: Sequence[tuple[str, int]], place: int
) -> bool:
    """Whether an escape is deeper than the mark of the text in its place; without places, spelled as nowhere in it."""
    if len(shown) == len(given):
        return depth > given[place][1]
    return all(spell != spelled for spelled, _ in given)


# ---------------------------------------------------------------- bidi
_MIRROR = str.maketrans("<>()[]{}", "><)(][}{")
_CTRL = re.compile("([" + BIDI + "\n])")


def _displayed(text: str, mirror: bool) -> str:
    """Text under a right-to-left override as it is displayed."""
    out: list[str] = []
    seg: list[str] = []
    rtl = False

    def flush() -> None:
        s = "".join(seg)
        seg.clear()
        s = s[::-1] if rtl else s
        out.append(s.translate(_MIRROR) if rtl and mirror else s)

    for part in _CTRL.split(text):
        if part == "\u202e":
            if not rtl:
                flush()
                rtl = True
        elif part in ("\u202c", "\u202d", "\u2069", "\n"):
            flush()
            rtl = False
            if part == "\n":
                out.append(part)
        elif part and part in BIDI:
            continue
        else:
            seg.append(part)
    flush()
    return "".join(out)


# ---------------------------------------------------------------- looks
_SKEL = str.maketrans({"i": "l", "1": "l", "|": "l", "0": "o"})


def _skeleton(s: str) -> str:
    return s.translate(_SKEL).replace("rn", "m").replace("vv", "w")


_SP = re.compile(r"[ \n]+")
_FENCE = re.compile(r"< ?((?:/ ?){0,3})memory[ _-]{0,3}context(?![a-z])")
_TITLE = re.compile(
    r"(?:# ?){1,6}[*_`~]{0,3} ?("
    + "|".join(re.escape(_skeleton(t.lower())).replace("\\ ", " ?") for t in TITLES)
    + r")[*_`~]{0,3}(?! ?[a-z0-9])"
)
_BARE_TITLE = re.compile(
    "(?:" + "|".join(re.escape(_skeleton(t.lower())).replace("\\ ", " ?") for t in TITLES) + r") ?:?"
)
_UNDER = re.compile(r"=(?: ?=)+|-(?: ?-)+|=+|-+")
_PEEL = re.compile(r"(?:>|[-*+] (?=[-*+#>\[1-9])|[0-9]{1,3}[.)] ) ?")
_ID = r"[rt](?=[a-z]{0,6}[0-9])[0-9a-z]{6}"
_BUL = r"[-*+] ?"
_ITEMS = [
    ("own item with id", re.compile(_BUL + r"\[ ?[rt] ?[0-9a-z]{6} [a-z_ ]{2,40} ?[0-9]{4}-[0-9]{2}-[0-9]{2}")),
    ("own item with id", re.compile(_BUL + r"\[ ?" + _ID + r"(?: |\])")),
    ("task item", re.compile(_BUL + r"[a-z][a-z ()]{1,48}\[ ?" + _ID + r" ?\]")),
    ("typed item", re.compile(_BUL + r"\* ?\*[^*\n\\]{1,60}\* ?\* ?:")),
    ("read entry", re.compile(r"\[ ?[0-9]{4}-[0-9]{2}-[0-9]{2}[0-9t:.z+ -]{0,30}\] ?read ?:")),
]
_VERDICT = re.compile(
    r"[-*+] ?\* ?\* ?(?:" + _skeleton("block") + "|" + _skeleton("warn") + r") ?(?:: ?\* ?\*|\* ?\* ?:)"
)
_RELATION = re.compile(r"- ?\[[^\[\]\n\\" + PROT + r"]{1,60}\] ?-+ ?>")
_BY = re.compile(r"\( ?by ([^()\\" + PROT + r"]{1,80})\)\Z")


def _author(line: str) -> str | None:
    """Only the last 100 characters matter."""
    tail = line[-100:]
    at = tail.rfind("(")
    if at < 0:
        return None
    m = _BY.match(tail, at)
    if not m or not any(c.isalnum() for c in m.group(1)):
        return None
    if at and tail[at - 1] in "\\" + PROT:
        return None
    return m.group(1).strip()


def _look(folded: str) -> list[str]:
    why = [*_fences(_skeleton(_SP.sub(" ", folded)))]
    before = None
    for no, raw in enumerate(folded.split("\n")):
        line = _SP.sub(" ", raw).strip()
        if name := _author(line):
            why.append(f"author: (by {name})")
        if not no or not line:
            before = None
            continue
        if own := _own_line(line):
            why.append(own)
        if before is not None and _UNDER.fullmatch(line[:400]) and len(line) > 1 and _BARE_TITLE.fullmatch(before):
            why.append(f"heading (underlined): {before}")
        before = _skeleton(line[:80])
    return why


def _fences(flat: str) -> Iterable[str]:
    for m in _FENCE.finditer(flat):
        n, at = 0, m.start()
        while at - n > 0 and n < 64 and flat[at - n - 1] == "\\":
            n += 1
        if n % 2 == 0:
            yield "fence-close" if m.group(1) else "fence-open"


def _own_line(line: str) -> str:
    """What a line looks like below its quotes and list marks; "" for nothing of ours."""
    rest = line
    for _ in range(12):
        if _TITLE.match(_skeleton(rest[:160])):
            return f"heading: {rest[:60]}"
        if _VERDICT.match(_skeleton(rest[:80])):
            return "item: block or warn"
        hit = next((n for n, r in _ITEMS if r.match(rest[:240])), None)
        if hit or (rest[:1] in ("-", "*", "+") and _RELATION.search(rest, 1)):
            return f"item: {hit or 'relation'}"
        m = _PEEL.match(rest)
        if not m or not m.end():
            break
        rest = rest[m.end() : m.end() + 400]
    return ""


def disguises(body_lines: Sequence[str], stored: str | None = None) -> list[str]:
    """Why lines that came from one stored text look like ours; [] where they do not.

    The first line comes without the product's own lead, the last one without what the product put behind it.
    """
    text = "\n".join(body_lines)
    why: dict[str, bool] = {}
    for tags in (False, True) if any(map(_is_tag, text)) else (False,):
        for fill in (False, True) if any(c in FILLERS for c in text) else (False,):
            plain = _unescape(_prep(text, tags, fill), None if stored is None else _prep(stored, tags, fill))
            views = [plain, *((_displayed(plain, True), _displayed(plain, False)) if "\u202e" in plain else ())]
            for view in views:
                why.update(dict.fromkeys(_look("".join(map(_fold_char, view))), True))
    return list(why)


def naive(stored: str) -> list[str]:
    """The body lines of a product that neutralises nothing."""
    lines = stored.split("\n")
    return lines[:1] + [f"  {line}" for line in lines[1:]]
