"""KRN001: On this kernel, synchronous direct writes can overwrite the previous write's data."""

from __future__ import annotations

from ext4audit.evidence import MOUNT_TABLE, need
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Host
from ext4audit.finding import Citation, Disruption, Remedy, Severity, few
from ext4audit.rule import RuleOutput, host_rule
from ext4audit.rules.kernel import bug_finding
from ext4audit.rules.shared import cite_kernel, mounted_on, update, writable_of

UNTIL_UPDATED = Remedy(
    "Until then, stop programs that write with O_DIRECT and O_DSYNC (dd oflag=direct,dsync, some "
    "backup tools and databases), and compare the files that they wrote under this kernel with "
    "another copy.",
    Disruption.ONLINE,
)


@host_rule(
    "KRN001",
    "o-sync-dio-corruption",
    severity=Severity.HIGH,
    since="0.2",
    in_plans=False,  # no choice in a plan affects the bug
    references=(
        "https://lore.kernel.org/stable/20231205122122.dfhhoaswsfscuhc3@quack3/",
        "https://bugs.debian.org/1057843",
        "https://lore.kernel.org/stable/20241022163346.125127-1-mngyadam@amazon.com/",
        "https://lwn.net/Articles/954770/",
    ),
)
def check(host: Host) -> RuleOutput:
    """## What it checks

    Whether the running kernel is 6.1.64, 6.1.65, Debian's 6.1.64-1, 5.10.227 or 5.10.228 while an
    ext4 filesystem is mounted writable. These kernels have commit 91562895f803 without
    936e114a245b, which it requires. Kernels of Debian and Ubuntu are identified by their package
    version, because `uname -r` does not show the stable update. Kernels of other vendors with one
    of these numbers are reported as possible. If the vendor never changes the number, as openEuler
    does with 5.10.0, the rule is undetermined: neither the release nor a public list shows which
    stable updates the kernel contains. Read the changelog of the kernel package: a safe kernel has
    both commits or neither.

    ## Why it matters

    After a direct write (O_DIRECT) to a file opened with O_SYNC or O_DSYNC, the kernel does not
    advance the file position. The next write(2) of the program overwrites the data of the first
    one without any error, and the file is too short. Programs that pass an offset (pwrite,
    io_uring, AIO) are not affected. Debian stopped the release of 12.3 because of this bug.

    ## Remedy

    Update the kernel and restart. The filesystem needs no repair, and fsck cannot find overwritten
    data: compare the files that such programs wrote under this kernel with another copy.

    ## When to ignore

    Ignore it if no program writes in this way: `dd oflag=direct,dsync` does, as do some backup
    tools and database engines. A vendor may have fixed a kernel with one of these numbers.
    """
    mounted_on(host)
    bug = need(exposure("KRN001", host.kernel))
    if not bug.affected:
        yield cite_kernel(host, bug)
        return
    writable = writable_of(host)
    count = len(writable)
    exposed = f"{count} writable ext4 filesystem{'s are' if count > 1 else ' is'} exposed"
    points = [few(fs.mount_points) or fs.device for fs in writable]
    yield bug_finding(
        host,
        bug,
        Citation("mounted writable", ", ".join(points), MOUNT_TABLE),
        message=f"{bug.symptom}; {exposed}",
        remedies=(update(bug), UNTIL_UPDATED),
        summary="a kernel bug makes synchronous direct writes overwrite earlier data",
    )
