"""The memory's model: pure values and functions. Knows no protocol, database, file or clock."""
