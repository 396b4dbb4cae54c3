-- Queries over the folders in which projects are, and over the names of namespaces.
-- beyond: a project moves with all of its agents' scopes.

-- name: defer_foreign_keys
-- Until the end of the transaction.
PRAGMA defer_foreign_keys = ON;
-- postgres
SET CONSTRAINTS ALL DEFERRED;

-- name: list_project_folders
SELECT * FROM project_folders ORDER BY noted_at DESC, namespace, folder;

-- name: note_project_folder
INSERT INTO project_folders (namespace, folder, repository, mark, noted_at)
VALUES (:namespace, :folder, :repository, :mark, :noted_at)
ON CONFLICT (namespace, folder, repository) DO UPDATE SET mark = excluded.mark, noted_at = excluded.noted_at;

-- name: project_folder_mark
SELECT mark FROM project_folders WHERE namespace = :namespace AND folder = :folder AND repository = :repository;

-- name: is_used_namespace
-- Whoever stores something, or plans, has a session or a task there; imported records have their sessions as well.
SELECT EXISTS (SELECT 1 FROM sessions WHERE namespace = :namespace)
    OR EXISTS (SELECT 1 FROM tasks WHERE namespace = :namespace);

-- name: former_namespace
SELECT * FROM former_namespaces WHERE name = ?;

-- name: holds_anything
SELECT EXISTS (SELECT 1 FROM sessions WHERE namespace = :namespace)
    OR EXISTS (SELECT 1 FROM tasks WHERE namespace = :namespace)
    OR EXISTS (SELECT 1 FROM records WHERE namespace = :namespace);

-- name: move_name
-- Earlier names of the namespace lead to the present one, too.
UPDATE former_namespaces SET namespace = :new WHERE namespace = :old;

-- name: drop_name
-- A name in use again is nobody's former one.
DELETE FROM former_namespaces WHERE name = :new;

-- name: put_former_name
INSERT INTO former_namespaces (name, namespace, at, mark) VALUES (:old, :new, :at, :mark)
ON CONFLICT (name) DO UPDATE SET namespace = excluded.namespace, at = excluded.at, mark = excluded.mark;

-- name: records_of_namespace
SELECT id, status NOT IN ('inactive', 'retired', 'noted') AS is_live FROM records WHERE namespace = ? ORDER BY row;

-- name: count_live
-- Of whichever agent: what was only noted by a session is no memory of the project yet.
SELECT namespace, count(*) AS live FROM records WHERE status NOT IN ('inactive', 'retired', 'noted')
GROUP BY namespace ORDER BY namespace;

-- name: last_changes
-- Of any record: taking one out is a change, too.
SELECT namespace, max(updated_at) AS at FROM records GROUP BY namespace ORDER BY namespace;

-- name: count_private_of_others
-- Live ones, as above.
SELECT count(*) FROM records
WHERE namespace = :namespace AND visibility = 'private' AND scope <> :own
    AND status NOT IN ('inactive', 'retired', 'noted');

-- name: private_scopes
SELECT DISTINCT scope FROM (
    SELECT scope FROM records WHERE namespace = :old
    UNION ALL SELECT scope FROM tombstones
    UNION ALL SELECT scope FROM erased_texts
    UNION ALL SELECT json_extract(before, '$.scope') FROM versions
) AS named
WHERE scope LIKE 'private/%';

-- name: move_records
UPDATE records SET namespace = :new WHERE namespace = :old;

-- name: move_scope
UPDATE records SET scope = :new WHERE scope = :old;

-- name: move_scope_of_versions
-- What a change of visibility replaced: its undo puts the record back where that now is.
UPDATE versions SET before = json_set(before, '$.scope', :new) WHERE json_extract(before, '$.scope') = :old;

-- name: move_namespace_of_versions
UPDATE versions SET before = json_set(before, '$.namespace', :new) WHERE json_extract(before, '$.namespace') = :old;

-- name: move_tombstones
UPDATE tombstones SET scope = :new WHERE scope = :old;

-- name: move_erased_texts
UPDATE erased_texts SET scope = :new
WHERE scope = :old
    AND NOT EXISTS (
        SELECT 1 FROM erased_texts AS n WHERE n.scope = :new AND n.width = erased_texts.width AND n.digest = erased_texts.digest
    );

-- name: drop_erased_texts
DELETE FROM erased_texts WHERE scope = :old;

-- name: same_entities
SELECT mine.id AS old, other.id AS new
FROM entities AS mine
JOIN entities AS other ON other.scope = :new AND other.name_key = mine.name_key AND other.type = mine.type
WHERE mine.scope = :old;

-- name: merge_mentions
UPDATE mentions SET entity = :new WHERE entity = :old;

-- name: merge_sources
UPDATE relations SET source = :new WHERE source = :old;

-- name: merge_targets
UPDATE relations SET target = :new WHERE target = :old;

-- name: drop_entity
DELETE FROM entities WHERE id = :old;

-- name: move_entities
UPDATE entities SET scope = :new, change = :change WHERE scope = :old;

-- name: touch_relations
UPDATE relations SET change = :change WHERE record_id IN (SELECT value FROM json_each(:ids));

-- name: move_tasks
UPDATE tasks SET namespace = :new, change = :change WHERE namespace = :old;

-- name: move_task_changes
UPDATE task_changes SET namespace = :new WHERE namespace = :old;

-- name: move_shared_lines
UPDATE shared_lines SET namespace = :new
WHERE namespace = :old
    AND NOT EXISTS (
        SELECT 1 FROM shared_lines AS n WHERE n.namespace = :new AND n.agent = shared_lines.agent AND n.session_id = shared_lines.session_id AND n.row = shared_lines.row
    );

-- name: drop_shared_lines
DELETE FROM shared_lines WHERE namespace = :old;

-- name: move_taken_back
UPDATE taken_back SET namespace = :new
WHERE namespace = :old
    AND NOT EXISTS (
        SELECT 1 FROM taken_back AS n WHERE n.namespace = :new AND n.agent = taken_back.agent AND n.session_id = taken_back.session_id AND n.row = taken_back.row
    );

-- name: drop_taken_back
DELETE FROM taken_back WHERE namespace = :old;

-- name: move_places
-- An agent has one place in each of its windows: that in the namespace that takes the other in.
UPDATE places SET namespace = :new
WHERE namespace = :old
    AND NOT EXISTS (
        SELECT 1 FROM places AS n WHERE n.namespace = :new AND n.agent = places.agent AND n.session_id = places.session_id
    );

-- name: drop_places
DELETE FROM places WHERE namespace = :old;

-- name: move_moves
UPDATE moves SET namespace = :new
WHERE namespace = :old
    AND NOT EXISTS (
        SELECT 1 FROM moves AS n WHERE n.namespace = :new AND n.agent = moves.agent AND n.session_id = moves.session_id
    );

-- name: drop_moves
DELETE FROM moves WHERE namespace = :old;

-- name: move_sessions
INSERT INTO sessions (namespace, id, agent, started_at, last_at)
SELECT :new, id, agent, started_at, last_at FROM sessions WHERE namespace = :old
ON CONFLICT (namespace, id) DO UPDATE SET
    started_at = min(sessions.started_at, excluded.started_at), last_at = max(sessions.last_at, excluded.last_at);

-- name: drop_sessions
DELETE FROM sessions WHERE namespace = :old;

-- name: move_contexts
UPDATE contexts SET namespace = :new WHERE namespace = :old;

-- name: drop_met_contexts
DELETE FROM contexts
WHERE namespace = :new
    AND EXISTS (SELECT 1 FROM contexts AS o WHERE o.namespace = :old AND o.agent = contexts.agent AND o.id = contexts.id);

-- name: move_assemblies
UPDATE assemblies SET namespace = :new WHERE namespace = :old;

-- name: move_reads
UPDATE reads SET namespace = :new WHERE namespace = :old;

-- name: drop_logs_left
DELETE FROM logs_left WHERE namespace = :old;

-- name: move_exclusions
UPDATE exclusions SET namespace = :new WHERE namespace = :old;

-- name: compacted_logs
-- The numbers of the compactions of a log go on behind those that the same session has in the other namespace.
SELECT
    old.agent, old.session_id,
    (
        SELECT coalesce(max(number), 0) FROM compactions AS new
        WHERE new.namespace = :new AND new.agent = old.agent AND new.session_id = old.session_id
    ) AS shift
FROM (SELECT DISTINCT agent, session_id FROM compactions WHERE namespace = :old) AS old;

-- name: move_compactions
UPDATE compactions SET namespace = :new, number = number + :shift
WHERE namespace = :old AND agent = :agent AND session_id = :session_id;

-- name: move_replacements
-- Ids are digests of what was replaced: two that are equal say the same.
UPDATE replacements SET namespace = :new, compaction = compaction + :shift, change = :change
WHERE namespace = :old AND agent = :agent AND session_id = :session_id
    AND NOT EXISTS (
        SELECT 1 FROM replacements AS n WHERE n.namespace = :new AND n.id = replacements.id AND n.agent = replacements.agent AND n.session_id = replacements.session_id
    );

-- name: drop_left_replacements
DELETE FROM replacements WHERE namespace = :old;

-- name: move_compacting_runs
UPDATE pass_runs SET compaction = compaction + :shift
WHERE namespace = :old AND agent = :agent AND session_id = :session_id;

-- name: move_pass_runs
UPDATE pass_runs SET namespace = :new WHERE namespace = :old;

-- name: tokens_of_namespace
SELECT id, name, namespaces FROM tokens WHERE EXISTS (SELECT 1 FROM json_each(namespaces) WHERE value = :old)
ORDER BY name;

-- name: readers_of_one
-- Valid tokens that hold one of the two names, where the other one's project holds anything: they will read that, too.
SELECT name FROM tokens
WHERE revoked_at IS NULL AND coalesce(expires_at > :at, TRUE)
    AND NOT EXISTS (SELECT 1 FROM json_each(namespaces) WHERE value = :old AND :is_two = 0)
    AND (SELECT count(DISTINCT value) FROM json_each(namespaces) WHERE value IN (:old, :new)) = 1
ORDER BY name;

-- name: rename_in_token
UPDATE tokens SET namespaces = :namespaces WHERE id = :id;

-- name: move_project_folders
UPDATE project_folders SET namespace = :new WHERE namespace = :old;

-- name: drop_met_project_folders
DELETE FROM project_folders
WHERE namespace = :new AND EXISTS (
    SELECT 1 FROM project_folders AS o
    WHERE o.namespace = :old AND o.folder = project_folders.folder AND o.repository = project_folders.repository
);
