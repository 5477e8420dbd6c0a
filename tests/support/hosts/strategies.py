"""Draw any host that assembly could make: odd facts, hostile names, and gaps everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from hypothesis import strategies as st

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.devices import BlockDevice, DmDevice, DmSegment, ThinPool
from ext4audit.facts.host import (
    BootLoader,
    ErrorCounters,
    Filesystem,
    Host,
    Loader,
    OperatingSystem,
)
from ext4audit.facts.mount import DeviceNumber, EffectiveOptions, Provenance
from ext4audit.facts.options import all_options
from ext4audit.facts.superblock import PrimarySuperblock, RecordedError
from support.builders import (
    disk,
    filesystem,
    fstab_entry,
    host,
    kernel,
    known,
    layout,
    loop,
    lsblk_row,
    memory,
    mount,
    options,
    queue,
    raid,
    superblock,
    unknown,
    usage,
)

RELEASES = [
    "6.18.5",
    "6.1.0-18-amd64",
    "5.15.0-91-generic",
    "5.6.12",
    "4.19.91-26.al7.x86_64",
    "4.19.24-9.al7.x86_64",
    "4.18.0-372.9.1.el8.x86_64",
    "3.10.0-1160.el7.x86_64",
    "2.6.32-754.el6.x86_64",
]
TOKENS = sorted({token for spec in all_options() for token in (spec.name, f"no{spec.name}")})
UNUSUAL_TOKENS = (
    "data=writeback data=journal commit=300 stripe=x journal_checksum \udcff=\x1b[31m".split()
)
HOSTILE_NAMES = [
    "/data",
    "/",
    "/mnt/$(reboot)",
    "-rf",
    "/mnt/a\nb",
    "/mnt/\udcff",
    "/mnt/[/red] 'x'",
]
GAPS = [
    unknown("it"),
    Unknown("it", Why.ABSENT),
    Unknown("it", Why.NOT_CAPTURED, "", "capture again"),
    Unknown("it", Why.UNPARSABLE, "ValueError: \x1b\n\udcff"),
]


def any_evidence(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Evidence[Any]]:
    """Draw a known value, or an unknown of any kind."""
    return st.one_of(values.map(known), st.sampled_from(GAPS))


def any_of(*values: Any) -> st.SearchStrategy[Any]:
    """Draw one of these values."""
    return st.sampled_from(values)


QUEUES = st.builds(
    queue,
    write_cache=st.one_of(any_of("write back", "write through"), st.sampled_from(GAPS)),
    rotational=st.one_of(st.booleans(), st.sampled_from(GAPS)),
    nr_requests=st.one_of(any_of(0, 1, 256), st.sampled_from(GAPS)),
    max_sectors_kb=st.one_of(any_of(0, 4, 1280), st.sampled_from(GAPS)),
    wbt_latency_usec=st.one_of(any_of(0, 75000), st.sampled_from(GAPS)),
    optimal_io_bytes=st.one_of(any_of(0, 524288, 1), st.sampled_from(GAPS)),
    discard_max_bytes=st.one_of(any_of(0, 1 << 40), st.sampled_from(GAPS)),
    scheduler=st.one_of(any_of("none", "mq-deadline"), st.sampled_from(GAPS)),
    io_timeout_msec=st.one_of(any_of(0, 30000, 4294966296), st.sampled_from(GAPS)),
)
POOLS = st.one_of(
    st.none(),
    any_evidence(any_of(ThinPool("Fail"), ThinPool("rw", 9, 10), ThinPool("ro", needs_check=True))),
)
DISKS = st.builds(
    disk,
    any_of("sda", "nvme0n1", "vda", "mmcblk0", "c0d0!x"),
    st.builds(DeviceNumber, st.integers(1, 300), st.integers(0, 3)),
    QUEUES,
    model=any_of(None, "PERC H740P", "QEMU HARDDISK", "Amazon Elastic Block Store"),
    size_sectors=any_evidence(any_of(0, 209715200)),
    udev=any_of((), (("ID_BUS", "usb"), ("ID_MODEL", "\udcff")), (("ID_FS_UUID", "\x1b"),)),
)


def stacked(below: st.SearchStrategy[BlockDevice]) -> st.SearchStrategy[BlockDevice]:
    """Draw a device on top of others: a partition, an md array, a mapping, or a loop device."""
    members = st.lists(below, min_size=1, max_size=4)
    one_below = any_evidence(below.map(lambda device: (device,)))
    tables = any_evidence(
        any_of(
            (DmSegment(0, 2048, "linear", ("8:0", "0")),),
            (DmSegment(0, 2048, "striped", ("2", "128", "8:0", "0", "8:16", "0")),),
            (DmSegment(0, 2048, "crypt", ("aes", "-", "0", "8:0", "4096")),),
            (DmSegment(0, 8, "linear", ("8:0", "0")), DmSegment(8, 8, "thin", ())),
            (),
        )
    )
    partitions = st.builds(
        disk,
        st.just("sda1"),
        st.just(DeviceNumber(8, 1)),
        QUEUES,
        kind=st.just("partition"),
        below=one_below,
        start_sectors=any_of(None, 63, 2048),
    )
    mappings = st.builds(
        disk,
        st.just("dm-0"),
        st.just(DeviceNumber(253, 0)),
        QUEUES,
        kind=any_of("dm", "dm-linear", "dm-striped", "dm-crypt", "dm-thin"),
        below=one_below,
        dm=st.builds(
            DmDevice, any_of("vg-root", "-x"), any_of("", "LVM-a", "CRYPT-b"), tables, POOLS
        ),
    )
    arrays = st.builds(
        raid,
        members,
        level=any_of("raid0", "raid1", "raid5", "raid10", "linear"),
        chunk_bytes=any_of(0, 4096, 524288),
        limits=QUEUES,
    )
    unread = arrays.map(lambda array: replace(array, md=GAPS[0]))
    loops = st.builds(loop, one_below)
    return st.one_of(partitions, mappings, arrays, unread, loops)


def with_new_numbers(
    device: BlockDevice, number: DeviceNumber, others: Iterator[DeviceNumber]
) -> BlockDevice:
    """Return a device with `number`, and the devices below it with the next of `others`."""
    below = device.below
    if isinstance(below, Known):
        devices = tuple(with_new_numbers(each, next(others), others) for each in below.value)
        below = replace(below, value=devices)
    return replace(device, device_number=number, below=below)


def unused_numbers() -> Iterator[DeviceNumber]:
    """Yield numbers that no filesystem, fstab entry or listed device has."""
    return (DeviceNumber(65, minor) for minor in count(16))


STACKS = st.recursive(DISKS, stacked, max_leaves=5).map(
    lambda device: with_new_numbers(device, DeviceNumber(8, 0), unused_numbers())
)
OPTION_SETS: st.SearchStrategy[EffectiveOptions] = st.builds(
    lambda tokens, hidden, **more: options(*tokens, hidden=hidden, **more),
    st.lists(st.sampled_from([*TOKENS, *UNUSUAL_TOKENS]), max_size=4, unique=True),
    st.lists(st.sampled_from(TOKENS), max_size=2, unique=True),
    release=st.sampled_from(RELEASES),
    complete=st.booleans(),
    set_by=st.one_of(st.none(), st.sampled_from(Provenance)),
)
SUPERBLOCKS = st.builds(
    superblock,
    default_mount_options=any_of(
        (), ("user_xattr", "acl"), ("nobarrier", "journal_data"), ("\x1b",)
    ),
    mount_option_string=any_of("", "nobarrier,data=writeback", ",,=,\udcff"),
    features=any_of(
        frozenset(),
        frozenset({"has_journal", "extent", "64bit", "flex_bg", "metadata_csum"}),
        frozenset({"has_journal", "fast_commit", "bigalloc", "orphan_file", "needs_recovery"}),
        frozenset({"has_journal", "fast_commit", "inline_data", "64bit"}),
    ),
    errors=any_of("continue", "remount-ro", "panic", ""),
    stride_blocks=any_of(0, 128),
    stripe_width_blocks=any_of(0, 512),
    size_blocks=any_of(0, 1, 26214400),
    block_bytes=any_of(None, 1024, 4096, 65536),
    blocks_per_group=any_of(None, 8192, 32768, 32744),
    flex_bg_groups=any_of(None, 1, 16),
    inode_bytes=any_of(None, 128, 256),
    inode_count=any_of(None, 0, 6553600),
    journal_bytes=any_of(None, 0, 1 << 30),
    state=any_of(None, "clean", "not clean with errors"),
)
LAYOUTS = st.builds(
    layout,
    any_of([100, 100], [200, 0], [1, 1], [4794, 0, 0, 0, 4794, 0, 0, 0]),
    chunk_bytes=any_of(4096, 524288),
    groups=any_of(1, 65, 9594),
    flex_bg_groups=any_of(1, 16),
)
FSTABS = st.lists(
    st.builds(
        lambda words, **more: fstab_entry(*words, **more),
        st.lists(
            st.sampled_from([*TOKENS, *UNUSUAL_TOKENS, "defaults", "noauto", "ro"]), max_size=3
        ),
        mount_point=st.sampled_from([*HOSTILE_NAMES, "none"]),
        fstype=any_of("ext4", "ext3", "auto", "ext2,ext4"),
        number=any_evidence(any_of(DeviceNumber(8, 0), DeviceNumber(8, 1))),
    ),
    max_size=3,
).map(tuple)
MOUNTS = st.lists(
    st.builds(
        mount,
        st.sampled_from(HOSTILE_NAMES),
        fstype=any_of("ext4", "ext3", "ext2"),
        flags=any_of(("rw", "relatime"), ("ro",)),
        root=any_of("/", "/sub"),
        super_options=any_of(("rw",), ("ro", "nobarrier"), ("rw", "data=writeback")),
    ),
    max_size=3,
).map(tuple)
FILESYSTEMS = st.builds(
    filesystem,
    fstype=any_evidence(any_of("ext2", "ext3", "ext4")),
    device=any_of("/dev/sda", "/dev/mapper/vg-a'b"),
    alive=st.booleans(),
    mounts=MOUNTS,
    read_only=any_evidence(st.booleans()),
    superblock=any_evidence(SUPERBLOCKS),
    uuid=any_of(None, "4a1e8f2e-7a56-4f0a-9d0c-1c5d0a6e8b11"),
    label=any_of(None, "data", "\x1b[31m"),
    options=any_evidence(OPTION_SETS),
    fstab=any_evidence(FSTABS),
    stack=any_evidence(STACKS),
    layout=st.one_of(st.none(), any_evidence(LAYOUTS)),
    usage=any_evidence(
        st.builds(
            usage,
            block_bytes=any_of(0, 1024, 4096),
            size_blocks=any_of(0, 1, 26214400),
            free_blocks=any_of(0, 100, 26214400),
            available_blocks=any_of(0, 100, 26214400),
            inodes=any_of(0, 11, 6553600),
            free_inodes=any_of(0, 1, 6553600),
        )
    ),
    errors=any_evidence(
        st.builds(
            ErrorCounters,
            errors=any_of(0, 3),
            warnings=any_of(None, 0, 7),
            first=any_of(None, RecordedError(None, "\x1b[31m", 0, 0, 0)),
            last=any_of(None, RecordedError(1767323000, "ext4_lookup", 1805, 12, 0)),
            last_code=any_of(None, 0, 5, 99),
        )
    ),
    journal_errno=any_evidence(any_of(0, -5)),
    primary=any_evidence(
        st.builds(
            PrimarySuperblock,
            any_of("", "it is zeroed"),
            st.none() | st.just(unknown("superblock")),
            st.none() | any_evidence(st.just(superblock())),
        )
    ),
    unzeroed_groups=any_evidence(any_of(0, 1, 500)),
    settings=any_evidence(any_of((), (("mb_stats", 1), ("unheard_of", -1)))),
)


def with_device_number(
    fs: Filesystem, number: DeviceNumber, others: Iterator[DeviceNumber]
) -> Filesystem:
    """Return a filesystem, its mounts and device with `number`, the devices below with others."""
    stack = fs.stack
    if isinstance(stack, Known):
        stack = replace(stack, value=with_new_numbers(stack.value, number, others))
    mounts = tuple(each._replace(device_number=number) for each in fs.mounts)
    return fs._replace(device_number=number, mounts=mounts, stack=stack)


def with_unique_numbers(drawn: Host) -> Host:
    """Return the host with a unique number for each device: 8:0, 8:1, … for filesystems."""
    own, others = (DeviceNumber(8, minor) for minor in count()), unused_numbers()
    filesystems = tuple(with_device_number(fs, next(own), others) for fs in drawn.filesystems)
    unmounted = drawn.unmounted
    if isinstance(unmounted, Known):
        unmounted = replace(
            unmounted,
            value=tuple(with_device_number(fs, next(own), others) for fs in unmounted.value),
        )
    return drawn._replace(filesystems=filesystems, unmounted=unmounted)


def device_numbers(drawn: Host) -> list[DeviceNumber]:
    """Return the numbers of all devices in all stacks of a host."""

    def numbers(device: BlockDevice) -> list[DeviceNumber]:
        below = device.below.value if isinstance(device.below, Known) else ()
        return [device.device_number, *(number for each in below for number in numbers(each))]

    unmounted = drawn.unmounted.value if isinstance(drawn.unmounted, Known) else ()
    stacks = [
        fs.stack.value for fs in (*drawn.filesystems, *unmounted) if isinstance(fs.stack, Known)
    ]
    return [number for stack in stacks for number in numbers(stack)]


LSBLK_ROWS = st.lists(
    st.builds(
        lsblk_row,
        any_of("sda", "sdb1", "vg-a'b"),
        st.builds(DeviceNumber, st.integers(1, 300), st.integers(0, 3)),
        fstype=any_of(None, "ext4", "xfs", "linux_raid_member"),
        uuid=any_of(None, "4a1e8f2e-7a56-4f0a-9d0c-1c5d0a6e8b11"),
        label=any_of(None, "data", "\x1b[31m"),
        transport=any_of(None, "nvme"),
    ),
    max_size=3,
    unique_by=lambda device: device.device_number,
).map(tuple)
MEMORIES = st.builds(
    memory,
    total_bytes=any_of(1 << 28, 1 << 34),
    available_bytes=any_of(0, 1 << 27, 1 << 33),
    dirty_bytes=any_of(0, 1 << 20),
    dirty_ratio_percent=any_of(0, 20, 100),
    dirty_background_bytes=any_of(0, 1 << 20),
    dirty_background_ratio_percent=any_of(0, 10),
)
HOSTS = st.builds(
    lambda subjects, **more: with_unique_numbers(host(*subjects, **more)),
    st.lists(FILESYSTEMS, min_size=1, max_size=2),
    kernel=any_evidence(st.sampled_from(RELEASES).map(kernel)),
    os=any_evidence(any_of(OperatingSystem("debian", "12", ""), OperatingSystem("", "", ""))),
    virtualization=any_evidence(any_of(None, "kvm")),
    container=any_evidence(any_of(None, "docker")),
    kernel_arguments=any_evidence(any_of((), ("quiet", "rootflags=nobarrier"))),
    memory=any_evidence(MEMORIES),
    mounts=any_evidence(MOUNTS),
    fstab=any_evidence(FSTABS),
    devices=any_evidence(LSBLK_ROWS),
    unmounted=any_evidence(st.lists(FILESYSTEMS, max_size=1).map(tuple)),
    boot_loader=any_evidence(
        st.builds(BootLoader, st.sampled_from(Loader), any_of(None, "2.02", "2.12-1ubuntu7", "x"))
    ),
    md_arrays=any_evidence(any_of((), ("/dev/md0",))),
    fstrim=any_evidence(st.booleans()),
    trims_all=any_evidence(st.booleans()),
    raid0_default_layout=any_evidence(any_of(0, 1, 2, 7)),
)
