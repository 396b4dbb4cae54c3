-- What the indexes in memory are made of: one plain statement for each part, without joined lists. They read all of it,
-- or what changed: `{changed}` is nothing, or a condition on r.change and its order; `{of_changed}` likewise of what
-- belongs to a record, and `{of_scopes}` of counts. Within a partition they are conditions on that too.
-- beyond: they hold all of it.

-- name: index_scopes
SELECT r.scope, count(*) AS records FROM records AS r {of_scopes} GROUP BY r.scope;

-- name: index_all_vectors
-- In the order of the vectors, which are wide: half the time of looking for those of each record.
SELECT r.id, r.scope, r.change, r.status NOT IN ('inactive', 'retired') AS is_live, v.windows, v.vector
FROM vectors AS v CROSS JOIN records AS r ON r.row = v.row WHERE v.embedder = :embedder AND v.windows > 0;

-- name: index_partition_vectors
SELECT r.id, r.scope, r.change, r.status NOT IN ('inactive', 'retired') AS is_live, v.windows, v.vector
FROM records AS r JOIN vectors AS v ON v.row = r.row AND v.embedder = :embedder AND v.windows > 0 {changed};

-- name: index_vectors
-- Also of records that have none any more.
SELECT r.id, r.scope, r.change, r.status NOT IN ('inactive', 'retired') AS is_live, v.windows, v.vector
FROM records AS r LEFT JOIN vectors AS v ON v.row = r.row AND v.embedder = :embedder AND v.windows > 0 {changed};

-- name: index_terms
-- With the session of a dialogue turn alone: its neighbours are those before and after it there.
SELECT
    r.id, r.scope, r.status NOT IN ('inactive', 'retired') AS is_live, t.terms,
    CASE WHEN r.speaker IS NOT NULL OR r.role IS NOT NULL THEN r.session_id END AS session
FROM records AS r LEFT JOIN terms AS t ON t.row = r.row {changed};

-- name: index_columns
SELECT
    r.id, r.scope, r.kind, r.task_id, r.session_id, r.branch_id,
    CASE WHEN r.status = 'noted' THEN r.agent || '/' || r.session_id END AS noted_in,
    coalesce(nullif(r.rewritten_by, ''), r.agent) AS author, r.status, r.speaker, r.occurred_at, r.importance,
    r.status NOT IN ('inactive', 'retired') AS is_live, r.pinned, r.tags, r.superseded_by, r.role,
    CASE WHEN r.kind = 'message' THEN substr(r.text, 1, 1000) ELSE '' END AS opening, r.valid_from, r.valid_until,
    r.normal_hash, r.outcome, CASE WHEN r.kind = 'event' THEN r.details ELSE '{}' END AS details,
    CASE WHEN r.kind = 'event' THEN json_extract(r.details, '$.type') END AS event_type
FROM records AS r {changed};

-- name: index_places
-- Others must not find what is noted by what it mentions.
SELECT
    r.id, r.scope, r.branch_id, r.superseded_by, r.task_id,
    r.status NOT IN ('inactive', 'retired', 'noted') AS is_linked
FROM records AS r {changed};

-- name: index_mentions
-- Entities go by their keys: one of several types is one thing in the graph.
SELECT m.record_id, e.name_key FROM mentions AS m JOIN entities AS e ON e.id = m.entity {of_changed};

-- name: index_aliases
SELECT a.record_id, e.name_key, a.name_key AS alias FROM aliases AS a JOIN entities AS e ON e.id = a.entity {of_changed};

-- name: index_relations
SELECT l.record_id, s.name_key AS source, t.name_key AS target, l.weight FROM relations AS l
JOIN entities AS s ON s.id = l.source JOIN entities AS t ON t.id = l.target {of_changed};

-- name: index_erasures
SELECT r.id, r.change FROM tombstones AS r {changed};

-- name: index_partition_erasures
-- Also what went to another partition.
SELECT r.id, r.change FROM tombstones AS r WHERE {partition} = :partition AND r.change > :since
UNION ALL SELECT d.id, d.change FROM departures AS d WHERE d.partition = :partition AND d.change > :since ORDER BY 2;
