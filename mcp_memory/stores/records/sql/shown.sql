-- What clients were shown, in PostgreSQL alone, whose servers share it: the owner of a file keeps it in memory.

-- name: keep_shown_texts
-- The row without a record is when the session began, and stays so.
INSERT INTO shown_texts (namespace, agent, session_id, record_id, digest, revision, at)
SELECT :namespace, :agent, :session_id, json_extract(value, '$[0]'), json_extract(value, '$[1]'), :revision, :at
FROM json_each(:shown)
WHERE true
ON CONFLICT (namespace, agent, session_id, record_id, digest) DO UPDATE SET
    revision = CASE WHEN shown_texts.record_id = '' THEN shown_texts.revision
        ELSE max(shown_texts.revision, excluded.revision) END,
    at = excluded.at;

-- name: shown_with
SELECT digest, record_id FROM shown_texts
WHERE namespace = :namespace AND agent = :agent AND digest IN (SELECT value FROM json_each(:digests))
ORDER BY at;

-- name: shown_since
SELECT record_id, max(revision) AS revision FROM shown_texts
WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id
    AND record_id IN (SELECT value FROM json_each(:ids))
GROUP BY record_id;

-- name: prune_shown_texts
DELETE FROM shown_texts WHERE at < :until OR namespace = :namespace AND agent = :agent AND at < (
    SELECT t.at FROM shown_texts AS t WHERE t.namespace = :namespace AND t.agent = :agent
    ORDER BY t.at DESC LIMIT 1 OFFSET :most
);

-- name: keep_shown_contexts
INSERT INTO shown_contexts (namespace, agent, session_id, id, at, shown, vector)
VALUES (:namespace, :agent, :session_id, :id, :at, :shown, :vector)
ON CONFLICT (namespace, agent, session_id, id) DO UPDATE SET
    at = excluded.at, shown = excluded.shown, vector = excluded.vector;

-- name: shown_context
SELECT s.shown, s.vector, c.report FROM shown_contexts AS s
JOIN contexts AS c ON c.namespace = s.namespace AND c.agent = s.agent AND c.id = s.id
WHERE s.namespace = :namespace AND s.agent = :agent AND s.session_id = :session_id AND s.id = :id;

-- name: prune_shown_contexts
DELETE FROM shown_contexts WHERE at < :until OR namespace = :namespace AND agent = :agent AND at < (
    SELECT t.at FROM shown_contexts AS t WHERE t.namespace = :namespace AND t.agent = :agent
    ORDER BY t.at DESC LIMIT 1 OFFSET :most
);

-- name: forget_shown_contexts
DELETE FROM shown_contexts;
