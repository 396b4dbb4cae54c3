"""What is told of an error of Chroma's."""

import pytest

from mcp_memory.stores.vectors.chroma.collections import ChromaCollections
from mcp_memory.stores.vectors.chroma.location import IndexFailure, IndexPlace


def test_what_a_server_was_sent_is_in_no_message() -> None:
    """S4.3: Chroma's client repeats a header that it refuses; the kind of the error has to do."""
    headers = {"Authorization": "Bearer hidden\n"}
    place = IndexPlace(mode="http", root="", embedder="any", url="http://127.0.0.1:9", headers=headers)
    with pytest.raises(IndexFailure, match=r"^Chroma failed: \w+$") as failure:
        ChromaCollections(place, "")
    assert failure.value.keep
    assert failure.value.__suppress_context__
