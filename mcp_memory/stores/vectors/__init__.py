"""Vector search: exact, and Chroma as an index in front of it."""
