-- The agent that wrote the text as it is now: '' for the one that stored the record.
ALTER TABLE records ADD COLUMN rewritten_by TEXT NOT NULL DEFAULT '';
-- The number of the last change that left a version: 0 for none.
ALTER TABLE records ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
UPDATE records SET changed = (SELECT max(v.change) FROM versions AS v WHERE v.record_id = records.id)
WHERE id IN (SELECT record_id FROM versions);
