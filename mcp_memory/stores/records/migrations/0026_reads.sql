-- Telemetry: the log of reads. A row for each request that gave records, with their ids as JSON; no text, no query.
CREATE TABLE reads (
    request TEXT PRIMARY KEY,
    at REAL NOT NULL,
    -- How it came in, e.g. "tool recall".
    way TEXT NOT NULL,
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    person TEXT NOT NULL,
    token TEXT NOT NULL,
    session_id TEXT NOT NULL,
    ids TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX reads_by_namespace ON reads (namespace, at, request);
CREATE INDEX reads_by_age ON reads (at);

-- The same by record; "*" stands for all.
CREATE TABLE read_records (
    record_id TEXT NOT NULL,
    at REAL NOT NULL,
    request TEXT NOT NULL,
    PRIMARY KEY (record_id, at, request)
) WITHOUT ROWID;
CREATE INDEX read_records_by_age ON read_records (at);
