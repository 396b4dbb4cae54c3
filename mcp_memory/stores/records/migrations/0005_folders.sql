-- Which folders of this computer may use which namespace, where nobody names one. Never part of an export.
CREATE TABLE folders (
    namespace TEXT NOT NULL,
    -- Real paths: the repository's main folder (or one that it does not name back), and git's common directory.
    folder TEXT NOT NULL,
    repository TEXT NOT NULL,
    since REAL NOT NULL,
    -- 1: it was the first to use the namespace. 0: a person let it in.
    is_first INTEGER NOT NULL,
    -- A folder that was let out stays: what it had is not free for the next one that comes.
    revoked_at REAL,
    PRIMARY KEY (namespace, folder, repository)
) WITHOUT ROWID;
