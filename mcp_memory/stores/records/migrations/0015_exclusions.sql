-- Records that contexts give no more, because a person said so: those of a task and of the tasks below it, or else all of
-- one agent in the namespace. Searching finds them as before.
CREATE TABLE exclusions (
    record_id TEXT NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    namespace TEXT NOT NULL,
    -- '' where it is the agent's, and the agent '' where it is the task's.
    task_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    -- By which write, when and by whom.
    write INTEGER NOT NULL,
    at REAL NOT NULL,
    by_agent TEXT NOT NULL,
    -- The write by which it is given again; 0 for none.
    dropped INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, task_id, agent, record_id)
) WITHOUT ROWID;
CREATE INDEX exclusions_by_record ON exclusions (record_id);
CREATE INDEX exclusions_by_write ON exclusions (write);
CREATE INDEX exclusions_dropped ON exclusions (dropped) WHERE dropped;
