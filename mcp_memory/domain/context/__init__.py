"""Computes over assembly's candidates.

Scores, near-duplicates, the budget, the items and the rendered block.
"""
