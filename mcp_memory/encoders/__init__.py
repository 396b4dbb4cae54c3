"""Turns text into numbers: vectors for meaning, counts of tokens for budgets. Nothing here touches the network."""
