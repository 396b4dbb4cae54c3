-- Candidates from vectors of large scopes, in PostgreSQL with pgvector alone. Triggers keep them once a scope is pushed.

-- name: pushed_scopes
-- beyond: names of scopes alone. None where the extension has gone, and the column that has its type.
SELECT scope, is_whole FROM pushed_scopes WHERE embedder = :embedder AND EXISTS (
    SELECT 1 FROM pg_attribute
    WHERE attrelid = to_regclass('pushed_vectors') AND attname = 'vector' AND NOT attisdropped
);

-- name: nearest_pushed
-- None of a scope that is not whole. The scope is named, whatever walls say: the planner weighs how much of all is in it.
SELECT r.id FROM (
    SELECT p.row FROM pushed_vectors AS p
    WHERE p.scope = :scope
        AND (SELECT s.is_whole FROM pushed_scopes AS s WHERE s.scope = :scope AND s.embedder = :embedder)
    ORDER BY p.vector <#> :vector::halfvec LIMIT :limit
) AS n JOIN records AS r ON r.row = n.row;

-- name: push_scope
INSERT INTO pushed_scopes (scope, embedder, is_whole) VALUES (:scope, :embedder, FALSE)
ON CONFLICT (scope) DO UPDATE SET embedder = excluded.embedder, is_whole = FALSE
WHERE pushed_scopes.embedder <> excluded.embedder
RETURNING scope;

-- name: drop_pushed_vectors
DELETE FROM pushed_vectors WHERE scope = :scope;

-- name: push_more
-- beyond: it fills.
SELECT max(s.row) AS reached, push_vectors(array_agg(s.row) FILTER (WHERE NOT s.is_there))
FROM (
    SELECT r.row, EXISTS (SELECT 1 FROM pushed_vectors AS p WHERE p.row = r.row) AS is_there
    FROM records AS r WHERE r.scope = :scope AND r.row + 0 > :after ORDER BY (r.row + 0) LIMIT :limit
) AS s;

-- name: note_whole
UPDATE pushed_scopes SET is_whole = TRUE WHERE scope = :scope AND embedder = :embedder;

-- name: compare_pushed
-- beyond: it counts.
SELECT
    coalesce(w.scope, p.scope) AS scope, count(w.row) AS missing, count(p.row) AS extra
FROM vectors_to_push AS w FULL JOIN pushed_vectors AS p ON p.row = w.row AND p.place = w.place
WHERE (w.row IS NULL OR p.row IS NULL OR p.scope <> w.scope OR p.vector <> w.vector::halfvec)
    AND coalesce(w.scope, p.scope) NOT IN (SELECT scope FROM pushed_scopes WHERE NOT is_whole)
GROUP BY 1;

-- name: count_pushed
SELECT count(*) FROM pushed_vectors AS p WHERE p.scope IN (SELECT value FROM json_each(:scopes));

-- name: drop_pushed_scopes
DELETE FROM pushed_scopes;

-- name: drop_all_pushed
DELETE FROM pushed_vectors;
