r"""What holds a filesystem in use: found and named before a remedy unmounts it.

Seen on 6.18: below an overlay, a bind mount in another namespace or an open file of it, umount and
mount both exit with 0, and the superblock stays as it was, with its old options; over the backing
file of a loop device or a swap file umount fails.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from posixpath import dirname

from ext4audit.evidence import for_wording
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import Mount, mounts_by_place
from ext4audit.finding import Disruption, Remedy
from ext4audit.remedies import quote

MOST_NAMED = 3
"""More holders are counted and not named: a host of containers has hundreds of overlays."""
LAYERS = ("lowerdir", "lowerdir+", "datadir+", "upperdir", "workdir")
"""Options of an overlay that name directories; lowerdir names several, with colons."""


def with_holders(remedy: Remedy, fs: Filesystem, host: Host) -> Remedy:
    """Return a remedy that unmounts with the sentence on what must be stopped before.

    Nothing is said of advice, and of the root: everything holds it, and another system works on
    it.
    """
    unmounts = remedy.disruption is Disruption.UNMOUNT and remedy.steps
    if not unmounts or not fs.alive or "/" in fs.mount_points:
        return remedy
    return remedy._replace(summary=f"{remedy.summary}{first_stop(fs, host)}")


def first_stop(fs: Filesystem, host: Host) -> str:
    """Return the sentence that names what holds a filesystem; empty where nothing is known to."""
    names = tuple(holders(fs, host))
    if not names:
        return ""
    more = len(names) - MOST_NAMED
    shown = [*names[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
    return f" First stop what holds it: {', '.join(shown)}."


def holders(fs: Filesystem, host: Host) -> Iterator[str]:
    """Yield the names of what is known to hold a mounted filesystem.

    Swap files, open files and mounts in other namespaces are not among the facts of a host that
    has it mounted here: `holder_check` finds them when it runs.
    """
    mounts = for_wording(host.mounts, ())
    ours = {mount.mount_id for mount in fs.mounts}
    yield from (f"the mount on {place}" for place in fs.mount_points[1:])
    for mount in mounts:
        if mount.parent_id in ours and mount.mount_id not in ours:
            yield f"the mount on {mount.mount_point}"
        elif mount.fstype == "overlay" and any(
            _lies_on(path, fs, mounts) for path in _layers(mount)
        ):
            yield f"the overlay on {mount.mount_point}"
    yield from dict.fromkeys(_loops(fs, host))


def _layers(overlay: Mount) -> Iterator[str]:
    """Yield the directories that an overlay is made of."""
    for option in overlay.super_options:
        name, _, value = option.partition("=")
        if name in LAYERS:
            yield from value.split(":")


def _lies_on(path: str, fs: Filesystem, mounts: tuple[Mount, ...]) -> bool:
    """Whether a path is on a filesystem, by the mount table; a relative one cannot be known."""
    places = mounts_by_place(mounts)
    while path.startswith("/"):
        if path in places:
            return places[path][-1].device_number == fs.device_number
        if path == "/":
            return False
        path = dirname(path)
    return False


def _loops(fs: Filesystem, host: Host) -> Iterator[str]:
    """Yield the loop devices below other filesystems whose backing file is on this one."""
    for other in (*host.filesystems, *host.lower, *for_wording(host.idle, ())):
        stack = for_wording(other.stack, None)
        for device in stack.walk() if stack else ():
            loop = device.loop
            number = for_wording(loop.backing_device_number, None) if loop else None
            if loop and number == fs.device_number:
                yield f"the loop device {device.name} (image {loop.backing_file})"


IN_MOUNT_TABLES = r"""
function plain(text) { gsub(/\\043/, "#", text); return text }
function below(path) { return index(plain(path), where "/") == 1 }
function tell(what) {
  if (seen[id]++) return
  print what " on " $5 (id in here ? "" : " in the mount namespace of process " pid)
}
BEGIN { where = ENVIRON["escaped"] }
{
  split($1, name, /[\/:]/); pid = name[3]; id = name[5]; dash = 7; peers = " "
  while ($dash != "-" && dash < NF) {
    split($dash, tag, ":"); dash++
    if (tag[1] == "shared" || tag[1] == "master") peers = peers tag[2] " "
  }
  if (pid == "self") {
    here[id] = 1
    if ($3 == number && plain($5) == where) { own = id; split(peers, group, " ") }
    else if (below($5)) tell("the mount")
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
}
"""
"""Reads `/proc/PID/mountinfo:LINE` of all processes, this one's as /proc/self first. The kernel
unmounts copies in other namespaces too if they are peers or slaves of this mount: these hold
nothing. Below an overlay, paths count as they are written; it is not seen where they are links."""

IN_SYSTEM = (
    "for file in /sys/block/loop*/loop/backing_file; do "
    'image=; test -r "$file" && IFS= read -r image < "$file"; '
    'case $image in "$where"/*) name=${file#/sys/block/}; '
    'echo "the loop device ${name%%/*} (image $image)";; esac; done; '
    'awk \'index($1, ENVIRON["escaped"] "/") == 1 { print "the swap file " $1 }\' /proc/swaps; '
    'for held in "/sys/dev/block/$number/holders"/*; do '
    'test ! -e "$held" || echo "the device ${held##*/}"; done'
)


def holder_check(mount: Mount) -> str:
    """Return the command that fails while something beside processes holds a mount, and names it.

    It looks at the mount tables of all processes, at overlays, loop devices, swap files and the
    devices on the device, as they are when it runs. Processes with open files are left to umount,
    which refuses. It needs awk, grep, mountpoint and a POSIX shell (dash, bash, busybox). Raises
    ValueError for a mount point that cannot be quoted.
    """
    where = quote(mount.mount_point)
    if where is None:
        raise ValueError("no shell word expands to this mount point")
    tables = "grep -s '' /proc/self/mountinfo /proc/[0-9]*/mountinfo"
    found = f'{tables} | awk -v number="$number" {shlex.quote(IN_MOUNT_TABLES)}; {IN_SYSTEM}'
    return (
        f"(where={where}; escaped={_escaped(mount.mount_point)}; export escaped; "
        'number=$(mountpoint -d "$where") || { echo "$escaped is not mounted" >&2; exit 1; }; '
        f"""found=$({{ {found}; }} | tr '\\001-\\011\\013-\\037\\177' '?'); """
        'test -z "$found" || '
        '{ printf \'%s is held by:\\n%s\\n\' "$escaped" "$found" >&2; exit 1; })'
    )


def _escaped(path: str) -> str:
    """Return one shell word: a path as mountinfo spells it, blanks and backslashes in octal."""
    encoded = path.encode("utf-8", "surrogateescape").decode("latin-1")
    octal = "".join(f"\\{ord(c):03o}" if c in " \t\n\\" else c for c in encoded)
    return quote(octal.encode("latin-1").decode("utf-8", "surrogateescape")) or "''"
