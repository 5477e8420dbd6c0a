# However it was started: without patterns (-f), nothing would seem to be in use.
set +f +C
usage='usage: sh fix.sh [--apply | --verify | --undo] [--only NUMBER]'
state_folder=${EXT4AUDIT_STATE:-/var/lib/ext4audit}
state=$state_folder/fix-$id.state
lock=$state_folder/lock
mode='' dry=true locked=false problem='' backup=''
title='' steps=0 step=0 strict=true tuned='' checked=false repeated='' writing=''

# Output that cannot be written, to a full disk or a closed pipe, makes no step fail.
say() { printf '%s\n' "$*" | visible || :; }
# Control characters of hostile names do not reach the terminal, nor what reverses or hides a text:
# U+0080-9F, U+061C, U+200B-F, U+2028-F, U+2060-F and U+FEFF.
unseen=$(printf 's/\302[\200-\237]/?/g;s/\330\234/?/g;s/\342\200[\213-\217\250-\257]/?/g
s/\342\201[\240-\257]/?/g;s/\357\273\277/?/g')
visible() { tr '\001-\010\013-\037\177' '?' | sed "$unseen"; }
tell() { printf 'fix: %s\n' "$*" | visible >&2; }
stop() { # message
	tell "$1"
	exit 1
}
# What a precheck, or a step, cannot go on with; the reason is told by who called it.
fails() {
	problem=$*
	return 1
}
quietly() { (eval "$1") </dev/null >/dev/null 2>&1; }
# Its reader may be gone: SIGPIPE ends no command, and none that takes another back.
loudly() { (trap '' PIPE && eval "$1") </dev/null; }

# The state file: one line a record, "begin STEP DATA ;". A line that a crash cut has no end mark.
# "unmounting" is of an undo that unmounts, with the settings in /sys that this takes away.
record() { # kind, key, data
	printf '%s %s %s ;\n' "$1" "$2" "${3:--}" >>"$state" || fails "cannot write to $state" || return
	sync "$state" 2>/dev/null || sync
}
state_of() { # a key: sets s, the last record's kind, saved, the data of the last begin, and taken
	s='' saved='' taken=''
	[ -e "$state" ] || return 0
	while read -r kind key data; do
		[ "$key" = "$1" ] || continue
		case $data in *' ;') ;; *) continue ;; esac
		[ "$kind" != begin ] || saved=${data% ;}
		taken=
		[ "$kind" != unmounting ] || taken=${data% ;}
		s=$kind
	done <"$state"
}
begun() { # a key: whether something of it may have to be taken back
	state_of "$1"
	case $s in begin | end | unmounting) ;; *) return 1 ;; esac
}
open_state() {
	# A folder that is there keeps its mode: the service has its report and its metrics in it.
	umask 077
	mkdir -p "$state_folder" || stop "cannot create $state_folder"
	[ ! -L "$state" ] || stop "$state is a symbolic link"
	(: >>"$state") || stop "cannot write to $state"
	chmod 600 "$state"
	[ ! -s "$state" ] || [ -z "$(tail -c 1 "$state")" ] || echo >>"$state"
}

# The lock is a link whose text is the process and its start: made whole or not at all.
process() { # a pid: prints it with its start time, in ticks since boot; nothing where it is gone
	sed "s/^.*) //" "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20 | sed -n "s/^./$1-&/p"
}
take_lock() {
	me=$(process $$) tries=0
	until ln -s "$me" "$lock" 2>/dev/null; do
		owner=$(readlink "$lock") || {
			tries=$((tries + 1))
			[ $tries -lt 9 ] || stop "cannot create $lock"
			continue
		}
		[ "$owner" != "$(process "${owner%%-*}")" ] ||
			stop "another script is running: process ${owner%%-*} (lock: $lock)"
		# Of several that find a stale lock, each must take away that one and not a new one.
		mv "$lock" "$lock.$$" 2>/dev/null || continue
		if [ "$(readlink "$lock.$$")" = "$owner" ]; then
			tell "removed the stale lock of process ${owner%%-*}"
		else
			mv "$lock.$$" "$lock"
		fi
		rm -f "$lock.$$"
	done
	locked=true
	trap 'release' EXIT
	trap 'interrupted 130' INT
	trap 'interrupted 143' HUP TERM
}
interrupted() { # exit status
	tell 'interrupted: --undo takes back the started steps, --apply takes them back and begins again'
	exit "$1"
}
release() { ! $locked || [ "$(readlink "$lock")" != "$me" ] || rm -f "$lock"; }

# Mounts. A key is a mount point as mountinfo spells it.
mounted() { # key: sets number, flags, options of what is topmost there
	line=$(KEY=$1 awk '$5 == ENVIRON["KEY"] {
			for (i = 7; i <= NF && $i != "-"; i++);
			found = $3 " " $6 " " $(i + 3)
		}
		END { if (found == "") exit 1; print found }' /proc/self/mountinfo) || return 1
	number=${line%% *} options=${line##* } flags=${line#* }
	flags=${flags%% *}
}
is_on() { mounted "$1" && [ "$number" = "$2" ]; } # key, number
mounts_on() { KEY=$1 awk '$5 == ENVIRON["KEY"] { n++ } END { print n + 0 }' /proc/self/mountinfo; }
escaped() ( # a path: prints it as mountinfo spells it, except #, which newer kernels escape as well
	path=$(printf '%s\n' "$1" | sed 's/\\/\\134/g;s/ /\\040/g;s/	/\\011/g;s/$/\\012/' | tr -d '\n')
	printf '%s\n' "${path%\\012}"
)
mount_above() { # a path: prints number and whether it is ro, of the mount that it lies on
	P=$(escaped "$1")/ awk '{ m = $5; gsub(/\\043/, "#", m); if (m != "/") m = m "/" }
		index(ENVIRON["P"], m) == 1 && length(m) >= best {
			best = length(m)
			for (i = 7; i <= NF && $i != "-"; i++);
			found = $3 (("," $6 "," $(i + 3) ",") ~ /,ro,/ ? " ro" : " rw")
		}
		END { print found }' /proc/self/mountinfo
}
real_path() ( # a path: prints it without links, also where its end does not exist yet
	case $1 in /*) place=$1 ;; *) place=$PWD/$1 ;; esac
	missing=
	until [ -d "$place/" ]; do missing=/${place##*/}$missing place=${place%/*}; done
	cd -P "$place/" && printf '%s\n' "$(pwd)$missing"
)
group() { # a word: sets g, the flag of mount(8) that it is about; empty for an option of ext4
	case $1 in
	ro | rw) g=ro ;;
	nosuid | suid) g=nosuid ;;
	nodev | dev) g=nodev ;;
	noexec | exec) g=noexec ;;
	nodiratime | diratime) g=nodiratime ;;
	nosymfollow | symfollow) g=nosymfollow ;;
	sync | async) g=sync ;;
	dirsync) g=dirsync ;;
	lazytime | nolazytime) g=lazytime ;;
	mand | nomand) g=mand ;;
	noatime | relatime | atime | strictatime | norelatime) g=atime ;;
	*) g='' ;;
	esac
}
opposite() {
	case $1 in
	ro) echo rw ;;
	sync) echo async ;;
	dirsync) ;;
	lazytime | mand) echo "no$1" ;;
	atime) echo strictatime ;;
	*) echo "${1#no}" ;;
	esac
}
# The flags in force, as mount(8) takes them; of a bind mount its own only.
in_force() ( # is_bind
	set -f
	IFS=,
	seen=rw atime=strictatime
	for word in $flags; do
		group "$word"
		case $g in
		ro) ! $1 || seen=$word ;;
		atime) atime=$word ;;
		?*) seen=$seen,$word ;;
		esac
	done
	$1 || for word in $options; do
		case $word in
		ro) seen=ro${seen#rw} ;;
		sync | dirsync | lazytime | mand) seen=$seen,$word ;;
		i_version) seen=$seen,iversion ;;
		esac
	done
	echo "$seen,$atime"
)
# A list without the flags that words replace, and the words behind it: the last one does not
# always win.
replaced() ( # list, words
	set -f
	IFS=,
	about=,
	for word in $2; do
		group "$word"
		[ -z "$g" ] || about=$about$g,
	done
	new=
	for word in $1; do
		group "$word"
		case $about in *",${g:-$word},"*) ;; *) new=$new,$word ;; esac
	done
	new=$new,$2
	echo "${new#,}"
)
# The flag of a kind that a list has, or the word that clears it.
member() ( # kind, list
	set -f
	IFS=,
	for word in $2; do
		group "$word"
		[ "$g" != "$1" ] || { echo "$word" && exit; }
	done
	opposite "$1"
)

# Guards of the host and of its filesystems.
precheck_host() {
	[ "$(id -u)" = 0 ] || fails 'root is required' || return
	for tool in $tools; do
		command -v "$tool" >/dev/null || fails "$tool is not installed" || return
	done
	if [ -n "$machine_id" ]; then
		here=$(cat /etc/machine-id 2>/dev/null)
		[ "$here" = "$machine_id" ] ||
			fails "this is not the audited host: its machine-id is ${here:-missing}, not $machine_id" || return
	else
		here=$(uname -n)
		[ "$here" = "$node" ] || fails "this is not the audited host: it is $here, not $node" || return
	fi
}
filesystem() { # device, kernel's name, number, uuid (empty: a step changes it)
	here=$(cat "/sys/class/block/$2/dev" 2>/dev/null)
	[ "$here" = "$3" ] || fails "$2 is device ${here:-none}, expected $3" || return
	here=$(stat -L -c '%t %T' "$1" 2>/dev/null) && here=$((0x${here% *})):$((0x${here#* }))
	[ "$here" = "$3" ] || fails "$1 is device ${here:-none}, expected $3" || return
	[ -n "$4" ] || return 0
	here=$(dd if="$1" bs=8 skip=141 count=2 2>/dev/null | od -An -v -tx1 | tr -d ' \n')
	[ "$here" = "$(echo "$4" | tr -d -)" ] || fails "$1 does not have the filesystem with UUID $4"
}
# What keeps a filesystem in use, as far as no open file does: umount itself refuses those. The
# kernel unmounts copies in other namespaces too if they are peers or slaves of this mount: these
# hold nothing. An automount below it mounts it again at the first access. Below an overlay, paths
# count as they are written; it is not seen where they are links.
in_mount_tables() { # key, number: names the holders in the mount tables of all processes
	grep -s '' /proc/self/mountinfo /proc/[0-9]*/mountinfo | KEY=$1 NUMBER=$2 awk '
		# An overlay escapes a backslash by another one.
		function plain(text) { gsub(/\\043/, "#", text); gsub(/(\\134)+/, "\001", text); return text }
		function below(path) { return index(plain(path), where "/") == 1 }
		function tell(what) {
			if (seen[id]++) return
			print what " on " $5 (id in here ? "" : " in the mount namespace of process " pid)
		}
		BEGIN { where = plain(ENVIRON["KEY"]); number = ENVIRON["NUMBER"] }
		{
			split($1, name, /[\/:]/); pid = name[3]; id = name[5]; dash = 7; peers = " "
			while ($dash != "-" && dash < NF) {
				split($dash, tag, ":"); dash++
				if (tag[1] == "shared" || tag[1] == "master") peers = peers tag[2] " "
			}
			if (pid == "self") {
				here[id] = 1
				if ($3 == number && plain($5) == where && !own) { own = id; split(peers, group, " ") }
				else if ($3 == number || below($5)) tell("the mount")
				else if ($(dash + 1) == "autofs" && plain($5) == where) tell("the automount")
			}
			else if ($3 == number && id != own) {
				follows = !(id in here) && group[1] && index(peers, " " group[1] " ")
				if (!follows) tell("the mount")
			}
			if ($(dash + 1) == "overlay") {
				count = split($(dash + 3), part, /[,:=]/)
				for (each = 1; each <= count; each++)
					if (plain(part[each]) == where || below(part[each])) tell("the overlay")
			}
		}'
}
in_system() { # directory, key, number: names loop devices, swap files and devices on the device
	for file in /sys/block/loop*/loop/backing_file; do
		image=
		[ ! -r "$file" ] || IFS= read -r image <"$file"
		case $image in "$1"/*)
			name=${file#/sys/block/}
			echo "the loop device ${name%%/*} (image $image)"
			;;
		esac
	done
	KEY=$2 awk 'index($1, ENVIRON["KEY"] "/") == 1 { print "the swap file " $1 }' /proc/swaps
	for held in "/sys/dev/block/$3/holders"/*; do
		[ ! -e "$held" ] || echo "the device ${held##*/}"
	done
}
# What an unmount takes away, and no mount brings back.
lost() { # directory, key, kernel's name
	disk=/sys/class/block/$3
	[ ! -e "$disk/partition" ] || disk=$disk/..
	case $(cat "$disk/loop/autoclear" 2>/dev/null) in 1)
		fails "the unmount of $1 would detach its loop device (autoclear)" || return
		;;
	esac
	mounted "$2" || return 0
	case ,$flags, in *,idmapped,*) fails "$1 is an idmapped mount, which no mount command restores" || return ;; esac
	$checked || ! has_errors "$3" ||
		fails "$1 has errors on record, and a mount allows writes again: check it with e2fsck first" || return
	more=$(not_repeated "$2")
	[ -z "$more" ] || fails "$1 has the options$more of mount(8), which the audit did not see: scan again" || return
	propagates_as_new "$2" || fails "$1: the propagation of the mount (private, shared, slave) is not that of a new one"
}
# Options that mount(8) keeps until the unmount, and that the mount commands of the remedy lack.
not_repeated() ( # key: prints them
	set -f
	[ -r /run/mount/utab ] || exit 0
	source=$(KEY=$1 awk '$5 == ENVIRON["KEY"] {
			for (i = 7; i <= NF && $i != "-"; i++);
			found = $(i + 2)
		}
		END { print found }' /proc/self/mountinfo)
	kept=$(KEY=$1 SOURCE=$source awk '
		index(" " $0 " ", " SRC=" ENVIRON["SOURCE"] " ") && index(" " $0 " ", " TARGET=" ENVIRON["KEY"] " ") {
			for (i = 1; i <= NF; i++) if ($i ~ /^OPTS=/) found = substr($i, 6)
		}
		END { print found }' /run/mount/utab)
	IFS=,
	for word in $kept; do
		case $word in
		_netdev | x-* | user | user=* | uhelper=* | helper=*)
			case ,$repeated, in *",$word,"*) ;; *) printf ' %s' "$word" ;; esac
			;;
		esac
	done
)
has_errors() { # kernel's name
	case $(cat "/sys/fs/ext4/$1/errors_count" 2>/dev/null) in '' | 0) return 1 ;; esac
}
propagates_as_new() { # key: a new mount is shared where the one around it is, else private
	KEY=$1 awk '{
			tags[$1] = ""
			for (i = 7; i <= NF && $i != "-"; i++)
				if ($i ~ /^(shared|master|unbindable)/) tags[$1] = tags[$1] substr($i, 1, 1)
			if ($5 == ENVIRON["KEY"]) { own = $1; around = $2 }
		}
		END { exit (around in tags) && tags[own] != (tags[around] ~ /s/ ? "s" : "") }' /proc/self/mountinfo
}
holders() { # directory, key, kernel's name, number
	lost "$1" "$2" "$3" || return
	found=$({ in_mount_tables "$2" "$4" && in_system "$1" "$2" "$4"; } | sed '$!s/$/, /' | tr -d '\n')
	[ -z "$found" ] || fails "$1 is in use by $found" || return
	case $(mount_above "$(real_path "$state_folder")") in "$4 "*) fails "$1: it contains $state_folder, where this script records its steps" ;; esac
}

# Settings in /sys/fs/ext4, which an unmount forgets: NAME:ATTRIBUTE=VALUE,... Mount options, and
# what the kernel writes there itself, are none.
tunables() { # kernel's name
	printf '%s:' "$1"
	find "/sys/fs/ext4/$1/" -maxdepth 1 -type f -perm 644 2>/dev/null | while read -r attribute; do
		case ${attribute##*/} in inode_readahead_blks | last_trim_minblks | simulate_fail) continue ;; esac
		value=$(cat "$attribute" 2>/dev/null) && printf '%s=%s,' "${attribute##*/}" "$value"
	done
}
tune() ( # NAME:ATTRIBUTE=VALUE,...
	set -f
	folder=/sys/fs/ext4/${1%%:*}
	[ -d "$folder" ] || exit 0
	list=${1#*:}
	IFS=,
	for pair in $list; do
		attribute=$folder/${pair%%=*} value=${pair#*=}
		[ ! -f "$attribute" ] || [ "$(cat "$attribute")" = "$value" ] ||
			(echo "$value" >"$attribute") 2>/dev/null || tell "cannot set $attribute to $value again"
	done
)

# Steps. Each obeys $mode: precheck (whether it can run), holds (0: what it leads to is so already;
# 1: it is not; 2: only running it tells), show, save (what to record), run, undo; kind (0: it edits
# a file), settled (0: nothing of it is left to be done by hand).
run_step() { # command, undo, done
	case $mode in
	holds)
		[ -n "$3" ] || return 2
		! $dry || ! writes || return 2
		quietly "$3"
		;;
	kind) return 1 ;;
	show) say "    $1" ;;
	run) loudly "$1" || fails "failed: $1" ;;
	undo)
		if [ -n "$2" ]; then
			loudly "$2" || fails "failed: $2"
		else
			irreversible=true
			say "  cannot be undone: ${1#'test ! -e '*' && '}"
		fi
		;;
	esac
}
inspect() { # true: it can run before all other steps; command, done
	case $mode in
	precheck) ! $1 || quietly "$2" || fails "failed: $2" ;;
	undo) ;;
	*) run_step "$2" '' "$3" ;;
	esac
}
setting() { # command, undo, done, what succeeds while the value is the audited one
	case $mode in
	precheck) quietly "$4" || quietly "$3" || fails "the value has changed since the audit: $1" ;;
	*) run_step "$1" "$2" "$3" ;;
	esac
}
mount_step() { # key, command, undo, done, whether that holds before the unmount as well
	case $mode in
	save) mounts_on "$1" ;;
	run) run_step "$2" "$3" "$4" && tune "$tuned" ;;
	holds)
		# That it is mounted does not tell that it was mounted anew.
		run_step "$2" "$3" "$4" || return
		! $5 || return 2
		;;
	undo)
		[ -n "$3" ] && [ "$(mounts_on "$1")" -gt "${saved:-0}" ] || return 0
		mounted "$1" && name=$(readlink "/sys/dev/block/$number") && name=${name##*/}
		# One that was killed may not have set again what the unmount took away, but recorded.
		tuned=
		[ "$s" = begin ] || tuned=$(tunables "$name")
		$checked || ! has_errors "$name" ||
			fails "the filesystem has errors on record: check it with e2fsck before it is mounted again" || return
		loudly "$3" || fails "failed: $3"
		;;
	*) run_step "$2" "$3" "$4" ;;
	esac
}
unmount() { # directory, key, kernel's name, number, command, again
	case $mode in
	precheck)
		is_on "$2" "$4" || fails "$1 is not mounted as audited" || return
		holders "$1" "$2" "$3" "$4"
		;;
	kind) return 1 ;;
	holds) return 2 ;;
	show) say "    $5" ;;
	save) tunables "$3" ;;
	settled)
		is_on "$2" "$4" ||
			fails "$1 stays unmounted: repair it (e2fsck -f), then mount it: $6"
		;;
	run)
		tuned=$data
		holders "$1" "$2" "$3" "$4" && { loudly "$5" || fails "failed: $5"; }
		;;
	undo)
		if is_on "$2" "$4"; then
			tune "$taken"
			return 0
		fi
		! mounted "$2" || fails "another filesystem is mounted on $1" || return
		case $tuned in "$3":*) ;; *) tuned=${taken:-$saved} ;; esac
		mount_tuned "$6"
		;;
	esac
}
# Mounts, and sets $tuned again. What a kill leaves of this is done by the next undo.
mount_tuned() { # a command
	record unmounting "$r.$step" "$tuned" || tell "$problem"
	loudly "$1" || fails "failed: $1" || return
	tune "$tuned"
}
# By any node of it, or the file of a loop device: a virtual machine opens its disks without excluding
# others.
is_open() { # device or image, what it is a part of...
	for part; do
		if [ -b "$part" ]; then form=%t:%T; else form=%d:%i; fi
		opened $form "$part" && return
		file=$(cat "/sys/class/block/${part##*/}/loop/backing_file" 2>/dev/null) || continue
		opened %d:%i "$file" && return
	done
	return 1
}
opened() { # form of its number, file
	find /proc/[0-9]*/fd -exec stat -Lc "$1" {} + 2>/dev/null |
		grep -qx "$(stat -Lc "$1" "$2" 2>/dev/null)"
}
unopened() { # as check
	device=$1
	shift 6
	for _ in 1 2 3; do # udev has a device open for a moment after each change
		is_open "$device" "$@" || return 0
		sleep 1
	done
	fails "a process, such as a virtual machine, has $device${1:+ or $*} open"
}
# The exit status of e2fsck is a sum: 1 is what was corrected, 4 and more is what is left.
check() { # device, kernel's name, how, command, undo, done, what the device is a part of...
	case $mode in
	holds | kind) run_step "$4" "$5" "$6" ;;
	show) say "    $4" ;;
	run)
		[ ! -e "/sys/fs/ext4/$2" ] || fails "$1 is still mounted somewhere" || return
		unopened "$@" || return
		status=0
		e2fsck "$3" "$1" </dev/null || status=$?
		[ $status -gt 1 ] || return 0
		[ $status -lt 4 ] || record refused "R$r" || return
		fails "e2fsck refused to repair $1 by itself (exit status $status)"
		;;
	undo)
		# What a killed e2fsck has left is checked again, before anything mounts it.
		if [ "$s" = begin ] && [ ! -e "/sys/fs/ext4/$2" ]; then
			mode=run
			check "$@" || return
		fi
		[ -z "$5" ] || loudly "$5" || fails "failed: $5"
		;;
	esac
}
shown() { # a word, as the kernel's list of options has it
	case $1 in dioread_lock) echo nodioread_nolock ;; *) echo "$1" ;; esac
}
lists() { grep -qxF -e "$(shown "$2")" "/proc/fs/ext4/$1/options" 2>/dev/null; }
remount() { # directory, key, kernel's name, number, source, is_bind, last resort, done, AFTER<BEFORE...
	dir=$1 key=$2 name=$3 source=$5 bind=$6 resort=$7 done=$8
	case $mode in
	holds | kind)
		run_step '' '' "$done"
		return
		;;
	settled) return ;;
	esac
	if [ "$mode" = undo ] && [ -n "$taken" ] && ! mounted "$key"; then
		anew "$dir" "$key" "$name" "$4" "$resort"
		return
	fi
	is_on "$key" "$4" || fails "$dir is not mounted as audited" || return
	now=$(in_force "$bind")
	shift 8
	case $mode in
	precheck) remount_precheck "$@" ;;
	save) echo "$now $(taken_back "$@")" ;;
	show | run) remount_words "$(replaced "$now" "$(afters "$@")")" ;;
	undo)
		tune "$taken"
		remount_undo "$@"
		;;
	esac
}
remount_precheck() {
	for pair; do
		after=${pair%%<*} before=${pair#*<}
		group "$after"
		if [ "$g" = atime ] && [ -n "$before" ]; then
			case $(member atime "$now") in
			"$after" | "$before") ;;
			*) fails "$dir: the access-time option is neither $before (audited) nor $after" || return ;;
			esac
		fi
		case $g,$after in ,*=*) ;; *) continue ;; esac
		lists "$name" "$after" || [ -z "$before" ] || lists "$name" "$before" ||
			! grep -q "^${after%%=*}=" "/proc/fs/ext4/$name/options" ||
			fails "$dir: ${after%%=*} is neither $before (audited) nor $after" || return
	done
}
afters() (
	words=
	for pair; do words=$words,${pair%%<*}; done
	echo "${words#,}"
)
# The options of ext4 to restore: those that are not yet as wanted.
taken_back() (
	words=
	for pair; do
		group "${pair%%<*}"
		[ -n "$g" ] || [ -z "${pair#*<}" ] || lists "$name" "${pair%%<*}" || words=$words,${pair#*<}
	done
	echo "${words#,}"
)
remount_words() { # words
	set -- "remount$($bind && echo ,bind),$1"
	if [ "$mode" = show ]; then
		say "    mount -o $1 $source $dir"
	else
		mount -o "$1" "$source" "$dir" || fails "failed: mount -o $1 $source $dir"
	fi
}
remount_undo() {
	old=${saved%% *} words=${saved#* }
	[ "$words" != "$saved" ] || words=
	for pair; do
		group "${pair%%<*}"
		[ -z "$g" ] || words=$words,$(member "$g" "$old")
	done
	words=${words#,}
	[ -n "$words" ] || return 0
	words=$(replaced "$now" "$words")
	if [ -z "$resort" ]; then
		remount_words "$words"
		return
	fi
	remount_words "$words" 2>/dev/null && return
	say "  a remount cannot undo this"
	anew "$dir" "$key" "$name" "$number" "$resort"
}
# A step that only an unmount takes back.
by_unmount() { # directory, key, kernel's name, number, the step: its function, command, undo...
	if [ "$mode" = undo ]; then
		anew "$1" "$2" "$3" "$4" "$7"
		return
	fi
	shift 4
	"$@"
}
anew() { # directory, key, kernel's name, number, what unmounts it and mounts it again
	! mounted "$2" || [ "$number" = "$4" ] || fails "$1 is not mounted as audited" || return
	holders "$1" "$2" "$3" "$4" || return
	say "  $1 is unmounted and mounted again"
	if mounted "$2"; then
		tune "$taken"
		tuned=$(tunables "$3")
	else
		# An undo that was killed has left it unmounted, and recorded what the unmount took away.
		tuned=$taken
		set -- "$1" "$2" "$3" "$4" "umount() { :; }; $5"
	fi
	mount_tuned "$5"
}

# Files in /etc. An edit starts from a line of its chain: what the edits before it leave.
editable() { # path
	[ ! -L "$1" ] || fails "$1 is a symbolic link to $(readlink "$1"): change its source" || return
	[ -f "$1" ] || fails "$1 is not a regular file" || return
	! mounted "$1" || fails "$1 is a mount point and cannot be replaced by a rename" || return
	place_writable "$1" || return
	(: >>"$1") 2>/dev/null || fails "$1 is not writable; it may be immutable (lsattr)"
}
place_writable() { # path
	folder=${1%/*}
	[ -d "$folder" ] || fails "$folder is not a directory" || return
	case $(mount_above "$(cd -P "$folder" && pwd)") in *ro) fails "$folder is on a read-only filesystem" || return ;; esac
	command -v lsattr >/dev/null || return 0
	for each in "$folder" "$1"; do
		case $(lsattr -d "$each" 2>/dev/null | cut -d' ' -f1) in
		*[ia]*) fails "$each is immutable or append-only (lsattr)" || return ;;
		esac
	done
}
at=0 edited=''
position() { # path, line number, chain: sets at, the place in the chain, from 1
	text=$(sed -n "$2p" "$1" && echo .) && text=${text%.}
	text=${text%"
"}
	place="line $2 of $1"
	shift 2
	at=0
	for each; do
		at=$((at + 1))
		[ "$text" != "$each" ] || return 0
	done
	fails "$place has changed since the audit"
}
# Where the audit had fstab without its comments, the text finds the line.
find_line() { # chain: sets line_number
	for each; do
		found=$(grep -nxF -e "$each" "$file" | head -n 1)
		line_number=${found%%:*}
		[ -z "$found" ] || return 0
	done
	fails "no line of $file is as audited: $1"
}
edit_line() { # path, line number or 0, place of this edit in the chain, chain
	file=$1 line_number=$2 k=$3
	shift 3
	[ "$line_number" != 0 ] || find_line "$@" || [ "$mode" = show ] || return
	case $mode in
	precheck)
		editable "$file" && position "$file" "$line_number" "$@" || return
		# Of several edits of a line, the first one must find what it starts from.
		case $edited in *" $line_number "*) return ;; esac
		edited="$edited $line_number "
		$dry || [ $at -ge "$k" ] || fails "line $line_number of $file lacks the edit of an earlier remedy"
		;;
	holds) position "$file" "$line_number" "$@" && [ $at -gt "$k" ] ;;
	show)
		shift $((k - 1))
		printf '    --- %s\n    +++ %s\n    @@ -%s +%s @@\n    -%s\n    +%s\n' \
			"$file" "$file" "$line_number" "$line_number" "$1" "$2" | visible
		;;
	run)
		position "$file" "$line_number" "$@" || return
		[ $at -eq "$k" ] || fails "line $line_number of $file lacks an earlier edit" || return
		keep_copy "$file" || return
		shift "$k"
		write_line "$1"
		;;
	undo)
		rm -f "$(beside "$file")"
		position "$file" "$line_number" "$@" || return
		[ $at -le "$((k + 1))" ] || fails "line $line_number of $file still has a later edit" || return
		[ $at -eq "$((k + 1))" ] || return 0
		editable "$file" || return
		shift $((k - 1))
		write_line "$1"
		;;
	esac
}
beside() { echo "${1%/*}/.${1##*/}.ext4audit-$id"; }
keep_copy() { # path
	[ -z "$backup" ] || return 0
	backup=$1.$(date +%Y%m%d-%H%M%S)
	[ ! -e "$backup" ] || return 0
	# What a full disk cuts must not look like a copy.
	copy=$(beside "$1")
	rm -f "$copy"
	if ! cp -a "$1" "$copy" || ! mv "$copy" "$backup"; then
		rm -f "$copy"
		fails "cannot copy $1 to $backup" || return
	fi
	say "  backup of $1: $backup"
}
write_line() { # the line; on a copy, which takes the place of the file
	copy=$(beside "$file")
	rm -f "$copy"
	cp -a "$file" "$copy" || fails "cannot copy $file to $copy" || return
	write_copy "$1" && sync_file "$copy" && mv -f "$copy" "$file" && sync_file "${file%/*}" && return
	rm -f "$copy"
	fails "$file could not be edited: writing, checking or renaming $copy failed"
}
write_copy() { # the line; the present one is in $text
	[ "$(complaints "$1")" -le "$(complaints "$text")" ] || return
	{
		[ "$line_number" -le 1 ] || head -n $((line_number - 1)) "$file"
		printf '%s' "$1"
		[ "$(wc -l <"$file")" -lt "$line_number" ] || echo ''
		tail -n "+$((line_number + 1))" "$file"
	} >"$copy"
}
sync_file() { sync "$1" 2>/dev/null || sync; }
# How many errors findmnt finds in one line; 0 where it cannot verify (before util-linux 2.31). It
# looks at the directories of all lines that it gets, and never returns from one on a dead server.
complaints() { # a line; overwrites the copy
	printf '%s\n' "$1" >"$copy"
	findmnt --verify --tab-file "$copy" 2>&1 |
		awk '/ parse errors?, .* errors?, / { n = $1 + $4 } END { print n + 0 }'
}
new_file() { # path, content without its last newline
	case $mode in
	precheck)
		place_writable "$1" || return
		[ ! -L "$1" ] || fails "$1 is a symbolic link" || return
		[ ! -e "$1" ] || same "$1" "$2" || fails "$1 exists with different content"
		;;
	holds) same "$1" "$2" ;;
	show)
		printf '    --- /dev/null\n    +++ %s\n' "$1" | visible
		printf '%s\n' "$2" | sed 's/^/    +/' | visible
		;;
	run)
		copy=$(beside "$1")
		rm -f "$copy"
		(umask 022 && set -C && printf '%s\n' "$2" >"$copy") && sync_file "$copy" &&
			mv "$copy" "$1" && sync_file "${1%/*}" && return
		rm -f "$copy"
		fails "cannot write $1"
		;;
	undo)
		rm -f "$(beside "$1")"
		[ -e "$1" ] || return 0
		same "$1" "$2" || fails "the content of $1 has changed" || return
		rm -f "$1" || fails "cannot remove $1"
		;;
	esac
}
same() { [ -f "$1" ] && printf '%s\n' "$2" | cmp -s - "$1"; }

# Remedies: remedy_1, remedy_2, ... are the data; each sets title, steps, strict and writing (the
# steps whose test writes a file), prechecks its filesystems, runs one step, and verifies all of it.
with_mode() { # mode, remedy, step
	mode=$1 step=$3
	"remedy_$2" "$3"
}
writes() { case $writing in *" $step "*) ;; *) return 1 ;; esac } # whether the step's test does
each_step() { # remedy: sets numbers, first to last and last to first
	r=$1
	"remedy_$r" about
	forwards='' backwards='' n=0
	while [ "$n" -lt "$steps" ]; do
		n=$((n + 1))
		forwards="$forwards $n" backwards="$n $backwards"
	done
}
prechecked() { # remedy
	"remedy_$1" filesystems || return
	edited=''
	for n in $forwards; do with_mode precheck "$1" "$n" || return; done
}
is_applied() { # remedy
	any=false
	for n in $forwards; do
		with_mode holds "$1" "$n"
		case $? in
		0) any=true ;;
		1) return 1 ;;
		esac
	done
	if $any; then
		$dry || "remedy_$1" verify
	else
		state_of "R$1"
		[ "$s" = complete ] && "remedy_$1" verify
	fi
}
verify() { # whether it writes a file, which a dry run does not; a command
	! $dry || ! $1 || return 0
	quietly "$2" || fails "verification failed: $2"
}
is_interrupted() { # remedy
	state_of "R$1"
	[ "$s" != complete ] || return
	for n in $forwards; do ! begun "$1.$n" || return 0; done
	return 1
}
# Undoes the steps that were begun, the last first. After a refusal of e2fsck only what was done
# to files: the filesystem stays unmounted until somebody has repaired and mounted it.
take_back() { # remedy
	state_of "R$1"
	refusal=false irreversible=false
	[ "$s" != refused ] || refusal=true
	for n in $backwards; do
		begun "$1.$n" || continue
		if $refusal && ! with_mode kind "$1" "$n"; then continue; fi
		with_mode undo "$1" "$n" || return
		undone "$1.$n"
	done
	if $refusal; then
		for n in $backwards; do
			begun "$1.$n" || continue
			with_mode settled "$1" "$n" || return
			undone "$1.$n"
		done
	fi
	undone "R$1"
}
# On a full disk the rest is undone all the same; an --undo that repeats it changes nothing.
undone() { record undone "$1" || tell "$problem"; } # a key
apply_remedy() {
	record applying "R$r" || return
	for n in $forwards; do
		if with_mode holds "$r" "$n"; then continue; fi
		with_mode show "$r" "$n"
		data=$(with_mode save "$r" "$n") || return
		record begin "$r.$n" "$data" || return
		with_mode run "$r" "$n" || return
		if $strict; then
			with_mode holds "$r" "$n"
			[ $? -ne 1 ] || fails "step $n ran without the expected result" || return
		fi
		record end "$r.$n" || return
	done
	"remedy_$r" verify && record complete "R$r"
}

# What the options ask for.
dry_run() {
	todo=0 ready=0 failed=0
	for r in $chosen; do
		each_step "$r"
		if is_interrupted "$r"; then
			say "$r. $title: interrupted; --apply undoes the started steps and applies it again"
			todo=$((todo + 1))
		elif ! "remedy_$r" filesystems; then
			tell "$r. $title: refused: $problem"
			failed=$((failed + 1))
		elif is_applied "$r"; then
			say "$r. $title: already applied"
			ready=$((ready + 1))
		elif ! prechecked "$r"; then
			tell "$r. $title: refused: $problem"
			failed=$((failed + 1))
		else
			say "$r. $title"
			for n in $forwards; do with_mode holds "$r" "$n" || with_mode show "$r" "$n"; done
			todo=$((todo + 1))
		fi
	done
	say "$todo to apply, $ready already applied, $failed refused; nothing was changed (use --apply)"
	[ $failed = 0 ]
}
apply_all() {
	dry=false made=0
	open_state
	take_lock
	for r in $opposite_order; do
		each_step "$r"
		is_interrupted "$r" || continue
		"remedy_$r" filesystems || stop "$r. $title: interrupted before, and refused now: $problem"
		tell "$r. $title: undoing an interrupted run first"
		take_back "$r" || stop "$r. $title: could not be undone: $problem"
	done
	for r in $chosen; do
		each_step "$r"
		"remedy_$r" filesystems || stop "$r. $title: refused: $problem; this remedy changed nothing"
		if is_applied "$r"; then
			say "$r. $title: already applied"
			continue
		fi
		prechecked "$r" || stop "$r. $title: refused: $problem; this remedy changed nothing"
		say "$r. $title"
		apply_remedy || roll_back
		made=$((made + 1))
	done
	if [ $made = 0 ]; then
		say 'nothing was changed: all remedies are already applied'
	else
		say "$made applied and verified; --undo restores the state recorded in $state"
	fi
}
roll_back() {
	tell "$r. $title: $problem"
	if take_back "$r"; then
		! $irreversible || stop "$r. $title: rolled back, except what cannot be undone"
		stop "$r. $title: rolled back; the state is as before this remedy"
	fi
	stop "$r. $title: not rolled back: $problem; --undo tries again"
}
verify_all() {
	dry=false failed=0
	for r in $chosen; do
		each_step "$r"
		if "remedy_$r" filesystems && is_applied "$r"; then
			say "$r. $title: applied"
		else
			say "$r. $title: not applied${problem:+ ($problem)}"
			failed=$((failed + 1))
		fi
		problem=
	done
	[ $failed = 0 ]
}
undo_all() {
	made=0 left=0
	[ -s "$state" ] || { say "nothing to undo: $state does not exist" && return; }
	open_state
	take_lock
	for r in $opposite_order; do
		each_step "$r"
		any=false
		for n in $forwards; do ! begun "$r.$n" || any=true; done
		$any || continue
		say "$r. $title: undo"
		"remedy_$r" filesystems || stop "$r. $title: refused: $problem"
		state_of "R$r"
		[ "$s" = refused ] || record undoing "R$r" || stop "$problem"
		take_back "$r" || stop "$r. $title: not undone: $problem; --undo tries again"
		if $irreversible; then left=$((left + 1)); else made=$((made + 1)); fi
	done
	case $made,$left in
	0,0) say 'nothing to undo' ;;
	*,0) say "$made undone" ;;
	*) stop "$made undone; $left cannot be undone, or only in part" ;;
	esac
}
# busybox ash calls programs of its own before those in the PATH: its mount gives x-* to the kernel,
# which then refuses to mount again, and its cp loses extended attributes.
prefer_path() {
	for tool in $tools; do
		[ "$(command -v "$tool")" = "$tool" ] || continue
		found=$(in_path "$tool")
		[ -z "$found" ] || eval "$tool() { '$found' \"\$@\"; }"
	done
}
in_path() ( # a program: prints its path
	IFS=:
	for folder in $PATH; do
		case $folder in *\'*) continue ;; esac
		[ ! -f "$folder/$1" ] || [ ! -x "$folder/$1" ] || { echo "$folder/$1" && exit; }
	done
)
wrong_usage() {
	echo "$usage" >&2
	exit 2
}
main() {
	# No file may be opened in the place of a closed standard input, output or error.
	[ -e /proc/$$/fd/0 ] || exec </dev/null
	[ -e /proc/$$/fd/1 ] || exec >/dev/null
	[ -e /proc/$$/fd/2 ] || exec 2>/dev/null
	# Without a cache, what libblkid says of a device is what is on it now.
	LC_ALL=C BLKID_FILE=/dev/null PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin
	export LC_ALL BLKID_FILE PATH
	prefer_path
	action=dry_run chosen='' opposite_order='' only=''
	while [ $# -gt 0 ]; do
		case $1 in
		--apply) action=apply_all ;;
		--verify) action=verify_all ;;
		--undo) action=undo_all ;;
		--only)
			case ${2-} in '' | *[!0-9]*) wrong_usage ;; esac
			only=$2
			shift
			;;
		*) wrong_usage ;;
		esac
		shift
	done
	i=0
	while [ $i -lt "$remedies" ]; do
		i=$((i + 1))
		[ "${only:-$i}" = $i ] || continue
		chosen="$chosen $i" opposite_order="$i $opposite_order"
	done
	[ -n "$chosen" ] || { say 'nothing to do' && exit 0; }
	precheck_host || stop "refused: $problem; nothing was changed"
	$action
}
