-- The newest changes of a scope, and its newest records of a kind: the first context of a session tells them without
-- sorting the scope.

CREATE INDEX records_by_updated ON records (scope, updated_at);
CREATE INDEX records_by_kind_occurred ON records (scope, kind, occurred_at);
