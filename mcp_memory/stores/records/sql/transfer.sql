-- A whole memory on its way out and in. `:namespace` is one namespace, or NULL for all.
-- beyond: a memory moves as a whole.

-- name: leaving_tasks
-- A parent comes before what lies below it.
SELECT * FROM tasks WHERE CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace ORDER BY depth, length(id), id;

-- name: leaving_sessions
SELECT * FROM sessions WHERE CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace ORDER BY namespace, id;

-- name: leaving_places
SELECT namespace, agent, session_id, task_id FROM places
WHERE CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace ORDER BY namespace, agent, session_id;

-- name: leaving_entities
-- The namespace is what follows the agent in a private scope.
SELECT scope, name, type FROM entities
WHERE CAST(:namespace AS TEXT) IS NULL OR scope = 'shared/' || :namespace
    OR scope LIKE 'private/%' AND substr(scope, 9 + instr(substr(scope, 9), '/')) = :namespace
ORDER BY scope, name_key, type;

-- name: leaving_records
SELECT {columns} FROM records AS r
WHERE CAST(:namespace AS TEXT) IS NULL OR r.namespace = :namespace AND r.visibility <> 'user' ORDER BY r.row;

-- name: leaves
-- Whether a record leaves with its namespace.
SELECT 1 FROM records WHERE id = ? AND namespace = ? AND visibility <> 'user';

-- name: leaving_confirmations
SELECT session_id FROM confirmations WHERE record_id = ? ORDER BY session_id;

-- name: leaving_shared_lines
SELECT s.agent || '/' || s.session_id FROM shared_lines AS s CROSS JOIN records AS r ON r.row = s.row
WHERE r.id = ? AND s.namespace = r.namespace ORDER BY 1;

-- name: leaving_taken_back
SELECT t.agent || '/' || t.session_id FROM taken_back AS t CROSS JOIN records AS r ON r.row = t.row
WHERE r.id = ? AND t.namespace = r.namespace ORDER BY 1;

-- name: enter_shared_line
INSERT INTO shared_lines (namespace, agent, session_id, row)
SELECT namespace, :agent, :session_id, row FROM records WHERE id = :id;

-- name: enter_taken_back
INSERT INTO taken_back (namespace, agent, session_id, row)
SELECT namespace, :agent, :session_id, row FROM records WHERE id = :id;

-- name: leaving_mentions
SELECT e.id, e.name, e.type, m.properties, m.found FROM mentions AS m JOIN entities AS e ON e.id = m.entity
WHERE m.record_id = ? ORDER BY e.name_key, e.type;

-- name: leaving_aliases
SELECT entity, name_key FROM aliases WHERE record_id = ? ORDER BY name_key;

-- name: leaving_relations
SELECT s.name AS source, s.type AS source_type, r.type, t.name AS target, t.type AS target_type, r.weight
FROM relations AS r JOIN entities AS s ON s.id = r.source JOIN entities AS t ON t.id = r.target
WHERE r.record_id = ? ORDER BY r.change, s.name_key, s.type, r.type, t.name_key, t.type;

-- name: leaving_grounds
-- Those that leave too; of an erased record nothing but its id is left. One that is again as it was seen has no change.
SELECT
    g.ground_id, g.found, g.vouched, g.seen, g.state, CASE WHEN g.seen = g.state THEN g.vouched ELSE g.change END AS change,
    CASE WHEN g.seen = g.state THEN 0.0 ELSE g.changed_at END AS changed_at
FROM grounds AS g
LEFT JOIN records AS r ON r.id = g.ground_id
WHERE g.record_id = :id AND g.dropped = 0
    AND (CAST(:namespace AS TEXT) IS NULL OR coalesce(r.namespace = :namespace AND r.visibility <> 'user', TRUE))
ORDER BY g.ground_id;

-- name: leaving_tombstones
SELECT id, scope FROM tombstones
WHERE CAST(:namespace AS TEXT) IS NULL OR scope = 'shared/' || :namespace
    OR scope LIKE 'private/%' AND substr(scope, 9 + instr(substr(scope, 9), '/')) = :namespace
ORDER BY change, id;

-- name: leaving_compactions
SELECT * FROM compactions WHERE CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace
ORDER BY namespace, agent, session_id, number;

-- name: leaving_replacements
SELECT * FROM replacements WHERE CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace ORDER BY row;

-- name: leaving_covers
SELECT record_id FROM covered WHERE replacement = ? ORDER BY length(record_id), record_id;

-- name: leaving_replaced
SELECT id FROM replacements WHERE replaced_by = ? ORDER BY row;

-- name: leaving_undone_summaries
SELECT u.record_id, u.source_id FROM undone_summaries AS u
    JOIN records AS r ON r.id = u.record_id JOIN records AS s ON s.id = u.source_id
WHERE CAST(:namespace AS TEXT) IS NULL
    OR r.namespace = :namespace AND r.visibility <> 'user' AND s.namespace = :namespace AND s.visibility <> 'user'
ORDER BY r.row, length(u.source_id), u.source_id;

-- name: anything_stored
SELECT EXISTS (SELECT 1 FROM records) OR EXISTS (SELECT 1 FROM tasks) OR EXISTS (SELECT 1 FROM tombstones)
    OR EXISTS (SELECT 1 FROM sessions) OR EXISTS (SELECT 1 FROM compactions);

-- name: enter_session
INSERT INTO sessions (namespace, id, agent, started_at, last_at) VALUES (:namespace, :id, :agent, :started_at, :last_at);

-- name: enter_place
INSERT INTO places (namespace, agent, session_id, task_id) VALUES (:namespace, :agent, :session_id, :task_id);

-- name: enter_entity
INSERT INTO entities (change, scope, name, name_key, type) VALUES (:change, :scope, :name, :name_key, :type);

-- name: enter_mention
-- Nothing where the entity is not known.
INSERT INTO mentions (entity, record_id, properties, found)
SELECT id, :record_id, :properties, :found FROM entities WHERE scope = :scope AND name_key = :name_key AND type = :type
RETURNING entity;

-- name: enter_relation
INSERT INTO relations (source, type, target, record_id, change, weight)
SELECT s.id, :type, t.id, :record_id, :change, :weight FROM entities AS s JOIN entities AS t ON t.scope = s.scope
WHERE s.scope = :scope AND s.name_key = :source_key AND s.type = :source_type
    AND t.name_key = :target_key AND t.type = :target_type;

-- name: enter_ground
INSERT INTO grounds (record_id, ground_id, found, vouched, seen, state, change, changed_at)
VALUES (:record_id, :ground_id, :found, :vouched, :seen, :state, :change, :changed_at);

-- name: enter_tombstone
INSERT INTO tombstones (id, change, scope) VALUES (:id, :change, :scope);

-- name: enter_compaction
INSERT INTO compactions (
    namespace, agent, session_id, number, at, asked_by, tokens_before, tokens_after, undone_at
) VALUES (:namespace, :agent, :session_id, :number, :at, :asked_by, :tokens_before, :tokens_after, :undone_at);

-- name: enter_successor
UPDATE replacements SET replaced_by = :replacement
WHERE id = :id AND namespace = :namespace AND agent = :agent AND session_id = :session_id;

-- name: enter_undone_summary
INSERT INTO undone_summaries (record_id, source_id) VALUES (:record_id, :source_id);

-- name: newest_row
SELECT coalesce(max(row), 0) FROM records;

-- name: enter_confirmation
INSERT INTO confirmations (record_id, session_id) VALUES (?, ?);
