# Completion of ext4audit for bash 4.0 and later, which asks the program what fits.

_ext4audit() {
    local line="${COMP_LINE:0:COMP_POINT}" answer kind text word head=
    COMPREPLY=()
    # Without arguments, so that no program of this name audits anything because of a tab.
    answer=$(_EXT4AUDIT_COMPLETE="$line" "${1/#\~\//$HOME/}" 2>/dev/null </dev/null) || return 0
    # Where "=" breaks words, what readline replaces begins behind it.
    word=${line##*[[:space:]]}
    if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
        head=${word%"${word##*=}"}
    fi
    while IFS=$'\t' read -r kind text _; do
        case $kind in
            files) compopt -o default 2>/dev/null ;;
            word) COMPREPLY+=("${text#"$head"}") ;;
        esac
    done <<<"$answer"
}

# Bash 4.4 keeps the order in which the program answers.
complete -o nosort -F _ext4audit ext4audit 2>/dev/null || complete -F _ext4audit ext4audit
