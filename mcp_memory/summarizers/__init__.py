"""Who writes down what a span of a session came to: sentences chosen from it, or a model that is asked."""
