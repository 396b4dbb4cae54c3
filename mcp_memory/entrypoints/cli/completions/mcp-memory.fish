complete --command mcp-memory --arguments '(mcp-memory complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
