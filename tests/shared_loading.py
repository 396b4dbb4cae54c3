"""Models, rules and read texts that the memories of one test process share, as do processes forked from one."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import typer.testing
from pydantic_settings.sources import EnvSettingsSource

from mcp_memory import wiring
from mcp_memory.domain.sessions import ledger, unsupported_values
from mcp_memory.domain.text import entity_extraction, exact_values, micro_and_summary, words
from mcp_memory.encoders import embed_minilm, tokens_tiktoken
from mcp_memory.language import secrets_re2
from mcp_memory.services.memory import prepare_record
from mcp_memory.stores.records import transaction

_load_model = cache(embed_minilm._load)  # noqa: SLF001 - loaded once for all embedders
_read_rules = cache(secrets_re2.read_rules)
_Finder = secrets_re2._Finder  # noqa: SLF001
_token_counter = cache(wiring.token_counter)
_find_mentions = entity_extraction._mentions  # noqa: SLF001
_find_exact = exact_values.exact_in
_measured = lru_cache(maxsize=20_000)(micro_and_summary.measured)
_packed_terms = lru_cache(maxsize=20_000)(words.packed_terms)
_get_command = cache(typer.main.get_command)
_tls_settings = cache(ssl.create_default_context)


def _once_a_field(name: str) -> Callable[..., Any]:
    """A method that derives from a setting's annotation how a variable says it; for all settings half of a reading."""
    derive: Callable[..., Any] = getattr(EnvSettingsSource, name)
    derived: dict[tuple[type, int], Any] = {}

    def derive_once(source: EnvSettingsSource, field: object, *given: Any) -> Any:
        key = source.settings_cls, id(field)  # A field lives as long as its class.
        if key not in derived:
            derived[key] = derive(source, field, *given)
        return derived[key]

    return derive_once


_OF_FIELDS = {name: _once_a_field(name) for name in ("_extract_field_info", "_field_is_complex")}


def share(set_attribute: Callable[[Any, str, Any], None]) -> None:
    """Have models and rules loaded once. The functions that read a text and know nothing else read it once."""
    set_attribute(embed_minilm, "_load", _load_model)
    set_attribute(secrets_re2, "read_rules", _read_rules)
    set_attribute(secrets_re2, "_Finder", _finder)
    set_attribute(wiring, "token_counter", _token_counter)
    set_attribute(tokens_tiktoken, "SHORT", 2_000)
    set_attribute(entity_extraction, "_mentions", _mentions)
    set_attribute(ledger, "exact_in", _exact)
    set_attribute(unsupported_values, "exact_in", _exact)
    set_attribute(prepare_record, "measured", _measured)
    set_attribute(transaction, "packed_terms", _packed_terms)
    set_attribute(typer.testing, "_get_command", _get_command)
    # Each HTTP client reads the certificates of all authorities; of ours none speaks TLS.
    set_attribute(ssl, "create_default_context", _tls_settings)
    for name, derive_once in _OF_FIELDS.items():
        set_attribute(EnvSettingsSource, name, derive_once)


@cache
def _finder(rules: Sequence[secrets_re2.SecretRule]) -> _Finder:
    """Compiled once for all redactors; a text is searched once."""
    finder = _Finder(rules)
    finder.cut = lru_cache(maxsize=20_000)(finder.cut)  # pyrefly: ignore[method-assign] - of this one alone
    return finder


@lru_cache(maxsize=20_000)
def _mentions(text: str, *, with_words: bool = True) -> tuple[Any, ...]:
    return tuple(_find_mentions(text, with_words=with_words))


@lru_cache(maxsize=20_000)
def _exact(text: str, *, names: bool = True) -> tuple[exact_values.Exact, ...]:
    return tuple(_find_exact(text, names=names))
