"""Judges values in places where secrets occur: "hunter2" is a secret, "self.password" is not. Knows no rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

LONGEST = 300
"""Characters of a value that are examined; more would not change the verdict."""
_SHORTEST_KEY = 8
_SHORTEST_RANDOM_KEY = 16
_SHORTEST_SPOKEN = 6
_FEW_SIGNS = 4
"""A key of sixteen characters has more distinct ones than this."""
_REGULAR = 0.6
_SHORTEST_WITHOUT_DIGITS = 10
_LEAST_READABLE = 3
"""Shorter parts of a value prove nothing: random letters contain "ab" and "It" too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretCandidate:
    """A value, the name it is assigned to, if any ("DB_PASSWORD"), and the character that follows."""

    value: str
    name: str = ""
    after: str = ""


_PLACEHOLDER = re.compile(
    # "AKIA…EXAMPLE", "your-api-key", "xxxx", "***", "<password>", "change-me"
    r"EXAMPLE|x{4}|X{4}|\*{3}|\.{3}|…|REDACTED|<[^>]{0,60}>"
    r"|(?i:\b(?:your|my|insert|change|replace|fake|dummy|placeholder|sample|example|todo)(?=[\W_])"
    r"|change_?me|placeholder|(?<![a-z])example(?![a-z]))"
)
_REFERENCE = re.compile(
    # "$PASSWORD", "${{ secrets.X }}", "%s", "%(password)s", "%PASSWORD%", "{password}", "env:X", "op://…", "*anchor"
    r"\\?\$\w|\$\$?[({]|%[sdr]\b|%\(\w|%\w{1,60}%|#?\{|!\w"
    r"|env[:.(]|op://|vault:|arn:|ssm:|file:|keyring:|ENC\[|[*&]\w{1,40}\Z"
)
_EXPRESSION = re.compile(
    # "self.settings.api_key", "process.env.KEY", "Secret::from", "config['x']", "get_secret("
    r"[A-Za-z_$][\w$]{0,80}(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]{0,80}){1,12}[([;,]?\Z"
    r"|[A-Za-z_$][\w$.:]{0,120}[(\[]"
)
_PLACE = re.compile(
    # "/etc/x", "~/x", "./x", "8080/x", "C:\x", "https://…", "me@example.com"
    r"(?:~|\.{1,2})?/[\w.@-]{1,60}(?:/|\Z)|\d{1,5}/|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]{1,15}://"
    r"|[\w.+-]{1,60}@[\w-]{1,60}\.[\w.-]{1,60}\Z"
    # "id_rsa.pub", "config/prod.yaml", "db:5432", "db.acme.internal"
    r"|[\w./-]{1,120}\.(?:pem|key|pub|crt|txt|json|ya?ml|toml|env|py|js|ts|go|rs|md|sh|p12|pfx|jks|html?|log|conf|cfg|ini)\Z"
    r"|[\w.-]{1,120}:\d{2,5}\Z"
    r"|[a-z0-9-]{1,60}(?:\.[a-z0-9-]{1,60}){1,6}\.(?:com|org|net|io|dev|local|internal|example|test)\b"
)
# e.g. "123e4567-e89b-12d3-a456-426614174000"
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CASED_WORD = re.compile(r"(?:[A-Z]{1,20}|[A-Z]?[a-z]{1,20})\d{0,4}|\d{1,4}|v\d[\d.]{0,8}")
"""A part of an identifier or of prose: "access", "SHA256", "Version", "12". Random keys have digits between letters."""
_CLUSTER = re.compile(r"(?i:[bcdfghjklmnpqrstvwxz]{4}|^[^aeiouy\d]{3,}\d*$)(?<!(?i:ngth|ghts|tchw|ckst|rchf))")
"""Four consonants, or nothing else: words seldom hold them ("length" does), random letters often do ("xsnqa")."""
# e.g. "db-password" → "db", "password"
_PARTS = re.compile(r"[^0-9A-Za-z]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NAME_PARTS = re.compile(r"[^0-9A-Za-z]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Splits names into parts: "DB_PASSWORD", "dbPassword", "db-password1"."""
_PASSWORD = re.compile(r"(?i:pass|pwd|pw$|kennwort|pin|clave|contrase|senha|парол)")
_STANDING_IN = frozenset("password passwd pass pwd secret token user username none null true false".split())
"""Words in place of the value, as in "postgres://user:password@host"."""
_OF_SECRETS = frozenset(
    "pass pw pwd key auth psk pin dsn salt token credential credentials clave senha contraseña пароль".split()
)
_ENDS_OF_SECRETS = (
    *("password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "pwd", "secret", "token"),
    *("apikey", "accesskey", "authkey", "secretkey", "privatekey"),
)
_ABOUT_SECRETS = frozenset(
    """algorithm alg age arn at bits budget class column comment cost count counts date days description digest dir
    disabled enabled encoder end endpoint env error expiration expired expires expiry field fields file files
    fingerprint folder format function handler hash header helper hint host hours href id ids index input invalid
    kind label len length limit limits manager mapper max message min minutes model module ms name names output
    param parameter path paths pattern placeholder policy prefix provider ref regex required reset rotation rule
    rules scope scopes sec seconds secs service size start state status store strength suffix tag text time timeout
    title ttl type types uri url usage used user username valid var variable version changed""".split()
)
"""Last words of names that describe a secret: "token_type", "password_file"."""
_OF_OTHER_THINGS = frozenset(
    """arrow author authors cache completion composite continuation cursor dedup dedupe dict down first foreign group
    hash hot i18n idempotency keyboard known last lookup map max message min monkey natural next num object page
    partition per press primary prompt pub public registry row shortcut sort surrogate total translation turkey
    unique up""".split()
)
"""Words of names that end like a secret's but are not: "public_key", "next_page_token"."""


def is_placeholder(value: str) -> bool:
    """True for a value that represents another: "your-key", "xxxxxxxx", "1234567890abcdef", "AKIA…EXAMPLE"."""
    value = value[:LONGEST]
    if _PLACEHOLDER.search(value):
        return True
    letters = [ord(each) for each in value.lower() if each.isalnum()]
    if len(letters) < _SHORTEST_SPOKEN:
        return False
    # "aaaaaaaa", "123456…", "abcdef…": most neighbours are equal or follow each other.
    steps = sum(second - first in (0, 1) for first, second in pairwise(letters))
    return steps > _REGULAR * len(letters) or (len(letters) >= _SHORTEST_RANDOM_KEY and len(set(letters)) <= _FEW_SIGNS)


def _is_issued(found: SecretCandidate) -> bool:
    return not is_placeholder(found.value)


def _is_any(found: SecretCandidate) -> bool:
    return not (is_placeholder(found.value) or _REFERENCE.match(found.value) or found.value.lower() in _STANDING_IN)


def _is_password(found: SecretCandidate) -> bool:
    """Judge a password. Short values count only where the name says password: `edge_key="attr1"` is none."""
    if not _is_value(found):
        return False
    if found.name and not _PASSWORD.search(found.name):
        return len(found.value) >= _SHORTEST_KEY and _is_unreadable(found.value)
    return _is_mixed(found.value) or _is_unreadable(found.value)


def _is_spoken(found: SecretCandidate) -> bool:
    """Judge a password in a sentence: "p4ss-word!" is one; "at-least-12-chars", "required.", "2026-11-22" are not."""
    value = found.value.rstrip(".,;:!?")
    return len(value) >= _SHORTEST_SPOKEN and _is_password(SecretCandidate(value=value, after=found.after))


def _is_random(found: SecretCandidate) -> bool:
    return _is_spoken(found) and _is_unreadable(found.value)


def _is_key(found: SecretCandidate) -> bool:
    if len(found.value) < _SHORTEST_RANDOM_KEY or not _is_value(found):
        return False
    return _is_unreadable(found.value) or bool(_UUID.fullmatch(found.value))


def _is_numbered(found: SecretCandidate) -> bool:
    return any(map(str.isdigit, found.value)) and not is_placeholder(found.value)


JUDGES: Mapping[str, Callable[[SecretCandidate], bool]] = {
    "issued": _is_issued,
    "any": _is_any,
    "numbered": _is_numbered,
    "password": _is_password,
    "spoken": _is_spoken,
    "random": _is_random,
    "key": _is_key,
}
"""Judges by the words that rules use; `secret_rules.toml` explains each. Values are cut to `LONGEST` beforehand."""


def _is_value(found: SecretCandidate) -> bool:
    """True unless the value is common in code, configurations or sentences."""
    return (
        _is_any(found)
        and (not found.name or _names_a_secret(found.name))
        and found.after not in ("(", "[")
        and " " not in found.value
        and not _EXPRESSION.match(found.value)
        and not _PLACE.match(found.value)
    )


def _names_a_secret(name: str) -> bool:
    parts = [part for each in _NAME_PARTS.split(name) if (part := each.lower().rstrip("0123456789"))]
    return (
        parts != ["key"]
        and any(part in _OF_SECRETS or part.endswith(_ENDS_OF_SECRETS) for part in parts)
        and parts[-1] not in _ABOUT_SECRETS
        and not _OF_OTHER_THINGS.intersection(parts)
    )


def _is_mixed(value: str) -> bool:
    """True for letters or signs with digits, but not two words: "hunter2", "Tr0ub4dor&3"; not "at-least-12-chars"."""
    parts = _parts(value)
    return any(map(str.isdigit, value)) and (len(parts) == 1 or not all(map(_reads_well, parts)))


def _is_unreadable(value: str) -> bool:
    """True where words are at most half: "jiNoUiojmxrXBpp", "Zk3vQx…"; not "AccessTokenProvider", "0.41.3"."""
    if not any(map(str.isalpha, value)):
        return False
    if not any(map(str.isdigit, value)):
        # All in one case it may be a word of any language, or a constant's name.
        in_one_case = value in (value.lower(), value.upper())
        if in_one_case or len(value) < _SHORTEST_WITHOUT_DIGITS:
            return False
    read = sum(len(part) for part in _parts(value) if len(part) >= _LEAST_READABLE and _reads_well(part))
    return 2 * read <= len(value)


def _parts(value: str) -> list[str]:
    return [part for part in _PARTS.split(value) if part]


def _reads_well(part: str) -> bool:
    return bool(_CASED_WORD.fullmatch(part)) and not _CLUSTER.search(part)
