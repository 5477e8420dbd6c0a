# Completion of ext4audit for fish, which asks the program what fits.

function __ext4audit_complete
    set -l token (commandline -ct)
    # Without arguments, so that no program of this name audits anything because of a tab.
    for line in (env _EXT4AUDIT_COMPLETE=(commandline -cp | string collect) ext4audit 2>/dev/null </dev/null)
        set -l parts (string split \t -- $line)
        switch $parts[1]
            case word
                printf '%s\t%s\n' $parts[2] $parts[3]
            case files
                set -l rest (string sub -s (math 1 + (string length -- $parts[2])) -- $token)
                for path in (__fish_complete_path $rest)
                    printf '%s%s\n' $parts[2] $path
                end
        end
    end
end

complete -c ext4audit -f -a '(__ext4audit_complete)'
