-- Files of conversations, in PostgreSQL alone: beside SQLite they are in a folder.

-- name: keep_file
INSERT INTO files (digest, content) VALUES (:digest, :content) ON CONFLICT DO NOTHING;

-- name: read_file
SELECT content FROM files WHERE digest = ?;

-- name: file_digests
SELECT digest FROM files;

-- name: drop_file
DELETE FROM files WHERE digest = :digest;
