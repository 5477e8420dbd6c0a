"""DUR007: The commit interval is so long that a crash loses minutes of work."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Undetermined, Unknown, Why, need
from ext4audit.facts import whole_number
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Finding, Remedy, Severity
from ext4audit.rule import RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared import cite_option, milder_while_read_only, what_else_sets_it
from ext4audit.rules.shared.demands import holds_database

DEFAULT = "commit=5"
USUAL_SECONDS = 30
"""How long delayed allocation may hold back data anyway (vm.dirty_expire_centisecs)."""
LONG_SECONDS = 60
VERY_LONG_SECONDS = 300


@rule(
    "DUR007",
    "commit-large",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    The `commit=` interval in force, 5 seconds by default. Severity is info above 30 seconds, low
    above 60, and medium above 300 on the root filesystem and on the data directory of a database.
    On a read-only mount it is info.

    ## Why it matters

    Changes that no program has synced reach the journal only at a commit, so a crash loses up to
    one interval of created, renamed and written files. Long intervals also make each commit
    larger. Delayed allocation holds data back for up to 30 seconds anyway, so shorter intervals
    are no finding.

    ## Remedy

    Remove the option; a remount with `commit=5` takes effect immediately.

    ## When to ignore

    Ignore it on laptops whose disk should spin down, and on flash memory that should be written
    rarely. Programs that call fsync() are not affected, because fsync() forces a commit.
    """
    refuse_unmounted(fs)
    seconds = _seconds(need(need(fs.options).token("commit")))
    if seconds <= USUAL_SECONDS:
        yield from cite_option(fs, "commit")
        return
    severity = _severity(fs, seconds)
    message = f"commit={seconds}: a crash loses up to {seconds} s of changes that are not synced"
    severity, message = milder_while_read_only(fs, severity, message)
    yield Finding(
        message=f"{message}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=tuple(cite_option(fs, "commit")),
        remedies=(_remedy(fs, host),),
        summary=f"commit={seconds}: a crash loses up to {seconds} s of changes",
    )
    if seconds > VERY_LONG_SECONDS:
        need(fs.mounted_here)


def _seconds(token: str) -> int:
    """Return the interval in seconds; raises Undetermined if it is not a number."""
    value = token.partition("=")[2]
    seconds = whole_number(value)
    if seconds is None:
        detail = f"its value is {value!r:.40}"
        raise Undetermined((Unknown("option commit", Why.UNPARSABLE, detail),))
    return seconds


def _severity(fs: Filesystem, seconds: int) -> Severity:
    if seconds > VERY_LONG_SECONDS and ("/" in fs.mount_points or holds_database(fs)):
        return Severity.MEDIUM
    return Severity.LOW if seconds > LONG_SECONDS else Severity.INFO


def _remedy(fs: Filesystem, host: Host) -> Remedy:
    steps = remedies.options.change_option(fs, "commit", DEFAULT)
    where = remedies.remount.elsewhere(fs)
    return Remedy(
        f"Set the default of 5 seconds{where}.{what_else_sets_it(fs, host, 'commit')}",
        remedies.options.disruption(steps),
        steps,
        trade_off="The journal is written every 5 s while files change: a disk does not spin down, "
        "and flash memory is written more often.",
    )
