"""Adapters behind the storage ports: they keep and search the memory."""
