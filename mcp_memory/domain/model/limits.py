"""Limits of what one call may hold, and the types of texts, names and ids that keep to them."""

from typing import Annotated

from mcp_memory.domain.model.field_marks import NoControls, NotBlank, Size

MAX_TEXT_CHARS = 1_000_000
MAX_NAME_CHARS = 200
MAX_TAGS = 50
MAX_TAG_CHARS = 100
"""Limits of one incoming record, from any source."""
MAX_FIELDS = 100
"""Fields of one object, such as a record's details."""
MAX_ITEMS = 500
"""Records, or ids of records, of one call."""

LongText = Annotated[str, Size(MAX_TEXT_CHARS)]
Text = Annotated[LongText, NotBlank()]
Words = Annotated[str, Size(100_000)]
ShortText = Annotated[str, Size(2_000)]
Goal = Annotated[ShortText, NotBlank()]
Name = Annotated[str, Size(MAX_NAME_CHARS, least=1)]
OptionalName = Annotated[str, Size(MAX_NAME_CHARS)]
SessionName = Annotated[OptionalName, NoControls()]
Tag = Annotated[str, Size(MAX_TAG_CHARS, least=1), NoControls()]
Id = Annotated[str, Size(32, least=1), NoControls()]
OptionalId = Annotated[str, Size(32), NoControls()]
"""A text, name or id is optional where "" says that it is not given."""
When = Annotated[str, Size(100)]
"""A time or a phrase."""

Tags = Annotated[tuple[Tag, ...], Size(MAX_TAGS)]
Ids = Annotated[tuple[Id, ...], Size(MAX_ITEMS)]
Names = Annotated[tuple[Name, ...], Size(100)]
