"""Filters every text on its way into the memory.

Removes control characters, secrets and echoes of our own answers.
"""
