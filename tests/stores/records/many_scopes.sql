-- One large scope and many small ones: `:all` records, of which the first `:large` are in one scope, and each further `:small` in another.
CREATE TEMP TABLE made AS
SELECT i, CASE WHEN i <= :large THEN 'large' ELSE 'small' || (i - :large - 1) / :small END AS n FROM generate_series(1, :all) AS i;

INSERT INTO tasks (id, change, namespace, parent_id, goal, status, depth, agent, session_id, artifacts, inherit, branch, created_at, updated_at)
SELECT 't' || i, i, n, CASE WHEN i % 20 = 0 THEN 't' || i - 10 END, 'g', CASE WHEN i % 30 = 10 THEN 'active' ELSE 'complete' END, 0, 'a0', 's' || i / 10, '[]', '[]', 0, i, i
FROM made WHERE i % 10 = 0;

INSERT INTO records (
    row, id, change, scope, namespace, visibility, agent, session_id, task_id, kind, text, summary, micro, text_tokens, summary_tokens,
    micro_tokens, content_hash, normal_hash, importance, confidence, status, outcome, pinned, tags, details, superseded_by, created_at,
    updated_at, occurred_at, accessed_at, valid_until
)
SELECT
    i, 'r' || i, i, 'shared/' || n, n, 'shared', 'a' || i % 3, 's' || i / 10, 't' || (i + 9) / 10 * 10,
    (ARRAY['fact', 'decision', 'message', 'event', 'episode', 'tool_call', 'result', 'summary'])[1 + i % 8],
    'text ' || i || repeat(' of some length', 20), 'summary', 'micro', 1, 1, 1, 'c' || i, 'h' || i, i % 7, 0.5,
    CASE WHEN i % 50 = 0 THEN 'superseded' ELSE 'new' END, CASE WHEN i % 5 = 1 THEN 'success' END, CASE WHEN i % 40 = 0 THEN 1 ELSE 0 END,
    '["a", "b' || i || '"]', '{"message_id": "m' || i || '", "task": "t' || (i / 10) * 10 || CASE WHEN i % 3 = 0 THEN '", "source": "r' || i - 1 ELSE '' END || '"}', CASE WHEN i % 50 = 0 THEN 'r' || i + 1 END, i, i, i, i,
    CASE WHEN i % 100 = 0 THEN i END
FROM made;

INSERT INTO record_tags SELECT t.value, r.row FROM records AS r, json_each(r.tags) AS t;
INSERT INTO terms SELECT row, decode(repeat('ab', 200), 'hex') FROM records;
INSERT INTO vectors SELECT row, 'model', 1, decode(repeat('ab', 400), 'hex') FROM records;
INSERT INTO unembedded SELECT row FROM records WHERE row % 400 = 0;
INSERT INTO confirmations SELECT id, session_id FROM records WHERE row % 4 = 0;
INSERT INTO tombstones SELECT 'x' || i, i, 'shared/' || n FROM made WHERE i % 20 = 0;
INSERT INTO erased_texts SELECT 'shared/' || n, 1, decode(md5(i::text), 'hex'), i FROM made WHERE i % 20 = 0;
INSERT INTO entities (id, change, scope, name, name_key, type) SELECT i, i, 'shared/' || n, 'E' || i, 'e' || i, 'thing' FROM made WHERE i % 5 = 0;
INSERT INTO mentions SELECT e.id, r.id, '{}', r.row % 2 FROM entities AS e JOIN records AS r ON r.row BETWEEN e.id - 4 AND e.id;
INSERT INTO aliases SELECT entity, record_id, 'alias' || entity FROM mentions WHERE entity % 20 = 0;
INSERT INTO relations SELECT e.id, t.type, o.id, 'r' || e.id, e.id, 1 FROM entities AS e JOIN entities AS o ON o.id = e.id + 5 AND o.scope = e.scope,
    (VALUES ('near'), ('above'), ('like'), ('of')) AS t (type);
INSERT INTO versions (record_id, change, write, at, agent, client, session_id, reason, before)
SELECT id, row, row, row, agent, '', '', '', '{"normal_hash": "o' || row || '", "scope": "' || scope || '"}' FROM records WHERE row % 5 = 0;
INSERT INTO grounds (record_id, ground_id, found, vouched, seen, state, change, changed_at)
SELECT id, 'r' || row - 1, 0, row, 'h', CASE WHEN row % 100 = 0 THEN 'past' ELSE 'h' END, row, row FROM records WHERE row % 4 = 0;
INSERT INTO reviews SELECT 'g' || row, 'contradictions', '', row, '', 0, '', CASE WHEN row % 20 = 0 THEN 'unrelated' END, row % 20, NULL, '', ''
FROM records WHERE row % 10 = 0;
INSERT INTO review_records SELECT 'g' || row, 0, id, content_hash FROM records WHERE row % 10 = 0;
INSERT INTO sessions SELECT DISTINCT namespace, session_id, 'a0', 0, max(row) OVER (PARTITION BY namespace, session_id) FROM records;
INSERT INTO places SELECT namespace, 'a0', 's' || change / 10, id FROM tasks;
INSERT INTO moves SELECT namespace, agent, session_id, 0, 0 FROM places;
INSERT INTO task_changes SELECT change, namespace, id, 'a0', 'a1', '', 'active', 'complete', change FROM tasks;
INSERT INTO contexts SELECT namespace, 'a0', 'c' || row, row, '{}' FROM records WHERE row % 5 = 0;
INSERT INTO assemblies (namespace, agent, at, strategy) SELECT namespace, 'a0', row, 'auto' FROM records WHERE row % 5 = 0;
INSERT INTO compactions SELECT DISTINCT namespace, 'a0', session_id, 1, 0, 'call', 1, 1 FROM records;
INSERT INTO replacements (
    row, id, change, namespace, agent, session_id, compaction, pass_name, made_at, form, kind, role, text, tokens, original_tokens, level,
    failed, pinned, importance, at
) SELECT row, 'p' || row, row, namespace, 'a0', session_id, 1, 'p', 0, '', '', '', '', 1, 1, 1, 0, 0, 1, 0 FROM records WHERE row % 5 = 0;
INSERT INTO covered SELECT 'r' || row - 1, row FROM replacements;
INSERT INTO pass_runs SELECT namespace, 'a0', session_id, 1, row, 'p', 'v', 1, '', 1, 1, 1, 1, 0 FROM records WHERE row % 5 = 0;
INSERT INTO shared_lines SELECT namespace, 'a0', 'shared' || session_id, row FROM records WHERE row % 20 = 0;
INSERT INTO taken_back SELECT namespace, 'a0', session_id, row FROM records WHERE row % 20 = 0;
INSERT INTO exclusions SELECT id, namespace, task_id, '', row, 0, 'a0' FROM records WHERE row % 20 = 0;
INSERT INTO calls_done SELECT 'k' || i, decode('ab', 'hex'), '[]', i FROM made WHERE i % 10 = 0;
INSERT INTO logs_left SELECT namespace, 'a0', id, 1 FROM sessions;
INSERT INTO project_folders SELECT DISTINCT namespace, '/' || namespace, '', '', 0 FROM records;
INSERT INTO folders SELECT namespace, folder, '', 0, 1, NULL FROM project_folders;
INSERT INTO partitions SELECT 'namespace/' || namespace, max(change), '', count(*), sum(octet_length(text)) FROM records GROUP BY namespace;
INSERT INTO departures SELECT 'namespace/' || namespace, 'y' || row, change FROM records WHERE row % 5 = 0;
INSERT INTO quotas SELECT name, records * 2, bytes * 2, 100 FROM partitions;
INSERT INTO shown_texts SELECT namespace, agent, session_id, id, 'd' || row, change, row FROM records;
INSERT INTO shown_contexts SELECT namespace, 'a0', session_id, 'c' || row, row, '{}', NULL FROM records WHERE row % 5 = 0;
INSERT INTO reads SELECT 'q' || row, row, 'tool recall', namespace, 'a0', '', '', session_id, '[]' FROM records WHERE row % 5 = 0;
INSERT INTO read_records SELECT id, row, 'q' || row / 5 * 5 FROM records;
SELECT setval('changes', :all);
ANALYZE;
