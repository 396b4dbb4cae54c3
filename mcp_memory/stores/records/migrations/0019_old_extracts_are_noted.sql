-- What earlier rules read out of sentences of old episodes and messages is noted, not believed (docs/decisions/0091): its
-- session alone sees it, and it expires like what is noted today. Whatever somebody vouched for stays: what was
-- confirmed, used, pinned, corrected, settled, given as a ground, or put in another record's place. Each leaves a
-- version with its status until then. What was extracted has its source's time; what a caller stored with such a detail
-- has not.

CREATE TEMP TABLE quarantined AS
SELECT r.row, r.id, r.status, q.value AS newest, row_number() OVER (ORDER BY r.row) AS place,
    CAST(strftime('%s', 'now') AS REAL) AS at
FROM records AS r
JOIN records AS e ON e.id = json_extract(r.details, '$.source') AND e.occurred_at = r.occurred_at
JOIN sequence AS q
WHERE json_extract(r.details, '$.source') IS NOT NULL
    AND e.kind IN ('episode', 'message', 'tool_call', 'tool_result', 'event') AND r.created_at <> e.created_at
    AND (r.kind = 'fact' AND r.status = 'new' OR r.kind = 'decision' AND r.status = 'recorded'
        OR r.kind = 'episode' AND e.kind <> 'episode' AND r.status = 'active')
    AND r.confirmed = 0 AND r.used = 0 AND NOT r.pinned AND json_extract(r.details, '$.noted_first') IS NULL
    AND r.id NOT IN (SELECT v.record_id FROM versions AS v WHERE json_extract(v.before, '$.normal_hash') IS NOT NULL)
    AND r.id NOT IN (SELECT o.superseded_by FROM records AS o WHERE o.superseded_by IS NOT NULL)
    AND r.id NOT IN (SELECT g.ground_id FROM grounds AS g WHERE NOT g.found)
    AND r.id NOT IN (
        SELECT i.record_id FROM review_records AS i JOIN reviews AS w ON w.id = i.review WHERE w.way IS NOT NULL
    );

INSERT INTO versions (record_id, change, write, at, agent, client, session_id, reason, before)
SELECT id, newest + place, newest + 1, at, 'upkeep', '', '', 'a rule read it out of a sentence, and nobody confirmed it',
    json_object('status', status)
FROM quarantined;
UPDATE records SET
    change = (SELECT s.newest + s.place FROM quarantined AS s WHERE s.row = records.row),
    changed = (SELECT s.newest + s.place FROM quarantined AS s WHERE s.row = records.row),
    updated_at = (SELECT s.at FROM quarantined AS s WHERE s.row = records.row),
    status = 'noted'
WHERE row IN (SELECT row FROM quarantined);
INSERT INTO meta (name, value)
SELECT 'migrated', 'records that rules had read out of sentences, noted for their sessions alone until confirmed: ' || place
FROM quarantined ORDER BY place DESC LIMIT 1
ON CONFLICT (name) DO UPDATE SET value = value || '; ' || excluded.value;
UPDATE sequence SET value = value + (SELECT count(*) FROM quarantined);
DROP TABLE quarantined;
