-- A call reads what it touches: open tasks and those beside them, of however many ended ones, and the records that wait
-- for vectors, of however many that have them.

CREATE INDEX tasks_by_parent ON tasks (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_by_change ON tasks (change);
CREATE INDEX tasks_open ON tasks (namespace) WHERE status NOT IN ('complete', 'failed', 'abandoned');
CREATE INDEX branches_open ON tasks (id) WHERE branch AND status NOT IN ('complete', 'failed', 'abandoned');
DROP INDEX tasks_by_branch;

CREATE TABLE unembedded (row INTEGER PRIMARY KEY REFERENCES records (row) ON DELETE CASCADE);
INSERT INTO unembedded
SELECT r.row FROM records AS r
WHERE EXISTS (SELECT 1 FROM meta WHERE name = 'unembedded') AND NOT EXISTS (
    SELECT 1 FROM vectors AS v
    WHERE v.row = r.row AND v.embedder = (SELECT value FROM meta WHERE name = 'embedder')
);
DELETE FROM meta WHERE name = 'unembedded';
