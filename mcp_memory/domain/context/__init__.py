"""What assembly computes from its candidates: scores, near-duplicates, the budget, the items and the rendered block."""
