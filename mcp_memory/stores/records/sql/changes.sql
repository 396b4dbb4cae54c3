-- name: changes
-- One statement, hence one snapshot: no change falls between records and tombstones.
SELECT
    r.change, r.id, r.scope, r.status NOT IN ('inactive', 'retired') AS is_live, 0 AS is_erased, r.kind, r.task_id,
    r.branch_id, r.superseded_by, iif(r.status = 'noted', r.agent || '/' || r.session_id, NULL) AS noted_in, v.vector,
    v.windows
FROM records AS r
LEFT JOIN vectors AS v ON v.row = r.row AND v.embedder = :embedder AND v.windows > 0
WHERE r.change > :since
UNION ALL
SELECT change, id, scope, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM tombstones WHERE change > :since
ORDER BY 1;
