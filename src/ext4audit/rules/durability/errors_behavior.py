"""What the kernel does at an error (errors=): put it into the superblock, or into fstab."""

from __future__ import annotations

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import Mount
from ext4audit.facts.options import Provenance
from ext4audit.finding import Phase, Step
from ext4audit.remedies.options import change_option, option_of
from ext4audit.remedies.remount import remount_command, usable_mount
from ext4audit.remedies.shell import quote
from ext4audit.rules.shared.citations import fstab_lines
from ext4audit.rules.shared.demands import demanded

NAMES = ("errors",)
REMOUNT_READ_ONLY = "errors=remount-ro"
CONTINUE = "errors=continue"
PANIC = "errors=panic"
STORED = {REMOUNT_READ_ONLY: "Remount read-only"}
"""How tune2fs -l prints what the superblock's field says."""
STOPS = frozenset({REMOUNT_READ_ONLY, PANIC})


def stop_word(fs: Filesystem, host: Host) -> str:
    """Return how it shall stop at an error: as demanded, as fstab or the superblock says already.

    A panic that somebody wrote down is deliberate, and no other rule asks for less.
    """
    wanted = (word for word in demanded(fs, host) if word.startswith("errors="))
    lines = fstab_lines(fs, "errors")
    written = (w for line in lines for w in reversed(line.options) if w.startswith("errors="))
    field = fs.superblock.value.errors if isinstance(fs.superblock, Known) else ""
    said = (*wanted, *written, f"errors={field}")
    return next((word for word in said if word in STOPS), REMOUNT_READ_ONLY)


def stop_at_errors(fs: Filesystem, word: str) -> tuple[Step, ...]:
    """Return the commands that stop it at an error as `word` says, now and for good.

    fstab is corrected where it says something of it; else the superblock's field is set, which
    every mount then follows. Empty where no mount is here to be changed, or where the string in
    the superblock overrules its field; and for a panic, whose commands no test may run: an error
    would stop the machine.
    """
    mount = usable_mount(fs)
    if word == PANIC or mount is None or None in (quote(mount.mount_point), quote(fs.device)):
        return ()
    if fstab_lines(fs, "errors") or _by_mount_only(fs, word):
        return change_option(fs, "errors", word)
    return () if in_string(fs) else _by_superblock(fs, mount, word)


def _by_mount_only(fs: Filesystem, word: str) -> bool:
    """Whether the superblock is in order, and a call of mount overruled it."""
    stored = isinstance(fs.superblock, Known) and f"errors={fs.superblock.value.errors}" == word
    return stored and not in_string(fs)


def in_string(fs: Filesystem) -> bool:
    """Whether the string in the superblock says what happens at an error."""
    option = option_of(fs, "errors")
    if option is not None and option.set_by is Provenance.SUPERBLOCK_STRING:
        return True
    string = fs.superblock.value.mount_option_string if isinstance(fs.superblock, Known) else ""
    return "errors=" in string


def _by_superblock(fs: Filesystem, mount: Mount, word: str) -> tuple[Step, ...]:
    device = quote(fs.device)
    path = quote(f"/proc/fs/ext4/{fs.name}/options")
    value = word.removeprefix("errors=")
    stored = f"tune2fs -l {device} | grep -qx 'Errors behavior: *{STORED[word]}'"
    return (
        Step(Phase.IMMEDIATE, remount_command(fs, mount, (word,), NAMES)),
        Step(Phase.PERSISTENT, f"tune2fs -e {value} {device}"),
        Step(Phase.VERIFY, f"grep -qx {word} {path}"),
        Step(Phase.VERIFY, stored),
        Step(Phase.ROLLBACK, f"tune2fs -e continue {device}"),
        Step(Phase.ROLLBACK, remount_command(fs, mount, (CONTINUE,), NAMES)),
    )
