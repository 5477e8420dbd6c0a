#!/bin/sh
# ext4audit @VERSION@: what an ext4 audit needs of this host
# Usage: sh collect.sh [--text] [--lean] [-o FILE], then: ext4audit scan --from FILE
#   --text  base64 lines, for terminals
#   --lean  no group descriptors, no udev, less sysfs
# Root sees most. It writes to TMPDIR only.
set +Cefu
# Also under sh -e: what fails here is an answer.
# dumpe2fs rewrites blkid's cache when it meets a bad magic.
# gzip takes options from GZIP. The last directory is that of NixOS.
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin GZIP='' TZ=UTC0 BLKID_FILE=/dev/null
umask 077
nl='
'

# One line an answer on fd 3: ask\_argument\_form\_values, in lists a\+b. Names may hold
# anything: their backslashes and newlines are \134 and \012, as in the mount table.
put() {
	line=$1
	shift
	for i; do line=$line'\_'$i; done
	printf '%s\n' "$line" >&3 || exit 1
}
swap() { # every $1 in e becomes $2
	rest=$e e=
	while :; do
		case $rest in *"$1"*) e=$e${rest%%"$1"*}$2 rest=${rest#*"$1"} ;; *) break ;; esac
	done
	e=$e$rest
}
esc() { # sets e
	e=$1
	swap \\ '\134'
	swap "$nl" '\012'
}
dec() { # sets raw
	e=$1 raw=$1
	case $1 in *\\*)
		swap \\ '\0'
		raw=$(printf %b_ "$e")
		raw=${raw%_}
		;;
	esac
}
argv() { # sets a
	a=
	for i; do
		esc "$i"
		a=$a${a:+\\+}$e
	done
}

# Run a command for 20 s at most; sets n (it wrote o$n and e$n), status, late. Not by timeout(1),
# which waits for ever for a process that a dead device holds. It writes at most 64 MiB, which is as
# much as a scan reads of it; twice as much where bash is not called sh.
try() {
	n=$((n + 1)) late=false
	(ulimit -f 131072; exec "$@") </dev/null >o$n 2>e$n 3>&- &
	child=$!
	{
		# Whoever waits for the text may be gone: a blank line each second finds out. The sleep
		# outlives us, and must not hold the output of who waits for its end.
		trap '' PIPE
		i=0
		while [ $((i += 1)) -le 20 ]; do
			sleep 1 4>&-
			! $text || echo >&4 || kill $$
		done
		: >l$n
		kill -9 $child
		# To end the wait; more than once, for bash 5.2 misses some.
		while sleep 1 && kill -USR1 $$; do :; done
	} </dev/null 4>&1 2>/dev/null >&2 3>&- &
	timer=$!
	wait $child
	status=$?
	# By TERM, bash would run our trap there, and remove the directory.
	kill -9 $timer
	wait $timer
	child='' timer=''
	[ ! -e l$n ] || late=true status=1
} 2>/dev/null
run() {
	try "$@"
	argv "$@"
	put run_command "$a" run $n $status $late
}
gap() { # ask, argument; the reason is what the last command said
	why=failed hint=
	detail=$(cat e$n)
	detail=${detail##*: }
	case $detail in
	'No such '* | 'Not a dir'*) why=absent ;;
	'not found') detail='no tool' ;;
	Permission* | 'Operation not perm'*)
		why=denied hint='run as root'
		[ "$uid" != 0 ] || hint='run on the host, outside containers'
		;;
	esac
	$late && why=timed_out detail='no answer within 20 s'
	esc "$detail"
	put "$1" "$2" unknown $why "$e" "$hint"
	return 1
}
absent() { # root sees all, and to others it may be closed
	[ -n "$3" ] || [ "$uid" = 0 ] || {
		try ls "$2"
		gap "$@"
		return
	}
	put "$1" "$2" unknown absent "${3:-No such file or directory}" ''
	return 1
}
long() { # a file; one of /proc/sys gives "2" for "20" to who reads it byte by byte
	try cat "$1"
	if [ $status = 0 ]; then put read_file "$1" file o$n; else gap read_file "$1"; fi
}
# A short file, by the shell itself: a process for each of hundreds would take a second.
# Sets t, the text, and v, its first line.
short() {
	t='' v=
	[ -f "$1" ] || absent read_file "$1" || return
	while IFS= read -r i; do
		esc "$i"
		t=$t$e'\012'
	done 2>/dev/null <"$1"
	v=${t%%\\012*}
	if [ -n "$t" ]; then put read_file "$1" text "$t"; else long "$1"; fi
}
each() {
	for f; do [ ! -f "$f" ] || short "$f"; done
}
of() { # a directory, and short files in it
	o=$1
	shift
	for f; do short "$o/$f"; done
}
names() {
	a=
	[ -r "$1/" ] || absent list_dir "$1" || return
	for i in "$1"/*; do [ ! -e "$i" ] || a=$a${a:+\\+}${i##*/}; done
	put list_dir "$1" names "$a"
}
exists() { # sets path; $2 is the ask that fails where it does not
	try stat -L -c '%f %d %t %T' -- "$1"
	esc "$1"
	path=$e
	[ $status = 0 ] || gap "$2" "$path"
}
real() { # sets e; fails where it is empty
	e=$(readlink -f -- "$1" && echo _)
	esc "${e%"$nl"_}"
	[ -n "$e" ]
}
where() {
	exists "$1" real_path && real "$1" && put real_path "$path" text "$e"
}
# What a path leads to, unopened; sets number, of its filesystem, and node, if it is a device.
resolve() {
	node='' type=other
	exists "$1" resolve_path || return
	read -r mode dev major minor <o$n
	# A dev_t of Linux has 32 bits, and so has the arithmetic of mksh.
	number=$((dev >> 8 & 4095)):$((dev & 255 | dev >> 12 & 1048320))
	case $((0x$mode >> 12)) in
	8) type='file' ;;
	4) type=directory ;;
	6) type=block node=$((0x$major)):$((0x$minor)) ;;
	esac
	real "$1" || return
	swap ' ' '\040'
	swap '	' '\011'
	id=$(P=$e/ awk -v N="$number" '{ m = $5; if (m != "/") m = m "/"; l = length(m) + 9999 * ($3 == N) }
		index(ENVIRON["P"], m) == 1 && l >= best { best = l; id = $1 }
		END { print id }' table)
	put resolve_path "$path" text \
		"mount_id=$id\\012device_number=$number\\012type=$type${node:+\\012represents=$node}"
}

device() { # all of one; its path goes to p$1, what is below it to todo
	d=/sys/dev/block/$1 below=
	: >"p$1"
	short "$d/uevent" || return
	path=${t#*DEVNAME=} q=$d
	path=/dev/${path%%\\*}
	case $t in *DEVTYPE=partition*) q=$d/.. ;; esac
	short "$d/dm/name" && path=/dev/mapper/${t%\\012}
	printf '%s\n' "$path" >"p$1"
	of "$d" dm/uuid md/level size start device/model alignment_offset
	of "$q/queue" write_cache fua rotational discard_max_bytes minimum_io_size optimal_io_size \
		logical_block_size physical_block_size nr_requests max_sectors_kb wbt_lat_usec scheduler \
		io_timeout
	$lean || each "$q"/queue/*
	if [ -e "$d/dm/name" ]; then
		if [ -e /dev/mapper/control ]; then
			run dmsetup table -j "${1%:*}" -m "${1#*:}"
			# dm-integrity shows its keys: internal_hash:hmac(sha256):key.
			sed -i 's/):[^ ]*/):***/g' o$n
			! grep -q thin-pool o$n || run dmsetup status --noflush -j "${1%:*}" -m "${1#*:}"
		else
			argv dmsetup table -j "${1%:*}" -m "${1#*:}"
			absent run_command "$a" 'dmsetup would make /dev/mapper/control'
		fi
	fi
	if [ -e "$d/md/level" ]; then
		of "$d/md" chunk_size component_size raid_disks layout reshape_position degraded sync_action
		names "$d/md"
		for m in "$d"/md/dev-*; do of "$m" slot offset size; done
	fi
	if short "$d/loop/backing_file"; then
		dec "${t%\\012}"
		of "$d/loop" offset autoclear
		resolve "$raw" && below=$number
	fi
	if [ "$q" != "$d" ]; then
		short "$q/dev"
		below=$v
	elif [ ! -d "$d/loop" ]; then
		names "$d/slaves"
		for f in "$d"/slaves/*; do [ ! -e "$f" ] || { short "$f/dev" && below="$below $v"; }; done
	fi
	todo="$todo $below"
	$lean && return
	[ -d /run/udev/data ] || absent udev_database "$1" 'no udevd has run here: no /run/udev/data' || return
	try udevadm info -q property -p "$d"
	if [ $status = 0 ]; then
		esc "$(sort o$n)"
		put udev_database "$1" text "$e"
	else
		gap udev_database "$1"
	fi
}

bytes() { # reading, and for dd: bytes of a block, blocks to skip, blocks to read
	try dd if="$raw" bs="$2" skip="$3" count="$4"
	set -- "read_bytes $(($2 * $3)) $(($2 * $4)) $1" $(($2 * $4))
	if [ $status = 0 ] && [ "$(wc -c <o$n)" -eq "$2" ] && base64 <o$n >b$n; then
		put "$1" "$path" base64 b$n
	else
		gap "$1" "$path"
	fi
}
# The superblock, and the descriptors of all groups where they lie together (Linux,
# Documentation/filesystems/ext4). The superblock again, to tell of a resize meanwhile.
layout() { # the kernel's name, empty where it is not mounted
	bytes 0 1024 1 1
	[ -z "$1" ] || $lean && return
	od -An -v -tu1 o$n | awk -v room=$room '{ for (i = 1; i <= NF; i++) b[k++] = $i }
		function u32(o) { return b[o] + 256 * (b[o + 1] + 256 * (b[o + 2] + 256 * b[o + 3])) }
		function has(bit) { return int(u32(96) / bit) % 2 }
		END {
			if (b[56] != 83 || b[57] != 239 || has(16) || b[24] > 6 || !u32(32)) exit
			size = has(128) ? b[254] + 256 * b[255] : 32
			for (block = b[24] ? 1024 : 2048; b[24]-- > 0;) block *= 2
			groups = int((u32(4) + has(128) * u32(336) * 4294967296 - u32(20) - 1) / u32(32)) + 1
			if (size && groups > 0 && groups * size < room) print size, block / size, groups
		}' >g
	if read -r size skip count <g; then
		room=$((room - size * count))
		bytes 0 "$size" "$skip" "$count"
		bytes 1 1024 1 1
	else
		run dumpe2fs -g "$raw"
	fi
}

stack() { # number of a device
	todo=$1
	while [ -n "$todo" ]; do
		next=${todo%% *}
		todo=${todo#"$next"}
		todo=${todo# }
		case $next in '' | 0:*) ;; *) [ -e "p$next" ] || device "$next" ;; esac
	done
}
filesystem() { # number, name as above
	stack "$1"
	read -r path <"p$1" || path=/dev/$2
	dec "$path"
	if resolve "$raw" && [ "$node" = "$1" ]; then
		run dumpe2fs -h "$raw"
		# A label can forge the line, and bash runs what stands in an arithmetic value.
		v=$(sed -n '/^Journal dev/{s/.* \(0x[0-9a-f]\{4,8\}\)$/\1/p;q;}' o$n)
		layout "$2"
		[ -z "$v" ] || stack $((v >> 8 & 4095)):$((v & 255 | v >> 12 & 1048320))
	fi
	[ -n "$2" ] || return
	short "/proc/fs/ext4/$2/options"
	d=/sys/fs/ext4/$2
	of "$d" errors_count warning_count
	each "$d"/*_error_*
	# The file on "t" is trigger_fs_error.
	$lean || { names "$d"; each "$d"/[!t]*; }
	v=
	while read -r f m _; do
		[ "$f" = "$1" ] || continue
		v=$f
		dec "$m"
		resolve "$raw" && [ "$number" = "$1" ] && try stat -f -c "$1 %S %b %f %a %c %d" -- "$raw" &&
			read -r e <o$n && put stat_filesystem "$path" text "$e" && break
	done <mounts
	[ -z "$v" ] || return
	names /proc # another mount namespace holds it
	try grep -ls " $1 " /proc/[0-9]*/mountinfo
	read -r f <o$n && long "$f"
}

capture() {
	put effective_user - text "$uid"
	esc "$(for i in r v m n; do uname -$i; done)"
	put uname - text "$e"
	# Where MemAvailable is not plausible, what the kernel lets become dirty. A shell may count to 2 GiB.
	v=$(awk '/^MemTotal/{ t = $2 }
		/^MemAv/{ a = $2 }
		/^MemFree|ctive\(file/{ d += $2 }
		END {
			if (a < 1 || a > t) a = d < t ? d : t
			printf "%.0f\\012%.0f", t * 1024, a * 1024
		}' /proc/meminfo)
	put virtual_memory - text "$v"
	long /proc/self/mountinfo
	ln o$n table
	for f in bytes ratio background_bytes background_ratio; do long /proc/sys/vm/dirty_$f; done
	for f in proc/cmdline proc/filesystems proc/version_signature etc/os-release usr/lib/os-release \
		etc/mdadm/mdadm.conf etc/mdadm.conf sys/module/raid0/parameters/default_layout \
		.dockerenv run/.containerenv run/systemd/container run/mount/utab; do long /$f; done
	i=systemd/system/timers.target.wants/fstrim.timer
	for f in boot/grub/grub.cfg boot/grub2/grub.cfg boot/grub2 boot/extlinux/extlinux.conf \
		boot/loader/entries boot/efi/EFI/systemd efi/EFI/systemd \
		etc/$i usr/lib/$i etc/cron.weekly/fstrim etc/cron.daily/fstrim \
		etc/systemd/system/fstrim.service.d; do where "/$f"; done
	for f in etc usr/lib lib; do long /$f/systemd/system/fstrim.service; done
	for f in '' 2; do run grub$f-install --version; done
	run systemd-detect-virt --vm
	set -- NAME,KNAME,MAJ:MIN,FSTYPE,UUID,LABEL,PARTUUID,PARTLABEL,MODEL,TRAN
	run lsblk -J -o "$1"
	[ $status = 0 ] || run lsblk -P -o "$1"

	# Mounts of whole trees come first.
	awk 'split($0, w, " - ext[234] ") > 1 {
		split(w[2], s, " ")
		l = $3 " " $5 " " s[1] "\n"
		if ($4 == "/") printf "%s", l; else r = r l
	}
	END { printf "%s", r }' table >mounts
	: >alive
	for f in /proc/fs/ext4 /sys/fs/ext4; do
		names $f
		for m in "$f"/*; do
			case $m in */features | */\*) continue ;; esac
			m=${m##*/}
			short "/sys/class/block/$m/dev" || short "/sys/block/$m/dev"
			[ -z "$v" ] || echo "$v $m" >>alive
		done
	done
	while read -r number _ m; do
		grep -q "^$number " alive && continue
		m=${m##*/}
		short "/sys/dev/block/$number/uevent" && m=${t#*DEVNAME=}
		echo "$number ${m%%\\*}" >>alive
	done <mounts
	sort -u alive >each
	# Without udev, lsblk tells the content of no device.
	try lsblk -rno MAJ:MIN,FSTYPE
	awk '{ t[$1] = $2; n += NF - 1 }
		END { for (i in t) if (!n || t[i] ~ /^ext[234]$/) print i }' o$n >idle
	while read -r m; do
		grep -q "^$m " alive && continue
		d=/sys/dev/block/$m
		names "$d/../holders"
		names "$d/holders"
		short "$d/size"
		[ -n "$a" ] || [ "$v" = 0 ] || echo "$m" >>each
	done <idle
	while read -r number i; do filesystem "$number" "$i"; done <each

	# What the entries of fstab for ext4 name, and where they are meant for. A backslash before
	# anything but an octal number is itself: udev writes by-label/my\x20disk.
	long /etc/fstab || return
	sed 's/\\/\\134/g;s/\\134\([0-7]\{3\}\)/\\\1/g' o$n | awk '$1 !~ /^#/ && "," $3 "," ~ /,(ext[234]|auto),/ {
		i = index($1, "=")
		s = i && substr($1, 1, i) !~ "/" ? "/dev/disk/by-" tolower(substr($1, 1, i - 1)) "/" substr($1, i + 1) : $1
		gsub(/"/, "", s)
		print "to", s
		print "at", $1
		print "at", $2
	}' >fstab
	while read -r i v; do
		dec "$v"
		case $i in to) resolve "$raw" ;; *) where "$raw" ;; esac
	done <fstab
}

manifest() {
	AT=$AT HOST=$(uname -n) awk '
	function dec(s, o) {
		while (match(s, /\\[0-7][0-7][0-7]/)) {
			o = o substr(s, 1, RSTART - 1) sprintf("%c", substr(s, RSTART + 1, 1) % 4 * 64 \
				+ substr(s, RSTART + 2, 1) * 8 + substr(s, RSTART + 3, 1))
			s = substr(s, RSTART + 4)
		}
		return o s
	}
	function json(s, i) {
		gsub(/["\\]/, "\\\\&", s)
		gsub(/\n/, "\\n", s)
		if (s ~ /[\001-\037]/) for (i = 1; i < 32; i++) gsub(sprintf("%c", i), sprintf("\\u%04x", i), s)
		return "\"" s "\""
	}
	function key(k, s) { return ",\"" k "\":" json(s) }
	function list(k, s, i, n, w, o) {
		n = split(s, w, /\\\+/)
		for (i = 1; i <= n; i++) o = o (i > 1 ? "," : "") json(dec(w[i]))
		return ",\"" k "\":[" o "]"
	}
	# Credentials: key=word, key="words" and "key=words" (mount.cifs doubles a comma), user=name%word,
	# user:word@host.
	function mask(s, o, i, c) {
		while (match(tolower(s), /(pass|secret|token|set_cred)[^=,\001-\040]*=(\042[^\042]*\042|[^,\001-\040]|,,)+|\040\042[^=\042\n]*(pass|secret|token|set_cred)[^=\042\n]*=[^\042\n]+|user(name)?=[^%,\001-\040]*%(,,|[^,\001-\040])+|:[^\057,\001-\040]+@/)) {
			c = substr(s, RSTART, 1)
			i = c == ":"
			o = o substr(s, 1, RSTART + (i ? 0 : index(substr(s, RSTART), c ~ /[uU]/ ? "%" : "=") - 1)) "***"
			s = substr(s, RSTART + RLENGTH - i)
		}
		return o s
	}
	# A separator that no text holds keeps the last newline, or that there is none.
	function content(f, r, s, z) {
		RS = "\001"
		while ((getline r < f) > 0) { s = s z r; z = RS }
		close(f)
		RS = "\n"
		return s
	}
	BEGIN {
		FS = "\\\\_"
		printf "%s", "{\"format\":\"ext4audit-snapshot\",\"version\":1" key("taken_at", ENVIRON["AT"]) \
			key("host", ENVIRON["HOST"]) key("tool", "collect.sh @VERSION@") ",\"answers\":["
	}
	seen[$1 FS $2]++ { next }
	{
		split($1, w, " ")
		ask = w[1]
		a = ask ~ /^ru/ ? "argv" : ask ~ /^ud/ ? "device_number" : "path"
		what = $2
		gsub(/\\\+/, " ", what)
		what = dec(what)
		out = a == "argv" ? list(a, $2) : $2 == "-" ? "" : key(a, what)
		if ($2 == "-") what = ask == "uname" ? ask : ask ~ /^v/ ? "memory" : "effective user"
		if (ask ~ /_path/) what = "path " what
		if (ask ~ /^st/) what = "statfs " what
		if (ask ~ /^ud/) what = "udev database of " what
		if (ask ~ /bytes/) {
			out = out ",\"offset_bytes\":" w[2] ",\"length_bytes\":" w[3] ",\"reading\":" w[4]
			what = w[3] " bytes at " w[2] " of " what
		}
		if ($3 == "unknown")
			out = out ",\"unknown\":{" substr(key("what", what) key("why", $4) key("detail", dec($5)) key("hint", $6), 2) "}"
		else if ($3 == "run")
			out = out ",\"status\":" $5 ",\"timed_out\":" $6 key("stdout", content("o" $4)) key("stderr", content("e" $4))
		else {
			s = $3 == "text" ? dec($4) : $3 == "names" ? $4 : content($4)
			if ($3 == "base64") gsub(/\n/, "", s)
			if (what ~ /^.(etc.fstab|proc.*(line|info)|.*utab)$/ && s != (z = mask(s))) {
				s = z
				masked = masked "," json(what)
			}
			out = out key("origin", what) ($3 == "names" ? list($3, s) : key($3 == "base64" ? $3 : "text", s))
		}
		printf "%s", (NR > 1 ? ",\n" : "\n") "{\"ask\":\"" ask "\"" out "}"
	}
	END { print "\n]" (masked ? ",\"masked\":[" substr(masked, 2) "]" : "") "}" }' list
}

stop() { # message, exit status
	echo "$1" >&2
	exit "${2-2}"
}
main() {
	text=false lean=false output='' T='' O='' child='' timer='' n=0 room=16777217 uid=$(id -u)
	while [ $# -gt 0 ]; do
		case $1 in
		--text) text=true ;;
		--lean) lean=true ;;
		-o) [ -n "${2-}" ] && output=$2 && shift ;;
		*) false ;;
		esac || stop 'usage: sh collect.sh [--text] [--lean] [-o FILE]'
		shift
	done
	# A second Ctrl-C would end it before the directory is gone.
	trap 'trap "" HUP INT QUIT TERM PIPE; exec 2>/dev/null; kill -9 $child $timer; rm -rf "$T" "$O"' EXIT
	trap 'exit 1' HUP INT QUIT TERM PIPE XFSZ
	trap : USR1
	# A new file in its place: an old one may be open to others, or a link that a stranger set.
	case $output in '' | /*) ;; *) output=$PWD/$output ;; esac
	if [ -h "$output" ] || { [ -e "$output" ] && [ ! -f "$output" ]; }; then
		stop "collect.sh: $output: not a regular file"
	fi
	[ -z "$output" ] || { O=$(mktemp "$output.XXXXXX") && exec >"$O"; } || exit 1
	[ ! -t 1 ] || $text || stop 'collect.sh: not to a terminal: use a pipe, -o FILE or --text'
	# /tmp may have become read-only.
	for i in "${TMPDIR:-/tmp}" /run /dev/shm; do
		[ -n "$T" ] || T=$(mktemp -d "$i/ext4audit.XXXXXX")
	done 2>/dev/null
	{ [ -n "$T" ] && cd "$T" && T=$PWD && exec 3>list; } || stop 'collect.sh: no writable TMPDIR' 1
	AT=$(date -u +%Y-%m-%dT%H:%M:%SZ)
	capture
	exec 3>&-
	manifest >json || exit 1
	gzip -9 json 2>/dev/null
	if $text; then
		i='EXT4AUDIT SNAPSHOT-----'
		echo "-----BEGIN $i"
		base64 json* || openssl base64 -in json* || exit 1
		echo "-----END $i"
	else
		cat json* || exit 1
	fi
	[ -z "$O" ] || mv -f "$O" "$output"
}
main "$@"
