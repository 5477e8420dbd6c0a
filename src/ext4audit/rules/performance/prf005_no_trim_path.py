"""PRF005: The device takes discards, and nothing ever tells it which blocks are free."""

from __future__ import annotations

from ext4audit.evidence import need
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import (
    Confidence,
    Disruption,
    Finding,
    Remedy,
    Severity,
)
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import (
    NO_DISCARD,
    TIMER,
    cite_discard,
    cite_fstrim,
    cite_option,
)

BY_TIMER = Remedy(
    f"Where systemd runs: `systemctl enable --now {TIMER}`, which trims all filesystems of fstab "
    "once a week.",
    Disruption.ONLINE,
    trade_off="The first run discards all that was ever freed, and can keep the disks busy for "
    "minutes. On dm-crypt the disk then shows which blocks are free.",
)
BY_HAND = Remedy(
    "Elsewhere: a weekly cron job with `fstrim -a`, or with `fstrim DIR` for what is not in fstab.",
    Disruption.ONLINE,
)


@rule(
    "PRF005",
    "no-trim-path",
    severity=Severity.LOW,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man8/fstrim.8.html",
        "https://github.com/cockroachdb/cockroach/issues/123051",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    A writable filesystem on a device that takes discards, without `discard`, on a host where
    neither fstrim.timer nor a cron job trims all filesystems regularly.

    ## Why it matters

    The device believes for ever that all that was once written is in use. An SSD moves this dead
    data about and writes more slowly and wears out sooner, a thin pool or a sparse image
    never shrinks. fstrim has given back large parts of such disks at once.

    ## Remedy

    Enable fstrim.timer. It is gentler than the option discard, which PRF004 judges.

    ## When to ignore

    Where something else trims: the vendor's agent, a job of configuration management. On SSDs
    with much spare room the effect is small. In a container the host's timers are not seen, and
    no plan tells of timers and discards: there the rule does not apply.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    if need(need(fs.options).token("discard")) == "discard":
        yield from cite_option(fs, "discard")
        return
    if need(fs.read_only):
        raise NotApplicable("it is read-only: nothing is freed")
    if host.planned:
        raise NotApplicable("no plan tells whether its disks take discards, and what trims them")
    container = need(host.container)
    if container:
        raise NotApplicable(f"in a {container} container, the host's timers are not seen")
    device = need(fs.stack)
    if need(device.queue.discard_max_bytes) == 0:
        raise NotApplicable(NO_DISCARD)
    if need(host.fstrim):
        yield cite_fstrim(host)
        return
    yield _finding(fs, host, device)


def _finding(fs: Filesystem, host: Host, device: BlockDevice) -> Finding:
    return Finding(
        message=f"{device.name} takes discards, and neither the option discard nor a regular "
        "fstrim ever tells it which blocks are free.",
        severity=Severity.LOW,
        confidence=Confidence.LIKELY,
        citations=(*cite_option(fs, "discard"), *cite_discard(device), cite_fstrim(host)),
        remedies=(BY_TIMER, BY_HAND),
    )
