"""The session log: feeds it, measures it, compacts it."""
