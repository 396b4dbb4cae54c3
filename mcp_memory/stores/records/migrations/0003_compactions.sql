-- What stands in the logs of sessions for parts that were compacted. No text of memory but in `replacements.text`.

-- The entries of each log in their order, with all that its length takes: the rows of the table are wide.
CREATE INDEX records_in_log ON records (namespace, session_id, agent, row, id, kind, text_tokens, created_at)
    WHERE kind IN ('message', 'tool_call', 'tool_result');

CREATE TABLE compactions (
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    -- Within the session, from 1.
    number INTEGER NOT NULL,
    at REAL NOT NULL,
    -- What asked for it: call, idle or forced.
    asked_by TEXT NOT NULL,
    tokens_before INTEGER NOT NULL,
    -- What was replaced until now counted; what was said meanwhile is not.
    tokens_after INTEGER NOT NULL,
    undone_at REAL,
    PRIMARY KEY (namespace, agent, session_id, number)
) WITHOUT ROWID;

-- One that nothing has replaced is live.
CREATE TABLE replacements (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    change INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    compaction INTEGER NOT NULL,
    pass_name TEXT NOT NULL,
    made_at REAL NOT NULL,
    form TEXT NOT NULL,
    kind TEXT NOT NULL,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    original_tokens INTEGER NOT NULL,
    level INTEGER NOT NULL,
    tool TEXT,
    call_id TEXT,
    failed INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    importance REAL NOT NULL,
    -- When what it stands for began.
    at REAL NOT NULL,
    replaced_by INTEGER REFERENCES replacements (row) ON DELETE SET NULL,
    -- The record of kind summary that says the same.
    record_id TEXT REFERENCES records (id) ON DELETE SET NULL,
    -- Ids are digests of what was replaced, hence their own only within a session.
    UNIQUE (id, namespace, agent, session_id),
    FOREIGN KEY (namespace, agent, session_id, compaction) REFERENCES compactions (namespace, agent, session_id, number)
);
CREATE INDEX replacements_live ON replacements (namespace, agent, session_id, tokens, replaced_by)
    WHERE replaced_by IS NULL;
CREATE INDEX replacements_by_compaction ON replacements (namespace, agent, session_id, compaction);
CREATE INDEX replacements_by_successor ON replacements (replaced_by) WHERE replaced_by IS NOT NULL;
CREATE INDEX replacements_by_record ON replacements (record_id) WHERE record_id IS NOT NULL;

-- Every original that a replacement stands for, also by way of others that it replaced.
CREATE TABLE covered (
    record_id TEXT NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    replacement INTEGER NOT NULL REFERENCES replacements (row) ON DELETE CASCADE,
    PRIMARY KEY (record_id, replacement)
) WITHOUT ROWID;
CREATE INDEX covered_by_replacement ON covered (replacement, record_id);

-- What the summaries of undone compactions say, which are records still: to be erased with any of it.
CREATE TABLE undone_summaries (
    record_id TEXT NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    source_id TEXT NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    PRIMARY KEY (source_id, record_id)
) WITHOUT ROWID;
CREATE INDEX undone_summaries_by_record ON undone_summaries (record_id);

-- Telemetry: what each pass did with one revision of a log, or why it did nothing.
CREATE TABLE pass_runs (
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    -- NULL where it replaced nothing.
    compaction INTEGER,
    at REAL NOT NULL,
    name TEXT NOT NULL,
    revision TEXT NOT NULL,
    ran INTEGER NOT NULL,
    reason TEXT NOT NULL,
    tokens_before INTEGER NOT NULL,
    tokens_after INTEGER NOT NULL,
    replaced INTEGER NOT NULL,
    milliseconds REAL NOT NULL,
    -- Tokens that a model took.
    spent INTEGER NOT NULL,
    error TEXT
);
CREATE INDEX pass_runs_by_log ON pass_runs (namespace, agent, session_id, revision);
CREATE INDEX pass_runs_by_age ON pass_runs (at);
