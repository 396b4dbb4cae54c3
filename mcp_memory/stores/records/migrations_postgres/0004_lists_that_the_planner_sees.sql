-- A JSON list as an array. Of `scope = ANY (json_texts(…))` PostgreSQL's planner sees which scopes are named, and how many rows
-- they have; of a list that is joined or selected from, it assumes ten elements of the commonest kind.
CREATE FUNCTION json_texts(doc text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT e.value FROM json_array_elements_text(doc::json) AS e (value))
$$;

CREATE FUNCTION json_integers(doc text) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT e.value::bigint FROM json_array_elements_text(doc::json) AS e (value))
$$;

-- The size of the thousand largest scopes.
ALTER TABLE records ALTER COLUMN scope SET STATISTICS 1000;
ALTER TABLE entities ALTER COLUMN scope SET STATISTICS 1000;

-- The newest of a scope, however much others stored since.
CREATE INDEX records_by_row ON records (scope, (row + 0));
-- Whether a project holds anything, and all of it where it is renamed or exported.
CREATE INDEX records_by_namespace ON records (namespace, row);
-- Upkeep of every server asks for the sessions that were at work, and for what an embedder refused.
CREATE INDEX sessions_by_time ON sessions (last_at);
CREATE INDEX vectors_refused ON vectors (embedder) WHERE windows = 0;
-- After each write, what is in doubt by it; and for an undo, what a write vouched for and dropped.
CREATE INDEX grounds_by_change ON grounds (change) WHERE seen <> state;
CREATE INDEX grounds_by_vouching ON grounds (vouched);
CREATE INDEX grounds_dropped ON grounds (dropped) WHERE dropped <> 0;

UPDATE schema SET number = 4;
