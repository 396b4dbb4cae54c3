-- From when and until when (exclusive) what a record says is true; NULL where nobody said.
ALTER TABLE records ADD COLUMN valid_from REAL;
ALTER TABLE records ADD COLUMN valid_until REAL;
CREATE INDEX records_by_end ON records (valid_until) WHERE valid_until IS NOT NULL;
