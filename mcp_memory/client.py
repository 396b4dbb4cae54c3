"""For programs that run an agent loop of their own: keeps a conversation inside its window by a memory server.

Without a server it counts tokens, and shortens texts until they fit.

    async with Client(StdioServerParameters(command="mcp-memory")) as client:
        conversation = Conversation(client, session_id="exports", window=200_000)
        messages = await conversation.fitted(messages)

`Client` and `StdioServerParameters` are those of the protocol's library, `mcp`. docs/compaction.md has a whole loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_memory.app import text_measure
from mcp_memory.domain.context.compress import compressed
from mcp_memory.entrypoints.conversations.applying import apply
from mcp_memory.errors import McpMemoryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp import Client, ClientSession

__all__ = ["Conversation", "MemoryRefused", "apply", "compress", "count_tokens"]
ENCODING = "o200k_base"
"""The encoding that counts where a call names none, as the settings do."""
ANSWER_TOKENS = 1_000_000
"""The answer is read by a program, so nothing is left out of it."""


class MemoryRefused(McpMemoryError):
    """The server refused a call; the message says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """One conversation of your agent, in a connected client. `window` is your model's, in its tokens.

    `options` are further arguments of `compact`, such as `{"preset": "aggressive"}`.
    """

    client: Client | ClientSession
    session_id: str
    window: int
    options: Mapping[str, Any] | None = None

    async def fitted(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Log the messages and return them as they are to be sent: shorter, where they fill the window.

        They may be the whole conversation or what an earlier call returned, with what came since. Call it before each
        request to your model, and go on with what it returns.

        Raises:
            MemoryRefused: the server did not take the messages.
        """
        arguments = {"session_id": self.session_id, "window": self.window, "messages": list(messages)}
        answer = await self._call("compact", {"max_tokens": ANSWER_TOKENS, **arguments, **(self.options or {})})
        return apply(messages, answer)

    async def recalled(self, ids: Sequence[str], max_tokens: int = 20_000) -> list[dict[str, Any]]:
        """Return the originals that replacements name: entries with `id`, `kind`, `text` and `occurred_at`.

        Raises:
            MemoryRefused: the server did not answer.
        """
        opened = await self._call("recall", {"ids": list(ids), "detail": "full", "max_tokens": max_tokens})
        return list(opened["results"])

    async def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        if result.is_error:
            raise MemoryRefused(" ".join(getattr(part, "text", "") for part in result.content))
        return result.structured_content or (result.meta or {}).get(tool, {})


def count_tokens(text: str, *, model: str = "", encoding: str = ENCODING) -> int:
    """Return the tokens of the text as assembly counts them, 0 for "".

    For a `model` or client whose tokenizer is not public ("claude-opus-4-7") they are estimated from the encoding's,
    rather too many than too few.
    """
    return text_measure(encoding, client=model).count(text)


def compress(
    items: Sequence[Mapping[str, Any]], target: int, *, model: str = "", encoding: str = ENCODING
) -> list[dict[str, Any]]:
    """Return the items, in their order, with texts cut until all together have at most `target` tokens.

    An item has a `text`, a `score`, by default 0, and whatever else. That of the lowest score is cut first, of equal
    ones the last, each to about a third; where that is not enough, all are cut once more.

    Raises:
        InvalidRequest: an item has no text, or they do not fit at their shortest; the message says what they take.
    """
    return compressed(items, target, text_measure(encoding, client=model))
