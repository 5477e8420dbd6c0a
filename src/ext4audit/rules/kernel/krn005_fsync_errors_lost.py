"""KRN005: On this kernel, fsync() can succeed although data was lost to a write error."""

from __future__ import annotations

from ext4audit.evidence import MOUNT_TABLE, need
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Host
from ext4audit.finding import Citation, Disruption, Remedy, Severity
from ext4audit.rule import RuleOutput, host_rule
from ext4audit.rules.kernel import bug_finding
from ext4audit.rules.shared import cite_kernel, mounted_on, update, writable_of


@host_rule(
    "KRN005",
    "fsync-errors-lost",
    severity=Severity.MEDIUM,
    since="0.2",
    in_plans=False,
    references=(
        "https://wiki.postgresql.org/wiki/Fsync_Errors",
        "https://lwn.net/Articles/752063/",
        "https://git.kernel.org/linus/b4678df184b314a2bd47d2329feca2c2534aa12b",
    ),
)
def check(host: Host) -> RuleOutput:
    """## What it checks

    Whether the running kernel can lose an I/O error of writeback before a database sees it, while
    an ext4 filesystem is mounted writable: kernels before 4.13, and, less often, 4.13 to 4.16,
    which do not report an error that occurred before the file was opened. The rule is off by
    default; the profiles postgres and etcd turn it on.

    ## Why it matters

    When a write to the disk fails, the kernel drops the page and reports the error to the next
    fsync(). Before 4.13, another process or an earlier call can take the report, and the fsync()
    of the database then succeeds although data is lost: a checkpoint is taken for complete, and
    the log that could restore the data is removed. PostgreSQL opens its files in one process and
    syncs them in another, so it is affected on 4.13 to 4.16 as well.

    ## Remedy

    Update the kernel to 4.17 or later. PostgreSQL from 9.4.21, 9.5.16, 9.6.12, 10.7 and 11.2 on
    stops when fsync() fails instead of trying again, which helps only if the error is reported.

    ## When to ignore

    Ignore it if the database uses direct I/O, whose errors are returned by the write itself.
    """
    mounted_on(host)
    bug = need(exposure("KRN005", host.kernel))
    if not bug.affected:
        yield cite_kernel(host, bug)
        return
    places = [next(iter(fs.mount_points), fs.device) for fs in writable_of(host)]
    yield bug_finding(
        host,
        bug,
        Citation("writable filesystems", ", ".join(places), MOUNT_TABLE),
        remedies=(
            update(bug),
            Remedy(
                "Until then, let the database use direct I/O where it can, and watch the kernel "
                'log for "lost async page write": restore from a backup after such an error.',
                Disruption.ONLINE,
            ),
        ),
        summary="fsync() can succeed although data was lost to a write error",
    )
