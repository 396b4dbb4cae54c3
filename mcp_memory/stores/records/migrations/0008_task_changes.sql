-- What was done to tasks, for each agent that was in them, had entered or had planned them. Never part of an export.
CREATE TABLE task_changes (
    change INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    -- Who is told.
    agent TEXT NOT NULL,
    by_agent TEXT NOT NULL,
    by_place TEXT NOT NULL,
    -- The task's status before and after.
    was TEXT NOT NULL,
    became TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE INDEX task_changes_by_agent ON task_changes (namespace, agent, change);
CREATE INDEX task_changes_by_task ON task_changes (task_id, agent);

-- The last move at each place: what was done to the agent's tasks up to that change, it was told. Never part of an export.
CREATE TABLE moves (
    namespace TEXT NOT NULL,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    change INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (namespace, agent, session_id)
) WITHOUT ROWID;
