"""DUR006: After an error in its metadata the filesystem is written on as if nothing were wrong."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, is_surely, need
from ext4audit.facts.host import Filesystem, Host, fstab_lines
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_option, in_rootflags
from ext4audit.rules.shared.demands import demanded, holds_database, holds_volume
from ext4audit.rules.shared.error_state import has_stopped

MESSAGE = "errors=continue: when the kernel finds broken metadata it logs it and goes on writing"
REMOUNT_READ_ONLY = "errors=remount-ro"
STOPPING = frozenset({REMOUNT_READ_ONLY, "errors=panic"})

BOOT = " Correct rootflags= in the boot loader's configuration as well."
OVERRULED = (
    " The superblock's string of mount options overrules its field: take errors= out of it "
    "(tune2fs -E mount_opts=)."
)


@rule(
    "DUR006",
    "errors-continue",
    severity=Severity.HIGH,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://github.com/nerves-project/nerves_runtime/issues/326",
    ),
    in_plans=False,
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether `errors=continue` is in force on a writable filesystem. It is what mke2fs writes
    unless told otherwise, and so it is a note; medium where the mount point is a database's or a
    volume of an orchestrator; high when the kernel has already recorded errors. Plans are not
    judged by it.

    ## Why it matters

    An ext4 error says that metadata on the disk contradicts itself: a bitmap, a directory, an
    extent tree. To write on can spread it: blocks that count as free by mistake are given to a
    second file. With errors=remount-ro the damage stays as it is until e2fsck has run. A
    journal that cannot be written stops the filesystem in either case.

    ## Remedy

    Set errors=remount-ro: in the superblock, or in fstab where fstab says otherwise; where
    fstab or the superblock asks for errors=panic, put that in force. Watch
    /sys/fs/ext4/*/errors_count then: newer kernels stop writing and still show `rw`. Of one
    that has stopped already HLT002 speaks, and this rule after it is checked.

    ## When to ignore

    Appliances that would rather run on damaged than stop, and whose data is made again.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    if is_surely(fs.read_only):
        raise NotApplicable("it is mounted read-only: an error has nothing to spread by")
    options = need(fs.options)
    if need(options.token("errors")) != "errors=continue":
        yield from cite_option(fs, "errors")
        return
    if has_stopped(fs):
        raise NotApplicable("it has stopped taking writes: HLT002 says what comes first")
    recorded = tuple(_recorded(fs))
    severity, message = _grade(fs, recorded)
    yield Finding(
        message=f"{message}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=(*cite_option(fs, "errors"), *recorded),
        remedies=(_remedy(fs, host),),
    )


def _recorded(fs: Filesystem) -> Iterator[Citation]:
    """Yield the counts of errors that are not 0: the kernel's, and the superblock's."""
    if isinstance(fs.errors, Known) and fs.errors.value.errors:
        yield Citation("errors recorded", str(fs.errors.value.errors), fs.errors.origin)
    elif isinstance(fs.superblock, Known) and fs.superblock.value.error_count:
        count = fs.superblock.value.error_count
        yield Citation("errors recorded", str(count), fs.superblock.origin)


def _grade(fs: Filesystem, recorded: tuple[Citation, ...]) -> tuple[Severity, str]:
    if recorded:
        times = recorded[0].value
        return Severity.HIGH, f"{MESSAGE}, and it has already recorded errors: {times}"
    if holds_database(fs):
        return Severity.MEDIUM, f"{MESSAGE}, below a database"
    if holds_volume(fs):
        return Severity.MEDIUM, f"{MESSAGE}, on a volume that an orchestrator gives out"
    return Severity.INFO, MESSAGE


def _wanted(fs: Filesystem, host: Host) -> str:
    """Return how it must stop at an error: as demanded, or as fstab or the superblock has it.

    A panic that is configured somewhere is deliberate, and no other rule proposes less.
    """
    demands = (token for token in demanded(fs, host) if token.startswith("errors="))
    lines = fstab_lines(fs, "errors")
    in_fstab = (o for line in lines for o in reversed(line.options) if o.startswith("errors="))
    superblock = for_wording(fs.superblock, None)
    field = superblock.errors if superblock else ""
    configured = (*demands, *in_fstab, f"errors={field}")
    return next((token for token in configured if token in STOPPING), REMOUNT_READ_ONLY)


def _remedy(fs: Filesystem, host: Host) -> Remedy:
    wanted = _wanted(fs, host)
    steps = remedies.superblock_fields.stop_at_errors(fs, wanted)
    what = "Make it read-only" if wanted == REMOUNT_READ_ONLY else "Stop the host"
    where = "" if remedies.remount.usable_mount(fs) else f", {remedies.remount.without_mount(fs)}"
    overruled = OVERRULED if remedies.superblock_fields.errors_in_string(fs) else ""
    boot = BOOT if in_rootflags(fs, host, "errors") else ""
    return Remedy(
        f"{what} at the first error ({wanted}){where}.{overruled}{boot}",
        remedies.options.disruption(steps) if steps else Disruption.REMOUNT,
        steps,
        trade_off="An error then ends all writing until somebody runs e2fsck, and a monitor that "
        "looks for `ro` in the mount table may not see it: on newer kernels it stays `rw`.",
    )
