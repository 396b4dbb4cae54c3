-- Queries over the tokens of those who come over HTTP.

-- name: add_token
INSERT INTO tokens (id, digest, name, agent, person, namespaces, right_held, created_at, expires_at, revoked_at)
VALUES (:id, :digest, :name, :agent, :person, :namespaces, :right_held, :created_at, :expires_at, NULL);

-- name: get_token
SELECT * FROM tokens WHERE id = ?;

-- name: list_tokens
SELECT * FROM tokens ORDER BY created_at, name;

-- name: has_live_token
SELECT 1 FROM tokens WHERE name = ? AND revoked_at IS NULL;

-- name: has_tokens
SELECT EXISTS (SELECT 1 FROM tokens);

-- name: person_of_agent
-- All tokens of an agent have the same.
SELECT person FROM tokens WHERE agent = ? LIMIT 1;

-- name: revoke_token
UPDATE tokens SET revoked_at = :at WHERE name = :name AND revoked_at IS NULL;
