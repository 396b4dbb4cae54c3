-- A line of a transcript is stored once, however many sessions were resumed or forked with it; what the user took back
-- is marked in its session; and what was erased leaves digests, by which it is recognised when it comes again.

-- Lines in the logs of sessions that did not store them: a resumed or forked session begins with another one's.
CREATE TABLE shared_lines (
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    row INTEGER NOT NULL REFERENCES records (row) ON DELETE CASCADE,
    PRIMARY KEY (session_id, namespace, agent, row)
) WITHOUT ROWID;
CREATE INDEX shared_lines_by_row ON shared_lines (row);

-- Lines of a session that its user took back, as by /rewind: they are in the client's window no more.
CREATE TABLE taken_back (
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    row INTEGER NOT NULL REFERENCES records (row) ON DELETE CASCADE,
    PRIMARY KEY (namespace, agent, session_id, row)
) WITHOUT ROWID;
CREATE INDEX taken_back_by_row ON taken_back (row);

-- By the client's own id of a message, in whichever session it was told.
CREATE INDEX records_by_message ON records (json_extract(details, '$.message_id'), scope)
    WHERE kind IN ('message', 'tool_call', 'tool_result') AND json_type(details, '$.message_id') = 'text';

-- Keyed digests: `erasure_key` in meta is random. Those of width 0 are of a whole text or of a message's id.
CREATE TABLE erased_texts (
    scope TEXT NOT NULL,
    width INTEGER NOT NULL,
    digest BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (scope, width, digest)
) WITHOUT ROWID;
