"""The page: lets a person see the memory in a browser, correct it, and ask why something was in a context."""
