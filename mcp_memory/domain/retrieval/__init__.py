"""Computes over the scores of recall's sources: fusion, floors, relevance."""
