"""The session log: feeding it, measuring it, compacting it."""
