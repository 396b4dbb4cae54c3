-- What a record stands on: other records, and tasks. The dependent is to be checked where `seen` is not `state`.
CREATE TABLE grounds (
    record_id TEXT NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    -- A record or a task, also an erased one.
    ground_id TEXT NOT NULL,
    -- True where nobody gave it: a rule found it in the record's words.
    found INTEGER NOT NULL,
    -- The write by which the record was last stored, confirmed or revised.
    vouched INTEGER NOT NULL,
    -- What the ground was then, and is now, as `ground_state` tells it.
    seen TEXT NOT NULL,
    state TEXT NOT NULL,
    -- For an undo: what it was vouched for before; 0 where it became a ground only then, NULL where nobody can undo that.
    vouched_before INTEGER,
    seen_before TEXT,
    -- The write by whose words it is no ground any more.
    dropped INTEGER NOT NULL DEFAULT 0,
    -- The change that made it so, and when.
    change INTEGER NOT NULL,
    changed_at REAL NOT NULL,
    PRIMARY KEY (record_id, ground_id)
) WITHOUT ROWID;
CREATE INDEX grounds_by_ground ON grounds (ground_id);
CREATE INDEX grounds_changed ON grounds (ground_id) WHERE seen <> state;
