"""What a message concludes."""

from mcp_memory.domain.sessions.filled_slots import CONCLUSION_CHARACTERS, conclusion
from mcp_memory.domain.sessions.sentences import Utterance


def test_a_conclusion_is_as_many_whole_sentences_as_fit() -> None:
    """D3.1: the first one in any case; questions are none."""
    long = [f"Shard {n} {'stopped on a lock that nobody had released ' * 4}today." for n in range(4)]
    told = [Utterance(text=text, speaker="assistant", entry=0) for text in ("Shall I go on?", *long)]
    assert conclusion(told) == long[0]
    assert conclusion([Utterance(text="x" * 2 * CONCLUSION_CHARACTERS, speaker="user", entry=0)]).startswith("x")
    short = [Utterance(text="The lock holds.", speaker="user", entry=n) for n in range(2)]
    assert conclusion(short) == "The lock holds. The lock holds."
