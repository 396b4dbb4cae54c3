"""Every seam of the system: what services need, said without naming who provides it, a theme a module.

Implementations are named where the application is wired, and nowhere else. All of them are safe to call from several
threads at once, and translate their libraries' errors into `McpMemoryError`. Vectors are float32 and of unit length;
higher scores are better.
"""
