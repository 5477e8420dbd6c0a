"""KRN003: On this kernel, a crash can lose synced data of a filesystem with fast_commit."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, need, origin_of
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host, option_of
from ext4audit.finding import Citation, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.kernel import bug_finding
from ext4audit.rules.shared import cite_kernel, update

FEATURE, MODE_WITHOUT = "fast_commit", "data=journal"


@rule(
    "KRN003",
    "fast-commit",
    severity=Severity.HIGH,
    since="0.2",
    references=(
        "https://github.com/etcd-io/bbolt/blob/main/README.md#known-issues",
        "https://github.com/etcd-io/bbolt/issues/562",
        "https://lore.kernel.org/stable/20220307091703.544901888@linuxfoundation.org/",
        "https://git.kernel.org/linus/48a6a66db82b8043d298a630f22c62d43550cae5",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the superblock has the feature `fast_commit` on a kernel with known bugs in fast
    commits: 5.10 to 5.14, 5.15 before 5.15.27 and 5.16 before 5.16.13 lose synced data; later
    kernels before 5.15.87, 6.1.4 and 6.2 cannot replay fast commits of a newer kernel. mke2fs
    does not set the feature by default. Vendor kernels are assessed by the upstream version that
    they are based on, with confidence possible at most.

    ## Why it matters

    A fast commit writes only the changes that an fsync() needs to the journal. Kernels without
    e85c81ba8859, bdc8a53a6f2f and 9725958bb75c omit some of them. After a power failure, data that
    fsync() had confirmed is missing, and bbolt, the database of etcd and containerd, cannot be
    opened ("Page expected to be ..."). Kafka's guide recommends the feature, so it may also be on
    where etcd runs.

    ## Remedy

    Remove the feature while the filesystem is unmounted, or update the kernel. After a crash, run
    `e2fsck -p` first: tune2fs does not replay fast commits.

    ## When to ignore

    Ignore it if data may be lost in a crash. With `data=journal`, the kernel makes no fast commits.
    The rule passes on Linux 6.2 and later, although fixes to the replay are still being made.
    """
    refuse_unmounted(fs)
    exposed = exposure("KRN003", host.kernel)
    if isinstance(exposed, Known) and not exposed.value.affected:
        yield cite_kernel(host, exposed.value)
        return
    superblock = need(fs.superblock)
    if FEATURE not in superblock.features:
        yield _cite_feature(fs, "not set")
        return
    data = option_of(fs, "data")
    if data is not None and data.token == MODE_WITHOUT:
        raise NotApplicable("with data=journal, the kernel makes no fast commits")
    bug = need(exposed)
    yield bug_finding(
        host,
        bug,
        _cite_feature(fs, "set"),
        remedies=(remedies.features.without_fast_commit(fs), update(bug)),
        summary="fast_commit is on, with which this kernel can lose data in a crash",
        writes_to=fs,
    )


def _cite_feature(fs: Filesystem, value: str) -> Citation:
    return Citation(f"feature {FEATURE}", value, origin_of(fs.superblock))
