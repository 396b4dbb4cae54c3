-- Calls of windows that are done: a repeated one is recognised.

-- name: call_done
SELECT digest, made FROM calls_done WHERE key = ?;

-- name: note_call
INSERT INTO calls_done (key, digest, made, at) VALUES (:key, :digest, :made, :at);

-- name: forget_calls
-- In PostgreSQL, whoever forgets at the same time passes over what another one does, and waits for nobody.
DELETE FROM calls_done WHERE at < ?;
-- postgres
DELETE FROM calls_done WHERE key IN (SELECT key FROM calls_done WHERE at < ? FOR UPDATE SKIP LOCKED);
