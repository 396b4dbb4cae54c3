"""Ways to find candidates, one a file, and how their scores become one ranking."""
