"""Evidence of mount options: the values in each place, and scenes that combine them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ext4audit.assemble.options import resolve_options
from ext4audit.assemble.options.listings import OptionSources
from ext4audit.evidence import Evidence, Known, Unknown, Why, need
from ext4audit.facts.host import ActiveProfile, Filesystem, Host, Kernel, all_profiles
from ext4audit.facts.mount import SUPERBLOCK_FLAGS, EffectiveOption, EffectiveOptions, Mount
from ext4audit.facts.options import IMPLIED_BY_DATA_JOURNAL, all_options, recognize
from ext4audit.facts.superblock import Superblock
from ext4audit.remedies.remount import typed
from support.builders import (
    filesystem,
    fstab_entry,
    host,
    kernel,
    known,
    mount,
    superblock,
    unknown,
)
from support.hosts.evidence_host import OPTIONS as OPTIONS_FILE
from support.hosts.evidence_host import replaced
from support.remedies.effects import ATIME, BITS, State, meanings

FILE = "/proc/fs/ext4/sda/options"
TABLE = "/proc/self/mountinfo"
DUMPE2FS = "dumpe2fs -h /dev/sda"
NO_FILE = Unknown(FILE, Why.ABSENT, "No such file or directory")
NO_MOUNT = unknown("mount of 8:0")
NO_SUPERBLOCK = unknown("superblock of /dev/sda")


def unlisted(
    of_kernel: Evidence[Kernel], on_disk: Evidence[Superblock], fstype: str | None = "ext4"
) -> OptionSources:
    """Build the sources of options that no listing shows."""
    place = known(mount(fstype=fstype)) if fstype else NO_MOUNT
    return OptionSources(NO_FILE, place, on_disk, of_kernel)


SET_OPTIONS_ONLY = """\
rw block_validity delalloc journal_checksum barrier user_xattr acl resuid=0 resgid=0
errors=continue commit=5 min_batch_time=0 max_batch_time=15000 stripe=0 data=ordered
inode_readahead_blks=32 init_itable=10 max_dir_size_kb=0"""
"""Linux 4.14.67: only options that are set are listed."""
WITH_LOCK = replaced(
    OPTIONS_FILE, {"dioread_nolock": "dioread_lock", "auto_da_alloc": "auto_da_alloc dax"}
)
"""Linux 4.19.222 and 5.4.286 without CONFIG_FS_DAX: `dax` is listed and false."""
WITH_DEBUG = replaced(OPTIONS_FILE, {"noquota": "noquota fc_debug_force"})
"""Linux 5.10.262 with CONFIG_EXT4_DEBUG: `fc_debug_force` is listed and false."""
WITH_PREFETCH = replaced(
    OPTIONS_FILE,
    {
        "max_batch_time=15000": "max_batch_time=15000 i_version",
        "max_dir_size_kb=0": "max_dir_size_kb=0 prefetch_block_bitmaps",
    },
)
"""Linux 6.18.44 and 7.2.13."""


@dataclass(frozen=True)
class BootedKernel:
    """A kernel that was booted, with its output for an untuned filesystem."""

    release: str
    file: str
    table: str = "rw"

    def __str__(self) -> str:
        return self.release


BOOTED_KERNELS = (
    BootedKernel("4.14.67", SET_OPTIONS_ONLY, "rw,data=ordered"),
    BootedKernel("4.19.222", WITH_LOCK),
    BootedKernel("5.4.286", WITH_LOCK),
    BootedKernel("5.10.262", WITH_DEBUG),
    BootedKernel("6.1.192", OPTIONS_FILE),
    BootedKernel("6.12.94", OPTIONS_FILE),
    BootedKernel("6.18.44", WITH_PREFETCH),
    BootedKernel("7.2.13", WITH_PREFETCH),
)


def booted_kernel(release: str) -> BootedKernel:
    """Return the era of a release: "4.14" is 4.14.67."""
    return next(each for each in BOOTED_KERNELS if each.release.startswith(f"{release}."))


def options_file(release: str, changes: Mapping[str, str]) -> str:
    """Return an era's default options file with some words replaced."""
    return replaced(booted_kernel(release).file, changes)


def sources(
    release: str | None = "6.1",
    *,
    file: str | Unknown | None = None,
    table: str | Unknown | None = None,
    on_disk: Superblock | Unknown | None = None,
    fstype: str = "ext4",
) -> OptionSources:
    """Return the option sources of a default filesystem of an era, with the given ones replaced.

    Without a release, the kernel is unknown, and the texts are those of 6.1.
    """
    booted = booted_kernel(release or "6.1")
    file = booted.file if file is None else file
    table = booted.table if table is None else table
    return OptionSources(
        file=_evidence(file, FILE),
        mount=table
        if isinstance(table, Unknown)
        else Known(mount(fstype=fstype, super_options=table.split(",")), TABLE),
        superblock=on_disk
        if isinstance(on_disk, Unknown)
        else Known(on_disk or superblock(), DUMPE2FS),
        kernel=Known(kernel(booted.release), "uname") if release else unknown("kernel release"),
    )


def resolve(release: str | None = "6.1", **changes: object) -> EffectiveOptions:
    """Return the effective options of `sources`, which must not be unknown."""
    return need(resolve_options(sources(release, **changes)))  # type: ignore[arg-type]


def option(options: EffectiveOptions, name: str) -> EffectiveOption:
    """Return an option by name; fail if it is not established."""
    found = options.find(name)
    assert found is not None, f"{name} is not established"
    return found


def _evidence(file: str | Unknown, origin: str) -> Evidence[tuple[str, ...]]:
    return file if isinstance(file, Unknown) else Known(tuple(file.split()), origin)


VALUES = (
    "commit=300 commit=60 resuid=1000 resgid=1000 stripe=0 stripe=8191 stripe=128 data=journal "
    "data=writeback data=ordered errors=continue errors=remount-ro errors=panic init_itable=0 "
    "min_batch_time=5 inode_readahead_blks=64 max_dir_size_kb=4 data_err=abort dax=always"
).split()
FLAGS = (
    "sync dirsync lazytime strictatime noatime relatime ro nosuid nodev noexec nodiratime"
).split()
STATE_OPTIONS = frozenset({"abort", "emergency_ro", "shutdown", "fc_debug_force"})
"""Options that show a state of the filesystem and are not set by a mount."""
STATES = [token for spec in all_options() for token in (spec.on, spec.off) if token]
WORDS = tuple(
    word
    for word in dict.fromkeys([*STATES, *VALUES, *FLAGS])
    if word not in STATE_OPTIONS and not word.endswith("=")
)
PLACES = ("live", "fstab", "live and fstab", "hidden", "hidden and fstab", "live over hidden")
"""Where the word is set; in the last, the superblock has the opposite of the mount's option."""


@dataclass(frozen=True)
class OptionScenario:
    """A filesystem with one unusual option in the given places, and another one in fstab."""

    word: str
    place: str
    release: str
    other: str = ""
    mount_point: str = "/data"

    @cached_property
    def state(self) -> State:
        """The active options, and those in fstab and the superblock."""
        plain = {**meanings(booted_kernel(self.release).file.split()), ATIME: "relatime"}
        stored = _opposite(self.word) if "over hidden" in self.place else self.word
        hidden = "hidden" in self.place and stored not in FLAGS
        bit = next((bit for bit, token in BITS.items() if token == stored), "")
        errors = stored.partition("errors=")[2]
        asked = [self.word] if "fstab" in self.place else []
        asked += [self.other] if self.other else []
        written = State(
            plain,
            {},
            fstab=tuple(map(typed, asked)) or ("defaults",),
            bits=(bit,) if bit and hidden else (),
            string=stored if hidden and not (bit or errors) else "",
            errors=errors if errors and hidden else "continue",
        )
        given = meanings([self.word]) if "live" in self.place else {}
        live = {**written.stored, **given}
        implied = IMPLIED_BY_DATA_JOURNAL if live["data"] == "data=journal" else {}
        return replace(written, live={**live, **implied})

    def host(self, profile: str | None = None) -> Host:
        """Return the host of the filesystem, optionally with an active profile."""
        fs = self._filesystem()
        active = (ActiveProfile(all_profiles()[profile]),) if profile else ()
        release = known(kernel(booted_kernel(self.release).release), "uname")
        return host(fs, kernel=release, fstab=fs.fstab, profiles=active)

    def _filesystem(self) -> Filesystem:
        """Return the filesystem as assembly would build it."""
        state = self.state
        on_disk = superblock(
            default_mount_options=("user_xattr", "acl", *state.bits),
            mount_option_string=state.string,
            errors=state.errors,
        )
        there = _mount(self.mount_point, state)
        options = resolve(
            self.release,
            file="\n".join(("rw", *_of_ext4(state.live).values())),
            table=",".join(there.super_options),
            on_disk=on_disk,
        )
        return filesystem(
            mounts=(there,),
            superblock=known(on_disk, "dumpe2fs -h /dev/sda"),
            read_only=known("ro" in there.super_options),
            options=known(options, options.source),
            fstab=known((fstab_entry(*state.fstab, mount_point=self.mount_point),), "/etc/fstab"),
        )


def _opposite(word: str) -> str:
    """Return the opposite of an option, "" if it has none."""
    known = recognize(word)
    return (known[0].opposite(word) or "") if known else ""


def _mount(mount_point: str, state: State) -> Mount:
    """Return the mountinfo entry: the flags, and options that differ from the superblock's."""
    flags = [flag for flag in FLAGS if flag in (state.live.get(flag), state.live.get(ATIME))]
    first = "ro" if "ro" in flags else "rw"
    unseen = {"ro", "strictatime", *SUPERBLOCK_FLAGS}
    own = state.stored
    shown = [token for name, token in _of_ext4(state.live).items() if own.get(name) != token]
    return mount(
        mount_point,
        flags=(first, *(flag for flag in flags if flag not in unseen)),
        super_options=(first, *(flag for flag in flags if flag in SUPERBLOCK_FLAGS), *shown),
    )


def _of_ext4(live: Mapping[str, str]) -> dict[str, str]:
    return {name: token for name, token in live.items() if name not in {ATIME, *FLAGS}}
