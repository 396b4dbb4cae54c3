-- Queries over the accounts of contexts, and over what was assembled; of one namespace, and of one agent but for people who have all.

-- name: put_context
-- With the block, unless one of its records changed or was erased while it was made.
INSERT INTO contexts (namespace, agent, id, created_at, report) VALUES (:namespace, :agent, :id, :at, CASE WHEN
    EXISTS (SELECT 1 FROM tombstones WHERE id IN (SELECT value FROM json_each(:ids)))
    OR EXISTS (SELECT 1 FROM records WHERE id IN (SELECT value FROM json_each(:ids)) AND change > :revision)
    OR EXISTS (SELECT 1 FROM tasks WHERE id IN (SELECT value FROM json_each(:ids)) AND change > :revision)
    THEN :report ELSE :with_block END)
ON CONFLICT (namespace, agent, id) DO UPDATE SET created_at = excluded.created_at, report = excluded.report;

-- name: forget_blocks
-- beyond: whoever was given the words, they go with the record. No stored text has quotes without a backslash.
UPDATE contexts SET report = substr(report, 1, instr(report, ', "block": [') - 1) || ', "is_erased": true}'
WHERE instr(report, ', "block": [') > 0;

-- name: get_context
SELECT report FROM contexts WHERE namespace = :namespace AND (agent = :agent OR :of_all <> 0) AND id = :id
ORDER BY agent <> :agent LIMIT 1;

-- name: list_contexts
SELECT created_at, report FROM contexts
WHERE namespace = :namespace AND (agent = :agent OR :of_all <> 0) AND (created_at < :at OR created_at = :at AND id < :id)
ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: contexts_naming
-- Among the latest alone: each account is read as a whole.
SELECT created_at, report FROM (
    SELECT created_at, id, report FROM contexts WHERE namespace = :namespace AND (agent = :agent OR :of_all <> 0)
    ORDER BY created_at DESC, id DESC LIMIT :most
) AS latest WHERE instr(report, :naming) > 0 ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: prune_contexts
DELETE FROM contexts WHERE created_at < ?;
-- postgres
DELETE FROM contexts WHERE ctid IN (SELECT ctid FROM contexts WHERE created_at < ? FOR UPDATE SKIP LOCKED);

-- name: add_assembly
-- What the account does not say stays NULL, and counts for nothing.
INSERT INTO assemblies (
    namespace, agent, at, strategy, picked, follow_up, cached, utilisation, relevance, milliseconds
) VALUES (
    :namespace, :agent, :at, json_extract(:report, '$.strategy'), json_extract(:report, '$.metadata.picked'),
    json_extract(:report, '$.metadata.follow_up'), CASE json_type(:report, '$.metadata.cached') WHEN 'true' THEN 1 WHEN 'false' THEN 0 END,
    CAST(json_extract(:report, '$.metadata.utilisation') AS DOUBLE PRECISION),
    CAST(json_extract(:report, '$.metadata.relevance') AS DOUBLE PRECISION),
    CAST(json_extract(:report, '$.metadata.assembly_ms') AS DOUBLE PRECISION)
);

-- name: prune_assemblies
DELETE FROM assemblies WHERE at < ?;
-- postgres
DELETE FROM assemblies WHERE ctid IN (SELECT ctid FROM assemblies WHERE at < ? FOR UPDATE SKIP LOCKED);

-- name: assembly_figures
SELECT count(*) AS contexts, avg(relevance) AS relevance, avg(utilisation) AS utilisation,
    count(follow_up) AS follow_ups, count(*) FILTER (WHERE follow_up = 'rebuilt') AS rebuilt
FROM assemblies WHERE namespace = :namespace AND (agent = :agent OR :of_all <> 0) AND at >= :since;

-- name: median_cold_build
-- Of those that were built anew; the mean of the two in the middle where their number is even.
SELECT avg(milliseconds) FROM (
    SELECT milliseconds, row_number() OVER (ORDER BY milliseconds) AS place, count(*) OVER () AS number
    FROM assemblies
    WHERE namespace = :namespace AND (agent = :agent OR :of_all <> 0) AND at >= :since AND cached = 0 AND milliseconds IS NOT NULL
) AS placed WHERE place IN ((number + 1) / 2, number / 2 + 1);

-- name: count_strategies
SELECT strategy, count(*) FROM assemblies
WHERE namespace = :namespace AND (agent = :agent OR :of_all <> 0) AND at >= :since GROUP BY strategy ORDER BY strategy;

-- name: count_picked
SELECT picked, count(*) FROM assemblies
WHERE namespace = :namespace AND (agent = :agent OR :of_all <> 0) AND at >= :since AND picked IS NOT NULL GROUP BY picked ORDER BY picked;

-- name: stored_by_period
SELECT CAST((r.created_at - :stored_since) / :seconds AS INTEGER) AS period, count(*) FROM records AS r
WHERE r.created_at >= :stored_since AND {where} GROUP BY period ORDER BY period;
-- postgres
SELECT CAST(floor((r.created_at - :stored_since) / :seconds) AS INTEGER) AS period, count(*) FROM records AS r
WHERE r.created_at >= :stored_since AND {where} GROUP BY period ORDER BY period;

-- name: tally
-- Of the records that pass: how many were stored lately (and not extracted from what was stored before), which facts were met again, and what feedback says of use.
SELECT count(*) FILTER (
        WHERE r.created_at >= :stored_since AND NOT EXISTS (
            SELECT 1 FROM records AS e
            WHERE e.id = json_extract(r.details, '$.source') AND e.kind IN ('episode', 'message', 'tool_call', 'tool_result', 'event', 'summary')
        )
    ) AS stored,
    count(*) FILTER (WHERE r.kind = 'fact') AS facts,
    count(*) FILTER (WHERE r.kind = 'fact' AND r.created_at < :stored_since) AS older_facts,
    count(*) FILTER (WHERE r.kind = 'fact' AND r.confirmed > 0) AS confirmed_facts,
    coalesce(sum(r.used), 0) AS used, coalesce(sum(r.ignored), 0) AS ignored
FROM records AS r WHERE {where};
-- postgres
-- Within walls no index takes an expression, which stands apart therefore.
WITH told AS MATERIALIZED (
    SELECT r.created_at, r.kind, r.confirmed, r.used, r.ignored, json_extract(r.details, '$.source') AS source
    FROM records AS r WHERE {where}
)
SELECT count(*) FILTER (
        WHERE t.created_at >= :stored_since AND NOT EXISTS (
            SELECT 1 FROM records AS e
            WHERE e.id = t.source AND e.kind IN ('episode', 'message', 'tool_call', 'tool_result', 'event', 'summary')
        )
    ) AS stored,
    count(*) FILTER (WHERE t.kind = 'fact') AS facts,
    count(*) FILTER (WHERE t.kind = 'fact' AND t.created_at < :stored_since) AS older_facts,
    count(*) FILTER (WHERE t.kind = 'fact' AND t.confirmed > 0) AS confirmed_facts,
    coalesce(sum(t.used), 0) AS used, coalesce(sum(t.ignored), 0) AS ignored
FROM told AS t;
