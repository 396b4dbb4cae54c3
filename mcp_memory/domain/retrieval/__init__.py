"""Recall's computations over the scores of its sources: fusion, floors, relevance."""
