"""Assembly's computations over its candidates.

Scores, near-duplicates, the budget, the items and the rendered block.
"""
