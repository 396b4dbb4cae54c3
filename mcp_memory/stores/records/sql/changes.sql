-- name: changes
-- One statement, hence one snapshot: no change falls between records and tombstones. Entities go by their keys: one of
-- several types is one thing in the graph.
SELECT
    r.change, r.id, r.scope, r.status NOT IN ('inactive', 'retired') AS is_live, 0 AS is_erased, r.kind, r.occurred_at,
    r.importance, r.task_id, r.session_id, r.branch_id, r.pinned, r.tags, r.superseded_by,
    r.speaker IS NOT NULL OR r.role IS NOT NULL AS is_turn,
    iif(r.status = 'noted', r.agent || '/' || r.session_id, NULL) AS noted_in,
    coalesce(nullif(r.rewritten_by, ''), r.agent) AS author, r.status, r.speaker, r.role,
    iif(r.kind = 'message', substr(r.text, 1, 1000), '') AS opening, r.valid_from, r.valid_until, t.terms, v.vector,
    (
        SELECT json_group_array(DISTINCT e.name_key) FROM mentions AS m JOIN entities AS e ON e.id = m.entity
        WHERE m.record_id = r.id
    ) AS mentions,
    (
        SELECT json_group_array(json_array(e.name_key, a.name_key)) FROM aliases AS a
        JOIN entities AS e ON e.id = a.entity WHERE a.record_id = r.id
    ) AS aliases,
    (
        SELECT json_group_array(json_array(s.name_key, l.type, t.name_key, l.weight)) FROM relations AS l
        JOIN entities AS s ON s.id = l.source JOIN entities AS t ON t.id = l.target WHERE l.record_id = r.id
    ) AS relations,
    v.windows
FROM records AS r
LEFT JOIN terms AS t ON t.row = r.row
LEFT JOIN vectors AS v ON v.row = r.row AND v.embedder = :embedder AND v.windows > 0
WHERE r.change > :since
UNION ALL
SELECT
    change, id, scope, 0, 1, NULL, 0.0, 0.0, NULL, NULL, NULL, 0, '[]', NULL, 0, NULL, NULL, NULL, NULL, NULL, '',
    NULL, NULL, NULL, NULL, '[]', '[]', '[]', NULL
FROM tombstones WHERE change > :since
ORDER BY 1;
