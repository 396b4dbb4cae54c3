"""What memory is, as pure values and functions. Knows no protocol, database, file or clock."""
