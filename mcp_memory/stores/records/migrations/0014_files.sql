-- The few records that name kept files: whoever deletes a file asks for all of them.
CREATE INDEX records_with_files ON records (id) WHERE json_type(details, '$.files') = 'array';
