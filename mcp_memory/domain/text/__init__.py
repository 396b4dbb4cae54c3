"""Reads text without a model: words, sentences, names, exact values, dates, statements, and short forms."""
