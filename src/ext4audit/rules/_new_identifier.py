"""Give the copy of a filesystem a UUID or label of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ext4audit.facts.host import Host
from ext4audit.facts.lsblk import LsblkDevice
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.rules._identifiers import Twins, is_mounted
from ext4audit.rules._shell import quote
from ext4audit.rules._unmounted import CHECK

PLAIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_. -]*")
"""Identifiers that every tool prints as they are: of others lsblk may have shown something else."""
NO_LABEL = "''", "L", "= ''"


def remedies(host: Host, twins: Twins) -> Iterator[Remedy]:
    """Yield a remedy for each copy: what is not mounted beside one that is.

    Where none or several are mounted, nothing tells the copy from the original.
    """
    copies = [row for row in twins.devices if not is_mounted(host, row)]
    if len(twins.devices) - len(copies) != 1:
        kind = "UUID (tune2fs -U random)" if twins.key == "UUID" else "label (tune2fs -L)"
        yield Remedy(
            summary=f"Find out which is the copy, unmount it, and give it another {kind}; or name "
            "the wanted device by a path that only it has.",
            disruption=Disruption.UNMOUNT,
        )
        return
    for row in copies:
        steps = _steps(twins, row)
        yield Remedy(
            summary=f"Give the copy {row.name} a {twins.key} of its own.",
            disruption=Disruption.ONLINE,
            steps=steps,
            trade_off="Right when what is mounted now is the original. Whatever else names the "
            f"copy by its old {twins.key} does not find it any more.",
        )


def _steps(twins: Twins, row: LsblkDevice) -> tuple[Step, ...]:
    """Return the commands for one copy, each refused while it is mounted anywhere."""
    device, old = quote(f"/dev/{row.kernel_name}"), quote(twins.value)
    if device is None or old is None or not PLAIN.fullmatch(twins.value):
        return ()
    held = quote(f"/sys/fs/ext4/{row.kernel_name.replace('/', '!')}")
    new, letter, other = ("random", "U", f"!= {old}") if twins.key == "UUID" else NO_LABEL
    work = [CHECK.format(device=device), f"tune2fs -{letter} {new} {device}"]
    read = f"blkid -p -o value -s {twins.key} {device}"
    return (
        *(Step(Phase.IMMEDIATE, f"test ! -e {held} && {command}") for command in work),
        Step(Phase.VERIFY, f'blkid -p {device} && test "$({read})" {other}'),
        Step(Phase.ROLLBACK, f"test ! -e {held} && tune2fs -{letter} {old} {device}"),
    )
