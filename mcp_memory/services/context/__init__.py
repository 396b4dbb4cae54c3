"""Assembly: builds one block inside a token budget from a task and a query."""
