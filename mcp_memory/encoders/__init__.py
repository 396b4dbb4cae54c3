"""Turns text into numbers: vectors for meaning, token counts for budgets. Only remote embedders use the network."""
