"""Where memory is kept and searched: adapters behind the storage ports."""
