-- Queries over the terms of records' texts.

-- name: put_terms
INSERT OR REPLACE INTO terms (row, terms) SELECT row, :terms FROM records WHERE id = :id;

-- name: all_terms
-- Every record beside the terms kept of it.
SELECT t.terms, {columns} FROM records AS r LEFT JOIN terms AS t ON t.row = r.row ORDER BY r.row;

-- name: records_of
-- In any scope.
SELECT {columns} FROM records AS r WHERE r.id IN (SELECT value FROM json_each(?));

-- name: term_changes
-- One statement, hence one snapshot: no change falls between records and tombstones.
SELECT r.change, r.id, r.scope, r.status NOT IN ('inactive', 'retired') AS is_live, t.terms,
    CASE WHEN r.speaker IS NOT NULL OR r.role IS NOT NULL THEN r.session_id END AS session
FROM records AS r JOIN terms AS t ON t.row = r.row
WHERE r.change > ?1
UNION ALL
SELECT change, id, scope, 0, NULL, NULL FROM tombstones WHERE change > ?1
ORDER BY 1;
