"""Makes one of Chroma's embedding functions from plain settings.

Its client package is imported here, and the function itself reads its key here, from the environment. Knows nothing of
texts and vectors.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.shielded_chroma import import_chromadb

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Json

EXTRAS = frozenset({"ollama", "openai"})
"""Client packages that have an extra in this package."""
_MODEL_ARGUMENTS = ("model_name", "model")
_URL_ARGUMENTS = ("url", "api_base", "api_url")
_ADVICE = re.compile(r"pip install ([\w.-]+)")  # e.g. "Please install it with `pip install ollama`"
_NO_VARIABLE = re.compile(r"The (\w+) environment variable is not set")  # e.g. "The COHERE_API_KEY …"


class EmbeddingFunction(Protocol):
    """The part of Chroma's protocol that we use: a vector for each text, at least one text."""

    def __call__(self, texts: list[str], /) -> Sequence[Sequence[float]]: ...

    def embed_query(self, texts: list[str], /) -> Sequence[Sequence[float]]:
        """Embed queries in the function's own way, where it has one."""
        ...

    def get_config(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenFunction:
    """One of Chroma's functions by its name there, and its arguments.

    Where the function has no argument for the model, `model` only records what the service runs.
    """

    name: str
    model: str
    url: str | None
    options: Mapping[str, Json]


def make_function(chosen: ChosenFunction) -> EmbeddingFunction:
    """Return the function, ready to be called; local models are loaded, and their library may download them.

    Raises:
        InvalidRequest: there is no such function, or it has no such argument.
        StoreUnavailable: its package or its key is missing, or its model cannot be loaded.
    """
    import_chromadb()
    known = importlib.import_module("chromadb.utils.embedding_functions").known_embedding_functions
    if chosen.name not in known:
        raise InvalidRequest(f"Chroma has no embedder {chosen.name!r}; it has {', '.join(sorted(known))}.")
    kind = known[chosen.name]
    arguments = inspect.signature(kind.__init__).parameters
    given = {**_named(chosen, arguments), **chosen.options}
    defaults = {name: each.default for name, each in arguments.items() if each.default is not each.empty}
    try:
        function: EmbeddingFunction = kind.build_from_config({**defaults, **given})
    except (ValueError, TypeError, AssertionError, LookupError, ImportError, OSError, RuntimeError) as error:
        # Not chained: a client's message may repeat values from the environment.
        raise _cannot_make(chosen.name, error) from None
    if unknown := given.keys() - function.get_config().keys():
        raise InvalidRequest(
            f"Embedder {chosen.name} has no option {min(unknown)!r};"
            f" its options are {', '.join(sorted(function.get_config()))}."
        )
    return function


def _named(chosen: ChosenFunction, arguments: Mapping[str, object]) -> dict[str, Json]:
    """Return model and address under the argument names of this function."""
    named: dict[str, Json] = {name: chosen.model for name in _MODEL_ARGUMENTS if name in arguments}
    if chosen.url is not None:
        places = [name for name in _URL_ARGUMENTS if name in arguments]
        if not places:
            raise InvalidRequest(f"Embedder {chosen.name} takes no address; leave embedder_url out.")
        named[places[0]] = chosen.url
    return named


def _cannot_make(name: str, error: BaseException) -> StoreUnavailable:
    missing = error if isinstance(error, ImportError) else error.__context__
    if isinstance(missing, ImportError) and missing.name:
        advised = _ADVICE.search(str(error))
        package = advised[1] if advised else missing.name
        source = (
            f"mcp-memory-stack[{package}]" if package in EXTRAS else f"the package {package} beside mcp-memory-stack"
        )
        return StoreUnavailable(f"Embedder {name} needs the Python module {missing.name}. Install {source}.")
    if variable := _NO_VARIABLE.search(str(error)):
        return StoreUnavailable(f"Embedder {name} finds no key. Set the environment variable {variable[1]}.")
    return StoreUnavailable(
        f"Embedder {name} cannot be made ready ({type(error).__name__}). Check embedder_model, embedder_url and the"
        " options it needs (docs/embedders.md)."
    )
