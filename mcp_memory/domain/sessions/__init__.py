"""Computes over a session's log for compaction: pressure, short tool outputs, the ledger, summaries in sections."""
