-- Queries over the terms of records' texts.
-- beyond: whatever an earlier version derived is renewed.

-- name: put_terms
INSERT INTO terms (row, terms) SELECT row, :terms FROM records WHERE id = :id
ON CONFLICT (row) DO UPDATE SET terms = excluded.terms;

-- name: add_terms
INSERT INTO terms (row, terms) SELECT row, :terms FROM records WHERE id = :id;
-- postgres
INSERT INTO terms (row, terms) VALUES (currval('records_row_seq'), :terms);

-- name: terms_after
-- Records beside the terms kept of them, from a row on.
SELECT r.row, t.terms, {columns} FROM records AS r LEFT JOIN terms AS t ON t.row = r.row
WHERE r.row > :after ORDER BY r.row LIMIT :limit;

-- name: records_of
-- In any scope.
SELECT {columns} FROM records AS r WHERE r.id IN (SELECT value FROM json_each(?));

