-- Queries over the logs of sessions. An original is live where nothing covers it, a replacement where nothing replaced it.

-- name: lines_of_session
-- Those that the session stored, and those that it has in common with another one. A part of other statements.
SELECT row, id, text_tokens AS tokens, created_at FROM records INDEXED BY records_in_log
WHERE namespace = :namespace AND session_id = :session_id AND agent = :agent
    AND kind IN ('message', 'tool_call', 'tool_result')
UNION ALL
SELECT e.row, e.id, e.text_tokens, e.created_at FROM shared_lines AS s CROSS JOIN records AS e ON e.row = s.row
WHERE s.namespace = :namespace AND s.agent = :agent AND s.session_id = :session_id

-- name: was_not_taken_back
-- A part: of a line r.
r.row NOT IN (
        SELECT row FROM taken_back WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id
    )

-- name: is_live
-- A part: of a line r. What was taken back is neither live nor covered.
NOT EXISTS (
        SELECT 1 FROM covered AS c CROSS JOIN replacements AS p ON p.row = c.replacement
        WHERE c.record_id = r.id AND p.namespace = :namespace AND p.agent = :agent AND p.session_id = :session_id
    )
    AND {was_not_taken_back}

-- name: live_originals
WITH lines AS ({lines_of_session})
SELECT r.id, r.kind, r.role, r.text, r.text_tokens, r.occurred_at, r.summary, r.micro, r.tool, r.call_id,
    r.speaker, coalesce(r.outcome, '') = 'failure', r.pinned, r.importance
FROM lines AS l CROSS JOIN records AS r ON r.row = l.row
WHERE {is_live}
ORDER BY r.row;

-- name: originals_with_text
-- Live or not: the messages, and the calls and results of some tools; nothing that was retired or taken back.
WITH lines AS ({lines_of_session})
SELECT r.id, r.kind, r.role, r.text, r.text_tokens, r.occurred_at, r.summary, r.micro, r.tool, r.call_id,
    r.speaker, coalesce(r.outcome, '') = 'failure', r.pinned, r.importance
FROM lines AS l CROSS JOIN records AS r ON r.row = l.row
WHERE (r.kind = 'message' OR r.tool IN (SELECT value FROM json_each(:tools)))
    AND r.status NOT IN ('inactive', 'retired')
    AND {was_not_taken_back}
ORDER BY r.row;

-- name: live_replacements
SELECT p.* FROM replacements AS p INDEXED BY replacements_live
WHERE p.namespace = :namespace AND p.agent = :agent AND p.session_id = :session_id AND p.replaced_by IS NULL;

-- name: replacements_in
SELECT p.* FROM replacements AS p INDEXED BY replacements_by_compaction
WHERE p.namespace = :namespace AND p.agent = :agent AND p.session_id = :session_id AND p.compaction = :compaction
ORDER BY p.row LIMIT :limit OFFSET :offset;

-- name: pass_shares
SELECT compaction, pass_name, count(*) AS replacements, sum(tokens) AS tokens, sum(original_tokens) AS original_tokens
FROM replacements INDEXED BY replacements_by_compaction
WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id
GROUP BY compaction, pass_name ORDER BY min(row);

-- name: replacements_of
-- Live or replaced. Of several with one id the caller's own comes last.
SELECT p.* FROM json_each(:ids) AS i CROSS JOIN replacements AS p ON p.id = i.value
ORDER BY p.namespace = :namespace AND p.agent = :agent AND p.session_id = :session_id, p.row;

-- name: covers
-- Ids sort by time; longer ones are later.
SELECT c.replacement, c.record_id FROM covered AS c
WHERE c.replacement IN (SELECT CAST(value AS INTEGER) FROM json_each(?)) ORDER BY c.replacement, length(c.record_id), c.record_id;

-- name: originals
-- All of them, or those after an entry; none where that is not there.
WITH lines AS ({lines_of_session})
SELECT r.id, r.kind, r.role, r.content_hash, r.call_id,
    CASE json_type(r.details, '$.message_id') WHEN 'text' THEN json_extract(r.details, '$.message_id') END
FROM lines AS l CROSS JOIN records AS r ON r.row = l.row
WHERE r.row > CASE WHEN CAST(:after AS TEXT) IS NULL THEN 0
        ELSE coalesce((SELECT a.row FROM records AS a WHERE a.id = :after), 9223372036854775807) END
ORDER BY r.row;

-- name: log_size
WITH lines AS ({lines_of_session})
SELECT count(*) FILTER (WHERE is_live) AS entries, coalesce(sum(tokens) FILTER (WHERE is_live), 0) AS tokens,
    coalesce(max(created_at), 0.0) AS last_at,
    coalesce((SELECT l.tokens FROM logs_left AS l
        WHERE l.namespace = :namespace AND l.agent = :agent AND l.session_id = :session_id), -1) AS left
FROM (
    SELECT r.tokens, r.created_at, {is_live} AS is_live FROM lines AS r
    UNION ALL
    SELECT tokens, NULL, TRUE FROM replacements INDEXED BY replacements_live
    WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id AND replaced_by IS NULL
) AS live;

-- name: agents_at_work
-- beyond: upkeep.
-- Whose logs grew since then, found by the few sessions that were at work since.
SELECT r.namespace, r.agent, r.session_id
FROM sessions AS s CROSS JOIN records AS r INDEXED BY records_in_log ON r.namespace = s.namespace AND r.session_id = s.id
WHERE s.last_at >= :since AND r.kind IN ('message', 'tool_call', 'tool_result')
GROUP BY r.namespace, r.session_id, r.agent HAVING max(r.created_at) >= :since;

-- name: latest_logs
-- By an index that holds all it takes; of the logs that are listed, the client that fed the last entry.
SELECT l.agent, l.session_id, e.client, l.began_at, l.last_at
FROM (
    SELECT session_id, agent, min(created_at) AS began_at, max(created_at) AS last_at, max(row) AS last
    FROM records INDEXED BY records_in_log
    WHERE namespace = :namespace AND (agent = :agent OR :of_all <> 0) AND kind IN ('message', 'tool_call', 'tool_result')
    GROUP BY session_id, agent
    HAVING max(created_at) < :at OR max(created_at) = :at AND agent || '/' || session_id < :key
    ORDER BY last_at DESC, agent || '/' || session_id DESC LIMIT :limit
) AS l JOIN records AS e ON e.row = l.last
ORDER BY l.last_at DESC, l.agent || '/' || l.session_id DESC;

-- name: list_compactions
SELECT number, at, asked_by AS trigger, tokens_before AS before, tokens_after AS after, undone_at FROM compactions
WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id ORDER BY number;

-- name: add_compaction
-- Numbers of undone ones are not used again.
INSERT INTO compactions (namespace, agent, session_id, number, at, asked_by, tokens_before, tokens_after)
SELECT :namespace, :agent, :session_id, coalesce(max(number), 0) + 1, :at, :asked_by, :before, :before FROM compactions
WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id
RETURNING number;

-- name: latest_compaction
SELECT max(number) FROM compactions
WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id AND undone_at IS NULL;

-- name: note_saving
UPDATE compactions SET tokens_after = tokens_after - :saved
WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id AND number = :compaction;

-- name: live_originals_among
SELECT r.id, r.text_tokens FROM json_each(:ids) AS i CROSS JOIN records AS r ON r.id = i.value
WHERE r.kind IN ('message', 'tool_call', 'tool_result')
    AND (
        r.namespace = :namespace AND r.session_id = :session_id AND r.agent = :agent
        OR EXISTS (
            SELECT 1 FROM shared_lines AS s
            WHERE s.namespace = :namespace AND s.agent = :agent AND s.session_id = :session_id AND s.row = r.row
        )
    )
    AND {is_live};

-- name: told_before
-- beyond: an id alone; its index is by an expression, which a wall would keep the planner from.
-- The same line under the client's own id of it, in whichever session it was told first, also where it was corrected
-- since, or hidden by its agent, whose own it is. Only one that was stored after all that the log has: so the order of
-- rows is that of the log.
SELECT r.id FROM records AS r INDEXED BY records_by_message
WHERE json_extract(r.details, '$.message_id') = :message_id AND json_type(r.details, '$.message_id') = 'text'
    AND r.kind IN ('message', 'tool_call', 'tool_result')
    AND (r.scope = :scope OR r.namespace = :namespace AND r.agent = :agent)
    AND r.kind = :kind AND coalesce(r.role, '') = coalesce(:role, '') AND coalesce(r.call_id, '') = coalesce(:call_id, '')
    AND (
        r.content_hash = :digest OR EXISTS (
            SELECT 1 FROM versions AS v
            WHERE v.record_id = r.id AND json_extract(v.before, '$.normal_hash') = :normal_digest
        )
    )
    AND r.row > max(
        coalesce((SELECT max(s.row) FROM shared_lines AS s
            WHERE s.namespace = :namespace AND s.agent = :agent AND s.session_id = :session_id), 0),
        coalesce((SELECT max(o.row) FROM records AS o INDEXED BY records_in_log
            WHERE o.namespace = :namespace AND o.session_id = :session_id AND o.agent = :agent
                AND o.kind IN ('message', 'tool_call', 'tool_result')), 0)
    )
ORDER BY r.row LIMIT 1;

-- name: share_line
INSERT INTO shared_lines (namespace, agent, session_id, row)
SELECT :namespace, :agent, :session_id, r.row FROM records AS r
WHERE r.id = :id AND NOT (r.namespace = :namespace AND r.agent = :agent AND r.session_id = :session_id)
ON CONFLICT DO NOTHING;

-- name: part_line
-- A line that gets another scope leaves the logs of other agents, who may not see it: they may tell it again.
DELETE FROM shared_lines
WHERE row = (SELECT row FROM records WHERE id = :id)
    AND agent <> (SELECT agent FROM records WHERE id = :id);

-- name: lines_named
-- Lines of a session's log that are, or are parts of, messages with these ids of the client: "id", "id/2".
WITH lines AS ({lines_of_session}),
    named (row, id, message_id) AS (
        SELECT r.row, r.id, json_extract(r.details, '$.message_id')
        FROM lines AS l CROSS JOIN records AS r ON r.row = l.row
        WHERE json_type(r.details, '$.message_id') = 'text'
    )
SELECT id FROM named
WHERE message_id IN (SELECT value FROM json_each(:message_ids)) OR message_id <> rtrim(message_id, '0123456789')
    AND rtrim(message_id, '0123456789') LIKE '%/'
    AND rtrim(rtrim(message_id, '0123456789'), '/') IN (SELECT value FROM json_each(:message_ids))
ORDER BY row;

-- name: take_back
INSERT INTO taken_back (namespace, agent, session_id, row)
SELECT :namespace, :agent, :session_id, row FROM records WHERE id = :id ON CONFLICT DO NOTHING;

-- name: stand_again
DELETE FROM taken_back
WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id
    AND row = (SELECT row FROM records WHERE id = :id);

-- name: held_elsewhere
-- beyond: that it is, and not where.
-- Where another session's log has the line, and its user did not take it back.
WITH holders (namespace, agent, session_id) AS (
    SELECT namespace, agent, session_id FROM records WHERE id = :id
    UNION
    SELECT s.namespace, s.agent, s.session_id FROM shared_lines AS s
    WHERE s.row = (SELECT row FROM records WHERE id = :id)
)
SELECT 1 FROM holders AS h
WHERE NOT EXISTS (
    SELECT 1 FROM taken_back AS t
    WHERE t.namespace = h.namespace AND t.agent = h.agent AND t.session_id = h.session_id
        AND t.row = (SELECT row FROM records WHERE id = :id)
)
LIMIT 1;

-- name: live_replacements_among
SELECT p.row, p.tokens FROM json_each(:ids) AS i CROSS JOIN replacements AS p ON p.id = i.value
WHERE p.namespace = :namespace AND p.agent = :agent AND p.session_id = :session_id AND p.replaced_by IS NULL;

-- name: add_replacement
INSERT INTO replacements (
    id, change, namespace, agent, session_id, compaction, pass_name, made_at, form, kind, role, text, tokens,
    original_tokens, level, tool, call_id, failed, pinned, importance, at, record_id
) VALUES (
    :id, :change, :namespace, :agent, :session_id, :compaction, :pass_name, :made_at, :form, :kind, :role, :text,
    :tokens, :original_tokens, :level, :tool, :call_id, :failed, :pinned, :importance, :at, :record_id
)
ON CONFLICT DO NOTHING RETURNING row;

-- name: cover_originals
INSERT INTO covered (record_id, replacement) SELECT value, :replacement FROM json_each(:ids);

-- name: cover_what_those_cover
INSERT INTO covered (record_id, replacement)
SELECT record_id, :replacement FROM covered WHERE replacement IN (SELECT CAST(value AS INTEGER) FROM json_each(:replaced));

-- name: put_successor
UPDATE replacements SET replaced_by = :replacement WHERE row IN (SELECT CAST(value AS INTEGER) FROM json_each(:replaced));

-- name: keep_sources
-- Of the summaries of this compaction that are records: what they cover, and the earlier summaries that they took up.
INSERT INTO undone_summaries (record_id, source_id)
SELECT p.record_id, c.record_id FROM replacements AS p CROSS JOIN covered AS c ON c.replacement = p.row
WHERE p.namespace = :namespace AND p.agent = :agent AND p.session_id = :session_id AND p.compaction = :compaction
    AND p.record_id IS NOT NULL
UNION
SELECT p.record_id, earlier.record_id
FROM replacements AS p CROSS JOIN replacements AS earlier ON earlier.replaced_by = p.row
WHERE p.namespace = :namespace AND p.agent = :agent AND p.session_id = :session_id AND p.compaction = :compaction
    AND p.record_id IS NOT NULL AND earlier.record_id IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: drop_compacted
-- What they had replaced is live again, by its foreign key, and what they covered is not covered by them.
DELETE FROM replacements
WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id AND compaction = :compaction
RETURNING record_id;

-- name: note_undone
UPDATE compactions SET undone_at = :at
WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id AND number = :compaction;

-- name: saying_the_same
-- beyond: what is erased is erased wherever it was taken up.
-- From records to replacements that say anything of them, to what replaced those, to the records that say the same.
WITH RECURSIVE telling (record_id, replacement) AS (
    SELECT value, NULL FROM json_each(?)
    UNION
    SELECT NULL, c.replacement FROM telling CROSS JOIN covered AS c ON c.record_id = telling.record_id
    UNION
    SELECT NULL, p.row FROM telling CROSS JOIN replacements AS p ON p.record_id = telling.record_id
    UNION
    SELECT NULL, p.replaced_by FROM telling CROSS JOIN replacements AS p ON p.row = telling.replacement
    WHERE p.replaced_by IS NOT NULL
    UNION
    SELECT p.record_id, NULL FROM telling CROSS JOIN replacements AS p ON p.row = telling.replacement
    WHERE p.record_id IS NOT NULL
    UNION
    SELECT u.record_id, NULL FROM telling CROSS JOIN undone_summaries AS u ON u.source_id = telling.record_id
)
SELECT record_id, replacement FROM telling ORDER BY length(record_id), record_id;
-- postgres
WITH RECURSIVE telling (record_id, replacement) AS (
    SELECT r.id, CAST(NULL AS BIGINT) FROM records AS r WHERE r.id IN (SELECT value FROM json_each(?))
    UNION
    SELECT next.record_id, next.replacement FROM telling CROSS JOIN LATERAL (
        SELECT NULL AS record_id, c.replacement FROM covered AS c WHERE c.record_id = telling.record_id
        UNION ALL
        SELECT NULL, p.row FROM replacements AS p WHERE p.record_id = telling.record_id
        UNION ALL
        SELECT p.record_id, NULL FROM replacements AS p
        WHERE p.row = telling.replacement AND p.record_id IS NOT NULL
        UNION ALL
        SELECT NULL, p.replaced_by FROM replacements AS p
        WHERE p.row = telling.replacement AND p.replaced_by IS NOT NULL
        UNION ALL
        SELECT u.record_id, NULL FROM undone_summaries AS u WHERE u.source_id = telling.record_id
    ) AS next
)
SELECT record_id, replacement FROM telling ORDER BY length(record_id) NULLS FIRST, record_id NULLS FIRST;

-- name: drop_replacements
DELETE FROM replacements WHERE row IN (SELECT CAST(value AS INTEGER) FROM json_each(?));

-- name: add_pass_run
INSERT INTO pass_runs (
    namespace, agent, session_id, compaction, at, name, revision, ran, reason, tokens_before, tokens_after, replaced,
    milliseconds, spent, error
) VALUES (
    :namespace, :agent, :session_id, :compaction, :at, :name, :revision, :ran, :reason, :tokens_before, :tokens_after,
    :replaced, :milliseconds, :spent, :error
);

-- name: leave_log
INSERT INTO logs_left (namespace, agent, session_id, tokens) VALUES (:namespace, :agent, :session_id, :tokens)
ON CONFLICT (namespace, agent, session_id) DO UPDATE SET tokens = excluded.tokens;

-- name: prune_pass_runs
DELETE FROM pass_runs WHERE at < ?;
-- postgres
DELETE FROM pass_runs WHERE ctid IN (SELECT ctid FROM pass_runs WHERE at < ? FOR UPDATE SKIP LOCKED);

-- name: tally_passes
SELECT name, count(*) FILTER (WHERE ran <> 0) AS ran, count(error) AS failed, sum(milliseconds) AS milliseconds,
    sum(tokens_before - tokens_after) AS saved, sum(spent) AS spent
FROM pass_runs WHERE namespace = :namespace AND agent = :agent AND at >= :since GROUP BY name ORDER BY name;

-- name: skipped_passes
-- The commonest reasons first.
SELECT name, reason, count(*) FROM pass_runs
WHERE namespace = :namespace AND agent = :agent AND at >= :since AND ran = 0 GROUP BY name, reason
ORDER BY count(*) DESC, max(at) DESC, reason;

-- name: fruitless_passes
SELECT DISTINCT name FROM pass_runs
WHERE namespace = :namespace AND agent = :agent AND session_id = :session_id AND revision = :revision
    AND (ran <> 0 OR error IS NOT NULL) AND tokens_after >= tokens_before;
