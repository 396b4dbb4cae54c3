_mcp_memory() {
    local IFS=$'\n'
    COMPREPLY=($(mcp-memory complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _mcp_memory mcp-memory
