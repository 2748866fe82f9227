_bowline() {
    local line="${COMP_LINE:0:COMP_POINT}" words before
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local current="${words[${#words[@]}-1]}"
    local IFS=$'\n'
    COMPREPLY=($(COMPLETE=bash _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$((${#words[@]} - 1)) \
        "${words[0]}" -- "${words[@]}" 2>/dev/null))
    for before in "${current%"${current##*=}"}" "${current%"${current##*:}"}"; do
        [[ -n $before && $COMP_WORDBREAKS == *"${before: -1}"* ]] && COMPREPLY=("${COMPREPLY[@]#"$before"}")
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -F _bowline bowline
