"""The server's use cases, one a module, in terms of the ports. They know no protocol, database or event loop."""
