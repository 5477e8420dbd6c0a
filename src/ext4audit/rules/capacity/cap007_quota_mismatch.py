"""CAP007: Quotas are configured but not enforced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit import remedies
from ext4audit.evidence import MOUNT_TABLE, need, origin_of
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import BINDS, FstabLine
from ext4audit.facts.options import OptionSpec, recognize
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_fstab
from ext4audit.rules.shared.mount_config import tokens_by_name

KINDS = {
    "usrquota": "user",
    "usrjquota": "user",
    "grpquota": "group",
    "grpjquota": "group",
    "prjquota": "project",
}
"""The options that enforce limits, with the kind of quota. The kernel also shows `quota`."""
QUOTA = frozenset({*KINDS, "quota", "jqfmt"})


@rule(
    "CAP007",
    "quota-mismatch",
    severity=Severity.LOW,
    since="0.2",
    references=(
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://man7.org/linux/man-pages/man8/quotaon.8.html",
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the quota options of fstab are in force on the mounted filesystem; whether quotas use
    the old format, with files in the root directory, which needs quotacheck and quotaon; and
    whether a filesystem with the feature `quota` enforces limits.

    ## Why it matters

    Quotas that are not enforced are easy to miss: limits are set, but a user can still fill the
    disk. Quota files of the old format that are not journaled (`usrquota`, `grpquota`) are wrong
    after a crash until quotacheck has run.

    ## Remedy

    Store quotas in the filesystem (tune2fs -O quota, unmounted) and mount with `usrquota` and
    `grpquota`; or remove the quota options from fstab.

    ## When to ignore

    Ignore it if usage is only counted and not limited, and if a service runs quotaon after boot.
    """
    if not need(fs.mounted_here) or need(host.container):
        raise NotApplicable("not mounted here, or /etc/fstab is not the host's")
    lines = [entry.line for entry in need(fs.fstab) if BINDS.isdisjoint(entry.line.options)]
    in_force = _in_force(fs)
    served = {KINDS[name] for name in in_force}
    missing = [(line, lost) for line in lines if (lost := _lost(line, served))]
    for line, lost in missing:
        yield _not_in_force(line, lost)
    features = need(fs.superblock).features
    if in_force and "quota" not in features:
        yield _old_format(in_force)
    elif "quota" in features and not in_force and not missing:
        yield _counts_only(fs)
    elif in_force:
        yield Citation("quotas in force", " ".join(in_force), MOUNT_TABLE)
    elif not missing:
        raise NotApplicable("no quotas are configured")


def _in_force(fs: Filesystem) -> list[str]:
    """Return the names of the quota options in force; no superblock can set or hide them."""
    words = {word for mount in fs.mounts for word in mount.super_options}
    return sorted(tokens_by_name(words).keys() & KINDS.keys())


def _lost(line: FstabLine, served: set[str]) -> tuple[str, ...]:
    """Return the options of a line that enforce limits but are not in force."""
    known = ((option, recognize(option)) for option in line.options)
    limits = ((option, _quota_kind(*spec)) for option, spec in known if spec is not None)
    return tuple(option for option, kind in limits if kind is not None and kind not in served)


def _quota_kind(spec: OptionSpec, canonical: str) -> str | None:
    """Return the kind of quota that an option enforces; `quota` alone means usrquota."""
    return "user" if canonical == "quota" else KINDS.get(spec.name)


def _not_in_force(line: FstabLine, lost: Sequence[str]) -> Finding:
    return Finding(
        message=f"fstab sets {', '.join(lost)} for {line.mount_point}, without effect: quota "
        "limits are not enforced.",
        severity=Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=(cite_fstab(line, line.raw_options),),
        remedies=tuple(_remedies(line)),
        fact=f"{line.mount_point} {','.join(lost)}",
        summary="quota options of fstab are not in force: limits are not enforced",
    )


def _remedies(line: FstabLine) -> Iterator[Remedy]:
    yield IN_FEATURE
    tokens = [o for o in line.options if (known := recognize(o)) and known[0].name in QUOTA]
    steps = remedies.configuration.option_steps(line, tokens, ())
    if steps:
        yield Remedy(
            f"If quotas are not needed, remove {', '.join(tokens)} from fstab.",
            Disruption.ONLINE,
            steps,
        )


def _old_format(names: Sequence[str]) -> Finding:
    return Finding(
        message=f"{', '.join(names)} use quota files of the old format, which need quotacheck and "
        "quotaon: limits may not be enforced.",
        severity=Severity.LOW,
        confidence=Confidence.POSSIBLE,
        citations=(Citation("options in force", " ".join(names), MOUNT_TABLE),),
        remedies=(SEE, IN_FEATURE),
        fact="quota files",
        summary="quota files of the old format: limits may not be enforced",
    )


def _counts_only(fs: Filesystem) -> Finding:
    return Finding(
        message="The feature quota is on, but the filesystem is mounted without usrquota, grpquota "
        "or prjquota: usage is counted, but limits are not enforced without quotaon.",
        severity=Severity.LOW,
        confidence=Confidence.LIKELY,
        citations=(Citation("features", "quota", origin_of(fs.superblock)),),
        remedies=(SEE, ENFORCE),
        fact="quota counts",
        summary="quota usage is counted, but limits are not enforced",
    )


SEE = Remedy(
    "Check which quotas are on: quotaon -p on the mount point (package quota).", Disruption.ONLINE
)
ENFORCE = Remedy(
    "Add usrquota and grpquota to its options in fstab and mount it again, or run quotaon. If "
    "quotas are not needed: unmount it, and run tune2fs -O ^quota.",
    Disruption.UNMOUNT,
)
IN_FEATURE = Remedy(
    "If quotas are needed, store them in the filesystem: unmount it, run tune2fs -O quota and "
    "e2fsck -f, and mount it with the options of fstab.",
    Disruption.UNMOUNT,
    trade_off="A kernel without quota support (CONFIG_QFMT_V2) refuses to mount it.",
)
