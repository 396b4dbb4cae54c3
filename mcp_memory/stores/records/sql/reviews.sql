-- Queries over groups to review.

-- name: put_review
-- A new one, or what became of one.
INSERT INTO reviews (id, kind, why, made_at, question, asked_in, asked_by, way, settled_in, settled_at, agent, reason)
VALUES (:id, :kind, :why, :made_at, :question, :asked_in, :asked_by, :way, :settled_in, :settled_at, :agent, :reason)
ON CONFLICT (id) DO UPDATE SET
    question = excluded.question, asked_in = excluded.asked_in, asked_by = excluded.asked_by, way = excluded.way,
    settled_in = excluded.settled_in, settled_at = excluded.settled_at, agent = excluded.agent, reason = excluded.reason;

-- name: put_review_records
-- Each (id, digest) pair at its place; nothing where the group has them.
INSERT INTO review_records (review, place, record_id, content_hash)
SELECT :id, p.key, json_extract(p.value, '$[0]'), json_extract(p.value, '$[1]') FROM json_each(:pairs) AS p
WHERE TRUE ON CONFLICT DO NOTHING;

-- name: get_review
SELECT * FROM reviews WHERE id = ?;

-- name: review_records
SELECT record_id, content_hash FROM review_records WHERE review = ? ORDER BY place;

-- name: reviews_of
-- The groups, waiting or settled, that hold one of these records.
SELECT * FROM reviews
WHERE id IN (SELECT review FROM review_records WHERE record_id IN (SELECT value FROM json_each(?)))
ORDER BY length(id), id;

-- name: reviews_of_write
-- What a write settled, or put to the user.
SELECT * FROM reviews WHERE settled_in = :change UNION SELECT * FROM reviews WHERE asked_in = :change ORDER BY id;

-- name: waiting_reviews
-- Those whose records all pass, hold and say what they said; where a record is given, it is one of them; where a task or
-- a session is given, one of them is of it.
-- What waits for the user comes last.
SELECT g.* FROM reviews AS g INDEXED BY reviews_waiting
WHERE g.way IS NULL
    AND (CAST(:with_record AS TEXT) IS NULL OR g.id IN (SELECT review FROM review_records WHERE record_id = :with_record))
    AND NOT EXISTS (
        SELECT 1 FROM review_records AS m JOIN records AS r ON r.id = m.record_id
        WHERE m.review = g.id AND NOT ({where} AND r.status <> 'superseded' AND r.content_hash = m.content_hash)
    )
    AND (CAST(:by_task AS TEXT) IS NULL AND CAST(:by_session AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM review_records AS m JOIN records AS r ON r.id = m.record_id
        WHERE m.review = g.id AND (r.task_id = :by_task OR r.agent || '/' || r.session_id = :by_session)
    ))
ORDER BY g.question <> '', length(g.id), g.id;

-- name: settled_reviews
-- The latest first, of those whose records all pass.
SELECT g.* FROM reviews AS g INDEXED BY reviews_by_settlement
WHERE g.settled_in AND g.way IS NOT NULL
    AND NOT EXISTS (
        SELECT 1 FROM review_records AS m JOIN records AS r ON r.id = m.record_id
        WHERE m.review = g.id AND NOT ({where})
    )
ORDER BY g.settled_in DESC LIMIT :limit;

-- name: reviewed
SELECT m.record_id FROM review_records AS m JOIN reviews AS g ON g.id = m.review
WHERE g.kind = :kind AND m.record_id IN (SELECT value FROM json_each(:ids));

-- name: contradicting
-- Each of these records with the others of a group that waits, while both hold and say what they said, the latest first.
SELECT m.record_id, o.record_id FROM review_records AS m
JOIN reviews AS g ON g.id = m.review AND g.kind = 'contradictions' AND g.way IS NULL
JOIN review_records AS o ON o.review = m.review AND o.record_id <> m.record_id
JOIN records AS r ON r.id = m.record_id AND r.content_hash = m.content_hash AND r.status <> 'superseded'
JOIN records AS p ON p.id = o.record_id AND p.content_hash = o.content_hash AND p.status <> 'superseded'
WHERE m.record_id IN (SELECT value FROM json_each(?))
ORDER BY p.row DESC;

-- name: drop_review
DELETE FROM reviews WHERE id = ?;

-- name: drop_reviews_of
DELETE FROM reviews
WHERE id IN (SELECT review FROM review_records WHERE record_id IN (SELECT value FROM json_each(?)));

-- name: leaving_reviews
-- beyond: a memory moves as a whole.
-- With a namespace those all of whose records leave with it.
SELECT * FROM reviews AS g
WHERE CAST(:namespace AS TEXT) IS NULL OR NOT EXISTS (
    SELECT 1 FROM review_records AS m JOIN records AS r ON r.id = m.record_id
    WHERE m.review = g.id AND (r.namespace <> :namespace OR r.visibility = 'user')
)
ORDER BY length(g.id), g.id;
