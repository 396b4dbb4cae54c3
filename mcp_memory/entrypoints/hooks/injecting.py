"""What hooks say to the model: in the form that Claude Code takes, and within the length that it shows whole."""

import json

from mcp_memory.entrypoints.hooks.hooked import Hooked

MOST_CHARACTERS = 9_500
"""Claude Code puts what is longer than 10,000 into a file, and shows its beginning."""


def injected(event: str, text: str) -> str:
    """The JSON by which a hook adds a text to the conversation, in ASCII for any console."""
    output = {"hookEventName": event, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": output})


def in_whose_name(words: str, hook: Hooked) -> str:
    """The words above a block, where the memory is not the project's that the folder claims: they say whose it is."""
    return (
        words.replace("this project's memory", "this folder's own memory") if hook.app.is_apart(hook.caller) else words
    )
