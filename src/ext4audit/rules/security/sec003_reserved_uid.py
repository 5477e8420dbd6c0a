"""SEC003: An account other than root may use the blocks that are reserved for root."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, need
from ext4audit.facts import MIB
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Finding, Remedy, Severity
from ext4audit.rule import RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared import cite_option

WHO = {"resuid": "user id", "resgid": "group id"}


@rule(
    "SEC003",
    "reserved-uid",
    severity=Severity.INFO,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "fs/ext4/balloc.c: ext4_has_free_clusters()",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    Whether `resuid=` or `resgid=` in force names an account other than root, set by a mount option
    or by the superblock (`tune2fs -u`, `-g`).

    ## Why it matters

    The reserve keeps a full filesystem usable for root and its daemons, and limits fragmentation.
    An account that may use the reserve can fill the filesystem completely. Some appliance images
    set it to 65534 (nobody), which many services run as.

    ## Remedy

    Return the reserve to root, in fstab or in the superblock, whichever sets it.

    ## When to ignore

    Ignore it if the account was chosen on purpose, for example for a database that must continue on
    a full filesystem; and if nothing is reserved.
    """
    refuse_unmounted(fs)
    options = need(fs.options)
    tokens = dict(zip(WHO, need(options.token("resuid"), options.token("resgid")), strict=True))
    others = {name: token for name, token in tokens.items() if token != f"{name}=0"}
    cited = tuple(dict.fromkeys(each for name in WHO for each in cite_option(fs, name)))
    if not others:
        yield from cited
        return
    yield Finding(
        message=_message(fs, others),
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=(*cited, *_cite_reserve(fs)),
        remedies=(_remedy(fs, others),),
        fact=",".join(others.values()),
        summary="an account other than root may use the blocks reserved for root",
    )


def _message(fs: Filesystem, others: dict[str, str]) -> str:
    who = " and ".join(f"{WHO[name]} {token.partition('=')[2]}" for name, token in others.items())
    size = _reserve_mib(fs)
    reserve = "the blocks" if size is None else f"the {size} MiB"
    return f"{who[0].upper()}{who[1:]} may use {reserve} that are reserved for root."


def _reserve_mib(fs: Filesystem) -> int | None:
    """Return the reserved space in MiB, None if the superblock does not show it."""
    superblock = for_wording(fs.superblock, None)
    if superblock is None or superblock.reserved_blocks is None or superblock.block_bytes is None:
        return None
    return superblock.reserved_blocks * superblock.block_bytes // MIB


def _cite_reserve(fs: Filesystem) -> tuple[Citation, ...]:
    size = _reserve_mib(fs)
    if size is None or not isinstance(fs.superblock, Known):
        return ()
    return (Citation("reserved", f"{size} MiB", fs.superblock.origin),)


def _remedy(fs: Filesystem, others: dict[str, str]) -> Remedy:
    steps = remedies.superblock_fields.give_reserve_to_root(fs, others)
    return Remedy(
        f"Return the reserve to root{remedies.remount.elsewhere(fs)}.",
        remedies.options.disruption(steps),
        steps,
        trade_off="Programs of that account run out of space earlier.",
    )
