"""Reports on the memory itself: overviews, integrity checks, neighbourhoods."""
