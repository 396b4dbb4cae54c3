-- An episode is as old as it is stored, or was last opened: those that were shortened because they tell of long ago come
-- back (docs/decisions/0075). Each leaves a version with its status until then; what was extracted from it stays.

CREATE TEMP TABLE shown_whole AS
SELECT r.row, r.id, r.status, q.value AS newest, row_number() OVER (ORDER BY r.row) AS place,
    CAST(strftime('%s', 'now') AS REAL) AS at, t.days
FROM (
    SELECT row, (strftime('%s', 'now') - max(created_at, accessed_at)) / 86400.0 AS days FROM records
    WHERE kind = 'episode'
) AS t
JOIN records AS r ON r.row = t.row
JOIN sequence AS q
WHERE (r.status = 'summarized' AND t.days < 30) OR (r.status = 'archived' AND t.days < 90);

INSERT INTO versions (record_id, change, write, at, agent, client, session_id, reason, before)
SELECT id, newest + place, newest + 1, at, 'upkeep', '', '', 'its age counts from when it was stored',
    json_object('status', status)
FROM shown_whole;
UPDATE records SET
    change = (SELECT s.newest + s.place FROM shown_whole AS s WHERE s.row = records.row),
    changed = (SELECT s.newest + s.place FROM shown_whole AS s WHERE s.row = records.row),
    status = (SELECT CASE WHEN s.days < 30 THEN 'active' ELSE 'summarized' END FROM shown_whole AS s
        WHERE s.row = records.row)
WHERE row IN (SELECT row FROM shown_whole);
INSERT INTO meta (name, value)
SELECT 'migrated', 'episodes shown whole again, as their age counts from when they were stored: ' || place
FROM shown_whole ORDER BY place DESC LIMIT 1;
UPDATE sequence SET value = value + (SELECT count(*) FROM shown_whole);
DROP TABLE shown_whole;
