"""CMP008: The kernel will refuse to mount the planned filesystem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.evidence import need, origin_of
from ext4audit.facts.features_and_bugs import INCOMPATIBLE_OF_TYPE, LARGE_BLOCKS_SINCE
from ext4audit.facts.host import Filesystem, Host, Kernel, option_of
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule

DAX = "dax=always"
PERSISTENT_MEMORY = "pmem"
"""The kernel's name prefix for block devices of persistent memory (drivers/nvdimm)."""


@rule(
    "CMP008",
    "mount-refused",
    severity=Severity.HIGH,
    since="0.1",
    in_plans=True,
    references=(
        "fs/ext4/super.c: ext3_feature_set_ok()",
        "https://git.kernel.org/linus/cab8cbcb923a89cb583c9088fa50431eb2feded5",
        "https://docs.kernel.org/filesystems/dax.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the kernel of a plan mounts the planned filesystem: the block size against the page
    size, the features against the type of the mount (ext2, ext3), and `dax` on a device that is
    not persistent memory. DRF002 checks the other mount options, CMP002 features that are newer
    than the kernel.

    ## Why it matters

    mke2fs creates such a filesystem, in some cases after a question and in others without one. The
    mount then fails, and so does the boot if the fstab entry lacks `nofail`.

    ## Remedy

    Leave out what the finding names. Blocks larger than a page need Linux 6.19 built with
    CONFIG_TRANSPARENT_HUGEPAGE; this is reported with low severity, because no other kernel reads
    the filesystem.

    ## When to ignore

    Ignore it if the plan is for persistent memory behind a device of another name.
    """
    if not host.planned:
        raise NotApplicable("only plans are checked: a mounted filesystem was accepted")
    superblock, fstype = need(fs.superblock), need(fs.fstype)
    block = Citation("block size", f"{superblock.block_bytes} bytes", origin_of(fs.superblock))
    page = need(host.page_bytes)
    cited = (block, Citation("page size", f"{page} bytes", origin_of(host.page_bytes)))
    yield from cited
    if superblock.block_bytes and superblock.block_bytes > page:
        yield _large_blocks(superblock, page, need(host.kernel), cited)
    yield from _by_type(superblock, fstype, origin_of(fs.superblock))
    need(fs.options)
    yield from _dax(fs, fstype)


def _large_blocks(
    superblock: Superblock, page: int, kernel: Kernel, cited: Sequence[Citation]
) -> Finding:
    size, since = superblock.block_bytes, ".".join(map(str, LARGE_BLOCKS_SINCE))
    mounts = kernel.since(*LARGE_BLOCKS_SINCE)
    fate = (
        f"Linux {kernel.release} mounts it only if it is built with CONFIG_TRANSPARENT_HUGEPAGE, "
        f"and no kernel before {since} does"
        if mounts
        else f"Linux {kernel.release} refuses to mount it; {since} is the first that can"
    )
    return Finding(
        message=f"Blocks of {size} bytes are larger than a page of {page} bytes: {fate}.",
        severity=Severity.LOW if mounts else Severity.HIGH,
        confidence=Confidence.LIKELY,
        citations=tuple(cited),
        remedies=(Remedy(f"Create it with -b {page}.", Disruption.ONLINE),),
        fact="block size",
        summary=f"blocks of {size} bytes are larger than a page",
    )


def _by_type(superblock: Superblock, fstype: str, origin: str) -> Iterator[Finding]:
    """Yield a finding on features that a mount of this type refuses."""
    wrong = sorted(superblock.features & INCOMPATIBLE_OF_TYPE.get(fstype, frozenset()))
    lacks_journal = fstype == "ext3" and not superblock.has_journal
    if not wrong and not lacks_journal:
        return
    reason = f"it has {', '.join(wrong)}" if wrong else "it has no journal"
    yield Finding(
        message=f"The kernel refuses to mount it as {fstype}: {reason}.",
        severity=Severity.HIGH,
        confidence=Confidence.CONFIRMED,
        citations=(
            Citation("type of the mount", fstype, origin),
            Citation("features", ", ".join(sorted(superblock.features)), origin),
        ),
        remedies=(Remedy("Create and mount it as ext4.", Disruption.ONLINE),),
        fact="type",
        summary=f"{fstype} does not have its features",
    )


def _dax(fs: Filesystem, fstype: str) -> Iterator[Finding]:
    """Yield a finding if dax is set and the device is not persistent memory."""
    option = option_of(fs, "dax")
    if option is None or option.token != DAX or fs.name.startswith(PERSISTENT_MEMORY):
        return
    yield Finding(
        message=f"dax is set, and {fs.device} is not persistent memory: the kernel refuses the "
        f"mount as {fstype}.",
        severity=Severity.HIGH,
        confidence=Confidence.LIKELY,
        citations=(Citation("dax", option.token, option.origin),),
        remedies=(Remedy("Leave dax out of the mount options.", Disruption.ONLINE),),
        fact="dax",
        summary="dax needs persistent memory",
    )
