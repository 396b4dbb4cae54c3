-- Records that contexts of a task, or of an agent, give no more.

-- name: exclude
-- Nothing where that is so already.
INSERT INTO exclusions (record_id, namespace, task_id, agent, write, at, by_agent)
VALUES (:record_id, :namespace, :task_id, :agent, :write, :at, :by_agent)
ON CONFLICT (namespace, task_id, agent, record_id) DO UPDATE SET
    write = excluded.write, at = excluded.at, by_agent = excluded.by_agent, dropped = 0
WHERE exclusions.dropped <> 0;

-- name: include
UPDATE exclusions SET dropped = :write
WHERE record_id = :record_id AND namespace = :namespace AND task_id = :task_id AND agent = :agent AND dropped = 0;

-- name: excluded
SELECT record_id FROM exclusions
WHERE namespace = :namespace AND task_id IN (SELECT value FROM json_each(:task_ids)) AND agent = '' AND dropped = 0
UNION
SELECT record_id FROM exclusions WHERE namespace = :namespace AND task_id = '' AND agent = :agent AND dropped = 0;

-- name: exclusions_of
SELECT * FROM exclusions WHERE record_id = :id AND namespace = :namespace AND dropped = 0 ORDER BY write;

-- name: exclusions_of_write
SELECT record_id FROM exclusions WHERE write = :write AND dropped = 0
UNION
SELECT record_id FROM exclusions WHERE dropped = :write ORDER BY record_id;

-- name: take_back_exclusion
DELETE FROM exclusions WHERE write = ? AND dropped = 0;

-- name: take_back_inclusion
UPDATE exclusions SET dropped = 0 WHERE dropped = ?;

-- name: leaving_exclusions
-- beyond: a memory moves as a whole.
SELECT namespace, task_id, agent, write, at, by_agent FROM exclusions
WHERE record_id = :id AND dropped = 0 AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
ORDER BY namespace, task_id, agent;

-- name: enter_exclusion
INSERT INTO exclusions (record_id, namespace, task_id, agent, write, at, by_agent)
VALUES (:record_id, :namespace, :task_id, :agent, :write, :at, :by_agent);
