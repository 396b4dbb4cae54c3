"""Who calls us: MCP over stdio, and the command line. Turns their words into requests to the app, and back."""
