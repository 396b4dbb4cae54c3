-- Queries over the terms of records' texts.

-- name: put_terms
INSERT OR REPLACE INTO terms (row, terms) SELECT row, :terms FROM records WHERE id = :id;

-- name: all_terms
-- Every record beside the terms kept of it.
SELECT t.terms, {columns} FROM records AS r LEFT JOIN terms AS t ON t.row = r.row ORDER BY r.row;

-- name: records_of
-- In any scope.
SELECT {columns} FROM records AS r WHERE r.id IN (SELECT value FROM json_each(?));

