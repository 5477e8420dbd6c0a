"""What the kernels print of ext4's options by era, and the sources of one superblock's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from builders import kernel, mount, superblock, unknown
from evidence_host import OPTIONS, replaced
from ext4audit.assemble.option_places import OptionSources
from ext4audit.assemble.options import resolve_options
from ext4audit.evidence import Evidence, Known, Unknown, Why, need
from ext4audit.facts.options import EffectiveOption, EffectiveOptions
from ext4audit.facts.superblock import Superblock

FILE = "/proc/fs/ext4/sda/options"
TABLE = "/proc/self/mountinfo"
DUMPE2FS = "dumpe2fs -h /dev/sda"
NO_FILE = Unknown(FILE, Why.ABSENT, "No such file or directory")
NO_MOUNT = unknown("mount of 8:0")
NO_SUPERBLOCK = unknown("superblock of /dev/sda")

POSITIVES = """\
rw block_validity delalloc journal_checksum barrier user_xattr acl resuid=0 resgid=0
errors=continue commit=5 min_batch_time=0 max_batch_time=15000 stripe=0 data=ordered
inode_readahead_blks=32 init_itable=10 max_dir_size_kb=0"""
"""Linux 4.14.67: only what is set is listed."""
WITH_LOCK = replaced(
    OPTIONS, {"dioread_nolock": "dioread_lock", "auto_da_alloc": "auto_da_alloc dax"}
)
"""Linux 4.19.222 and 5.4.286 without CONFIG_FS_DAX: `dax` is listed and false."""
WITH_DEBUG = replaced(OPTIONS, {"noquota": "noquota fc_debug_force"})
"""Linux 5.10.262 with CONFIG_EXT4_DEBUG: `fc_debug_force` is listed and false."""
WITH_PREFETCH = replaced(
    OPTIONS,
    {
        "max_batch_time=15000": "max_batch_time=15000 i_version",
        "max_dir_size_kb=0": "max_dir_size_kb=0 prefetch_block_bitmaps",
    },
)
"""Linux 6.18.44 and 7.2.13."""


@dataclass(frozen=True)
class Era:
    """A kernel that was booted, with what it prints for a filesystem that nobody tuned."""

    release: str
    file: str
    table: str = "rw"

    def __str__(self) -> str:
        return self.release


ERAS = (
    Era("4.14.67", POSITIVES, "rw,data=ordered"),
    Era("4.19.222", WITH_LOCK),
    Era("5.4.286", WITH_LOCK),
    Era("5.10.262", WITH_DEBUG),
    Era("6.1.192", OPTIONS),
    Era("6.12.94", OPTIONS),
    Era("6.18.44", WITH_PREFETCH),
    Era("7.2.13", WITH_PREFETCH),
)


def era(release: str) -> Era:
    """Return the era of a release: "4.14" is 4.14.67."""
    return next(each for each in ERAS if each.release.startswith(f"{release}."))


def listing(release: str, changes: Mapping[str, str]) -> str:
    """Return an era's default options file with some words replaced."""
    return replaced(era(release).file, changes)


def sources(
    release: str | None = "6.1",
    *,
    file: str | Unknown | None = None,
    table: str | Unknown | None = None,
    on_disk: Superblock | Unknown | None = None,
    fstype: str = "ext4",
) -> OptionSources:
    """Return the sources of a default filesystem of an era, with what is given replaced.

    Without a release the kernel is not known, and the texts are those of 6.1.
    """
    of_era = era(release or "6.1")
    file = of_era.file if file is None else file
    table = of_era.table if table is None else table
    return OptionSources(
        file=_evidence(file, FILE),
        mount=table
        if isinstance(table, Unknown)
        else Known(mount(fstype=fstype, super_options=table.split(",")), TABLE),
        superblock=on_disk
        if isinstance(on_disk, Unknown)
        else Known(on_disk or superblock(), DUMPE2FS),
        kernel=Known(kernel(of_era.release), "uname") if release else unknown("kernel release"),
    )


def resolve(release: str | None = "6.1", **changes: object) -> EffectiveOptions:
    """Return the effective options of `sources`; some place must show them."""
    return need(resolve_options(sources(release, **changes)))  # type: ignore[arg-type]


def option(options: EffectiveOptions, name: str) -> EffectiveOption:
    """Return an option that must be established."""
    found = options.find(name)
    assert found is not None, f"{name} is not established"
    return found


def _evidence(file: str | Unknown, origin: str) -> Evidence[tuple[str, ...]]:
    return file if isinstance(file, Unknown) else Known(tuple(file.split()), origin)
