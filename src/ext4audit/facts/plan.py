"""A filesystem that does not exist yet: what it lies on, and how it is made and mounted."""

from __future__ import annotations

from ext4audit.evidence import Evidence
from ext4audit.facts.block import QueueLimits
from ext4audit.facts.host import Memory, OperatingSystem
from ext4audit.facts.kernel import Kernel
from ext4audit.facts.layout import StripeGeometry
from ext4audit.facts.mkfs_words import MkfsWords
from ext4audit.records import dataclass

DISK = "disk"
"""The level of a plan without an array."""
STRIPED = frozenset({"raid0", "raid10", "raid5", "raid6"})
PARITY_MEMBERS = {"raid5": 1, "raid6": 2}
NEAR_COPIES = 2
"""Of md's default RAID10 layout, near=2 (md(4))."""


@dataclass(frozen=True, slots=True)
class PlannedHost:
    """The host that a plan is for; what was not said is a hole whose hint names the flag.

    `virtualization` is None for a physical machine. `e2fsprogs` is the version of the mke2fs
    that will make the filesystem, None for the one of this machine; `configuration` the path of
    its mke2fs.conf, None for this machine's.
    """

    name: str
    kernel: Evidence[Kernel]
    os: Evidence[OperatingSystem]
    memory: Evidence[Memory]
    virtualization: str | None = None
    e2fsprogs: str | None = None
    configuration: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One filesystem of a plan.

    `level` is "disk", or md's word for the array ("raid0"); `size_bytes` is the size of the
    device `device`, what the array offers. `queue` is that of each member. `cleared` are words
    of the superblock's default mount options that tune2fs takes out after mke2fs.
    """

    device: str
    size_bytes: int
    level: str
    members: int
    chunk_bytes: int
    mkfs: MkfsWords
    mount_options: tuple[str, ...]
    mount_point: str
    queue: QueueLimits
    host: PlannedHost
    cleared: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The kernel's name of the device, as far as its path tells it."""
        return self.device.rpartition("/")[2]

    @property
    def fstype(self) -> str:
        """The type that is made and mounted: ext4 where -t does not say otherwise."""
        return self.mkfs.value("-t") or "ext4"

    @property
    def member_names(self) -> tuple[str, ...]:
        """The names of the disks of the array, which nobody knows yet."""
        if self.level == DISK:
            return (self.name,)
        return tuple(f"disk{slot}" for slot in range(self.members))

    @property
    def geometry(self) -> StripeGeometry | None:
        """The stripe, with md's default layout of its level; None where nothing stripes."""
        if self.level not in STRIPED:
            return None
        return StripeGeometry(self.name, self.level, self.chunk_bytes, 0, self.member_names)

    @property
    def data_members(self) -> int:
        """How many chunks of data md offers as the optimal I/O size (md's queue limits).

        An odd number of members cannot hold pairs of copies side by side: RAID10 then offers a
        chunk of every member (raid10.c: raid10_set_io_opt).
        """
        if self.level == "raid10":
            return self.members if self.members % NEAR_COPIES else self.members // NEAR_COPIES
        return self.members - PARITY_MEMBERS.get(self.level, 0)

    def stripe_words(self, block_bytes: int) -> tuple[str, ...]:
        """Return the words of -E that mke2fs reads off a real array, and cannot off a file."""
        chunk_blocks = self.chunk_bytes // block_bytes
        if self.level not in STRIPED or not chunk_blocks:
            return ()
        return f"stride={chunk_blocks}", f"stripe_width={chunk_blocks * self.data_members}"


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One shell command of a plan: its key ("mkfs"), what it is for, and the command."""

    key: str
    purpose: str
    command: str


@dataclass(frozen=True, slots=True)
class PlanAdvice:
    """What is said of a plan beside its verdicts: how it was predicted, and the lines to use.

    `basis` is "simulated" (the real mke2fs made it, in memory) or "computed" (by closed form).
    `assumed` are sentences. `changes` say how the plan behind the lines differs from the one
    that was judged; `clean` that this plan, judged by the same rules, has no finding of low
    severity or worse and nothing undetermined; `left` names what it has.
    """

    basis: str
    assumed: tuple[str, ...]
    changes: tuple[str, ...]
    clean: bool
    left: tuple[str, ...]
    lines: tuple[PlanLine, ...]
