"""What the server does, one use case a module, in terms of the ports. Knows no protocol, database or event loop."""
