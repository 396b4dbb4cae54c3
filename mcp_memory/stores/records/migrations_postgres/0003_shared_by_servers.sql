-- What clients were shown, for a while, so that any server continues a block, knows an echo, and knows what a session has
-- seen. Digests and numbers alone. A crash empties these tables: then a block is built anew, as after a long pause.
CREATE UNLOGGED TABLE shown_texts (
    namespace TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    -- '' for the session's first sight of the memory.
    record_id TEXT COLLATE "C" NOT NULL,
    -- That of the words as they were shown; '' where the record was named alone.
    digest TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (namespace, agent, session_id, record_id, digest)
);
CREATE INDEX shown_texts_by_digest ON shown_texts (namespace, agent, digest) WHERE digest <> '';
CREATE INDEX shown_texts_by_age ON shown_texts (at);

CREATE UNLOGGED TABLE shown_contexts (
    namespace TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    -- That of the account in `contexts`.
    id TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    -- A JSON object: the items by their ids, without words.
    shown TEXT COLLATE "C" NOT NULL,
    vector BYTEA,
    PRIMARY KEY (namespace, agent, session_id, id)
);
CREATE INDEX shown_contexts_by_age ON shown_contexts (at);

-- What one server at a time does: `holder` does it until `until`, by this database's clock, and notes what it has applied.
-- Without a holder it rests until then. A row outlives a connection, so a pooler may hand connections on in between.
CREATE TABLE leases (
    name TEXT COLLATE "C" PRIMARY KEY,
    holder TEXT COLLATE "C" NOT NULL,
    until DOUBLE PRECISION NOT NULL,
    applied BIGINT NOT NULL DEFAULT 0,
    -- Of an index: a JSON object, the newest change of each scope's partition that it holds.
    reached TEXT COLLATE "C" NOT NULL DEFAULT '{}'
);

UPDATE schema SET number = 3;
