"""What the memory says of itself: overviews, integrity checks, neighbourhoods."""
