"""DRF003: the copy of a mounted filesystem gets a UUID or label of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ext4audit.engine import judge
from ext4audit.evidence import Known, need
from ext4audit.report import Verdict
from ext4audit.rule import Rule
from support.remedies.case import RemedyCase, Stage
from support.scratch import run

COPIES: dict[str, str] = {}
"""The loop device of the copy of each device."""


@dataclass(frozen=True)
class CopyCase(RemedyCase):
    """A filesystem and its copy on a second loop device, with nothing else on the host.

    What other devices this machine has is none of the case's concern.
    """

    def run(self, rule: Rule, stage: Stage) -> None:
        """Run the case, see that the copy is whole again, and free its device."""
        try:
            super().run(rule, stage)
            run("e2fsck", "-fn", COPIES[stage.device])
        finally:
            run("losetup", "--detach", COPIES.pop(stage.device))

    def judge(self, rule: Rule, stage: Stage) -> Verdict:
        """Judge the host with these two devices only."""
        names = {name.removeprefix("/dev/") for name in (stage.device, COPIES[stage.device])}
        host = stage.host(whole=True)
        ours = replace(
            host,
            filesystems=tuple(fs for fs in host.filesystems if fs.name in names),
            idle=Known(tuple(fs for fs in need(host.idle) if fs.name in names), "test"),
            devices=Known(tuple(d for d in need(host.devices) if d.name in names), "test"),
            container=None,
        )
        return judge(rule, None, ours)


def copy_it(stage: Stage) -> None:
    """Copy the live device; fstab names the original by its UUID."""
    run("cp", "--reflink=never", stage.device, f"{stage.image}.copy")
    device = run("losetup", "--find", "--show", f"{stage.image}.copy").strip()
    COPIES[stage.device] = device
    uuid = run("blkid", "-p", "-o", "value", "-s", "UUID", stage.device).strip()
    stage.write_fstab("defaults", spec=f"UUID={uuid}")


def copy_with_a_uuid_of_its_own(stage: Stage) -> None:
    """Leave only the label in common; fstab names the original by it."""
    copy_it(stage)
    run("e2fsck", "-fp", COPIES[stage.device])
    run("tune2fs", "-U", "random", COPIES[stage.device])
    stage.write_fstab("defaults", spec=r"LABEL=two\040words")


CASES = (
    CopyCase(name="a UUID", remedy="a UUID of its own", prepare=copy_it, whole=True),
    CopyCase(
        name="a UUID, without metadata_csum",
        remedy="a UUID of its own",
        mke2fs=("-O", "^metadata_csum"),
        prepare=copy_it,
        whole=True,
    ),
    CopyCase(
        name="a UUID, with metadata_csum_seed",
        remedy="a UUID of its own",
        mke2fs=("-O", "metadata_csum_seed"),
        prepare=copy_it,
        whole=True,
    ),
    CopyCase(
        name="a label",
        remedy="a LABEL of its own",
        mke2fs=("-L", "two words"),
        prepare=copy_with_a_uuid_of_its_own,
        whole=True,
    ),
)
NOT_RUN = "Which of two mounted filesystems is the copy, a person has to say."
