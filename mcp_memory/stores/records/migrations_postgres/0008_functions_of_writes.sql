-- Each insert asks these of its details, for the indexes records_by_source, records_with_files and records_by_message. PostgreSQL plans the body of
-- a function in SQL anew in each statement; this cost more than all else that the indexes of a record do. In PL/pgSQL it does so once a connection.
CREATE OR REPLACE FUNCTION json_extract(doc text, path text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN doc::json #>> string_to_array(ltrim(replace(replace(path, '[', '.'), ']', ''), '$.'), '.');
END
$$;

CREATE OR REPLACE FUNCTION json_type(doc text, path text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    value json := doc::json #> string_to_array(ltrim(replace(replace(path, '[', '.'), ']', ''), '$.'), '.');
BEGIN
    RETURN CASE json_typeof(value) WHEN 'string' THEN 'text' WHEN 'boolean' THEN value::text ELSE json_typeof(value) END;
END
$$;

-- Where pgvector or its table is gone, as by DROP EXTENSION or a restore on a server without it, writes go on, and the scope is searched exactly until a
-- server has filled it again.
CREATE OR REPLACE FUNCTION push_vectors(changed bigint[]) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    DELETE FROM pushed_vectors AS p WHERE p.row = ANY (changed);
    INSERT INTO pushed_vectors (row, place, scope, vector)
    SELECT w.row, w.place, w.scope, w.vector FROM vectors_to_push AS w WHERE w.row = ANY (changed);
EXCEPTION WHEN undefined_table OR undefined_column OR undefined_object OR undefined_function OR undefined_file THEN
    DELETE FROM pushed_scopes WHERE scope IN (SELECT r.scope FROM records AS r WHERE r.row = ANY (push_vectors.changed));
END
$$;

CREATE OR REPLACE FUNCTION push_changed() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    its_row bigint := CASE WHEN TG_OP = 'DELETE' THEN OLD.row ELSE NEW.row END;
BEGIN
    IF to_regclass('pushed_vectors') IS NULL THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM records AS r JOIN pushed_scopes AS s ON s.scope = r.scope WHERE r.row = its_row)
        OR EXISTS (SELECT FROM pushed_vectors AS p WHERE p.row = its_row) THEN
        PERFORM push_vectors(ARRAY[its_row]);
    END IF;
    RETURN NULL;
END
$$;

UPDATE schema SET number = 8;
