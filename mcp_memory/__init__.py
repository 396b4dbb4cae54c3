"""A memory for agents over the Model Context Protocol: the right context for the task, inside a token budget."""

__version__ = "0.1.0"
