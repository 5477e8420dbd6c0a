#!/bin/sh
# The newest interpreter of the distribution; the libraries lie beside the program.
for minor in 14 13 12 11 10; do
    if [ -x "/usr/bin/python3.$minor" ]; then
        exec "/usr/bin/python3.$minor" -I /usr/lib/ext4audit "$@"
    fi
done
exec /usr/bin/python3 -I /usr/lib/ext4audit "$@"
