"""PRF005: The device supports discards, but nothing trims the filesystem."""

from __future__ import annotations

from ext4audit.evidence import need
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared import (
    NO_DISCARD,
    TIMER,
    cite_discard,
    cite_fstrim,
    cite_option,
    refuse_container,
    trimmed,
)

BY_TIMER = Remedy(
    f"With systemd: `systemctl enable --now {TIMER}`, which trims all filesystems of fstab "
    "once a week.",
    Disruption.ONLINE,
    trade_off="The first run discards all free blocks and can keep the disks busy for minutes. On "
    "dm-crypt the disk then reveals which blocks are free.",
)
BY_HAND = Remedy(
    "Without systemd: a weekly cron job with `fstrim -a`, or `fstrim DIR` for mounts that are not "
    "in fstab.",
    Disruption.ONLINE,
)
OF_ITS_OWN = Remedy(
    "A weekly cron job or timer with `fstrim DIR` for this mount point, or `fstrim -a` instead of "
    "what fstrim.service runs (`systemctl edit fstrim.service`).",
    Disruption.ONLINE,
    trade_off=BY_TIMER.trade_off,
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

    Whether a writable filesystem on a device that supports discards is trimmed: by the option
    `discard`, by fstrim.timer, or by a cron job for all filesystems. The rule looks for a cron job
    only if the timer is not enabled. The command of fstrim.service decides what the timer trims. In
    most distributions since 2019 it runs `fstrim --fstab` or
    `fstrim --listed-in /etc/fstab:/proc/self/mountinfo`, which trim the root and what fstab names
    and leave out other mounts, such as the volumes of an orchestrator. Older ones run `fstrim -a`.
    If the unit was not read, or a drop-in replaces its command, only the root and what fstab names
    passes.

    ## Why it matters

    The device treats every block that was ever written as in use. An SSD keeps copying this
    stale data, so it writes more slowly and wears out earlier; a thin pool or a sparse image
    never shrinks.

    ## Remedy

    Enable fstrim.timer. It causes less latency than the option discard, which PRF004 checks.
    For a filesystem without an fstab entry, create a separate fstrim job.

    ## When to ignore

    Ignore it if something else trims the filesystem: the vendor's agent, a job of configuration
    management, a cron job beside the timer. On SSDs with much spare space the effect is small. The
    rule does not apply in containers, where the host's timers are not visible, and to plans, which
    do not describe timers and discards.
    """
    refuse_unmounted(fs)
    if need(need(fs.options).token("discard")) == "discard":
        yield from cite_option(fs, "discard")
        return
    if need(fs.read_only):
        raise NotApplicable("it is read-only, so no blocks are freed")
    if host.planned:
        raise NotApplicable("a plan does not describe discards and timers")
    refuse_container(host, "in a {} container, the host's timers are not visible")
    device = need(fs.stack)
    if need(device.queue.discard_max_bytes) == 0:
        raise NotApplicable(NO_DISCARD)
    if need(trimmed(fs, host)):
        yield cite_fstrim(host)
        return
    yield _finding(fs, host, device, left_out=need(host.fstrim))


def _finding(fs: Filesystem, host: Host, device: BlockDevice, *, left_out: bool) -> Finding:
    """Return the finding; `left_out` means that fstrim runs, but not for this filesystem."""
    neither = "neither the option discard nor a regular fstrim tells it which blocks are free"
    but = "the regular fstrim covers only fstab entries and skips this filesystem"
    remedies = (OF_ITS_OWN,) if left_out else (BY_TIMER, BY_HAND)
    return Finding(
        message=f"{device.name} supports discards, but {but if left_out else neither}.",
        severity=Severity.LOW,
        confidence=Confidence.LIKELY,
        citations=(*cite_option(fs, "discard"), *cite_discard(device), cite_fstrim(host)),
        remedies=remedies,
        summary="the device supports discards, but nothing trims the filesystem",
    )
