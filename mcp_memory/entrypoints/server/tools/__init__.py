"""The tools, one a module: what each says of itself, and how its arguments become a request and the answer a result."""
