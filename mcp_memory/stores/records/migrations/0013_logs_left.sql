-- Telemetry: how long a log was when a call had done its work on it. No process compacts it by itself until it grows.
CREATE TABLE logs_left (
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (namespace, agent, session_id)
) WITHOUT ROWID;
