"""Filters every text on its way into the memory.

Removes control characters, secrets, echoes of our own answers, and what a client wrote in its user's name.
"""
