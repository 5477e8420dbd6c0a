"""A planned filesystem: its devices, mke2fs arguments, mount options and host.

The data for `--os` and `--on`, the kernels of distributions and the properties of kinds of disks,
are in os_kernels.toml and planned_disks.toml, with a source for each entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import lcm
from typing import NamedTuple, TypeAlias

from ext4audit.evidence import Evidence, Known
from ext4audit.facts import NOT_CONFIRMED, read_table
from ext4audit.facts.devices import QueueLimits
from ext4audit.facts.host import Kernel, Memory, OperatingSystem
from ext4audit.facts.layout import MOST_STRIDE_BLOCKS, StripeGeometry
from ext4audit.facts.versions import AMAZON, DEBIAN, UBUNTU, UPSTREAM, identify


@dataclass(frozen=True, slots=True)
class MkfsArguments:
    """The command line of mke2fs without the device.

    `values` are the flags with a value, in the given order; `behaviour` are the flags that change
    how mke2fs works but not its result (-F, -q). `features` are the features of -O and `extended`
    the parameters of -E, an option that mke2fs accepts only once (1.47.0 silently drops the first
    of two).
    """

    values: tuple[tuple[str, str], ...] = ()
    features: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    behaviour: tuple[str, ...] = ()

    def arguments(self) -> tuple[str, ...]:
        """Return the arguments that decide the result, without `behaviour`."""
        pairs = [parameter for pair in self.values for parameter in pair]
        features = ["-O", ",".join(self.features)] if self.features else []
        extended = ["-E", ",".join(self.extended)] if self.extended else []
        return (*pairs, *features, *extended)

    def value(self, flag: str) -> str | None:
        """Return the last value of a flag, None if it is not given."""
        return next((value for name, value in reversed(self.values) if name == flag), None)

    def extended_value(self, key: str) -> str | None:
        """Return the last value of a parameter of -E; "-" and "_" in its name are equivalent."""
        found = (each for each in reversed(self.extended) if _key(each) == _key(key))
        last = next(found, None)
        return None if last is None else last.partition("=")[2]

    def has_extended(self, key: str) -> bool:
        """Whether -E has a parameter of this name."""
        return self.extended_value(key) is not None

    def with_value(self, flag: str, value: str) -> MkfsArguments:
        """Return the options with a flag set, in its previous position or at the end."""
        if self.value(flag) is None:
            return replace(self, values=(*self.values, (flag, value)))
        changed = tuple((name, value if name == flag else old) for name, old in self.values)
        return replace(self, values=changed)

    def without_value(self, flag: str) -> MkfsArguments:
        """Return the options without a flag."""
        return replace(self, values=tuple(pair for pair in self.values if pair[0] != flag))

    def with_extended(self, *parameters: str) -> MkfsArguments:
        """Return the options with parameters added to -E; parameters already set are kept."""
        new = tuple(parameter for parameter in parameters if not self.has_extended(parameter))
        return replace(self, extended=(*self.extended, *new))

    def without_extended(self, *keys: str) -> MkfsArguments:
        """Return the options without these parameters of -E, given by name."""
        unwanted = {_key(key) for key in keys}
        kept = tuple(parameter for parameter in self.extended if _key(parameter) not in unwanted)
        return replace(self, extended=kept)

    def with_features_first(self, *parameters: str) -> MkfsArguments:
        """Return the options with features inserted before the user's, which take precedence."""
        return replace(self, features=(*parameters, *self.features))

    def shorter(self) -> Iterator[tuple[str, MkfsArguments]]:
        """Yield each option as text, with the options that remain without it.

        Stride and stripe width describe one stripe: both are removed together before one alone, and
        before -C, as the kernel turns off a wrong stripe that does not fit other clusters.
        """
        stripe = [each for each in self.extended if _key(each) in {"stride", "stripe_width"}]
        if len(stripe) > 1:
            yield f"-E {','.join(stripe)}", self.without_extended(*stripe)
        for parameter in self.extended:
            yield f"-E {parameter}", self.without_extended(parameter)
        for index, (flag, value) in enumerate(self.values):
            rest = (*self.values[:index], *self.values[index + 1 :])
            yield f"{flag} {value}", replace(self, values=rest)
        for index, parameter in enumerate(self.features):
            left = (*self.features[:index], *self.features[index + 1 :])
            yield f"-O {parameter}", replace(self, features=left)


def _key(parameter: str) -> str:
    """Return the normalized name of a parameter of -E."""
    return parameter.partition("=")[0].replace("-", "_")


DISK = "disk"
"""The level of a plan without an array."""
STRIPED = frozenset({"raid0", "raid10", "raid5", "raid6"})


USUAL_PAGE = Known(4096, "assumed")
"""The page size of x86-64, and of most ARM kernels."""


class MissingFlag(str):
    """The hint of a fact that a plan does not state: the flag of `ext4audit plan` that does."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PlannedHost:
    """The host of a plan; facts that were not given are unknown, with a hint that names the flag.

    `virtualization` is None for a physical machine. `e2fsprogs` is the version of the mke2fs
    that will create the filesystem, None for this machine's; `configuration` is the path of
    its mke2fs.conf, None for this machine's. `page_bytes` is the page size of its kernel.
    `kernel` is the oldest kernel that the plan is judged for, `other_kernels` are newer ones.
    `has_memory_setting` is whether the memory is a number of the plan, not read on a host.
    `assumed` are sentences on the facts that --os and --on supplied.
    """

    name: str
    kernel: Evidence[Kernel]
    os: Evidence[OperatingSystem]
    memory: Evidence[Memory]
    virtualization: str | None = None
    e2fsprogs: str | None = None
    configuration: str | None = None
    page_bytes: Evidence[int] = USUAL_PAGE
    other_kernels: tuple[Evidence[Kernel], ...] = ()
    assumed: tuple[str, ...] = ()
    has_memory_setting: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """One filesystem of a plan.

    `level` is "disk", or the md level of the array ("raid0"); `size_bytes` is the size of
    `device`, for an array its usable size. `queue` is the queue of each member. `cleared` are the
    default mount options of the superblock that tune2fs clears after mke2fs.
    """

    device: str
    size_bytes: int
    level: str
    members: int
    chunk_bytes: int
    mkfs: MkfsArguments
    mount_options: tuple[str, ...]
    mount_point: str
    queue: QueueLimits
    host: PlannedHost
    cleared: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The kernel's name of the device, taken from its path."""
        return self.device.rpartition("/")[2]

    @property
    def fstype(self) -> str:
        """The filesystem type to create and mount, ext4 by default."""
        return self.mkfs.value("-t") or "ext4"

    @property
    def member_names(self) -> tuple[str, ...]:
        """Placeholder names of the disks of the array."""
        if self.level == DISK:
            return (self.name,)
        return tuple(f"disk{slot}" for slot in range(self.members))

    @property
    def geometry(self) -> StripeGeometry | None:
        """The stripe, with md's default layout of its level; None if the level does not stripe."""
        if self.level not in STRIPED:
            return None
        return StripeGeometry(self.name, self.level, self.chunk_bytes, 0, self.member_names)

    @property
    def data_members(self) -> int:
        """The number of data chunks in md's optimal I/O size (md's queue limits)."""
        return self.geometry.data_columns if self.geometry else self.members

    def stripe_options(self, block_bytes: int, cluster_blocks: int = 1) -> tuple[str, ...]:
        """Return the -E parameters that mke2fs detects on a real array but not on a file.

        mke2fs and tune2fs store the low 16 bits of a larger stride (1.47.0): it is left out. The
        kernel turns off a width that is not a multiple of a cluster: it is made one.
        """
        chunk_blocks = self.chunk_bytes // block_bytes
        if self.level not in STRIPED or not chunk_blocks:
            return ()
        width = f"stripe_width={lcm(chunk_blocks * self.data_members, cluster_blocks)}"
        return (width,) if chunk_blocks > MOST_STRIDE_BLOCKS else (f"stride={chunk_blocks}", width)


Value: TypeAlias = bool | int | str
"""The type of a value of a plan key."""
OS_TABLE, DISK_TABLE = "os_kernels.toml", "planned_disks.toml"
LIKE_RHEL = frozenset({"centos", "rocky", "almalinux"})
"""Distributions that rebuild the kernels of RHEL under its numbers."""
OTHER_IDS = {"amazon": "amzn", "alios": "alinux"}
"""Common names of distributions that have another ID in os-release."""
OF_THEIR_SERIES = frozenset({UPSTREAM, DEBIAN, UBUNTU, AMAZON})
"""Trees whose kernels keep the defaults of their series; others may backport later changes."""


class OsKernel(NamedTuple):
    """A distribution kernel: `release` is uname -r, `version` the package version in uname -v."""

    release: str
    version: str
    source: str
    confirmed: str

    def cited(self) -> str:
        """Return the source, with the note "not confirmed" if the kernel is not confirmed."""
        return _cited(self.source, self.confirmed)


class Property(NamedTuple):
    """The value of a plan key that follows from the kind of disk, with its source.

    Kernels from `since` on ("6.17") have the value `later`; without `since`, all have `value`.
    """

    value: Value
    source: str
    confirmed: str
    since: str = ""
    later: Value | None = None

    def cited(self) -> str:
        """Return the source, with the note "not confirmed" if the value is not confirmed."""
        return _cited(self.source, self.confirmed)

    def on(self, kernels: Iterable[Kernel]) -> Value | None:
        """Return the value that all the kernels have; None if they differ or it is unknown."""
        if not self.since:
            return self.value
        found = {self._of(kernel) for kernel in kernels}
        return found.pop() if len(found) == 1 else None

    def _of(self, kernel: Kernel) -> Value | None:
        tree = identify(kernel)
        if tree.upstream >= tuple(map(int, self.since.split("."))):
            return self.later
        return self.value if tree.name in OF_THEIR_SERIES else None


def _cited(source: str, confirmed: str) -> str:
    return f"{source}; not confirmed" if confirmed.startswith(NOT_CONFIRMED) else source


class DiskKind(NamedTuple):
    """A kind of disk: its name, a sentence about it, and its properties by plan key."""

    name: str
    says: str
    properties: Mapping[str, Property]


def kernels_of(os_id: str, version: str) -> tuple[OsKernel, ...]:
    """Return the kernels of a release, oldest first; empty if the release is not listed.

    "9.4" of RHEL and its rebuilds is looked up as 9.
    """
    name = OTHER_IDS.get(os_id, "rhel" if os_id in LIKE_RHEL else os_id)
    table = read_table(OS_TABLE)
    for number in (version, version.partition(".")[0]):
        found = table.get(f"{name}:{number}")
        if found:
            return tuple(OsKernel(**{"version": "", **each}) for each in found["kernel"])
    return ()


def known_releases() -> tuple[str, ...]:
    """Return the releases whose kernels are listed: "debian:12"."""
    return tuple(read_table(OS_TABLE))


def disk_kind(name: str) -> DiskKind:
    """Return a kind of disk; raises KeyError for a name that is not listed."""
    entry = read_table(DISK_TABLE)[name]
    properties = {key: Property(**value) for key, value in entry.items() if key != "says"}
    return DiskKind(name, entry["says"], properties)


DISK_KINDS = ("aws-ebs", "gcp-pd", "azure-disk", "nvme", "sata-ssd", "hdd", "virtio")
"""The names in the table, so that help and completion need not read the file."""
