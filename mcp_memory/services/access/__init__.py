"""Knows who calls: access tokens, the windows of agents, and the folders whose claims are trusted."""
