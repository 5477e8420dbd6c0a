"""Filesystems with one odd word: in force, in fstab, hidden in the superblock, or in two places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from builders import filesystem, fstab_entry, host, kernel, known, mount, superblock
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import Mount
from ext4audit.facts.mount_flags import SUPERBLOCK_FLAGS
from ext4audit.facts.option_table import IMPLIED_BY_DATA_JOURNAL, OPTIONS, recognize
from ext4audit.facts.profile import ActiveProfile, all_profiles
from ext4audit.rules._remount import typed
from option_evidence import era, resolve
from remedy_effects import ATIME, BITS, State, meanings

VALUES = (
    "commit=300 commit=60 resuid=1000 resgid=1000 stripe=0 stripe=8191 stripe=128 data=journal "
    "data=writeback data=ordered errors=continue errors=remount-ro errors=panic init_itable=0 "
    "min_batch_time=5 inode_readahead_blks=64 max_dir_size_kb=4 data_err=abort dax=always"
).split()
FLAGS = (
    "sync dirsync lazytime strictatime noatime relatime ro nosuid nodev noexec nodiratime"
).split()
NEVER_ASKED = frozenset({"abort", "emergency_ro", "shutdown", "fc_debug_force"})
"""States of a filesystem that nobody asks for."""
STATES = [token for spec in OPTIONS for token in (spec.on, spec.off) if token]
WORDS = tuple(
    word
    for word in dict.fromkeys([*STATES, *VALUES, *FLAGS])
    if word not in NEVER_ASKED and not word.endswith("=")
)
PLACES = ("live", "fstab", "live and fstab", "hidden", "hidden and fstab", "live over hidden")
"""Where the word is; in the last, the superblock hides the opposite of what a mount asked for."""


@dataclass(frozen=True)
class Scene:
    """A filesystem with one odd word in the places that are named, and a second one in fstab."""

    word: str
    place: str
    release: str
    other: str = ""
    mount_point: str = "/data"

    @cached_property
    def state(self) -> State:
        """What is in force and what is written down."""
        plain = {**meanings(era(self.release).file.split()), ATIME: "relatime"}
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
        """Return the host of the filesystem, for which a profile may be chosen."""
        fs = self._filesystem()
        active = (ActiveProfile(all_profiles()[profile]),) if profile else ()
        release = known(kernel(era(self.release).release), "uname")
        return host(fs, kernel=release, fstab=fs.fstab, profiles=active)

    def _filesystem(self) -> Filesystem:
        """Return the filesystem as assembly shows it."""
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
    """Return the other state of an option, "" where there is none."""
    known = recognize(word)
    return (known[0].opposite(word) or "") if known else ""


def _mount(mount_point: str, state: State) -> Mount:
    """Return the line of mountinfo: what differs from the superblock's own, and the flags."""
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
