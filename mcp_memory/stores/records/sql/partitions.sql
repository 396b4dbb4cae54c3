-- Partitions: their newest changes, and what they hold. `{partition}` is the name of that of `r`, by its scope.
-- beyond: they count all of it.

-- name: revisions
SELECT name, newest, last_write FROM partitions WHERE newest > 0 AND name IN (SELECT value FROM json_each(:names));

-- name: has_write
-- In PostgreSQL alone: a standby may have taken over without it.
SELECT 1 FROM commits WHERE mark = ?;

-- name: put_partition
INSERT INTO partitions (name, newest, last_write, records, bytes)
VALUES (:name, :newest, :last_write, :records, :bytes)
ON CONFLICT (name) DO UPDATE SET
    newest = excluded.newest, last_write = excluded.last_write, records = partitions.records + excluded.records,
    bytes = partitions.bytes + excluded.bytes;

-- name: touch_all_partitions
UPDATE partitions SET newest = :newest, last_write = :last_write;

-- name: fill_partitions
-- After an import into the empty memory.
INSERT INTO partitions (name, newest, last_write, records, bytes)
SELECT name, max(change), :last_write, sum(records), sum(bytes) FROM (
    SELECT {partition} AS name, r.change, 1 AS records, length(CAST(r.text AS BLOB)) AS bytes FROM records AS r
    UNION ALL SELECT {partition}, r.change, 0, 0 FROM tombstones AS r
    UNION ALL SELECT 'namespace/' || namespace, change, 0, 0 FROM tasks
) AS every GROUP BY name;

-- name: newest_of_scopes
-- The newest changes of some records, by scope.
SELECT r.scope, max(r.change) AS newest FROM json_each(:ids) AS i CROSS JOIN records AS r ON r.id = i.value GROUP BY r.scope;

-- name: scopes_of
SELECT r.id, r.scope FROM json_each(:ids) AS i CROSS JOIN records AS r ON r.id = i.value;

-- name: depart
INSERT INTO departures (partition, id, change) VALUES (:partition, :id, :change)
ON CONFLICT (partition, id) DO UPDATE SET change = excluded.change;

-- name: come_back
DELETE FROM departures WHERE partition = :partition AND id = :id;

-- name: depart_all
-- Whatever a partition holds, or held until it was erased.
INSERT INTO departures (partition, id, change)
SELECT :old, r.id, :change
FROM (SELECT id, scope FROM records UNION ALL SELECT id, scope FROM tombstones) AS r WHERE {partition} = :old
ON CONFLICT (partition, id) DO UPDATE SET change = excluded.change;

-- name: come_back_all
DELETE FROM departures
WHERE partition = :new AND id IN (SELECT id FROM departures WHERE partition = :old AND change = :change);

-- name: is_most
-- Where it is one of few, and holds more than half of all records.
SELECT 1 FROM partitions AS p
WHERE p.name = :partition AND (SELECT count(*) FROM (SELECT 1 FROM partitions LIMIT 101) AS few) <= 100
    AND 2 * p.records > (SELECT sum(records) FROM (SELECT records FROM partitions LIMIT 100) AS every);

-- name: large_partitions
SELECT name FROM partitions WHERE records >= ?;

-- name: size_of_partition
SELECT records, bytes FROM partitions WHERE name = ?;
