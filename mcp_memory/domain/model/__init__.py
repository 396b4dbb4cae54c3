"""Values shared by all layers: records, tasks, scopes, plans, and the rules of their lifecycles."""
