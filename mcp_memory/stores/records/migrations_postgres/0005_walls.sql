-- Walls: a transaction of a role that does not own the tables finds what is in the scopes that it names, and no more. They
-- stand once row-level security is enabled, which a server does where a role for upkeep is set (docs/postgres.md).

-- The scopes come as a JSON array, since their names may hold any character.
CREATE FUNCTION memory_scopes() RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF coalesce(current_setting('mcp_memory.scopes', TRUE), '') = '' THEN
        RAISE insufficient_privilege USING MESSAGE = 'This transaction does not say whose scopes it reads.';
    END IF;
    RETURN ARRAY(SELECT json_array_elements_text(current_setting('mcp_memory.scopes')::json));
END
$$;

-- Asked in a SELECT of its own, so once a statement.
CREATE POLICY wall ON records USING (scope = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON entities USING (scope = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON erased_texts USING (scope = ANY ((SELECT memory_scopes())::text[]));

-- What is an agent's own, in its namespace.
CREATE POLICY wall ON contexts USING ('private/' || agent || '/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON replacements USING ('private/' || agent || '/' || namespace = ANY ((SELECT memory_scopes())::text[]));

-- What all agents of a namespace have in common.
CREATE POLICY wall ON tasks USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON task_changes USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON places USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON moves USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON sessions USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON assemblies USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON compactions USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON pass_runs USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON logs_left USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON exclusions USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON shared_lines USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));
CREATE POLICY wall ON taken_back USING ('shared/' || namespace = ANY ((SELECT memory_scopes())::text[]));

-- What belongs to a record: where that is found. The wall of `records` holds inside, too.
CREATE POLICY wall ON record_tags USING (EXISTS (SELECT 1 FROM records AS r WHERE r.row = record_tags.row));
CREATE POLICY wall ON terms USING (EXISTS (SELECT 1 FROM records AS r WHERE r.row = terms.row));
CREATE POLICY wall ON vectors USING (EXISTS (SELECT 1 FROM records AS r WHERE r.row = vectors.row));
CREATE POLICY wall ON versions USING (EXISTS (SELECT 1 FROM records AS r WHERE r.id = versions.record_id));
CREATE POLICY wall ON mentions USING (EXISTS (SELECT 1 FROM records AS r WHERE r.id = mentions.record_id));
CREATE POLICY wall ON aliases USING (EXISTS (SELECT 1 FROM records AS r WHERE r.id = aliases.record_id));
CREATE POLICY wall ON relations USING (EXISTS (SELECT 1 FROM records AS r WHERE r.id = relations.record_id));

-- A group is found by whoever finds all of its records.
CREATE POLICY wall ON reviews USING (
    NOT EXISTS (
        SELECT 1 FROM review_records AS m
        WHERE m.review = reviews.id AND NOT EXISTS (SELECT 1 FROM records AS r WHERE r.id = m.record_id)
    )
);

-- The most that a partition may hold, and the calls a minute to a namespace; NULL sets no limit.
CREATE TABLE quotas (
    partition TEXT COLLATE "C" PRIMARY KEY,
    records BIGINT,
    bytes BIGINT,
    calls BIGINT
);

UPDATE schema SET number = number + 1;
