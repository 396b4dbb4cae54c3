"""Imported by the process that others are forked from."""

from tests.forked import preload

preload()
