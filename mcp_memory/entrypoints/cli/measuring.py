"""Commands that count and shorten texts by the rules of contexts: count, compress. They open no memory."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mcp_memory.bounded_files import MB, read_regular
from mcp_memory.entrypoints.commands.console import output
from mcp_memory.entrypoints.commands.options import AsJson, settings_chosen, with_options
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.domain.context.items import Measure

MAX_BYTES = 64 * MB
STDIN = Path("-")
File = Annotated[Path, typer.Argument(metavar="FILE", help="By default standard input.")]
Model = Annotated[str, typer.Option("--model", metavar="NAME", help="The model or client whose tokens are meant.")]


@with_options()
def count(chosen: Mapping[str, Any], file: File = STDIN, model: Model = "", as_json: AsJson = False) -> None:
    """Count the tokens of a text as contexts are counted."""
    measure = _measure(chosen, model)
    tokens = measure.count(_text(file))
    output(as_json, {"tokens": tokens, "family": measure.factor.family, "factor": measure.factor.factor}, str(tokens))


@with_options()
def compress(
    chosen: Mapping[str, Any],
    target: Annotated[int, typer.Option("--target", "-n", metavar="TOKENS", min=0, help="All texts together.")],
    file: File = STDIN,
    model: Model = "",
    as_json: AsJson = False,
) -> None:
    """Cut the texts of scored items, the lowest score first, each to about a third, until they fit.

    The items are a JSON list of objects with a text and a score, and whatever else.
    """
    from mcp_memory.domain.context.compress import compressed

    try:
        items: Any = json.loads(_text(file))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The items are no JSON ({error}).") from error
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in cast("list[Any]", items)):
        raise InvalidRequest('The items must be a list of objects: [{"text": "…", "score": 0.5}, …].')
    made = compressed(cast("list[dict[str, Any]]", items), target, _measure(chosen, model))
    output(as_json, made, *(str(each["text"]) for each in made))


def _measure(chosen: Mapping[str, Any], model: str) -> "Measure":
    """Return what the settings count by; a named model goes by its name."""
    from mcp_memory.app import text_measure

    settings = settings_chosen(chosen)
    return text_measure(settings.encoding, "auto" if model else settings.token_factor, model)


def _text(file: Path) -> str:
    try:
        given = sys.stdin.buffer.read(MAX_BYTES + 1) if file == STDIN else read_regular(file, MAX_BYTES)
        if len(given) > MAX_BYTES:
            raise InvalidRequest(f"Standard input holds more than {MAX_BYTES // MB} MiB; give it in parts.")
        return given.decode("utf-8-sig")
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{'Standard input' if file == STDIN else file} is not UTF-8 text.") from error
