"""Assembly: from a task and a query to one block inside a token budget."""
