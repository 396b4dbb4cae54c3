-- Calls of windows that are done: a repeated one is recognised.

-- name: call_done
SELECT digest, made FROM calls_done WHERE key = ?;

-- name: note_call
INSERT INTO calls_done (key, digest, made, at) VALUES (:key, :digest, :made, :at)
ON CONFLICT (key) DO NOTHING;

-- name: forget_calls
DELETE FROM calls_done WHERE at < ?;
