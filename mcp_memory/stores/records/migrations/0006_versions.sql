-- What each change of a record's truth replaced, and who made it. The first version of a record has none.
CREATE TABLE versions (
    record_id TEXT NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    change INTEGER NOT NULL,
    -- The first change of the atomic write that this one was part of.
    write INTEGER NOT NULL,
    at REAL NOT NULL,
    -- 'upkeep' for what nobody asked for, '' where it is not known.
    agent TEXT NOT NULL,
    client TEXT NOT NULL,
    -- '' for both.
    session_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    -- A JSON object: the values, until then, of the columns that changed, and the normal hash of a text.
    before TEXT NOT NULL,
    PRIMARY KEY (record_id, change)
) WITHOUT ROWID;
CREATE INDEX versions_by_write ON versions (write);
-- An old value stored again is recognised by it.
CREATE INDEX versions_by_normal ON versions (json_extract(before, '$.normal_hash'))
    WHERE json_extract(before, '$.normal_hash') IS NOT NULL;

INSERT INTO versions (record_id, change, write, at, agent, client, session_id, reason, before)
SELECT record_id, change, change, replaced_at, '', '', '', '', CASE text
    WHEN '' THEN json_object('normal_hash', normal_hash)
    ELSE json_object('text', text, 'normal_hash', normal_hash)
END FROM old_texts;
DROP TABLE old_texts;

-- The client that stored the record: '' where it is not known.
ALTER TABLE records ADD COLUMN client TEXT NOT NULL DEFAULT '';
