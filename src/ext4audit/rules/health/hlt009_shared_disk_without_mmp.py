"""HLT009: The disk can be shared between hosts, and nothing stops a second mount."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import need, origin_of, raise_for
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.health import network_disks, network_gaps

FEATURE = "mmp"
WAIT = "After an unclean stop, a mount takes 45 s longer."
"""Measured with the default interval on Linux 6.18: 44 s. A mounted filesystem has a check interval
of 10 s in its MMP block, and the kernel waits twice for 2 x 10 + 1 s
(ext4_multi_mount_protect() in fs/ext4/mmp.c)."""


@rule(
    "HLT009",
    "shared-disk-without-mmp",
    severity=Severity.LOW,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://docs.kernel.org/filesystems/ext4/mmp.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether a filesystem on a disk of a storage network (Fibre Channel, iSCSI, multipath, Ceph RBD)
    has the feature `mmp`, multiple mount protection. One host cannot see whether another one has
    the same disk mapped: the rule therefore reports the missing protection only, and is off by
    default.

    ## Why it matters

    ext4 is not a cluster filesystem. When two hosts mount the same disk, each overwrites what
    the other wrote, and the filesystem is destroyed within minutes: a wrong zone, a virtual
    machine that runs twice after a failover, a shared VMDK. With mmp, the second mount waits,
    sees that the first one is alive, and fails.

    ## Remedy

    Set the feature mmp while the filesystem is unmounted.

    ## When to ignore

    Ignore it if a cluster manager with fencing controls the mounts, or if the disk is mapped to one
    host.
    """
    rows = need(host.devices)
    shared = list(network_disks(need(fs.stack), rows))
    if not shared:
        raise_for(network_gaps(fs.stack, host.devices))
        raise NotApplicable("no disk below it is known to be on a storage network")
    superblock = need(fs.superblock)
    if FEATURE in superblock.features:
        yield Citation(f"feature {FEATURE}", "set", origin_of(fs.superblock))
        return
    steps = remedies.features.set_feature(fs, FEATURE)
    yield Finding(
        message=f"The disk is on a storage network ({shared[0].value}), and nothing stops another "
        f"host that reaches it from mounting it as well: the feature {FEATURE} is not set.",
        severity=Severity.LOW,
        confidence=Confidence.POSSIBLE,
        citations=(*shared, Citation(f"feature {FEATURE}", "not set", origin_of(fs.superblock))),
        remedies=(
            Remedy(
                f"Unmount it and set the feature {FEATURE}{remedies.remount.by_hand(fs, steps)}.",
                Disruption.UNMOUNT,
                steps,
                trade_off=f"{WAIT} The kernel writes a block every 5 s.",
            ),
        ),
        summary="a disk of a storage network has no protection against a second mount",
    )
