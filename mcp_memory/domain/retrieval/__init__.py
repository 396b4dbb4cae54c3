"""What recall computes from the scores of its sources: fusion, floors, and activation that spreads over the graph."""
