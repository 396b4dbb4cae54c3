"""Imported by the process that others are forked from."""

import gc

from tests.forked import preload

gc.disable()  # What is imported stays to the end: to look for garbage in it is for nothing.
preload()
gc.freeze()  # Else the first collection of each process would copy every page that they share.
gc.enable()
