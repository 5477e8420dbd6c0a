"""Change options whose default is a field of the superblock: errors=, resuid= and resgid=.

The options are corrected in fstab where fstab sets them, else in the superblock's field, which
every mount then follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Mount
from ext4audit.facts.options import Provenance
from ext4audit.finding import Phase, Step
from ext4audit.remedies.fstab import fstab_lines
from ext4audit.remedies.options import change_option, change_options, option_of
from ext4audit.remedies.remount import remount_command, usable_mount
from ext4audit.remedies.shell import quote

ERRORS = ("errors",)
CONTINUE, PANIC = "errors=continue", "errors=panic"
ERRORS_FIELD = {"errors=remount-ro": "Remount read-only"}
"""How tune2fs -l prints the field."""


def stop_at_errors(fs: Filesystem, token: str) -> tuple[Step, ...]:
    """Return the steps that replace errors=continue by `token`, now and at every mount.

    Empty where no usable mount is here, or where s_mount_opts overrules the superblock's field;
    and for a panic, whose steps no test may run: an error would stop the machine.
    """
    mount = usable_mount(fs)
    if token == PANIC or mount is None or None in (quote(mount.mount_point), quote(fs.device)):
        return ()
    if fstab_lines(fs, "errors") or _is_overridden_by_mount(fs, token):
        return change_option(fs, "errors", token)
    return () if errors_in_string(fs) else _set_errors_field(fs, mount, token)


def errors_in_string(fs: Filesystem) -> bool:
    """Whether s_mount_opts sets errors=."""
    option = option_of(fs, "errors")
    if option is not None and option.set_by is Provenance.SUPERBLOCK_STRING:
        return True
    string = fs.superblock.value.mount_option_string if isinstance(fs.superblock, Known) else ""
    return "errors=" in string


def _is_overridden_by_mount(fs: Filesystem, token: str) -> bool:
    """Whether the superblock has the wanted state, and a mount call overrode it."""
    stored = isinstance(fs.superblock, Known) and f"errors={fs.superblock.value.errors}" == token
    return stored and not errors_in_string(fs)


def _set_errors_field(fs: Filesystem, mount: Mount, token: str) -> tuple[Step, ...]:
    device = quote(fs.device)
    path = quote(f"/proc/fs/ext4/{fs.name}/options")
    value = token.removeprefix("errors=")
    stored = f"tune2fs -l {device} | grep -qx 'Errors behavior: *{ERRORS_FIELD[token]}'"
    return (
        Step(Phase.IMMEDIATE, remount_command(fs, mount, (token,), ERRORS)),
        Step(Phase.PERSISTENT, f"tune2fs -e {value} {device}"),
        Step(Phase.VERIFY, f"grep -qx {token} {path}"),
        Step(Phase.VERIFY, stored),
        Step(Phase.ROLLBACK, f"tune2fs -e continue {device}"),
        Step(Phase.ROLLBACK, remount_command(fs, mount, (CONTINUE,), ERRORS)),
    )


def give_reserve_to_root(fs: Filesystem, others: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the steps that set resuid and resgid, whose present tokens are `others`, to 0.

    Empty where no usable mount is here, or where a value is not a number.
    """
    mount = usable_mount(fs)
    numbers = [token.partition("=")[2] for token in others.values()]
    if mount is None or None in (quote(mount.mount_point), quote(fs.device)):
        return ()
    if not all(number.isascii() and number.isdigit() for number in numbers):
        return ()
    if any(fstab_lines(fs, name) for name in others):
        return change_options(fs, {name: f"{name}=0" for name in others})
    return tuple(_set_owner_fields(fs, mount, others))


def _set_owner_fields(fs: Filesystem, mount: Mount, others: Mapping[str, str]) -> Iterator[Step]:
    """Yield the steps that set the fields.

    The old fields are saved in a file, because the options in force do not show them: Linux
    6.18.44 takes resgid from the field of resuid.
    """
    device, path = quote(fs.device), quote(f"/proc/fs/ext4/{fs.name}/options")
    saved = quote(f"/etc/ext4audit.{fs.name}.reserved")
    root = [f"{name}=0" for name in others]
    yield Step(Phase.IMMEDIATE, remount_command(fs, mount, root, others))
    save = f"tune2fs -l {device} | grep '^Reserved blocks [ug]id:' > {saved}"
    yield Step(Phase.PERSISTENT, f"test -e {saved} || {save}")
    yield Step(Phase.PERSISTENT, f"tune2fs -u 0 -g 0 {device}")
    for token in root:
        yield Step(Phase.VERIFY, f"grep -qx {token} {path}")
    yield Step(Phase.VERIFY, f"! tune2fs -l {device} | grep '^Reserved blocks [ug]id: *[1-9]'")
    before = f"-u {_saved_number('uid', saved)} -g {_saved_number('gid', saved)}"
    yield Step(Phase.ROLLBACK, f"tune2fs {before} {device} && rm {saved}")
    old = tuple(others.values())
    yield Step(Phase.ROLLBACK, remount_command(fs, mount, old, others))


def _saved_number(label: str, saved: str | None) -> str:
    """Return the shell word that expands to a number in the file."""
    return f"\"$(sed -n 's/^Reserved blocks {label}: *\\([0-9]*\\).*/\\1/p' {saved})\""


def reserve_nothing(fs: Filesystem, reserved_blocks: int) -> tuple[Step, ...]:
    """Return the steps that give up the reserved blocks; the rollback restores their number."""
    device = quote(fs.device)
    if device is None:
        return ()
    return (
        Step(Phase.IMMEDIATE, f"tune2fs -m 0 {device}"),
        Step(Phase.VERIFY, f"tune2fs -l {device} | grep -qE '^Reserved block count: +0$'"),
        Step(Phase.ROLLBACK, f"tune2fs -r {reserved_blocks} {device}"),
    )
