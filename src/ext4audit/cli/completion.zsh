#compdef ext4audit
# Completion of ext4audit for zsh, which asks the program what fits.

_ext4audit() {
    local line kind text says
    local -a fitting
    # Without arguments, so that no program of this name audits anything because of a tab.
    for line in "${(@f)$(
        _EXT4AUDIT_COMPLETE="${(j: :)words[1,CURRENT-1]} $PREFIX" \
            "${${(Q)words[1]}/#\~\//$HOME/}" 2>/dev/null </dev/null
    )}"; do
        IFS=$'\t' read -r kind text says <<<"$line"
        case $kind in
            word) fitting+=("$text${says:+:$says}") ;;
            files) [[ -n $text ]] && compset -P "${(b)text}"; _files ;;
        esac
    done
    (( $#fitting )) && _describe -V 'ext4audit' fitting -U
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _ext4audit "$@"
else
    compdef _ext4audit ext4audit
fi
