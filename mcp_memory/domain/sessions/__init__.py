"""What compaction computes from a session's log: pressure, short tool outputs, the ledger, summaries in sections."""
