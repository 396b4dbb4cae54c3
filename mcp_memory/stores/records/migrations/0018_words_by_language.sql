-- A word is indexed by the rules of its script's or its text's language (docs/decisions/0082). The terms that are kept
-- of each record stay until upkeep derives them anew, a few records at a time.

INSERT INTO meta (name, value)
SELECT 'migrated', 'records whose words upkeep indexes anew, by the rules of their languages: ' || count(*)
FROM terms HAVING count(*)
ON CONFLICT (name) DO UPDATE SET value = value || '; ' || excluded.value;
