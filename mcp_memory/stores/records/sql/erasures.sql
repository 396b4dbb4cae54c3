-- Queries over what was erased, and over what is left of it elsewhere.

-- name: erased_marks
SELECT width, digest, at FROM erased_texts WHERE scope IN (SELECT value FROM json_each(?)) ORDER BY at;

-- name: add_erased
INSERT INTO erased_texts (scope, width, digest, at) VALUES (:scope, :width, :digest, :at)
ON CONFLICT (scope, width, digest) DO UPDATE SET at = max(erased_texts.at, excluded.at);

-- name: drop_erased
DELETE FROM erased_texts
WHERE width = :width AND digest = :digest AND scope IN (SELECT value FROM json_each(:scopes));

-- name: accounts_of
-- beyond: what is erased is erased wherever it was taken up.
-- What has these tags in a session whose log has one of these lines, and was written once it was said.
WITH told (namespace, agent, session_id, row) AS (
    SELECT e.namespace, e.agent, e.session_id, e.row FROM json_each(:ids) AS i CROSS JOIN records AS e ON e.id = i.value
    WHERE e.kind IN ('message', 'tool_call', 'tool_result')
    UNION
    SELECT s.namespace, s.agent, s.session_id, s.row
    FROM json_each(:ids) AS i CROSS JOIN records AS e ON e.id = i.value CROSS JOIN shared_lines AS s ON s.row = e.row
)
SELECT a.id FROM told AS t
CROSS JOIN records AS a INDEXED BY records_by_session ON a.session_id = t.session_id
WHERE a.namespace = t.namespace AND a.agent = t.agent AND a.row > t.row AND a.kind IN ('event', 'summary')
    AND a.scope IN (SELECT value FROM json_each(:scopes))
    AND EXISTS (SELECT 1 FROM json_each(a.tags) AS g WHERE g.value IN (SELECT value FROM json_each(:tags)))
GROUP BY a.row ORDER BY a.row;

-- name: maybe_quoting
-- beyond: what is erased is erased wherever it was taken up.
-- Records that have one of these words in their text, details or tags, or characters that are no ASCII; "" is in all of
-- them.
SELECT {columns} FROM records AS r
WHERE r.scope IN (SELECT value FROM json_each(:scopes)) AND (
    length(r.text) <> length(CAST(r.text AS BLOB)) OR length(r.details) <> length(CAST(r.details AS BLOB))
    OR length(r.tags) <> length(CAST(r.tags AS BLOB))
    OR EXISTS (
        SELECT 1 FROM json_each(:words) AS w
        WHERE instr(lower(r.text), w.value) > 0 OR r.details <> '{}' AND instr(lower(r.details), w.value) > 0
            OR r.tags <> '[]' AND instr(lower(r.tags), w.value) > 0
    )
)
ORDER BY r.row;

-- name: maybe_quoting_versions
-- beyond: what is erased is erased wherever it was taken up.
-- Earlier words of records, in the same way.
SELECT v.record_id, v.before FROM versions AS v CROSS JOIN records AS r ON r.id = v.record_id
WHERE r.scope IN (SELECT value FROM json_each(:scopes)) AND (
    length(v.before) <> length(CAST(v.before AS BLOB))
    OR EXISTS (SELECT 1 FROM json_each(:words) AS w WHERE instr(lower(v.before), w.value) > 0)
);

-- name: maybe_quoting_replacements
-- beyond: what is erased is erased wherever it was taken up.
-- Texts that stand in logs for what was replaced, where all of that is in these scopes.
SELECT p.row, p.text FROM replacements AS p
WHERE p.namespace = :namespace AND NOT EXISTS (
    SELECT 1 FROM covered AS c CROSS JOIN records AS r ON r.id = c.record_id
    WHERE c.replacement = p.row AND r.scope NOT IN (SELECT value FROM json_each(:scopes))
) AND (
    length(p.text) <> length(CAST(p.text AS BLOB))
    OR EXISTS (SELECT 1 FROM json_each(:words) AS w WHERE instr(lower(p.text), w.value) > 0)
);

-- name: maybe_quoting_mentions
-- beyond: what is erased is erased wherever it was taken up.
-- What records state of entities, in the same way.
SELECT m.entity, m.record_id, e.name, e.type, m.properties FROM entities AS e CROSS JOIN mentions AS m ON m.entity = e.id
WHERE e.scope IN (SELECT value FROM json_each(:scopes)) AND (
    length(e.name || e.type || m.properties) <> length(CAST(e.name || e.type || m.properties AS BLOB))
    OR EXISTS (
        SELECT 1 FROM json_each(:words) AS w
        WHERE instr(lower(e.name), w.value) > 0 OR instr(lower(e.type), w.value) > 0 OR instr(lower(m.properties), w.value) > 0
    )
);

-- name: maybe_quoting_relations
-- beyond: what is erased is erased wherever it was taken up.
SELECT l.record_id, l.type FROM entities AS e CROSS JOIN relations AS l ON l.source = e.id
WHERE e.scope IN (SELECT value FROM json_each(:scopes)) AND (
    length(l.type) <> length(CAST(l.type AS BLOB))
    OR EXISTS (SELECT 1 FROM json_each(:words) AS w WHERE instr(lower(l.type), w.value) > 0)
);

-- name: drop_relations_of_type
DELETE FROM relations WHERE record_id = ? AND type = ?;

-- name: put_properties
UPDATE mentions SET properties = :properties WHERE entity = :entity AND record_id = :record_id;

-- name: drop_aliases
DELETE FROM aliases WHERE entity = :entity AND record_id = :record_id;

-- name: saying
-- Records that have a word, by its letters alone.
SELECT r.id FROM records AS r
WHERE r.scope IN (SELECT value FROM json_each(:scopes)) AND instr(lower(r.text), :word) > 0 ORDER BY r.row LIMIT :limit;
