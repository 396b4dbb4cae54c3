-- The truth. Ids are made from the change sequence; times are seconds since 1970 UTC; JSON columns hold arrays or objects.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One row: the newest change number. Every mutation of truth takes the next.
CREATE TABLE sequence (value INTEGER NOT NULL);
INSERT INTO sequence VALUES (0);

CREATE TABLE records (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    change INTEGER NOT NULL,
    scope TEXT NOT NULL,
    namespace TEXT NOT NULL,
    visibility TEXT NOT NULL,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    task_id TEXT,
    branch_id TEXT,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    summary TEXT NOT NULL,
    micro TEXT NOT NULL,
    text_tokens INTEGER NOT NULL,
    summary_tokens INTEGER NOT NULL,
    micro_tokens INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    normal_hash TEXT NOT NULL,
    importance REAL NOT NULL,
    confidence REAL,
    status TEXT NOT NULL,
    outcome TEXT,
    pinned INTEGER NOT NULL,
    tags TEXT NOT NULL,
    details TEXT NOT NULL,
    speaker TEXT,
    role TEXT,
    tool TEXT,
    call_id TEXT,
    superseded_by TEXT,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    occurred_at REAL NOT NULL,
    -- Telemetry: updated without a change number.
    accessed_at REAL NOT NULL,
    accessed INTEGER NOT NULL DEFAULT 0,
    -- What use and feedback showed: updated with one.
    confirmed INTEGER NOT NULL DEFAULT 0,
    activated INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    used INTEGER NOT NULL DEFAULT 0,
    ignored INTEGER NOT NULL DEFAULT 0,
    false_positives INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX records_by_change ON records (change);
CREATE INDEX records_by_content ON records (scope, content_hash);
CREATE INDEX records_by_normal ON records (scope, normal_hash);
-- This one and that by kind hold all that such a filter asks, so that it visits no row of the table, which are wide.
CREATE INDEX records_by_occurred ON records (scope, occurred_at, status, branch_id, id);
CREATE INDEX records_by_accessed ON records (scope, accessed_at);
CREATE INDEX records_by_importance ON records (scope, importance, occurred_at);
CREATE INDEX records_by_session ON records (session_id, scope, row);
CREATE INDEX records_by_pin ON records (scope) WHERE pinned;
CREATE INDEX records_by_kind ON records (scope, kind, importance, status, branch_id, id);
CREATE INDEX records_by_task ON records (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX records_by_successor ON records (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX records_by_branch ON records (branch_id) WHERE branch_id IS NOT NULL;

-- The tags of each record once more, to be looked up by.
CREATE TABLE record_tags (
    tag TEXT NOT NULL,
    row INTEGER NOT NULL REFERENCES records (row) ON DELETE CASCADE,
    PRIMARY KEY (tag, row)
) WITHOUT ROWID;
CREATE INDEX record_tags_by_row ON record_tags (row);

-- What the keyword index needs of each record's text, as domain/text/words.py packs it.
CREATE TABLE terms (
    row INTEGER PRIMARY KEY REFERENCES records (row) ON DELETE CASCADE,
    terms BLOB NOT NULL
);

-- All windows of one record, one after the other, as little-endian float32; none where the embedder refuses its text.
CREATE TABLE vectors (
    row INTEGER NOT NULL REFERENCES records (row) ON DELETE CASCADE,
    embedder TEXT NOT NULL,
    windows INTEGER NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (row, embedder)
) WITHOUT ROWID;

-- Texts that were corrected, so that an old value stored again is recognised.
CREATE TABLE old_texts (
    record_id TEXT NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    change INTEGER NOT NULL,
    normal_hash TEXT NOT NULL,
    text TEXT NOT NULL,
    replaced_at REAL NOT NULL,
    PRIMARY KEY (record_id, change)
) WITHOUT ROWID;
CREATE INDEX old_texts_by_normal ON old_texts (normal_hash);

-- Sessions that met a record again: each confirms it once.
CREATE TABLE confirmations (
    record_id TEXT NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    session_id TEXT NOT NULL,
    PRIMARY KEY (record_id, session_id)
) WITHOUT ROWID;

-- What was erased: enough for every index to follow, and no text.
CREATE TABLE tombstones (
    id TEXT PRIMARY KEY,
    change INTEGER NOT NULL,
    scope TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX tombstones_by_change ON tombstones (change);

CREATE TABLE entities (
    id INTEGER PRIMARY KEY,
    change INTEGER NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    type TEXT NOT NULL,
    UNIQUE (scope, name_key, type)
);

-- What each record says of an entity: erasing the record takes exactly that back.
CREATE TABLE mentions (
    entity INTEGER NOT NULL REFERENCES entities (id) ON DELETE CASCADE,
    record_id TEXT NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    properties TEXT NOT NULL,
    -- True where nobody gave it: it was found in the text, and goes with it.
    found INTEGER NOT NULL,
    PRIMARY KEY (entity, record_id)
) WITHOUT ROWID;
CREATE INDEX mentions_by_record ON mentions (record_id);

-- Other names of an entity, with the record that says so.
CREATE TABLE aliases (
    entity INTEGER NOT NULL,
    record_id TEXT NOT NULL,
    name_key TEXT NOT NULL,
    PRIMARY KEY (entity, record_id, name_key),
    FOREIGN KEY (entity, record_id) REFERENCES mentions (entity, record_id) ON DELETE CASCADE ON UPDATE CASCADE
) WITHOUT ROWID;
CREATE INDEX aliases_by_record ON aliases (record_id);
CREATE INDEX aliases_by_name ON aliases (name_key);

-- source --[type]--> target, with the record that says so.
CREATE TABLE relations (
    source INTEGER NOT NULL REFERENCES entities (id) ON DELETE CASCADE,
    type TEXT NOT NULL,
    target INTEGER NOT NULL REFERENCES entities (id) ON DELETE CASCADE,
    record_id TEXT NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    change INTEGER NOT NULL,
    weight REAL NOT NULL,
    PRIMARY KEY (source, type, target, record_id)
) WITHOUT ROWID;
CREATE INDEX relations_by_record ON relations (record_id);
CREATE INDEX relations_by_target ON relations (target);

CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    change INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    parent_id TEXT REFERENCES tasks (id),
    goal TEXT NOT NULL,
    status TEXT NOT NULL,
    depth INTEGER NOT NULL,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    result TEXT,
    success_criteria TEXT,
    artifacts TEXT NOT NULL,
    inherit TEXT NOT NULL,
    branch INTEGER NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL
);
CREATE INDEX tasks_by_namespace ON tasks (namespace, id);
CREATE INDEX tasks_by_branch ON tasks (namespace) WHERE branch;

-- Where each agent stands; the session is '' for the agent's own place.
CREATE TABLE places (
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (namespace, agent, session_id)
) WITHOUT ROWID;

CREATE TABLE sessions (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    agent TEXT NOT NULL,
    started_at REAL NOT NULL,
    last_at REAL NOT NULL,
    PRIMARY KEY (namespace, id)
) WITHOUT ROWID;

-- Telemetry: the account of each assembled context, ids and reasons only.
CREATE TABLE contexts (
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    id TEXT NOT NULL,
    created_at REAL NOT NULL,
    report TEXT NOT NULL,
    PRIMARY KEY (namespace, agent, id)
) WITHOUT ROWID;
CREATE INDEX contexts_by_age ON contexts (created_at);
