-- The sequence of changes.
-- beyond: their numbers are those of the whole memory, and indexes follow all of it.

-- name: changes
-- One statement, hence one snapshot: no change falls between records and tombstones.
SELECT
    r.change, r.id, r.scope, r.status NOT IN ('inactive', 'retired') AS is_live, FALSE AS is_erased, r.kind, r.task_id,
    r.branch_id, r.superseded_by, CASE WHEN r.status = 'noted' THEN r.agent || '/' || r.session_id END AS noted_in, v.vector,
    v.windows
FROM records AS r
LEFT JOIN vectors AS v ON v.row = r.row AND v.embedder = :embedder AND v.windows > 0
WHERE r.change > :since
UNION ALL
SELECT change, id, scope, FALSE, TRUE, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM tombstones WHERE change > :since
ORDER BY 1;


-- name: newest_change
SELECT value FROM sequence;
-- postgres
SELECT coalesce(max(newest), 0) AS value FROM partitions;

-- name: progress
-- In PostgreSQL the newest change of all may have been committed before another one's.
SELECT value FROM sequence;
-- postgres
SELECT coalesce(sum(newest), 0) AS value FROM partitions;

-- name: newest_erasure
SELECT coalesce(max(change), 0) FROM tombstones;

-- name: every_tombstone
SELECT id FROM tombstones;

-- name: count_all
-- Of a partition, or of all.
SELECT coalesce(sum(records), 0) FROM partitions WHERE :partition IN ('', name);

-- name: count_changed
SELECT count(*) FROM records WHERE change > :since;

-- name: count_changed_in
SELECT count(*) FROM records AS r WHERE {partition} = :partition AND r.change > :since;
