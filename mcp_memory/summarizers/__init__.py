"""Summarizers write down what a span of a session came to: by sentences chosen from it, or by asking a model."""
