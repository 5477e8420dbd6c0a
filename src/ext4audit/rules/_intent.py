"""What fstab (and, for the root, the kernel command line) intends for a mounted filesystem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import FstabEntry, Mount
from ext4audit.facts.option_table import NOT_EXT4_OPTIONS, recognize
from ext4audit.finding import Citation, Severity
from ext4audit.rule import NotApplicable
from ext4audit.rules._setters import rootflags

NOT_COMPARED = frozenset(
    # Set by superblock fields, by features, or shown always or never by version.
    "stripe errors resuid resgid i_version quota usrquota grpquota prjquota usrjquota grpjquota "
    "jqfmt sb mb_optimize_scan journal_checksum emergency_ro shutdown abort".split()
)
"""Options whose presence or absence in fstab says nothing about drift."""

WEIGHTY = frozenset(
    "barrier data delalloc dioread_nolock auto_da_alloc norecovery journal_async_commit".split()
)
"""Options that rules of durability and speed judge: when they change, a verdict changes."""
HARDENING = frozenset({"nosuid", "nodev", "noexec", "ro"})
"""Per-mount flags that protect."""
UNSAFE = frozenset({"nobarrier", "norecovery"})
"""Tokens that no remedy of drift puts in force or writes down: other rules warn of them."""


@dataclass(frozen=True, slots=True)
class Intent:
    """One mount of a filesystem and the fstab entry that is meant for it.

    `tokens` are the ext4 options that the entry (and rootflags=) asks for, canonical, by name;
    `dead` are words that are no option of ext4, mount(8) or systemd that this table knows.
    """

    mount: Mount
    entry: FstabEntry
    tokens: Mapping[str, str]
    dead: tuple[str, ...]

    @property
    def origin(self) -> str:
        """Where the intention is written."""
        return f"/etc/fstab line {self.entry.line.line_number}"

    def cite(self) -> tuple[Citation, ...]:
        """Return both sides: what is intended and what the mount table shows."""
        line = self.entry.line
        shown = ",".join(dict.fromkeys((*self.mount.mount_options, *self.mount.super_options)))
        return (
            Citation("fstab options", line.raw_options or "defaults", self.origin),
            Citation("mount table", shown, "/proc/self/mountinfo"),
        )


def severity_of(names: Iterable[str], flags: Iterable[str]) -> Severity:
    """Return how bad it is that these options (by name) and per-mount flags have drifted."""
    weighty = WEIGHTY.intersection(names) or HARDENING.intersection(flags)
    return Severity.MEDIUM if weighty else Severity.LOW


def intent_of(fs: Filesystem, host: Host) -> Intent:
    """Return what fstab intends for a filesystem.

    Raises NotApplicable where fstab does not speak of it, Undetermined where fstab is unread.
    """
    if not fs.mounts:
        raise NotApplicable("not mounted in this mount namespace")
    if host.container:
        raise NotApplicable(f"in a {host.container} container, /etc/fstab is not the host's")
    entries = need(fs.fstab)
    whole = [mount for mount in fs.mounts if mount.root == "/"]
    for mount in whole:
        for entry in entries:
            if entry.line.mount_point.rstrip("/") == mount.mount_point.rstrip("/"):
                return _intent(mount, entry, host)
    raise NotApplicable("no fstab entry for it: what mounts it again is not known")


def _intent(mount: Mount, entry: FstabEntry, host: Host) -> Intent:
    words = list(entry.line.options)
    if mount.mount_point == "/":
        words = [*rootflags(host), *words]
    tokens = {}
    dead = []
    for word in words:
        recognized = recognize(word)
        if recognized is not None:
            tokens[recognized[0].name] = recognized[1]
        elif not _is_for_others(word):
            dead.append(word)
    return Intent(mount, entry, tokens, tuple(dead))


def _is_for_others(word: str) -> bool:
    """Whether mount(8), the VFS, systemd or a security module takes the word."""
    key = word.partition("=")[0]
    return (
        not word
        or key in NOT_EXT4_OPTIONS
        or key.startswith(("x-", "X-", "comment"))
        or key
        in {
            "context",
            "fscontext",
            "defcontext",
            "rootcontext",
            "loop",
            "offset",
            "sizelimit",
            "uhelper",
            "helper",
        }
    )
