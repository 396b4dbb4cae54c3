"""A counter of tokens that says how much it was asked: a bound on work that holds on a slow machine too."""

from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter


class TalliedCounter(TiktokenCounter):
    """Tallies the characters that it encodes, for a count and for a cut."""

    encoded = 0

    def _encode(self, text: str) -> list[int]:
        self.encoded += len(text)
        return super()._encode(text)
