-- Queries over the folders that may use a namespace.
-- beyond: who asks has no namespace yet.

-- name: list_folders
SELECT * FROM folders WHERE revoked_at IS NULL ORDER BY namespace, since, folder;

-- name: is_trusted
SELECT EXISTS (
    SELECT 1 FROM folders
    WHERE namespace = :namespace AND folder = :folder AND repository = :repository AND revoked_at IS NULL
);

-- name: is_taken
-- A folder has or had it, something is or was stored in it, or a token names it. The cheap questions come first.
SELECT EXISTS (SELECT 1 FROM folders WHERE namespace = :namespace)
    OR EXISTS (SELECT 1 FROM former_namespaces WHERE name = :namespace)
    OR EXISTS (SELECT 1 FROM sessions WHERE namespace = :namespace)
    OR EXISTS (SELECT 1 FROM tasks WHERE namespace = :namespace)
    OR EXISTS (SELECT 1 FROM tokens, json_each(tokens.namespaces) WHERE json_each.value = :namespace)
    OR EXISTS (SELECT 1 FROM records WHERE namespace = :namespace);

-- name: trust_folder
INSERT INTO folders (namespace, folder, repository, since, is_first, revoked_at)
VALUES (:namespace, :folder, :repository, :since, :is_first, NULL)
ON CONFLICT (namespace, folder, repository) DO UPDATE SET
    since = excluded.since, is_first = excluded.is_first, revoked_at = NULL
WHERE folders.revoked_at IS NOT NULL;

-- name: revoke_folder
UPDATE folders SET revoked_at = :at WHERE folder = :folder AND revoked_at IS NULL RETURNING *;
