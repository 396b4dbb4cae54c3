"""The process that owns a memory: its life, and what its clients want."""
