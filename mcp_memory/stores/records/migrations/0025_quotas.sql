-- The most that a partition may hold, and the calls a minute to a namespace; NULL sets no limit.
CREATE TABLE quotas (
    partition TEXT PRIMARY KEY,
    records INTEGER,
    bytes INTEGER,
    calls INTEGER
) WITHOUT ROWID;
