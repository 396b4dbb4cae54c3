"""Imported by the process that others are forked from."""

import gc

from tests.forked import preload

preload()
gc.freeze()  # Else the first collection of each process would copy every page that they share.
