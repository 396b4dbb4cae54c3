"""Reads what a memory is filled from: records that an agent proposes, earlier sessions, and files of clients."""
