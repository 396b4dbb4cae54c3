"""What every text passes on its way into the memory: control characters, secrets and echoes of our own answers go."""
