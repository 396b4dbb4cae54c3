-- What records stand on.

-- name: ground_state
-- beyond: no word, and the same for all that stand on it.
-- 'past' for what no longer holds, else what it says. What was said in a failed task is in doubt with it, what was
-- learnt meanwhile is not. What was done is done, also when its entry leaves the log.
SELECT
    CASE
        WHEN r.kind IN ('event', 'tool_call') THEN 'done'
        WHEN r.status IN ('superseded', 'inactive', 'retired') OR r.outcome = 'failure'
            OR r.kind IN ('message', 'tool_result') AND EXISTS (
            SELECT 1 FROM tasks AS t WHERE t.id = r.task_id AND t.status IN ('failed', 'abandoned')
        ) THEN 'past'
        ELSE r.normal_hash
    END AS state,
    r.updated_at AS at,
    r.status IN ('superseded', 'inactive', 'retired') AND r.kind NOT IN ('event', 'tool_call') AS is_over,
    r.scope
FROM records AS r WHERE r.id = :id
UNION ALL
SELECT CASE WHEN status IN ('failed', 'abandoned') THEN 'past' ELSE '' END, updated_at, FALSE, 'shared/' || namespace
FROM tasks WHERE id = :id;

-- name: scopes_standing_on
-- beyond: no word, and a change is told to all that stand on it.
SELECT DISTINCT r.scope FROM grounds AS g JOIN records AS r ON r.id = g.record_id WHERE g.ground_id = ?;

-- name: add_ground
INSERT INTO grounds (record_id, ground_id, found, vouched, vouched_before, seen, state, change, changed_at)
SELECT :record_id, :ground_id, :found, :write, :vouched_before, :seen, :state, :change, :at
WHERE :ground_id <> :record_id AND EXISTS (SELECT 1 FROM records WHERE id = :record_id)
ON CONFLICT (record_id, ground_id) DO UPDATE SET found = min(grounds.found, excluded.found), dropped = 0;

-- name: grounds_of
-- With those that were dropped, and the scope of each where it is known: an erased one has none.
SELECT g.ground_id, g.found, g.dropped, coalesce(r.scope, 'shared/' || t.namespace) AS scope
FROM grounds AS g LEFT JOIN records AS r ON r.id = g.ground_id LEFT JOIN tasks AS t ON t.id = g.ground_id
WHERE g.record_id = ? ORDER BY g.ground_id;

-- name: grounds_shown
-- Tasks of other namespaces stay out, with those records that do not pass. `total` counts all that may be shown.
SELECT g.ground_id AS id, g.found, g.seen <> g.state AS changed, count(*) OVER () AS total
FROM (SELECT * FROM grounds WHERE record_id = :id AND dropped = 0 ORDER BY ground_id LIMIT :looked_at) AS g
WHERE EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = g.ground_id AND t.namespace = :namespace)
    OR EXISTS (SELECT 1 FROM records AS r WHERE r.id = g.ground_id AND {where})
ORDER BY g.ground_id LIMIT :limit;

-- name: dependents_shown
SELECT g.record_id AS id, g.found, g.seen <> g.state AS changed, count(*) OVER () AS total
FROM (SELECT * FROM grounds WHERE ground_id = :id AND dropped = 0 ORDER BY record_id DESC LIMIT :looked_at) AS g
JOIN records AS r ON r.id = g.record_id WHERE {where_found}
ORDER BY g.record_id DESC LIMIT :limit;

-- name: drop_ground
UPDATE grounds SET dropped = :write WHERE record_id = :record_id AND ground_id = :ground_id;

-- name: vouch
UPDATE grounds SET vouched_before = vouched, seen_before = seen, seen = state, vouched = :write
WHERE record_id = :id AND vouched <> :write;

-- name: take_in_ground
-- After an undo, what the write dropped is a ground again,
UPDATE grounds SET dropped = 0 WHERE dropped = ?;

-- name: take_back_ground
-- and what it added is none.
DELETE FROM grounds WHERE vouched = ? AND vouched_before = 0;

-- name: take_back_vouching
UPDATE grounds SET vouched = vouched_before, seen = seen_before, vouched_before = NULL
WHERE vouched = ? AND vouched_before > 0;

-- name: newly_doubted
-- beyond: upkeep.
-- Which records are in doubt by a change among these.
SELECT g.ground_id, r.scope, g.record_id FROM grounds AS g JOIN records AS r ON r.id = g.record_id
WHERE g.seen <> g.state AND g.change > :since AND g.change <= :until AND g.dropped = 0
    AND r.status NOT IN ('superseded', 'inactive', 'retired')
ORDER BY g.ground_id, r.scope, g.record_id;

-- name: note_ground
-- After a change of a record or task, tell what stands on it.
UPDATE grounds SET state = :state, change = :change, changed_at = :at WHERE ground_id = :id AND state <> :state;

-- name: grounds_in_task
-- beyond: ids alone, also of what stands on others' records.
-- The task itself, and what was noted in it.
SELECT DISTINCT ground_id FROM grounds
WHERE ground_id IN (SELECT :id UNION ALL SELECT id FROM records WHERE task_id = :id);

-- name: note_erased_ground
UPDATE grounds SET state = 'past', change = :change, changed_at = :at WHERE ground_id = :id AND state <> 'past';

-- name: changed_grounds
-- Of each of the records the grounds that changed since anybody vouched for what stands on them, the latest first:
-- a path from record to ground counts where the change came after all that was vouched for on the way. One that is hidden
-- is erased, or another scope's.
WITH RECURSIVE path (start, ground, vouched, steps, is_changed, change, at) AS (
    SELECT g.record_id, g.ground_id, g.vouched, 1, g.seen <> g.state, g.change, g.changed_at
    FROM json_each(:ids) AS i JOIN grounds AS g ON g.record_id = i.value AND g.dropped = 0
    WHERE EXISTS (SELECT 1 FROM grounds WHERE seen <> state)
    UNION
    SELECT p.start, g.ground_id, max(p.vouched, g.vouched), p.steps + 1, g.seen <> g.state, g.change, g.changed_at
    FROM path AS p JOIN grounds AS g ON g.record_id = p.ground AND g.dropped = 0
    WHERE p.steps < :most_steps
    LIMIT :most_paths
)
SELECT p.start, p.ground, max(p.at) AS at, r.id IS NULL AS is_hidden
FROM path AS p LEFT JOIN records AS r ON r.id = p.ground AND r.scope IN (SELECT value FROM json_each(:scopes))
WHERE p.is_changed AND p.change >= p.vouched AND p.ground <> p.start
GROUP BY p.start, p.ground, r.id
ORDER BY p.start, max(p.change) DESC;
-- postgres
WITH RECURSIVE paths (start, ground, vouched, steps, is_changed, change, at) AS (
    SELECT g.record_id, g.ground_id, g.vouched, 1, g.seen <> g.state, g.change, g.changed_at
    FROM json_each(:ids) AS i JOIN grounds AS g ON g.record_id = i.value AND g.dropped = 0
    WHERE EXISTS (SELECT 1 FROM grounds WHERE seen <> state)
    UNION
    SELECT p.start, g.ground_id, max(p.vouched, g.vouched), p.steps + 1, g.seen <> g.state, g.change, g.changed_at
    FROM paths AS p JOIN grounds AS g ON g.record_id = p.ground AND g.dropped = 0
    WHERE p.steps < :most_steps
), path AS (SELECT * FROM paths LIMIT :most_paths)
SELECT p.start, p.ground, max(p.at) AS at, r.id IS NULL AS is_hidden
FROM path AS p LEFT JOIN records AS r ON r.id = p.ground AND r.scope IN (SELECT value FROM json_each(:scopes))
WHERE p.is_changed AND p.change >= p.vouched AND p.ground <> p.start
GROUP BY p.start, p.ground, r.id
ORDER BY p.start, max(p.change) DESC;
