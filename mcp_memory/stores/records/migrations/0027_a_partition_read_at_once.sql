-- All that indexes need of a partition but the words of its records, so that loading it visits the rows of the table once.
DROP INDEX records_by_partition;
CREATE INDEX records_by_partition ON records (
    CASE substr(scope, 1, 7) WHEN 'shared/' THEN 'namespace/' || substr(scope, 8)
    WHEN 'private' THEN 'namespace/' || substr(scope, 9 + instr(substr(scope, 9), '/')) ELSE scope END, change,
    id, scope, status, branch_id, superseded_by, task_id, speaker, role, session_id
);

-- Two vectors a page. Without a rowid a table keeps only the first quarter of a page in place: each vector had a page of its
-- own for the rest.
ALTER TABLE vectors RENAME TO scattered_vectors;
CREATE TABLE vectors (
    row INTEGER NOT NULL REFERENCES records (row) ON DELETE CASCADE,
    embedder TEXT NOT NULL,
    windows INTEGER NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (row, embedder)
);
-- An eighth at a time, into the pages of the one before: the file hardly grows.
INSERT INTO vectors SELECT row, embedder, windows, vector FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 1 / 8 ORDER BY row;
DELETE FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 1 / 8;
INSERT INTO vectors SELECT row, embedder, windows, vector FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 2 / 8 ORDER BY row;
DELETE FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 2 / 8;
INSERT INTO vectors SELECT row, embedder, windows, vector FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 3 / 8 ORDER BY row;
DELETE FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 3 / 8;
INSERT INTO vectors SELECT row, embedder, windows, vector FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 4 / 8 ORDER BY row;
DELETE FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 4 / 8;
INSERT INTO vectors SELECT row, embedder, windows, vector FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 5 / 8 ORDER BY row;
DELETE FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 5 / 8;
INSERT INTO vectors SELECT row, embedder, windows, vector FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 6 / 8 ORDER BY row;
DELETE FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 6 / 8;
INSERT INTO vectors SELECT row, embedder, windows, vector FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 7 / 8 ORDER BY row;
DELETE FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 7 / 8;
INSERT INTO vectors SELECT row, embedder, windows, vector FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 8 / 8 ORDER BY row;
DELETE FROM scattered_vectors WHERE row <= (SELECT max(row) FROM records) * 8 / 8;
DROP TABLE scattered_vectors;
