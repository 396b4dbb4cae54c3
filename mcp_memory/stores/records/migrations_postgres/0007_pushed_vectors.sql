-- Vectors of large scopes, among which pgvector finds candidates (docs/decisions/0119): what `vectors` says of live records, kept by triggers in the
-- transaction of each write. The column `vector` comes with the first large scope, and with it the extension that has its type: no function here names it.

-- Scopes that are kept there, by which embedder; and whether all of their records are there.
CREATE TABLE pushed_scopes (
    scope TEXT COLLATE "C" PRIMARY KEY,
    embedder TEXT COLLATE "C" NOT NULL,
    is_whole BOOLEAN NOT NULL
);

CREATE TABLE pushed_vectors (
    row BIGINT NOT NULL REFERENCES records (row) ON DELETE CASCADE DEFERRABLE,
    place BIGINT NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (row, place)
);
CREATE INDEX pushed_vectors_by_scope ON pushed_vectors (scope);
ALTER TABLE pushed_vectors ALTER COLUMN scope SET STATISTICS 1000;
CREATE POLICY wall ON pushed_vectors USING (scope = ANY ((SELECT memory_scopes())::text[]));

-- The numbers of a vector, whose bytes are IEEE 754's of 32 bits, the lowest first. The lowest is left out: `vector` has 16 bits.
CREATE FUNCTION floats_of(raw bytea) RETURNS real[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT array_agg(
        ((1 - (f.high >> 14 & 2)) * (32768 + ((f.high & 127) << 8) + get_byte(raw, f.n + 1)) * 2::float8 ^ ((f.high >> 7 & 255) - 142))::real
    )
    FROM (
        SELECT n, get_byte(raw, n + 3) << 8 | get_byte(raw, n + 2) FROM generate_series(0, octet_length(raw) - 1, 4) AS n OFFSET 0
    ) AS f (n, high)
$$;

-- What `pushed_vectors` has to hold. It finds what the role that asks may find.
CREATE VIEW vectors_to_push WITH (security_invoker = TRUE) AS
SELECT
    r.row, p.place, r.scope,
    floats_of(substring(v.vector FROM (p.place * (octet_length(v.vector) / v.windows) + 1)::int FOR (octet_length(v.vector) / v.windows)::int)) AS vector
FROM pushed_scopes AS s
JOIN records AS r ON r.scope = s.scope AND r.status NOT IN ('inactive', 'retired')
JOIN vectors AS v ON v.row = r.row AND v.embedder = s.embedder AND v.windows > 0
CROSS JOIN LATERAL generate_series(0, v.windows - 1) AS p (place);

-- Some rows by their keys: one plan serves all, and planning anew would take longer than the work.
CREATE FUNCTION push_vectors(changed bigint[]) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    DELETE FROM pushed_vectors AS p WHERE p.row = ANY (changed);
    INSERT INTO pushed_vectors (row, place, scope, vector)
    SELECT w.row, w.place, w.scope, w.vector FROM vectors_to_push AS w WHERE w.row = ANY (changed);
END
$$;

CREATE FUNCTION push_changed() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    its_row bigint := CASE WHEN TG_OP = 'DELETE' THEN OLD.row ELSE NEW.row END;
BEGIN
    IF EXISTS (SELECT FROM records AS r JOIN pushed_scopes AS s ON s.scope = r.scope WHERE r.row = its_row)
        OR EXISTS (SELECT FROM pushed_vectors AS p WHERE p.row = its_row) THEN
        PERFORM push_vectors(ARRAY[its_row]);
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER push AFTER INSERT OR UPDATE OR DELETE ON vectors FOR EACH ROW EXECUTE FUNCTION push_changed();
CREATE TRIGGER push AFTER UPDATE OF scope, status ON records FOR EACH ROW
WHEN (OLD.scope <> NEW.scope OR (OLD.status IN ('inactive', 'retired')) <> (NEW.status IN ('inactive', 'retired')))
EXECUTE FUNCTION push_changed();

UPDATE schema SET number = 7;
