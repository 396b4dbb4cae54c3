-- Who may come over HTTP, and as whom. The secret is nowhere: only its digest is kept.
CREATE TABLE tokens (
    -- The beginning of the digest: tells tokens apart, and betrays nothing of the secret.
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    name TEXT NOT NULL,
    agent TEXT NOT NULL,
    person TEXT NOT NULL,
    -- A JSON list, the default first.
    namespaces TEXT NOT NULL,
    right_held TEXT NOT NULL,
    created_at REAL NOT NULL,
    expires_at REAL,
    -- A revoked token stays: its agent stays its person's, and a server that once had tokens goes on asking for one.
    revoked_at REAL
) WITHOUT ROWID;
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked_at IS NULL;
