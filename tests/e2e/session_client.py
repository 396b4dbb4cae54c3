"""One session as its client has it: what it told, and what it was given to put in the place of that."""

import itertools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.e2e.conversations import Message, said, text_of

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

Answer: TypeAlias = dict[str, Any]
LOG_KINDS = ["message", "tool_call", "tool_result"]


class Client:
    """One session as its client has it: what it told, and what stands for that now."""

    def __init__(self, server: "ServerProcess", session_id: str, window: int = 6_000) -> None:
        self.server = server
        self.session_id = session_id
        self.window = window
        self.told: list[Message] = []

    def arguments(self, messages: Sequence[Message] = (), **options: Any) -> dict[str, Any]:
        return {"session_id": self.session_id, "window": self.window, "messages": list(messages), **options}

    def compact(self, messages: Sequence[Message] = (), **options: Any) -> Answer:
        self.told += messages
        return answered(self.server.call("compact", **self.arguments(messages, **options)))

    def refused(self, **options: Any) -> str:
        """What a compaction that cannot be done is answered."""
        result = self.server.call("compact", **self.arguments(**options))
        assert result["isError"]
        return result["content"][0]["text"]

    def recall(self, **arguments: Any) -> Answer:
        return answered(self.server.call("recall", max_tokens=500_000, **arguments))

    def pages(self, **arguments: Any) -> list[Answer]:
        """All results, however many pages they fill."""
        results: list[Answer] = []
        offset: int | None = 0
        while offset is not None:
            page = self.recall(offset=offset, **arguments)
            results += page["results"]
            offset = page.get("next_offset")
        return results

    def originals(self) -> dict[str, str]:
        """What the server keeps of what was told, by id, in its order."""
        listed = self.pages(
            kinds=LOG_KINDS, session_id=self.session_id, include_inactive=True, detail="full", limit=100
        )
        texts = {each["id"]: each["text"] for each in listed}
        return {each: texts[each] for each in sorted(texts, key=lambda one: (len(one), one))}

    def covered(self, stand_in: str) -> list[str]:
        return [each["id"] for each in self.pages(ids=[stand_in], detail="micro", limit=100)]

    def page(self) -> Answer:
        read = self.server.request("resources/read", {"uri": f"memory://session/{self.session_id}"})
        return json.loads(read["contents"][0]["text"])

    def summaries(self, form: str = "summary") -> list[Answer]:
        return [each for each in self.page()["summaries"] if each["form"] == form]

    def log(self) -> list[Message]:
        """The conversation with every replacement in its place, whose soundness is checked on the way.

        E2.4, E2.5: nothing that was told is lost, each part is there once, and no call without its result.
        """
        kept = self.originals()
        assert list(kept.values()) == [text_of(message) for message in self.told]
        live = dict(zip(kept, self.told, strict=True))
        for shown in self.page()["summaries"]:
            covers = self.covered(shown["id"])
            assert [list(kept)[number - 1] for number in numbers_in(shown["covers"])] == covers
            assert (covers[0], covers[-1], len(covers)) == (shown["first"], shown["last"], shown["compacted_count"])
            for each in covers:
                del live[each]
            live[shown["first"]] = replaced(shown)
        log = [live[each] for each in sorted(live, key=lambda one: (len(one), one))]
        for call_id, kinds in calls_of(log).items():
            assert kinds == ["tool_use", "tool_result"], call_id
        return log

    def text(self) -> str:
        return "\n".join(text_of(message) for message in self.log())


def answered(result: Answer) -> Answer:
    assert not result["isError"], result
    return result["structuredContent"]


def replaced(shown: Answer) -> Message:
    """The message that a client puts in the place of what the replacement covers."""
    if shown["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": shown["call_id"], "content": shown["text"]}
        return {"role": "user", "content": [result]}
    return said(shown["role"], shown["text"])


def numbers_in(covers: str) -> list[int]:
    """What `1-3 5` counts up."""
    runs = [each.split("-") for each in covers.split()]
    return [number for run in runs for number in range(int(run[0]), int(run[-1]) + 1)]


def calls_of(log: Sequence[Message]) -> dict[str, list[str]]:
    """By the id of each call the kinds of the parts that have it."""
    found: dict[str, list[str]] = {}
    for part in itertools.chain.from_iterable(each["content"] for each in log if not isinstance(each["content"], str)):
        found.setdefault(part.get("tool_use_id") or part["id"], []).append(part["type"])
    return found
