"""The gate that every text passes on its way into the memory.

Control characters, secrets and echoes of our own answers go.
"""
