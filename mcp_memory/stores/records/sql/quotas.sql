-- Queries over quotas, by the partitions that they are of.

-- name: list_quotas
SELECT partition, records, bytes, calls FROM quotas ORDER BY partition;

-- name: quotas_of
SELECT partition, records, bytes, calls FROM quotas WHERE partition IN (SELECT value FROM json_each(?));

-- name: put_quota
INSERT INTO quotas (partition, records, bytes, calls) VALUES (:partition, :records, :bytes, :calls)
ON CONFLICT (partition) DO UPDATE SET
    records = excluded.records, bytes = excluded.bytes, calls = excluded.calls;

-- name: drop_quota
DELETE FROM quotas WHERE partition = :partition;

-- name: move_quota
-- That of the project which takes the other in stays.
UPDATE quotas SET partition = 'namespace/' || :new
WHERE partition = 'namespace/' || :old
    AND NOT EXISTS (SELECT 1 FROM quotas AS n WHERE n.partition = 'namespace/' || :new);

-- name: drop_moved_quota
DELETE FROM quotas WHERE partition = 'namespace/' || :old;
