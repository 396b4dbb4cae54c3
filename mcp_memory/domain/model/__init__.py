"""The values that everything else is about: records, tasks, scopes, plans, and the rules of their lives."""
