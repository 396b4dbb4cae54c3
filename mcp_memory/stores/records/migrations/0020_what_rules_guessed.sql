-- Rules that guessed from a text's words put most groups into the queue, few of them rightly (docs/decisions/0092). Those
-- that wait leave it, but what waits for the user; what was settled stays, and the copy of the file has the rest.

INSERT INTO meta (name, value)
SELECT 'migrated', 'groups that waited for a review because a rule guessed, and wait no more: ' || count(*)
FROM reviews WHERE way IS NULL AND kind IN ('contradictions', 'duplicates') AND coalesce(question, '') = ''
HAVING count(*)
ON CONFLICT (name) DO UPDATE SET value = value || '; ' || excluded.value;
DELETE FROM reviews WHERE way IS NULL AND kind IN ('contradictions', 'duplicates') AND coalesce(question, '') = '';
