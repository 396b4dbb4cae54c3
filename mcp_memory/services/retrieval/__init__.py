"""Recall: from a query to ranked results."""
