"""DUR006: The kernel keeps writing after a metadata error, which can spread the damage."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Known, Undetermined, Unknown, Why, for_wording, is_surely, need
from ext4audit.facts.host import Filesystem, Host, fstab_lines
from ext4audit.facts.mount import EffectiveOptions
from ext4audit.finding import Citation, Confidence, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared import IN_BOOT_LOADER, cite_option, in_rootflags
from ext4audit.rules.shared.demands import demanded, holds_database
from ext4audit.rules.shared.error_state import (
    counted_errors,
    has_stopped,
    is_old_record,
    time_of_last_mount,
)

MESSAGE = "errors=continue: after a metadata error the kernel logs it and keeps writing"
SUMMARY = "errors=continue: the kernel keeps writing after a metadata error"
CONTINUE = "errors=continue"
REMOUNT_READ_ONLY = "errors=remount-ro"
STOPPING = frozenset({REMOUNT_READ_ONLY, "errors=panic"})
OVERRULED = (
    " The mount options string of the superblock overrides this field: remove errors= from it "
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

    Whether `errors=continue` is in force on a writable filesystem. mke2fs sets it by default, so
    severity is info. It is low on volumes of an orchestrator, which CSI drivers format with the
    default, and medium on the data directory of a database. If the kernel has recorded errors,
    severity is high, or medium if the last error happened before this mount and more than seven
    days ago. Plans are not checked.

    ## Why it matters

    An ext4 error means that metadata on the disk is inconsistent: a bitmap, a directory, an extent
    tree. Further writes can spread the damage: blocks that are free by mistake are allocated to a
    second file. With `errors=remount-ro` the damage does not grow until e2fsck has run. A failed
    write to the journal stops the filesystem in both modes.

    ## Remedy

    Set `errors=remount-ro` in the superblock, or in fstab if fstab sets another value. If fstab or
    the superblock sets `errors=panic`, put `errors=panic` in force. Then monitor
    /sys/fs/ext4/*/errors_count: Linux 6.12 and later, and updates of 6.1 and 6.6, still show `rw`
    after they have stopped writing. HLT002 reports a filesystem that has already stopped; this rule
    applies again after the check.

    ## When to ignore

    Ignore it on appliances that must keep running on a damaged filesystem and can recreate their
    data.
    """
    refuse_unmounted(fs)
    if is_surely(fs.read_only):
        raise NotApplicable("it is mounted read-only, so an error cannot spread")
    options = need(fs.options)
    if _in_force(options) != CONTINUE:
        yield from cite_option(fs, "errors")
        return
    if has_stopped(fs):
        raise NotApplicable("it no longer accepts writes; see HLT002")
    recorded = tuple(_recorded(fs))
    severity, message, summary = _grade(fs, host, recorded)
    yield Finding(
        message=f"{message}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=(*cite_option(fs, "errors"), *recorded),
        remedies=(_remedy(fs, host),),
        summary=summary,
    )
    if not recorded:
        need(fs.errors, fs.mounted_here)
    elif severity is Severity.MEDIUM:
        need(time_of_last_mount(fs))


def _in_force(options: EffectiveOptions) -> str:
    """Return the errors= token; raises Undetermined for a value that ext4 does not define."""
    token = need(options.token("errors"))
    if token not in {CONTINUE, *STOPPING}:
        detail = f"{token!r} is not a valid errors= value"
        raise Undetermined((Unknown("option errors", Why.UNPARSABLE, detail),))
    return token


def _recorded(fs: Filesystem) -> Iterator[Citation]:
    """Cite the error count if it is not 0: the kernel's, else the superblock's."""
    if isinstance(fs.errors, Known) and fs.errors.value.errors:
        yield Citation("errors recorded", str(fs.errors.value.errors), fs.errors.origin)
    elif isinstance(fs.superblock, Known) and fs.superblock.value.error_count:
        count = fs.superblock.value.error_count
        yield Citation("errors recorded", str(count), fs.superblock.origin)


def _grade(fs: Filesystem, host: Host, recorded: tuple[Citation, ...]) -> tuple[Severity, str, str]:
    """Return the severity, the message and the summary.

    Recorded errors are never graded above HLT001, which reports the record itself.
    """
    if recorded:
        errors = counted_errors(int(recorded[0].value))
        message = f"{MESSAGE}, and it has already recorded {errors}"
        is_old = isinstance(fs.errors, Known) and is_old_record(fs, host, fs.errors.value)
        severity = Severity.MEDIUM if is_old else Severity.HIGH
        return severity, message, f"{SUMMARY}, and errors are recorded"
    if holds_database(fs):
        message = f"{MESSAGE}, on the data directory of a database"
        return Severity.MEDIUM, message, f"{SUMMARY}, on a database"
    if remedies.holds_volume(fs):
        message = f"{MESSAGE}, on a volume of an orchestrator"
        return Severity.LOW, message, f"{SUMMARY}, on volumes"
    return Severity.INFO, MESSAGE, f"{SUMMARY} (default)"


def _wanted(fs: Filesystem, host: Host) -> str:
    """Return the errors= token to set: from a profile, else from fstab or the superblock.

    A configured errors=panic is deliberate, and no other rule proposes a milder setting.
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
    what = "Stop writing" if wanted == REMOUNT_READ_ONLY else "Stop the host"
    where = remedies.remount.elsewhere(fs)
    overruled = OVERRULED if remedies.superblock_fields.errors_in_string(fs) else ""
    boot = IN_BOOT_LOADER if in_rootflags(fs, host, "errors") else ""
    return Remedy(
        f"{what} at the first error ({wanted}){where}.{overruled}{boot}",
        remedies.options.disruption(steps),
        steps,
        trade_off="An error then stops all writes until e2fsck has run. A monitor that looks for "
        "`ro` in the mount table may miss this: Linux 6.12 and later, and updates of 6.1 and 6.6, "
        "still show `rw`.",
    )
