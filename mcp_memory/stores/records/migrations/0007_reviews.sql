-- Groups of records that somebody should look at together. One waits until it is settled, as long as each of its records
-- holds and says what it said. Settled ones stay: what is unrelated is not asked again, and an undo opens them again.
CREATE TABLE reviews (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    why TEXT NOT NULL,
    made_at REAL NOT NULL,
    -- What was put to the user, by which write and by whom: '' and 0 for nothing.
    question TEXT NOT NULL,
    asked_in INTEGER NOT NULL,
    asked_by TEXT NOT NULL,
    -- NULL while it waits. Then: by which write, when, by whom and why.
    way TEXT,
    settled_in INTEGER NOT NULL,
    settled_at REAL,
    agent TEXT NOT NULL,
    reason TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX reviews_waiting ON reviews (id) WHERE way IS NULL;
CREATE INDEX reviews_by_settlement ON reviews (settled_in) WHERE settled_in;
CREATE INDEX reviews_by_question ON reviews (asked_in) WHERE asked_in;

CREATE TABLE review_records (
    review TEXT NOT NULL REFERENCES reviews (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    record_id TEXT NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    -- That of its text when the group was made.
    content_hash TEXT NOT NULL,
    PRIMARY KEY (review, place)
) WITHOUT ROWID;
CREATE INDEX review_records_by_record ON review_records (record_id);

-- The number of the write that took this one back; its own for the write that did. 0 for what stands.
ALTER TABLE versions ADD COLUMN undone INTEGER NOT NULL DEFAULT 0;

-- Upkeep looks for duplicates among what changes from now on.
INSERT OR REPLACE INTO meta (name, value) SELECT 'reviewed', value FROM sequence WHERE value > 0;
