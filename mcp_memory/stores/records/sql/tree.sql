-- Tasks, places, sessions, entities, relations, meta.

-- name: add_task
INSERT INTO tasks (
    id, change, namespace, parent_id, goal, status, depth, agent, session_id, result, success_criteria, artifacts,
    inherit, branch, created_at, updated_at
) VALUES (
    :id, :change, :namespace, :parent_id, :goal, :status, :depth, :agent, :session_id, :result, :success_criteria,
    :artifacts, :inherit, :branch, :created_at, :updated_at
);

-- name: update_task
UPDATE tasks SET change = :change, goal = :goal, status = :status, result = :result, artifacts = :artifacts, agent = :agent,
    session_id = :session_id, success_criteria = :success_criteria, inherit = :inherit, branch = :branch,
    updated_at = :updated_at
WHERE id = :id;

-- name: list_tasks
SELECT * FROM tasks WHERE namespace = ? ORDER BY id;

-- name: tasks_above
-- Those named, and all above them.
WITH RECURSIVE near (id) AS (
    SELECT id FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))
    UNION SELECT t.parent_id FROM near CROSS JOIN tasks AS t ON t.id = near.id WHERE t.parent_id IS NOT NULL
)
SELECT t.* FROM near CROSS JOIN tasks AS t ON t.id = near.id WHERE t.namespace = :namespace ORDER BY t.id;

-- name: tasks_open
-- Those named, those that have not ended, and all above them.
WITH RECURSIVE near (id) AS (
    SELECT id FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))
    UNION SELECT id FROM tasks WHERE namespace = :namespace AND status NOT IN ('complete', 'failed', 'abandoned')
    UNION SELECT t.parent_id FROM near CROSS JOIN tasks AS t ON t.id = near.id WHERE t.parent_id IS NOT NULL
)
SELECT t.* FROM near CROSS JOIN tasks AS t ON t.id = near.id WHERE t.namespace = :namespace ORDER BY t.id;

-- name: tasks_trees
-- Those named, all above them, and all below the roots that this leads to.
WITH RECURSIVE
    above (id, parent_id) AS (
        SELECT id, parent_id FROM tasks WHERE id IN (SELECT value FROM json_each(:ids)) AND namespace = :namespace
        UNION SELECT t.id, t.parent_id FROM above CROSS JOIN tasks AS t ON t.id = above.parent_id
    ),
    tree (id) AS (
        SELECT id FROM above WHERE parent_id IS NULL
        UNION SELECT t.id FROM tree CROSS JOIN tasks AS t ON t.parent_id = tree.id
    )
SELECT t.* FROM tree CROSS JOIN tasks AS t ON t.id = tree.id ORDER BY t.id;

-- name: tree_at
-- The same of the task at a place.
WITH RECURSIVE
    above (id, parent_id) AS (
        SELECT id, parent_id FROM tasks WHERE namespace = :namespace AND id = (
            SELECT task_id FROM places WHERE namespace = :namespace AND agent = :agent AND session_id = :place
        )
        UNION SELECT t.id, t.parent_id FROM above CROSS JOIN tasks AS t ON t.id = above.parent_id
    ),
    tree (id) AS (
        SELECT id FROM above WHERE parent_id IS NULL
        UNION SELECT t.id FROM tree CROSS JOIN tasks AS t ON t.parent_id = tree.id
    )
SELECT t.* FROM tree CROSS JOIN tasks AS t ON t.id = tree.id ORDER BY t.id;

-- name: tasks_without_result
-- Finished ones with a result that no record tells. One that was retired tells it where it is of this end of the task:
-- when a task is reopened, the record of its earlier end is retired.
SELECT * FROM tasks
WHERE namespace = :namespace AND status IN ('complete', 'failed', 'abandoned') AND coalesce(result, '') <> ''
    AND id NOT IN (
        SELECT t.id FROM records AS r JOIN tasks AS t ON t.id = json_extract(r.details, '$.task')
        WHERE r.scope = :scope AND r.kind = 'result' AND (r.status <> 'retired' OR r.occurred_at >= t.updated_at)
    )
ORDER BY id;
-- postgres
-- Within walls no index takes an expression, which stands apart therefore.
WITH told AS MATERIALIZED (
    SELECT json_extract(r.details, '$.task') AS task, r.status, r.occurred_at FROM records AS r
    WHERE r.scope = :scope AND r.kind = 'result'
)
SELECT * FROM tasks
WHERE namespace = :namespace AND status IN ('complete', 'failed', 'abandoned') AND coalesce(result, '') <> ''
    AND id NOT IN (
        SELECT t.id FROM told JOIN tasks AS t ON t.id = told.task
        WHERE told.status <> 'retired' OR told.occurred_at >= t.updated_at
    )
ORDER BY id;

-- name: open_branches
-- beyond: ids alone, also of those where a person's own records were made.
-- Those that are open, and those that lie in one: closing an inner branch shows nothing outside the outer one.
WITH RECURSIVE within (id, branch) AS (
    SELECT id, branch FROM tasks WHERE branch AND status NOT IN ('complete', 'failed', 'abandoned')
    UNION SELECT t.id, t.branch FROM within CROSS JOIN tasks AS t ON t.parent_id = within.id
)
SELECT id FROM within WHERE branch;

-- name: list_places
SELECT session_id, task_id FROM places WHERE namespace = ? AND agent = ?;

-- name: put_place
INSERT INTO places (namespace, agent, session_id, task_id) VALUES (?, ?, ?, ?)
ON CONFLICT (namespace, agent, session_id) DO UPDATE SET task_id = excluded.task_id;

-- name: delete_place
DELETE FROM places WHERE namespace = ? AND agent = ? AND session_id = ?;

-- name: add_task_change
INSERT INTO task_changes (change, namespace, task_id, agent, by_agent, by_place, was, became, at)
VALUES (:change, :namespace, :task_id, :agent, :by_agent, :by_place, :was, :became, :at);

-- name: concerned
-- The agent "" is nobody, who is told nothing: it stands for the history of a task that another agent changed once.
SELECT agent FROM places WHERE task_id = ?4 AND namespace = ?1 AND NOT (agent = ?2 AND session_id = ?3)
UNION SELECT agent FROM task_changes WHERE task_id = ?4 AND agent <> ?2
UNION SELECT '' FROM task_changes WHERE task_id = ?4 AND by_agent <> ?2;

-- name: task_changes
SELECT c.*, t.goal, CASE WHEN t.status = c.became THEN t.result END AS result FROM task_changes AS c JOIN tasks AS t ON t.id = c.task_id
WHERE c.namespace = ?1 AND c.task_id IN (SELECT value FROM json_each(?2))
ORDER BY c.change DESC LIMIT ?3;

-- name: put_move
INSERT INTO moves (namespace, agent, session_id, change, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, agent, session_id) DO UPDATE SET change = excluded.change, at = excluded.at;

-- name: last_moves
SELECT session_id, at FROM moves WHERE namespace = ? AND agent = ?;

-- name: task_news
SELECT c.*, t.goal, CASE WHEN t.status = c.became THEN t.result END AS result FROM task_changes AS c JOIN tasks AS t ON t.id = c.task_id
WHERE c.namespace = ?1 AND c.agent = ?2 AND NOT (c.by_agent = ?2 AND c.by_place = ?3)
    AND c.change > coalesce(
        (SELECT change FROM moves WHERE namespace = ?1 AND agent = ?2 AND session_id = ?3),
        (SELECT max(change) FROM moves WHERE namespace = ?1 AND agent = ?2),
        0
    )
ORDER BY c.change;

-- name: meet_session
INSERT INTO sessions (namespace, id, agent, started_at, last_at) VALUES (:namespace, :id, :agent, :at, :at)
ON CONFLICT (namespace, id) DO UPDATE SET last_at = max(sessions.last_at, excluded.last_at);

-- name: put_entity
INSERT INTO entities (change, scope, name, name_key, type) VALUES (:change, :scope, :name, :name_key, :type)
ON CONFLICT (scope, name_key, type) DO UPDATE SET change = excluded.change
RETURNING id;

-- name: put_end
-- A relation names its ends without a type: any entity of that name will do, the first one where there are more.
INSERT INTO entities (change, scope, name, name_key, type) SELECT :change, :scope, :name, :name_key, :type
WHERE NOT EXISTS (SELECT 1 FROM entities AS e WHERE e.scope = :scope AND e.name_key = :name_key);

-- name: add_mention
-- Properties that a record says later are added to those it has said.
INSERT INTO mentions (entity, record_id, properties, found) SELECT e.id, :record_id, :properties, :found FROM entities AS e
WHERE e.scope = :scope AND e.name_key = :name_key AND e.type = :type
ON CONFLICT (entity, record_id) DO UPDATE
SET properties = json_patch(mentions.properties, excluded.properties), found = min(mentions.found, excluded.found);

-- name: mention_end
INSERT INTO mentions (entity, record_id, properties, found) SELECT e.id, :record_id, '{}', 0 FROM entities AS e
WHERE e.scope = :scope AND e.name_key = :name_key ORDER BY e.id LIMIT 1
ON CONFLICT (entity, record_id) DO UPDATE SET found = 0;

-- name: mention_alias
INSERT INTO aliases (entity, record_id, name_key) SELECT e.id, :record_id, :alias FROM entities AS e
WHERE e.scope = :scope AND e.name_key = :name_key AND e.type = :type ON CONFLICT DO NOTHING;

-- name: add_alias
INSERT INTO aliases (entity, record_id, name_key) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: drop_found
-- What was found in a record's former text.
DELETE FROM mentions WHERE record_id = ? AND found <> 0;

-- name: mentioned
SELECT DISTINCT entity FROM mentions WHERE record_id IN (SELECT value FROM json_each(?));

-- name: mentions_elsewhere
-- Entities that a record, moved to another scope, still mentions in its old one.
SELECT e.id, e.name, e.name_key, e.type FROM mentions AS m JOIN entities AS e ON e.id = m.entity
WHERE m.record_id = :record_id AND e.scope <> :scope;

-- name: move_mention
-- Its aliases follow by their foreign key.
UPDATE mentions SET entity = :new WHERE entity = :old AND record_id = :record_id;

-- name: move_source
UPDATE relations SET source = :new WHERE source = :old AND record_id = :record_id;

-- name: move_target
UPDATE relations SET target = :new WHERE target = :old AND record_id = :record_id;

-- name: put_relation
-- Its ends have a type, or are the first entities of their names.
INSERT INTO relations (source, type, target, record_id, change, weight) SELECT (
    SELECT e.id FROM entities AS e
    WHERE e.scope = :scope AND e.name_key = :source AND e.type = coalesce(:source_type, e.type) ORDER BY e.id LIMIT 1
), :type, (
    SELECT e.id FROM entities AS e
    WHERE e.scope = :scope AND e.name_key = :target AND e.type = coalesce(:target_type, e.type) ORDER BY e.id LIMIT 1
), :record_id, :change, :weight WHERE TRUE
ON CONFLICT (source, type, target, record_id) DO UPDATE SET change = excluded.change, weight = excluded.weight;

-- name: drop_unmentioned_entities
-- Of those that lost a mention; looking at all of them would take as long as the store is large.
DELETE FROM entities WHERE id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))
AND NOT EXISTS (SELECT 1 FROM mentions AS m WHERE m.entity = entities.id);

-- name: count_orphans
-- beyond: upkeep.
SELECT count(*) FROM entities WHERE NOT EXISTS (SELECT 1 FROM mentions AS m WHERE m.entity = entities.id);

-- name: drop_orphans
DELETE FROM entities WHERE NOT EXISTS (SELECT 1 FROM mentions AS m WHERE m.entity = entities.id);

-- name: entities_of
SELECT e.name, e.type, m.properties, m.found FROM mentions AS m JOIN entities AS e ON e.id = m.entity
WHERE m.record_id = ? ORDER BY m.found, e.id;

-- name: selected_entities
SELECT e.scope, e.name, e.type FROM mentions AS m JOIN entities AS e ON e.id = m.entity
WHERE m.record_id IN (SELECT value FROM json_each(:ids))
GROUP BY e.id ORDER BY e.scope, e.name_key, e.type;

-- name: relations_of
SELECT s.name AS source, r.type, t.name AS target, r.weight FROM relations AS r
JOIN entities AS s ON s.id = r.source JOIN entities AS t ON t.id = r.target
WHERE r.record_id = ? ORDER BY r.change;

-- name: mentions_of
-- Given ones, and those found by some records: an entity is found in a hundred texts, and little is said of it there.
SELECT e.name_key, e.name, e.type, m.properties, m.found, r.id
FROM entities AS e CROSS JOIN mentions AS m ON m.entity = e.id CROSS JOIN records AS r ON r.id = m.record_id
WHERE e.scope IN (SELECT value FROM json_each(:scopes)) AND e.name_key IN (SELECT value FROM json_each(:keys))
    AND (m.found = 0 OR m.record_id IN (SELECT value FROM json_each(:found_by)))
    AND r.superseded_by IS NULL AND {where_found}
ORDER BY r.occurred_at, r.row, e.name_key, e.type;

-- name: statements_about
-- CROSS JOIN keeps the order: from the few entities to what they are an end of.
WITH ends (id) AS (
    SELECT id FROM entities
    WHERE scope IN (SELECT value FROM json_each(:scopes)) AND name_key IN (SELECT value FROM json_each(:keys))
), near (source, type, target, record_id, weight) AS (
    SELECT source, type, target, record_id, weight FROM relations WHERE source IN (SELECT id FROM ends)
    UNION
    SELECT source, type, target, record_id, weight FROM relations WHERE target IN (SELECT id FROM ends)
    LIMIT :limit
)
SELECT s.name, n.type, t.name, n.weight, n.record_id
FROM near AS n CROSS JOIN records AS r ON r.id = n.record_id
    CROSS JOIN entities AS s ON s.id = n.source CROSS JOIN entities AS t ON t.id = n.target
WHERE r.superseded_by IS NULL AND {where_found}
ORDER BY n.weight DESC, r.row DESC, s.name_key, n.type, t.name_key;

-- name: task_links
-- beyond: an index holds all of it.
-- By the index, though SQLite would rather read all in order: asked before each search, it mostly finds none.
SELECT id, namespace, parent_id FROM tasks INDEXED BY tasks_by_change WHERE change > :since ORDER BY id;

-- name: task_links_of
-- beyond: an index holds all of it, for every request.
SELECT id, namespace, parent_id FROM tasks
WHERE namespace = substr(CAST(:partition AS TEXT), 11) AND substr(CAST(:partition AS TEXT), 1, 10) = 'namespace/'
    AND change > :since
ORDER BY id;

-- name: get_meta
SELECT value FROM meta WHERE name = ?;

-- name: put_meta
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: add_meta
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: drop_meta
-- Only where it still has the value that was dealt with.
DELETE FROM meta WHERE name = ? AND value = ?;

-- name: count_kinds
SELECT r.kind, count(*) FROM records AS r WHERE {where} GROUP BY r.kind ORDER BY r.kind;

-- name: count_statuses
SELECT r.status, count(*) FROM records AS r WHERE {where} GROUP BY r.status ORDER BY r.status;

-- name: count_promoted
-- What began as noted and was confirmed since.
SELECT count(*) FROM records AS r WHERE {where} AND json_type(r.details, '$.noted_first') = 'true';

-- name: count_sessions
SELECT count(DISTINCT r.session_id) FROM records AS r WHERE {where};

-- name: count_tasks
SELECT status, count(*) FROM tasks WHERE namespace = ? GROUP BY status ORDER BY status;
