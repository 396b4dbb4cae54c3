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

UPDATE schema SET number = 8;
