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
