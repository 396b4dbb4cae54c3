-- Calls of windows that changed something: one whose answer was lost is asked again, and is not done twice. A row is
-- written in the transaction of its effect, and is kept for a day. It holds no text: `made` lists new ids, as JSON.
CREATE TABLE calls_done (
    key TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    made TEXT NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX calls_done_by_time ON calls_done (at);
