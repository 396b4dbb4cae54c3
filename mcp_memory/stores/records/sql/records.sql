-- Queries over records. `{where}` is the caller's filter over `r`, built by where_clause.py; rows.py fills in the fields of
-- a record: all `{columns}`, those inserted and the `{updates}`, and the paths of a caller's `{words}`.

-- name: insert_record
-- A new row; every column but row is given.
INSERT INTO records ({inserted_columns}) VALUES ({inserted_values});

-- name: update_record
-- Everything that may change after a record was made.
UPDATE records SET {updates} WHERE id = :id;

-- name: drop_tags
DELETE FROM record_tags WHERE row = (SELECT row FROM records WHERE id = ?);

-- name: put_tags
INSERT INTO record_tags (tag, row) SELECT t.value, r.row FROM records AS r, json_each(r.tags) AS t WHERE r.id = ?
ON CONFLICT DO NOTHING;

-- name: add_tags
-- Of the record that this write has just inserted, like the other `add_` statements: PostgreSQL would weigh all indexes of
-- records to find it by its id, which takes as long as to insert it.
INSERT INTO record_tags (tag, row) SELECT t.value, r.row FROM records AS r, json_each(:tags) AS t WHERE r.id = :id
ON CONFLICT DO NOTHING;
-- postgres
INSERT INTO record_tags (tag, row) SELECT t.value, currval('records_row_seq') FROM json_each(:tags) AS t
ON CONFLICT DO NOTHING;

-- name: get_record
SELECT {columns} FROM records AS r WHERE r.id = ?;

-- name: get_records
-- Any status; the scopes decide who may see them.
SELECT {columns} FROM records AS r
WHERE r.id IN (SELECT value FROM json_each(:ids)) AND r.scope IN (SELECT value FROM json_each(:scopes));

-- name: selected_records
-- Somebody chose them, of those that they may see.
SELECT {columns} FROM records AS r WHERE r.id IN (SELECT value FROM json_each(:ids)) ORDER BY r.row;

-- name: find_text
-- The newest record of a scope with exactly this text, outside the log.
SELECT {columns} FROM records AS r
WHERE r.scope = :scope AND r.content_hash = :digest
    AND r.kind NOT IN ('event', 'message', 'tool_call', 'tool_result', 'summary')
ORDER BY r.row DESC LIMIT 1;

-- name: find_noted
-- The newest record that is noted in a scope, by its normal digest.
SELECT {columns} FROM records AS r
WHERE r.scope = :scope AND r.normal_hash = :digest AND r.status = 'noted' ORDER BY r.row DESC LIMIT 1;

-- name: find_texts
-- Which (scope, digest) pairs are stored.
SELECT DISTINCT r.scope, r.content_hash FROM json_each(:pairs) AS p
JOIN records AS r ON r.scope = json_extract(p.value, '$[0]') AND r.content_hash = json_extract(p.value, '$[1]')
WHERE r.kind NOT IN ('event', 'message', 'tool_call', 'tool_result', 'summary');

-- name: branches_that_say
-- The branches in which records outside the log and the episodes say this, of any status but noted.
SELECT DISTINCT r.branch_id FROM records AS r
WHERE r.scope = :scope AND r.normal_hash = :digest
    AND r.kind NOT IN ('episode', 'event', 'message', 'tool_call', 'tool_result', 'summary') AND r.status <> 'noted';

-- name: extracted_from
-- beyond: what is erased is erased wherever it was taken up.
-- What was extracted from these episodes and entries of logs, and still says the words it was extracted with.
SELECT r.id FROM json_each(:ids) AS i
CROSS JOIN records AS e ON e.id = i.value AND e.kind IN ('episode', 'message', 'tool_call', 'tool_result', 'event', 'summary')
CROSS JOIN records AS r ON json_extract(r.details, '$.source') = e.id AND r.occurred_at = e.occurred_at
WHERE (r.kind IN ('fact', 'decision') OR r.kind = 'episode' AND e.kind <> 'episode') AND r.normal_hash = coalesce(
    (
        SELECT json_extract(v.before, '$.normal_hash') FROM versions AS v
        WHERE v.record_id = r.id AND json_extract(v.before, '$.normal_hash') IS NOT NULL ORDER BY v.change LIMIT 1
    ), r.normal_hash
)
ORDER BY r.row;

-- name: strip_extracted_versions
-- What was extracted from these and corrected since keeps what it once said for recognition only.
UPDATE versions
SET before = json_remove(before, {words}) WHERE record_id IN (
    SELECT id FROM records WHERE json_extract(details, '$.source') IN (SELECT value FROM json_each(:ids))
);

-- name: find_corrected
-- beyond: an id alone; its index is by an expression, which a wall would keep the planner from.
-- Who said this before it was corrected: a record that was replaced or proven wrong, or one whose text was changed;
-- not where the same is said by a record that holds.
WITH said (id) AS (
    SELECT id FROM records
    WHERE scope = :scope AND normal_hash = :digest AND (superseded_by IS NOT NULL OR status = 'inactive')
    UNION SELECT record_id FROM versions WHERE json_extract(before, '$.normal_hash') = :digest
)
SELECT r.id FROM said JOIN records AS r ON r.id = said.id
WHERE r.scope = :scope AND r.kind NOT IN ('event', 'message', 'tool_call', 'tool_result', 'summary')
    AND NOT EXISTS (
        SELECT 1 FROM records AS n
        WHERE n.scope = :scope AND n.normal_hash = :digest AND n.superseded_by IS NULL
            AND n.status NOT IN ('superseded', 'inactive', 'retired')
            AND n.kind NOT IN ('event', 'message', 'tool_call', 'tool_result', 'summary')
    )
ORDER BY r.row DESC LIMIT 1;

-- name: find_alike
SELECT id FROM records
WHERE scope = :scope AND normal_hash = :digest AND status NOT IN ('inactive', 'retired') ORDER BY row LIMIT 10;

-- name: reach
-- beyond: of what a record is made of, no word.
SELECT DISTINCT r.visibility, r.branch_id FROM json_each(?) AS i CROSS JOIN records AS r ON r.id = i.value;

-- name: replaced_by
-- beyond: what was replaced may hold again, whoever's it is.
SELECT {columns} FROM records AS r WHERE r.superseded_by = ? ORDER BY r.row;

-- name: predecessors
-- Replaced directly by one of these, the newest last.
SELECT {columns} FROM json_each(:ids) AS i
CROSS JOIN records AS r INDEXED BY records_by_successor ON r.superseded_by = i.value
WHERE {where_found} AND r.status = 'superseded'
    AND r.kind NOT IN ('event', 'message', 'tool_call', 'tool_result', 'summary')
ORDER BY r.row;

-- name: to_maintain
-- beyond: upkeep.
-- Records of a kind that may be due, in any scope. The scopes are found step by step in the index, of which each is one
-- stretch, so that neither other kinds nor what has had its last change is read.
WITH RECURSIVE known (scope) AS (
    SELECT min(scope) FROM records
    UNION ALL
    SELECT (SELECT min(scope) FROM records WHERE scope > known.scope) FROM known WHERE known.scope IS NOT NULL
)
SELECT {columns} FROM known
CROSS JOIN records AS r INDEXED BY records_by_kind ON r.scope = known.scope AND r.kind = :kind
WHERE r.status IN (SELECT value FROM json_each(:statuses))
    AND max(r.created_at, r.accessed_at, CASE WHEN r.row <= :entered_row THEN :entered_at ELSE 0 END) <= :until;

-- name: expired
-- beyond: upkeep.
-- What held until then, of any scope.
SELECT {columns} FROM records AS r
WHERE r.valid_until <= ? AND r.status NOT IN ('superseded', 'inactive', 'retired');

-- name: stored_by
-- What was stored by then, and has changed since, or has not.
SELECT r.id FROM records AS r
WHERE {where} AND r.created_at <= :at AND (:whatever_status <> 0 OR r.status <> 'superseded')
    AND EXISTS (SELECT 1 FROM versions AS v WHERE v.record_id = r.id AND v.at > :at) = (:changed <> 0);

-- name: judged_confidences
-- How sure of the newest decisions somebody was, and what came of them.
SELECT r.confidence, r.outcome FROM records AS r
WHERE {where} AND r.kind = 'decision' AND r.confidence IS NOT NULL AND r.outcome IN ('success', 'partial', 'failure')
ORDER BY r.row DESC LIMIT :limit;

-- name: versions
-- Of each record the oldest first.
SELECT record_id, change, write, at, agent, client, session_id, reason, before, undone FROM versions
WHERE record_id IN (SELECT value FROM json_each(?)) ORDER BY record_id, change;

-- name: latest_versions
-- The newest first.
SELECT record_id, change, write, at, agent, client, session_id, reason, before, undone FROM versions
WHERE record_id = :id AND change < :before ORDER BY change DESC LIMIT :limit;

-- name: written
-- Of each record that a write changed the oldest first.
SELECT record_id, change, write, at, agent, client, session_id, reason, before, undone FROM versions
WHERE write = ? ORDER BY record_id, change;

-- name: latest_writes
-- Those that somebody made, but no undo, and no further evidence of what was known.
SELECT v.write FROM versions AS v CROSS JOIN records AS r ON r.id = v.record_id
WHERE v.agent NOT IN ('upkeep', '') AND v.reason <> 'confirmed' AND v.undone <> v.write
    AND (:of_all <> 0 OR v.agent = :agent AND v.client = :client AND v.undone = 0) AND {where}
GROUP BY v.write ORDER BY v.write DESC LIMIT :limit;
-- postgres
-- By the records of the scope: what others have changed since is not read.
SELECT v.write + 0 AS write FROM records AS r JOIN versions AS v ON v.record_id = r.id
WHERE v.agent NOT IN ('upkeep', '') AND v.reason <> 'confirmed' AND v.undone <> v.write
    AND (:of_all <> 0 OR v.agent = :agent AND v.client = :client AND v.undone = 0) AND {where}
GROUP BY v.write + 0 ORDER BY v.write + 0 DESC LIMIT :limit;

-- name: mark_undone
UPDATE versions SET undone = :by WHERE write IN (:write, :by);

-- name: strip_versions
-- A record that moves to another scope keeps what it once said for recognition only: others shall not read it.
UPDATE versions SET before = json_remove(before, {words})
WHERE record_id = ?;

-- name: add_version
INSERT INTO versions (record_id, change, write, at, agent, client, session_id, reason, before, undone)
VALUES (:record_id, :change, :write, :at, :agent, :client, :session_id, :reason, :before, :undone);

-- name: confirm
INSERT INTO confirmations (record_id, session_id) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: successors
-- beyond: ids alone.
-- Follow each chain of corrections to its end; UNION ends a loop.
WITH RECURSIVE chain (start, id, step) AS (
    SELECT id, superseded_by, 1 FROM records
    WHERE id IN (SELECT value FROM json_each(?)) AND superseded_by IS NOT NULL
    UNION
    SELECT c.start, r.superseded_by, c.step + 1 FROM chain AS c JOIN records AS r ON r.id = c.id
    WHERE r.superseded_by IS NOT NULL AND c.step < 100
)
SELECT start, id FROM chain ORDER BY step;

-- name: matching_ids
SELECT r.id FROM records AS r WHERE {where};

-- name: count_matching
SELECT count(*) FROM records AS r WHERE {where};

-- name: awaiting_vectors_in
SELECT r.change, {columns} FROM unembedded AS u CROSS JOIN records AS r ON r.row = u.row
WHERE r.scope IN (SELECT value FROM json_each(:scopes)) ORDER BY u.row LIMIT :limit;

-- name: count_awaiting_in
-- What waits for its vectors in these scopes, without branches that are hidden.
SELECT count(*) FROM unembedded AS u CROSS JOIN records AS r ON r.row = u.row
WHERE r.scope IN (SELECT value FROM json_each(:scopes))
    AND (r.branch_id IS NULL OR r.branch_id NOT IN (SELECT value FROM json_each(:hidden)));

-- name: present
-- beyond: that it is there, and not where.
SELECT id FROM records WHERE id IN (SELECT value FROM json_each(?));

-- name: shared_namespaces
-- beyond: names alone, of which a caller knows some.
SELECT DISTINCT namespace FROM records
WHERE visibility = 'shared' AND status NOT IN ('inactive', 'retired') ORDER BY namespace;

-- name: ids_in_branches
-- beyond: ids alone.
SELECT id FROM records WHERE branch_id IN (SELECT value FROM json_each(?));

-- name: list_ids
SELECT r.id, r.row, r.occurred_at, r.accessed_at, r.updated_at, r.importance FROM records AS r {index} WHERE {where}
ORDER BY {order} LIMIT :limit;

-- name: arrivals
SELECT r.id, r.agent, r.client, r.created_at, json_extract(r.details, '$.imported_at') AS imported_at
FROM json_each(:ids) AS i CROSS JOIN records AS r ON r.id = i.value
WHERE r.scope IN (SELECT value FROM json_each(:scopes));

-- name: also_told_in
SELECT r.id FROM shared_lines AS s CROSS JOIN records AS r ON r.row = s.row WHERE s.session_id = ?;

-- name: recent_sessions
-- A bounded look back over what happened last in each scope: what others store in theirs changes nothing. What was
-- extracted from old episodes and messages happened when they did; what is dated ahead was stored when it was.
SELECT r.session_id FROM json_each(:scopes) AS c
CROSS JOIN records AS r ON r.row IN (
    SELECT s.row FROM records AS s WHERE s.scope = c.value ORDER BY s.occurred_at DESC, s.row DESC LIMIT :look_back
)
WHERE {where} ORDER BY min(r.occurred_at, r.created_at) DESC, r.row DESC;
-- postgres
SELECT r.session_id FROM json_each(:scopes) AS c
CROSS JOIN LATERAL (
    SELECT s.row FROM records AS s WHERE s.scope = c.value ORDER BY s.occurred_at DESC, s.row DESC LIMIT :look_back
) AS latest
JOIN records AS r ON r.row = latest.row
WHERE {where} ORDER BY least(r.occurred_at, r.created_at) DESC, r.row DESC;

-- name: best_of_sessions
-- Summaries come first; one session's rows are next to each other, the best first.
SELECT * FROM (
    SELECT r.id, r.session_id, r.kind, row_number() OVER (
        PARTITION BY r.session_id ORDER BY r.kind = 'summary' DESC, r.importance DESC, r.occurred_at DESC, r.row DESC
    ) AS place
    FROM records AS r WHERE {where} AND r.session_id IN (SELECT value FROM json_each(:sessions))
) AS placed WHERE place <= :each;

-- name: touch
UPDATE records SET accessed = accessed + 1, accessed_at = max(accessed_at, :at)
WHERE id IN (SELECT value FROM json_each(:ids));
-- postgres
-- What a write is changing is passed over: this one waits for nobody, so that nobody waits for both.
UPDATE records SET accessed = accessed + 1, accessed_at = max(accessed_at, :at)
WHERE row IN (SELECT row FROM records WHERE id IN (SELECT value FROM json_each(:ids)) FOR UPDATE SKIP LOCKED);

-- name: delete_record
DELETE FROM records WHERE id = ? RETURNING scope, length(CAST(text AS BLOB)) AS size;

-- name: unlink_successor
-- A change like any other: whoever keeps links has to hear of it.
UPDATE records SET superseded_by = NULL, change = :change WHERE superseded_by = :id RETURNING scope;

-- name: add_tombstone
INSERT INTO tombstones (id, change, scope) SELECT id, :change, scope FROM records WHERE id = :id;

-- name: kept_files
-- beyond: a file stays while any record has it.
-- Of all records, or those of a namespace: few name any.
SELECT json_extract(f.value, '$.digest') AS digest, min(r.id) AS id
FROM records AS r INDEXED BY records_with_files, json_each(r.details, '$.files') AS f
WHERE json_type(r.details, '$.files') = 'array' AND (CAST(:namespace AS TEXT) IS NULL OR r.namespace = :namespace) GROUP BY digest;
