#compdef mcp-memory
_mcp_memory() {
    local -a found
    found=("${(@f)$(mcp-memory complete -- "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _mcp_memory mcp-memory
