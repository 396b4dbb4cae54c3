-- What one of several servers does at a time, in PostgreSQL alone, by its clock: a file has one owner.

-- name: take_lease
INSERT INTO leases (name, holder, until)
VALUES (:name, :holder, extract(epoch FROM clock_timestamp()) + :seconds)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE leases.until < extract(epoch FROM clock_timestamp()) OR leases.holder = excluded.holder
RETURNING applied;

-- name: renew_lease
-- Of its holder alone, and only where nobody has noted anything else since.
UPDATE leases SET until = extract(epoch FROM clock_timestamp()) + :seconds, applied = :applied,
    reached = coalesce(:reached, reached)
WHERE name = :name AND holder = :holder AND applied = :before AND until > extract(epoch FROM clock_timestamp())
RETURNING applied;

-- name: doubt_lease
UPDATE leases SET applied = 0 WHERE name = :name;

-- name: held_lease
SELECT applied, reached FROM leases
WHERE name = :name AND holder <> '' AND until > extract(epoch FROM clock_timestamp());

-- name: add_job
INSERT INTO leases (name, holder, until) VALUES (:name, '', 0) ON CONFLICT DO NOTHING;

-- name: take_job
UPDATE leases SET holder = :holder, until = extract(epoch FROM clock_timestamp()) + :seconds
WHERE name = (
    SELECT name FROM leases WHERE name = :name AND until <= extract(epoch FROM clock_timestamp())
    FOR UPDATE SKIP LOCKED
)
RETURNING name;

-- name: is_job_held
SELECT 1 FROM leases WHERE name = :name AND holder <> '' AND until > extract(epoch FROM clock_timestamp());

-- name: end_lease
UPDATE leases SET holder = '', until = extract(epoch FROM clock_timestamp()) + :seconds
WHERE name = :name AND holder = :holder;
