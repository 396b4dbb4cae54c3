-- Queries over vectors, all per embedder. A row of no windows says that the embedder refuses the record's text.
-- beyond: whatever waits is embedded.

-- name: put_vectors
INSERT INTO vectors (row, embedder, windows, vector) SELECT row, :embedder, :windows, :vector
FROM records WHERE id = :id
ON CONFLICT (row, embedder) DO UPDATE SET windows = excluded.windows, vector = excluded.vector;

-- name: add_vectors
INSERT INTO vectors (row, embedder, windows, vector) SELECT row, :embedder, :windows, :vector FROM records WHERE id = :id;
-- postgres
INSERT INTO vectors (row, embedder, windows, vector) VALUES (currval('records_row_seq'), :embedder, :windows, :vector);

-- name: add_awaiting
INSERT INTO unembedded (row) SELECT row FROM records WHERE id = :id;
-- postgres
INSERT INTO unembedded (row) VALUES (currval('records_row_seq'));

-- name: put_vectors_if_unchanged
-- For reindex: a record that changed meanwhile is left for the next round.
INSERT INTO vectors (row, embedder, windows, vector) SELECT row, :embedder, :windows, :vector
FROM records WHERE id = :id AND change = :change
ON CONFLICT (row, embedder) DO UPDATE SET windows = excluded.windows, vector = excluded.vector;

-- name: await_vectors
INSERT INTO unembedded (row) SELECT row FROM records WHERE id = ? ON CONFLICT DO NOTHING;

-- name: have_vectors
DELETE FROM unembedded WHERE row = (SELECT row FROM records WHERE id = ?);

-- name: none_awaits_vectors
DELETE FROM unembedded;

-- name: awaiting_vectors
SELECT r.change, {columns} FROM unembedded AS u CROSS JOIN records AS r ON r.row = u.row ORDER BY u.row LIMIT ?;

-- name: awaiting_vectors_among
SELECT r.change, {columns} FROM json_each(:ids) AS i CROSS JOIN records AS r ON r.id = i.value
WHERE r.row IN (SELECT row FROM unembedded) ORDER BY r.row LIMIT :limit;

-- name: await_refused
-- Of the store's embedder, or before the first vector; those of the next one are found when it is adopted.
INSERT INTO unembedded (row) SELECT row FROM vectors
WHERE embedder = :embedder AND windows = 0
    AND :embedder = coalesce((SELECT value FROM meta WHERE name = 'embedder'), :embedder)
ON CONFLICT DO NOTHING;

-- name: delete_vectors
DELETE FROM vectors WHERE row = (SELECT row FROM records WHERE id = ?);

-- name: unembedded
-- A look through all records: for another embedder than the store's, and to check the store.
SELECT r.change, {columns} FROM records AS r
WHERE r.row > coalesce((SELECT row FROM records WHERE id = :after), 0)
    AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.row = r.row AND v.embedder = :embedder)
ORDER BY r.row LIMIT :limit;

-- name: lacking
-- From the newest, since the oldest get their vectors first: asked after each batch, it looks at little.
SELECT 1 FROM records AS n
WHERE NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.row = n.row AND v.embedder = ?)
ORDER BY n.row DESC LIMIT 1;

-- name: stored_dimensions
SELECT length(vector) / windows / 4 FROM vectors WHERE embedder = ? AND windows > 0 LIMIT 1;

-- name: count_awaiting
SELECT count(*) FROM unembedded;

-- name: count_refused
SELECT count(*) FROM vectors WHERE embedder = ? AND windows = 0;

-- name: forget_refusals
DELETE FROM vectors WHERE embedder = ? AND windows = 0;

-- name: touch_change
UPDATE records SET change = ? WHERE id = ?;

-- name: drop_other_vectors
DELETE FROM vectors WHERE embedder <> ?;

-- name: touch_all_changes
-- After a change of embedder every index must read every vector again.
UPDATE records SET change = ?;
