from __future__ import annotations

from evidence_host import HALF_FULL, HostEvidence, debian_host, denied
from ext4audit.assemble.host import assemble_host
from ext4audit.evidence import Evidence, Unknown, Why, need
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.usage import Usage
from ext4audit.sources.ask import StatFilesystem

DATA = DeviceNumber(8, 16)


def usage_of(host: HostEvidence, number: DeviceNumber = DATA) -> Evidence[Usage]:
    """Return the usage of one filesystem of a host."""
    found = assemble_host(host.source(), "2026-01-02T03:04:05Z").filesystems
    return next(fs.usage for fs in found if fs.device_number == number)


def why(evidence: Evidence[Usage]) -> Why:
    """Return why it is not known."""
    assert isinstance(evidence, Unknown)
    return evidence.why


def test_it_is_what_statvfs_says_at_the_mount_point() -> None:
    """In blocks and inodes; nobody needs to be root for it."""
    assert need(usage_of(debian_host())) == Usage(4096, 6417000, 3217000, 2889320, 1638400, 1500000)
    assert need(usage_of(debian_host().as_user())).free_inodes == 1500000


def test_a_mount_of_the_whole_tree_is_asked_first() -> None:
    """A bind mount may be of a project whose quota statfs tells in place of the space."""
    host = debian_host().unmount(30)
    host.mount(31, "8:16", "/srv", "/dev/sdb", root="/project")
    host.usage("/srv", "8:16", "4096 10 5 5 10 5")
    host.mount(32, "8:16", "/data", "/dev/sdb")
    assert need(usage_of(host)).size_blocks == int(HALF_FULL.split()[1])


def test_a_covered_mount_point_does_not_answer_for_another_filesystem() -> None:
    """/data leads to the tmpfs above it: nothing is known, and it is not the usage of tmpfs."""
    host = debian_host().mount(50, "0:50", "/data", "tmpfs", fstype="tmpfs")
    host.usage("/data", "0:50")
    assert why(usage_of(host)) is Why.ABSENT


def test_what_is_mounted_over_it_at_the_last_moment_is_noticed() -> None:
    """The device number in the answer is not the filesystem's."""
    assert why(usage_of(debian_host().usage("/data", "0:51"))) is Why.FAILED


def test_a_refusal_stays_one() -> None:
    """An unknown usage is none that is fine."""
    assert why(usage_of(debian_host().tell(StatFilesystem("/data"), denied()))) is Why.DENIED


def test_a_filesystem_that_is_not_mounted_is_not_used() -> None:
    """Its superblock counts its free blocks; it has no usage."""
    host = debian_host().unmount(30).without("/proc/fs/ext4/sdb").without("/sys/fs/ext4/sdb")
    (idle,) = need(assemble_host(host.source(), "2026-01-02T03:04:05Z").idle)
    assert why(idle.usage) is Why.ABSENT
