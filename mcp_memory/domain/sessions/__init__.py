"""Compaction's computations over a session's log: pressure, short tool outputs, the ledger, summaries in sections."""
