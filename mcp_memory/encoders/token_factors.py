"""Gives factors from o200k_base tokens to those of a client's model, where the model's tokenizer is not public.

A table and a lookup by the name of a client or model. Nothing here counts: see tokens_tiktoken.
"""

import re

from mcp_memory.domain.model.token_factor import ModelFactor

CLAUDE_NEWEST = ModelFactor(
    family="claude from 4.7 on",
    factor=1.53,
    known_error=0.19,
    source="Measured on short samples: prose 1.82, code 1.51, JSON 1.57, Chinese and Russian 1.67. Against Opus 4.6,"
    " Anthropic's migration guide gives 1.0 to 1.35 times as many; claudecodecamp.com measured 1.33 on session texts.",
)
CLAUDE_UP_TO_4_6 = ModelFactor(
    family="claude up to 4.6",
    factor=1.18,
    known_error=None,
    source="Measured on short samples; how far single texts are off was not recorded.",
)
GPT_O200K = ModelFactor(
    family="gpt with o200k_base",
    factor=1.0,
    known_error=0.0,
    source="tiktoken's table of models: GPT-4o, GPT-4.1, GPT-5 and the o series use o200k_base itself.",
)
GPT_CL100K = ModelFactor(
    family="gpt with cl100k_base",
    factor=1.0,
    known_error=0.41,
    source="tiktoken's table of models: GPT-4 and GPT-3.5 use cl100k_base, which took 0.99 to 1.04 times as many tokens"
    " for English and code, and 1.41 for other languages. Count with cl100k_base to be exact.",
)
UNKNOWN = ModelFactor(family="unknown", factor=1.0, known_error=None, source="Not measured; counted as o200k_base.")

FAMILIES = (CLAUDE_NEWEST, CLAUDE_UP_TO_4_6, GPT_O200K, GPT_CL100K, UNKNOWN)

# Clients do not say which model they run. The newest family costs most, so its budget holds for the older ones too.
# Claude Desktop calls itself claude-ai.
_CLAUDE_CLIENT = re.compile(r"claude-(ai|code|desktop)\b")  # e.g. "claude-code"
_CLAUDE_VERSION = re.compile(r"claude-(?:[a-z]+-)?v?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")  # e.g. "claude-opus-4-6"
_GPT_CL100K = re.compile(r"\bgpt-(3\.5|35|4(?![\d.o]))")  # e.g. "gpt-4-turbo", "gpt-3.5", not "gpt-4o"
_GPT = re.compile(r"\b(gpt|chatgpt|codex|openai)\b|\bo\d\b")  # e.g. "chatgpt", "codex", "o3"


def factor_for(client_or_model: str) -> ModelFactor:
    """Return the family of a client's or model's name; UNKNOWN for any other name. Case does not matter."""
    name = re.sub(r"[\s_]+", "-", client_or_model.strip().lower())
    if "claude" in name:
        return _claude(name)
    if _GPT_CL100K.search(name):
        return GPT_CL100K
    return GPT_O200K if _GPT.search(name) else UNKNOWN


def _claude(name: str) -> ModelFactor:
    """Return the family of a Claude name; one without a version may mean the newest model."""
    if _CLAUDE_CLIENT.search(name):
        return CLAUDE_NEWEST
    if "claude-instant" in name:
        return CLAUDE_UP_TO_4_6
    version = _CLAUDE_VERSION.search(name)
    if version is None:
        return CLAUDE_NEWEST
    return CLAUDE_NEWEST if (int(version[1]), int(version[2] or 0)) >= (4, 7) else CLAUDE_UP_TO_4_6
