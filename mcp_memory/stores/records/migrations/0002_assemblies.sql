-- Telemetry: one row for every context handed out, also one handed out again, whose account takes the earlier one's place.
CREATE TABLE assemblies (
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    at REAL NOT NULL,
    strategy TEXT NOT NULL,
    -- What `auto` picked.
    picked TEXT,
    -- How it followed from the one the client showed: unchanged, added or rebuilt.
    follow_up TEXT,
    cached INTEGER,
    utilisation REAL,
    relevance REAL,
    milliseconds REAL
);
CREATE INDEX assemblies_by_age ON assemblies (at);

-- What was extracted from an episode, to be found by it.
CREATE INDEX records_by_source ON records (json_extract(details, '$.source'))
    WHERE json_extract(details, '$.source') IS NOT NULL;

-- Until now decisions and censors began as `active`; both have stages of their own.
UPDATE records
SET status = CASE WHEN outcome = 'pending' THEN 'pending' WHEN outcome IS NULL THEN 'recorded' ELSE 'reviewed' END
WHERE kind = 'decision' AND status = 'active';
UPDATE records SET status = 'created'
WHERE kind = 'censor' AND status = 'active' AND activated = 0 AND false_positives = 0;
