-- Queries over the log of reads: requests that gave records, and those records by their ids.

-- name: add_read
INSERT INTO reads (request, at, way, namespace, agent, person, token, session_id, ids)
VALUES (:request, :at, :way, :namespace, :agent, :person, :token, :session_id, :ids);

-- name: add_read_records
INSERT INTO read_records (record_id, at, request) SELECT e.value, :at, :request FROM json_each(:ids) AS e;

-- name: oldest_read
SELECT min(at) FROM reads;

-- name: prune_reads
DELETE FROM reads WHERE at < ?;

-- name: prune_read_records
DELETE FROM read_records WHERE at < ?;

-- name: list_reads
SELECT * FROM reads
WHERE namespace = :namespace AND (agent = :agent OR :agent = '') AND (at < :at OR at = :at AND request < :request)
ORDER BY at DESC, request DESC LIMIT :limit;

-- name: reads_of_record
-- What gave every record gave this one, too.
SELECT r.* FROM (
    SELECT at, request FROM read_records WHERE record_id = :id
    UNION ALL SELECT at, request FROM read_records WHERE record_id = '*'
) AS given
JOIN reads AS r ON r.request = given.request
WHERE (r.namespace = :namespace OR :namespace = '') AND (r.agent = :agent OR :agent = '')
    AND (given.at < :at OR given.at = :at AND given.request < :request)
ORDER BY given.at DESC, given.request DESC LIMIT :limit;

-- name: all_reads
SELECT * FROM reads WHERE at >= :since AND at < :until ORDER BY at, request;
