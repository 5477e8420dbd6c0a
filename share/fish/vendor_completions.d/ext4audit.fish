function _ext4audit_completion;
    set -l response (env _EXT4AUDIT_COMPLETE=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) ext4audit);

    for completion in $response;
        set -l metadata (string split --max 1 "," $completion);

        if test $metadata[1] = "dir";
            __fish_complete_directories $metadata[2];
        else if test $metadata[1] = "file";
            string join \n -- $metadata[2](__fish_complete_path (string sub --start (math 1 + (string length -- $metadata[2])) -- (commandline -ct)));
        else if test $metadata[1] = "plain";
            echo $metadata[2];
        end;
    end;
end;

complete --no-files --command ext4audit --arguments "(_ext4audit_completion)";
