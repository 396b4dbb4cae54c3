"""The ports: one module a theme states what services need, without naming an implementation.

Only the wiring of the application names implementations. All of them are thread-safe, and translate their libraries'
errors into `McpMemoryError`. Vectors are float32 and of unit length; higher scores are better.
"""
