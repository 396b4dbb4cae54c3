"""The tools, one a module: each has its description, and turns arguments into a request, the answer into a result."""
