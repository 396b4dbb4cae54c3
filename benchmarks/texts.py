"""Plausible memories made from a seed, for measurements that need many."""

import random

_WHO = "Alice Bob Chen Dana Emre Farah Goran Hana Ivan Jun Kofi Lena Mateo Nia Omar Priya".split()
_WHAT = """payment service|login page|nightly import|search index|mobile app|billing job|staging cluster|CSV export
|webhook queue|session store|release script|audit log|image resizer|rate limiter|feature flags|backup plan""".replace(
    "\n", ""
)
_DID = """moved|rewrote|postponed|reviewed|measured|removed|documented|rolled back|approved|paired on|tested|profiled"""
_WHY = """because requests timed out under load|after the customer reported missing rows|to make the quarterly deadline
|since the old library is no longer maintained|so that two writers cannot overwrite each other|to halve its memory
|until the security review is done|because nobody could explain the failing test|after reading the incident report
|so that a new colleague can run it in one command""".replace("\n", "")
_EXTRA = "in module core/%s_%d.py|with %s as reviewer, ticket #%d|on %s's branch, build %d|as %s proposed in note %d"


def sentences(count: int, seed: int) -> list[str]:
    """That many distinct sentences of 15 to 30 words, the same for the same seed."""
    source = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        who, other = source.sample(_WHO, 2)
        extra = source.choice(_EXTRA.split("|")) % (other.lower(), source.randrange(10_000))
        what, did, why = (source.choice(part.split("|")) for part in (_WHAT, _DID, _WHY))
        made[f"{who} {did} the {what} {why}, {extra}."] = None
    return list(made)
