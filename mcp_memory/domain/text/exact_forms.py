"""Defines the forms of exact values: patterns, and the words that make or unmake one. Every pattern is linear.

Numbers are searched first and alone, because that is fast; the words before them are checked afterwards.
"""

import re

from mcp_memory.domain.text.lexicon import MONTHS, UNSPACED, spaced, unspaced, word_set

# "5432", "1,000.50", "3.14", "1e-6"
_NUMERAL = (
    r"[0-9](?:[0-9]{0,2}(?:[,'’][0-9]{3})+(?:\.[0-9]{1,6})?"
    r"|[0-9]{0,19}(?:[._][0-9]{1,12}){0,5}(?:,[0-9]{1,3})?(?:[eE][+-]?[0-9]{1,3})?)"
)
"""Begins with a set of characters, like every pattern that is searched everywhere: such patterns are fastest."""
# "%", "MB/s", "ms", "req/s", "tokens"
_UNIT = spaced("units")
# "秒", "小时", "万"
_CJK_UNIT = unspaced("units")
# "30 seconds", "10 ms", "5 GB / day", "30秒"
MUCH = re.compile(
    rf"(?P<number>{_NUMERAL})(?:(?P<unit>\s?(?:{_UNIT})(?![\w])|"
    rf"\s?(?:{_CJK_UNIT}))|(?![A-Za-z0-9_-]))(?P<per>\s?/\s?(?:s|min|h|day|month|year|user)\b| per \w{{1,12}}\b)?"
)
# "port=5432", "timeout: 30 s", '"debug": true'
SETTING = re.compile(
    r"(?<![\w.$@/\\-])(?P<quote>[\"']?)(?P<key>[A-Za-z_][\w.-]{0,60})(?P=quote)(?::\s?[\w.\[\]|]{1,30}(?=\s?=))?"
    r"(?P<link>\s?(?<![=!<>])=(?![=>])\s?|:(?!:)[^\S\n]{0,3}|\s(?=(?:on|off|true|false)\s*$))"
    r"(?P<value>\"[^\"\n]{1,80}\"|'[^'\n]{1,80}'|[^\s,;\"'()\[\]{}]{1,100}+(?<!:))"
    rf"(?P<unit>\s(?:{_UNIT})(?!\w))?",
    re.MULTILINE,
)
# the "$" before "20"
MONEY = re.compile(r"[$€£¥]\s?$")
# "2026-05-12T02:13:52Z", "3. Mai 2026", "14:30 UTC", "5月12日"; "May 12, 2026"
DATES = (
    re.compile(
        r"[0-9](?:(?:[0-9]{3}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,6})?(?:Z|\s?[+-]\d\d:?\d\d)?)?"
        rf"|[0-9]?\.? (?:{MONTHS})\.?(?: \d{{4}})?|[0-9]?\.\d{{1,2}}\.\d{{4}}"
        r"|[0-9]?:\d\d(?: ?(?:UTC|CES?T|[ap]m|Uhr)\b|(?=[\s,.;)]|$)))(?![\w:])"
        r"|(?:[0-9]{3}年[0-9]{1,2}|[0-9]?)月\d{1,2}[日号])"
    ),
    re.compile(rf"[JFMASOND](?<=(?=(?:{MONTHS})).)[a-zä]{{2,8}} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?(?![\w:])"),
)
# "deadbeef42"
_HEX = r"(?=[0-9a-f]{0,39}[a-f])(?=[0-9a-f]{0,39}\d)[0-9a-f]{7,64}"
# "localhost", "db.example.org"
_HOST_NAME = r"(?:localhost|[a-z][a-z\d-]{0,40}(?:\.[a-z][a-z\d-]{0,40}){1,5})"
FORM = re.compile(
    rf"(?P<hash>(?:sha(?:256|1|512)[:-])?{_HEX})|(?P<uuid>[\da-fA-F]{{8}}(?:-[\da-fA-F]{{4}}){{3}}-[\da-fA-F]{{12}})"
    r"|(?P<id>[a-z]{1,8}[_-](?=[A-Za-z]{0,30}\d)(?=\d{0,30}[A-Za-z])[A-Za-z\d]{8,40})"
    r"|(?P<version>v\d{1,5}(?:\.\d{1,6}){0,3}(?:[-+.][\w.]{1,20})?|\d{1,5}\.\d{1,6}\.\d{1,6}(?:[-+.][A-Za-z][\w.]{0,20})?)"
    rf"|(?P<address>(?:\d{{1,3}}\.){{3}}\d{{1,3}}(?::\d{{1,5}}|/\d{{1,2}})?|{_HOST_NAME}:\d{{2,5}})"
    r"|(?P<image>(?:[\w.-]{1,80}/){1,8}[\w.-]{1,80}:v?\d[\w.-]{0,30}[.a-z][\w.-]{0,30})|(?P<number>\d{2,8}-\d{2,8})"
    r"|(?P<size>\d{1,5}[x×]\d{1,5}(?:[x×]\d{1,5})?)|(?P<label>[A-Z]{2,5}\d{2,6}[A-Z]?|(?=\d{0,13}[A-Z])[A-Z\d]{6,14})"
    r"|(?P<slug>[a-z][a-z\d]{0,30}(?:[-.][a-z\d]{1,30}){1,6})"
    r"|(?P<code>0x[0-9a-fA-F]{3,16}|(?:TS|CS|ORA-|PGRST|RUSTSEC-|E|C|W|F|S|PLR|BLE|SC)\d{3,6})"
)
FORM_WORTH = {
    "hash": 1.0,
    "uuid": 1.2,
    "id": 1.0,
    "version": 0.9,
    "address": 1.3,
    "code": 1.0,
    "image": 1.2,
    "number": 1.0,
    "size": 0.9,
    "label": 0.7,
    "slug": 0.7,
}
"""The worth of each form; most count less without words that name the value."""
# "v1.2.3", "10.0.0.1:80"
DIGIT_WORD = re.compile(r"(?<![A-Za-z0-9_.:/+@-])[A-Za-z_.:/+@-]*+\d[A-Za-z0-9_.:/+@-]*+")
# "ERROR" and "EVERY" begin like errno names, and are none
_NO_ERRNO = (
    "RROR|VERY|XIT|MPTY|NABLE|XPECT|VENT|XIST|XPORT|XPLAIN|NGINE|XCEPT|XECUT|XTRA|ARLY|MAIL|DIT|LSE|N(?!O)[A-Z]|ACH"
)
# "ECONNREFUSED", "SIGKILL", "404 Not Found"
NAMED_CODE = re.compile(
    rf"(?:E(?!{_NO_ERRNO})[A-Z]{{3,14}}[A-Z\d]|SIG(?:KILL|TERM|SEGV|INT|ABRT|HUP|PIPE|BUS|FPE))(?![\w-])"
    r"|[1-5]\d\d (?:OK|Not Found|Forbidden|Unauthorized|Conflict|Bad Gateway|Bad Request|Internal Server Error"
    r"|Service Unavailable|Too Many Requests|Gateway Time-?out)\b"
)
_LETTER = rf"[^\W{UNSPACED}]"
# "src/app.py", "config.toml"
PATH_WORD = re.compile(
    rf"(?<![^\W{UNSPACED}])(?<![./\\:@%+~-])(?:{_LETTER}|[+@~-])*+[./\\:](?:{_LETTER}|[./\\:@+~-])*+"
)
# "src/app.py", "Dockerfile", ".env.local"
FILE = re.compile(
    r"(?:[A-Za-z]:\\|~?/|\.{1,2}/)?(?:[\w.@+-]{1,80}[/\\]){1,20}[\w@+.-]{0,80}\.[A-Za-z]\w{0,9}"
    r"|(?:[\w.@+-]{1,80}/){0,20}(?:Dockerfile|Makefile|Jenkinsfile|Procfile|Gemfile|justfile|go\.(?:mod|sum)"
    r"|\.env(?:\.\w{1,20})?|\.git(?:ignore|attributes|modules)|\.\w{2,20}rc|\.dockerignore)"
    r"|[\w-]{1,60}(?:\.[\w-]{1,30}){0,3}\.(?:py|pyi|ts|tsx|js|jsx|mjs|rs|go|java|kt|rb|php|cs|cpp|cc|hpp"
    r"|swift|scala|sql|sh|ya?ml|toml|json|jsonl|lock|cfg|conf|ini|env|md|rst|txt|csv|xml|html|css|scss|ipynb|proto|tf"
    r"|vue|svelte|gradle|prisma|service|pem|parquet|sqlite|db|log|pdf|docx|xlsx|pptx)"
)
LINE_IN_FILE = re.compile(r"(?<![\d:.,-])(?P<file>[\d.,-]*+(?::(?!\d)[\d.,-]*+)*+):\d[\d:.,-]*+$")
"""The position after a file name, as in "a.py:12:5"; `file` keeps signs that belong to the file, as in "v2.0:7"."""
_TOOLS = spaced("programs")
# "`npm run build`", "$ ls -la", "git push origin main"
COMMAND = re.compile(
    rf"`(?P<ticked>(?:[A-Z_]{{2,30}}=\S{{1,60}} )?(?:{_TOOLS}|\./[\w./-]{{1,60}}"
    rf"|[\w.-]{{2,40}}(?= (?:[^`\n]{{0,200}} )?--?\w))(?: [^`\n]{{1,200}})?)`"
    rf"|^[ \t]*(?:\$|❯) (?P<shown>\S[^\n]{{1,238}})$"
    rf"|^[ \t]*(?P<bare>(?:{_TOOLS}) [^\n]{{1,238}})$",
    re.MULTILINE,
)
# "go is the language." is a sentence, not a command
PROSE_COMMAND = re.compile(r"[.!?,]$|\b(?:the|is|are|it|that|we|you|your|this|und|der|die|das)\b")

# "test.<br />You are 123 years", "code:```perl": a page's mark or a fence stands in no value
MARKUP = re.compile(r"/>|</|```")

# "src/app.py:12:def main()"
HIT = re.compile(r"^(?=[^\s:]{0,300}[./][A-Za-z_])([^\s:]{3,300}):\d{1,7}[:-]", re.MULTILINE)
"""A search hit: its file, then its line number."""

# Words that name a value worth keeping: "port 5432"
KEYS = word_set("value_names")
# Words before a number of no lasting value: "line 12"
NOISE = word_set("noise")
ARTICLES = word_set("fillers")
# Words that link a name to its value: "the limit is now 10"
LINKS = word_set("links")
WORDS = re.compile(r"\S+")
IS_UNIT = re.compile(_UNIT)
# "10", "1.5s", "50%"
NUMERIC = re.compile(r"[\d.,]+(?:\w{1,3}|%)?")
# A number after one of these is part of a word: "v1_2"
WITHIN = frozenset("_.+#/\\:-")
MARKS = "\"'`*_()[]{}<>“”‘’«»"
ENDS = (",", ";", ".", "!", "?", "…", ")", "]", "}")
# "maxRetries", "db.port", "POOL_SIZE"
NAMES_IT = re.compile(r"[a-z0-9][A-Z]|\w[_.]\w|^[A-Z][A-Z0-9_]+$")
# "端口" before "5432"
HAN_WORD = re.compile(rf"[{UNSPACED}]{{1,10}}\s?[:：=]?\s?$")
# "端口", "ポート"
UNSPACED_KEY = re.compile(unspaced("value_names"))
# Counters that say little: "3个"
COUNTED = "个個次回条件台人"
SPANS = word_set("spans")
"""Words that name enough before a duration or a share: "for 30 s"."""
COPULAS = word_set("copulas")
"""Links that connect a number to any word before them: "answer is 42"."""
FOREIGN_KEYS = tuple(word_set("value_stems"))
"""Stems of inflected words."""
SWITCHES = word_set("switches")
# "db_port" → db, port; "maxRetries" → max, Retries
PARTS = re.compile(r"[_.-]|(?<=[a-z0-9])(?=[A-Z])")
# "port = 5433" → "port"
AMOUNT_PART = re.compile(r"\s?[=:]\s?|(?<![\w.-])(?=[$€£¥]?\d)")
# "-rw-r--r-- 1 root", "total 48", "Downloading x", "45%|████"
LISTING = re.compile(
    r"^\s*(?:[-dlbcps][rwxsStT-]{9}|total \d+$|\d+%|\[[#=>. -]{4,}|[.FEsxX]{4,}\s|(?:Downloading|Collecting|Fetching"
    r"|Receiving|Resolving|Compressing|Counting|Unpacking|Enumerating|Writing|Installing|Requirement already)\b"
    r"|index [0-9a-f]{7}|@@ )|\d%\s?[|\[]|[█▉▊▋▌▍▎▏]|\d/\d+ \[",
)
# "12→", "2026-05-12T02:13:52Z", "[14:30:01]", "app.py:12:"
STAMP = re.compile(
    r"^\s*(?:\d{1,6}(?:→|\t|\|)|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?[\d.,]{0,8}(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"|\[?\d\d:\d\d:\d\d[\d.,]{0,8}\]?|(?:[\w./-]+\.\w{1,8}):\d+(?::\d+)?:)+"
)
"""The prefix of an output line: its number, its time, its place."""
