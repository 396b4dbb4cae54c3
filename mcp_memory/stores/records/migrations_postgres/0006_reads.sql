-- Telemetry: the log of reads. A row for each request that gave records, with their ids as JSON; no text, no query.
CREATE TABLE reads (
    request TEXT COLLATE "C" PRIMARY KEY,
    at DOUBLE PRECISION NOT NULL,
    -- How it came in, e.g. "tool recall".
    way TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    token TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    ids TEXT COLLATE "C" NOT NULL
);
CREATE INDEX reads_by_namespace ON reads (namespace, at, request);
CREATE INDEX reads_by_age ON reads (at);

-- The same by record; "*" stands for all.
CREATE TABLE read_records (
    record_id TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    request TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (record_id, at, request)
);
CREATE INDEX read_records_by_age ON read_records (at);
UPDATE schema SET number = 6;
