-- A partition is what changes in one order: a namespace with all its scopes ("namespace/web"), or a person's own scope
-- ("user/bob"). `newest` is the number of its newest change, and `last_write` the mark of the write that made it, '' where
-- no other history can take this one's place. `records` and `bytes` are those that it holds now, bytes of their texts.
CREATE TABLE partitions (
    name TEXT COLLATE "C" PRIMARY KEY,
    newest BIGINT NOT NULL,
    last_write TEXT COLLATE "C" NOT NULL,
    records BIGINT NOT NULL,
    bytes BIGINT NOT NULL
);

-- Records that went to another partition, as those that follow this one have to hear; and when.
CREATE TABLE departures (
    partition TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    change BIGINT NOT NULL,
    PRIMARY KEY (partition, id)
);

CREATE INDEX records_by_partition ON records ((
    CASE substr(scope, 1, 7) WHEN 'shared/' THEN 'namespace/' || substr(scope, 8)
    WHEN 'private' THEN 'namespace/' || substr(scope, 9 + instr(substr(scope, 9), '/')) ELSE scope END
), change);

INSERT INTO partitions (name, newest, last_write, records, bytes)
SELECT name, max(change), '', sum(records), sum(bytes) FROM (
    SELECT
        CASE substr(scope, 1, 7) WHEN 'shared/' THEN 'namespace/' || substr(scope, 8)
        WHEN 'private' THEN 'namespace/' || substr(scope, 9 + instr(substr(scope, 9), '/')) ELSE scope END AS name,
        change, 1 AS records, octet_length(text) AS bytes
    FROM records
    UNION ALL
    SELECT
        CASE substr(scope, 1, 7) WHEN 'shared/' THEN 'namespace/' || substr(scope, 8)
        WHEN 'private' THEN 'namespace/' || substr(scope, 9 + instr(substr(scope, 9), '/')) ELSE scope END,
        change, 0, 0
    FROM tombstones
    UNION ALL
    SELECT 'namespace/' || namespace, change, 0, 0 FROM tasks
) AS every GROUP BY name;

CREATE INDEX partitions_by_newest ON partitions (newest);

-- Numbers are taken under the lock of a partition's row, which is held to the commit: within a partition they grow in the
-- order of commits. What was rolled back leaves a gap.
CREATE SEQUENCE changes;
SELECT setval('changes', value + 1, FALSE) FROM sequence;
DROP TABLE sequence;

-- A mark is looked up by itself, and by the partitions that it was the last write of.
ALTER TABLE commits DROP COLUMN change;
CREATE INDEX commits_by_age ON commits (at);

-- A version that does not keep the partitions may not write any more.
UPDATE schema SET number = 2, oldest = 2;
