from __future__ import annotations

import pytest

from ext4audit.assemble.filesystem import read_live_errors, stored_errors
from ext4audit.assemble.host import assemble_host
from ext4audit.evidence import Evidence, Known, Unknown, Why, need
from ext4audit.facts.host import ErrorCounters, Filesystem, Usage
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.mount import UTAB, DeviceNumber
from ext4audit.facts.superblock import RecordedError, Superblock
from ext4audit.parsers.dumpe2fs import parse_superblock
from ext4audit.sources import ReadFile, RunCommand, StatFilesystem
from ext4audit.sources.snapshot.writing import RecordingSource
from support.hosts.evidence_host import (
    HALF_FULL,
    TAKEN_AT,
    HostEvidence,
    absent,
    debian_host,
    denied,
    dumpe2fs_text,
)
from support.images.partitioned import (
    descriptor_bytes,
    descriptors_at,
    superblock_at,
    superblock_bytes,
)

DATA = DeviceNumber(8, 16)


def usage_of(host: HostEvidence, number: DeviceNumber = DATA) -> Evidence[Usage]:
    """Return the usage of one filesystem of a host."""
    found = assemble_host(host.source(), "2026-01-02T03:04:05Z").filesystems
    return next(fs.usage for fs in found if fs.device_number == number)


def why(evidence: Evidence[object]) -> Why:
    """Return why the evidence is unknown."""
    assert isinstance(evidence, Unknown)
    return evidence.why


def test_it_is_what_statvfs_says_at_the_mount_point() -> None:
    """It has blocks and inodes, and needs no root."""
    assert need(usage_of(debian_host())) == Usage(4096, 6417000, 3217000, 2889320, 1638400, 1500000)
    assert need(usage_of(debian_host().as_user())).free_inodes == 1500000


def test_a_mount_of_the_whole_tree_is_asked_first() -> None:
    """For a bind mount statfs may return a project's quota instead of the filesystem's space."""
    host = debian_host().unmount(30)
    host.mount(31, "8:16", "/srv", "/dev/sdb", root="/project")
    host.usage("/srv", "8:16", "4096 10 5 5 10 5")
    host.mount(32, "8:16", "/data", "/dev/sdb")
    assert need(usage_of(host)).size_blocks == int(HALF_FULL.split()[1])


def test_an_overmounted_mount_point_does_not_answer_for_another_filesystem() -> None:
    """/data is covered by a tmpfs: the usage is unknown, not that of the tmpfs."""
    host = debian_host().mount(50, "0:50", "/data", "tmpfs", fstype="tmpfs")
    host.usage("/data", "0:50")
    assert why(usage_of(host)) is Why.ABSENT


def test_what_is_mounted_over_it_at_the_last_moment_is_noticed() -> None:
    """The device number in the answer is not the filesystem's."""
    assert why(usage_of(debian_host().usage("/data", "0:51"))) is Why.FAILED


def test_a_refusal_stays_one() -> None:
    """Unknown usage must not pass as healthy."""
    assert why(usage_of(debian_host().answer(StatFilesystem("/data"), denied()))) is Why.DENIED


def test_a_filesystem_that_is_not_mounted_is_not_used() -> None:
    """Its superblock counts free blocks, but it has no usage."""
    host = debian_host().unmount(30).without("/proc/fs/ext4/sdb").without("/sys/fs/ext4/sdb")
    (unmounted,) = need(assemble_host(host.source(), "2026-01-02T03:04:05Z").unmounted)
    assert why(unmounted.usage) is Why.ABSENT


BASE = "/sys/fs/ext4/sdb"
FIRST = RecordedError(100, "ext4_lookup", 1853, 12, 34)
LAST = RecordedError(200, "ext4_journal_check_start", 84, 0, 0)
NO_SUPERBLOCK = Unknown("superblock", absent().why)


def with_errors(*, detailed: bool = True) -> HostEvidence:
    """Return a host whose kernel has recorded two errors of /dev/sdb."""
    host = debian_host().file(f"{BASE}/errors_count", "2\n").file(f"{BASE}/warning_count", "3\n")
    host.file(f"{BASE}/last_error_errcode", "5\n")
    for which, error in (("first", FIRST), ("last", LAST)):
        host.file(f"{BASE}/{which}_error_time", f"{error.at}\n")
        if detailed:
            host.file(f"{BASE}/{which}_error_func", f"{error.function}\n")
            host.file(f"{BASE}/{which}_error_line", f"{error.line}\n")
            host.file(f"{BASE}/{which}_error_ino", f"{error.inode}\n")
            host.file(f"{BASE}/{which}_error_block", f"{error.block}\n")
    return host


def live(
    host: HostEvidence, superblock: Evidence[Superblock] = NO_SUPERBLOCK
) -> Evidence[ErrorCounters]:
    """Read the errors of /dev/sdb."""
    return read_live_errors(host.source(), "sdb", superblock)


def on_disk(count: int | None = 1) -> Known[Superblock]:
    """Return a superblock with this number of errors."""
    lines = "" if count is None else f"FS Error count:           {count}\n"
    text = dumpe2fs_text() + lines
    return Known(parse_superblock(text), "dumpe2fs")


def test_no_error_is_known_without_root() -> None:
    """The count is 0, and its details are not read."""
    recorder = RecordingSource(debian_host().as_user().source())
    found = need(read_live_errors(recorder, "sdb", NO_SUPERBLOCK))
    assert found == ErrorCounters(0, Known(0, f"{BASE}/warning_count"))
    assert set(recorder.answers) == {
        ReadFile(f"{BASE}/errors_count"),
        ReadFile(f"{BASE}/warning_count"),
    }


def test_errors_are_reported_with_where_and_when() -> None:
    """The first and the last error are reported; the code is that of the last."""
    assert need(live(with_errors())) == ErrorCounters(
        2, Known(3, f"{BASE}/warning_count"), FIRST, LAST, 5
    )


@pytest.mark.parametrize("missing", ["warning_count", "last_error_errcode"])
def test_an_older_kernel_has_fewer_files(missing: str) -> None:
    """Counters that the kernel lacks are None and not 0."""
    found = need(live(with_errors().without(f"{BASE}/{missing}")))
    assert (found.warnings is None, found.last_code is None) == (
        missing == "warning_count",
        missing == "last_error_errcode",
    )


def test_before_5_8_sysfs_has_the_times_only() -> None:
    """The superblock may have details; without it only the times are known."""
    found = need(live(with_errors(detailed=False)))
    assert found.first == RecordedError(100, "", 0, 0, 0)
    assert found.errors == 2


def test_an_error_without_a_time_has_none() -> None:
    """The clock was not set, but the function and the place are known."""
    found = need(live(with_errors().without(f"{BASE}/first_error_time")))
    assert found.first == FIRST._replace(at=None)


def test_where_sysfs_is_hidden_the_superblock_tells() -> None:
    """Without both, the errors are unknown, not absent."""
    host = debian_host().without(BASE)
    assert need(live(host, on_disk())).errors == 1
    assert isinstance(live(host), Unknown)


def test_what_is_not_mounted_has_the_errors_of_its_superblock() -> None:
    """A reader that does not return the count does not mean 0."""
    assert need(stored_errors(on_disk(None))).errors == 0
    assert stored_errors(NO_SUPERBLOCK) is NO_SUPERBLOCK


MD = DeviceNumber(9, 127)
GROUPS = RunCommand(("dumpe2fs", "-g", "/dev/md127"))
HEADER = "\ngroup:block:super:gdt:bbitmap:ibitmap:itable\n"


def group_table(groups: int) -> str:
    """Return a table that puts all bitmaps into the first chunk of their group."""
    lines = (
        f"{n}:{n * 32768}:-1:-1:{n * 32768 + 1}:{n * 32768 + 2}:{n * 32768 + 3}-{n * 32768 + 514}\n"
        for n in range(groups)
    )
    return HEADER + "".join(lines)


def raid_host(level: str = "raid0") -> HostEvidence:
    """Return a host whose /data has 200 block groups on an array of two disks."""
    host = debian_host().disk("vdb", "254:16").disk("vdc", "254:32")
    host.stacked("md127", str(MD), vdb="254:16", vdc="254:32").md(
        str(MD), ["vdb", "vdc"], level=level
    )
    host.mount(30, str(MD), "/data", "/dev/md127").options("md127")
    host.dumpe2fs("/dev/md127", dumpe2fs_text()).answer(GROUPS, group_table(200))
    return host.without("/proc/fs/ext4/sdb").without("/sys/fs/ext4/sdb")


def data_of(host: HostEvidence) -> Filesystem:
    """Return the filesystem on the array."""
    return assemble_host(host.source(), TAKEN_AT, only={MD}).filesystems[0]


def layout_of(host: HostEvidence) -> Evidence[MetadataLayout] | None:
    """Return the layout of the filesystem on the array."""
    return data_of(host).layout


def test_the_bitmaps_of_a_raid0_are_counted_by_member() -> None:
    """Groups of 256 chunks put every bitmap on the first of two members."""
    layout = layout_of(raid_host())
    assert isinstance(layout, Known)
    assert layout.value.groups == 200
    assert [(member.name, member.bitmaps) for member in layout.value.members] == [
        ("vdb", 400),
        ("vdc", 0),
    ]


def test_the_descriptors_are_read_before_dumpe2fs_is_run() -> None:
    """The device's raw descriptors give the same layout."""
    host = raid_host().answer(GROUPS, denied())
    for reading in (0, 1):
        host.answer(superblock_at("/dev/md127", reading), superblock_bytes(200))
    host.answer(descriptors_at("/dev/md127", 200), descriptor_bytes(0, 200))
    layout = layout_of(host)
    assert isinstance(layout, Known)
    assert layout.origin.startswith("group descriptors of /dev/md127, ")
    assert [member.bitmaps for member in layout.value.members] == [400, 0]


def test_a_stripe_that_cannot_be_seen_is_guessed_with_a_doubt() -> None:
    """The volume's I/O sizes suggest the stripe; the hidden table stays in it as a doubt."""
    host = debian_host().disk("vdb", "254:16").disk("vdc", "254:32")
    host.stacked("dm-0", "253:0", vdb="254:16", vdc="254:32")
    host.dm("253:0", "vg-data", "LVM-x", denied("dmsetup table"))
    base = "/sys/dev/block/253:0/queue"
    host.file(f"{base}/minimum_io_size", "65536\n").file(f"{base}/optimal_io_size", "131072\n")
    host.mount(30, "253:0", "/data", "/dev/mapper/vg-data").options("dm-0")
    host.dumpe2fs("/dev/mapper/vg-data", dumpe2fs_text())
    host.answer(RunCommand(("dumpe2fs", "-g", "/dev/mapper/vg-data")), group_table(200))
    host.without("/proc/fs/ext4/sdb").without("/sys/fs/ext4/sdb")
    layout = assemble_host(host.source(), TAKEN_AT, only={DeviceNumber(253, 0)})
    found = layout.filesystems[0].layout
    assert isinstance(found, Known)
    assert [member.name for member in found.value.members] == ["column 0", "column 1"]
    assert [doubt.why for doubt in found.value.doubts] == [Why.DENIED]


def test_a_mirror_has_no_layout() -> None:
    """Bitmaps are counted only on striped devices."""
    assert layout_of(raid_host("raid1")) is None


@pytest.mark.parametrize("number", [DeviceNumber(8, 1), DeviceNumber(8, 16)])
def test_the_group_table_of_a_plain_disk_is_not_even_asked_for(number: DeviceNumber) -> None:
    """It is the longest text of a scan."""
    recorder = RecordingSource(debian_host().source())
    (found,) = assemble_host(recorder, TAKEN_AT, only={number}).filesystems
    asked = [ask for ask in recorder.answers if isinstance(ask, RunCommand)]
    assert found.layout is None
    assert [ask.argv for ask in asked if ask.argv[:2] == ("dumpe2fs", "-g")] == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (denied(), Why.DENIED),
        (absent(), Why.ABSENT),
        ("garbage", Why.UNPARSABLE),
        (group_table(199), Why.UNPARSABLE),
    ],
)
def test_a_group_table_that_is_missing_or_cut_off_is_unknown(
    answer: str | Unknown, why: Why
) -> None:
    """An incomplete table must not be counted as the whole filesystem."""
    layout = layout_of(raid_host().answer(GROUPS, answer))
    assert isinstance(layout, Unknown)
    assert layout.why is why


def test_without_the_superblock_there_is_no_layout() -> None:
    """Block size and group size come from the superblock."""
    layout = layout_of(raid_host().dumpe2fs("/dev/md127", denied("superblock of /dev/md127")))
    assert layout == denied("superblock of /dev/md127")


def test_without_a_stack_the_layout_is_its_gap() -> None:
    """It is not known whether a device below is striped."""
    found = data_of(raid_host().without(f"/sys/dev/block/{MD}"))
    assert isinstance(found.stack, Unknown)
    assert found.layout == found.stack


SETTINGS_OF_DATA = "/sys/fs/ext4/sdb"


def settings_of(host: HostEvidence) -> Evidence[tuple[tuple[str, int], ...]]:
    """Return the settings in sysfs of one filesystem of a host."""
    found = assemble_host(host.source(), TAKEN_AT).filesystems
    return next(fs.settings for fs in found if fs.device_number == DATA)


def test_settings_in_sysfs_are_those_that_the_kernel_has() -> None:
    """Known if one command can unmount it; a setting that may not be read makes all unknown."""
    host = debian_host().file(f"{SETTINGS_OF_DATA}/mb_stats", "1\n")
    assert need(settings_of(host)) == (("mb_stats", 1),)
    root = assemble_host(host.source(), TAKEN_AT).filesystems[0]
    assert isinstance(root.settings, Unknown)
    refused = host.file(f"{SETTINGS_OF_DATA}/mb_order2_req", denied())
    assert why(settings_of(refused)) is Why.DENIED
    assert isinstance(settings_of(host.mount(40, "8:16", "/srv", "/dev/sdb")), Unknown)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("SRC=/dev/sdb TARGET=/data ROOT=/ OPTS=_netdev,x-a\n", ("_netdev", "x-a")),
        ("SRC=/dev/sdc TARGET=/data ROOT=/ OPTS=x-a\n", ()),
        (absent(UTAB), ()),
        (denied(UTAB), None),
    ],
)
def test_a_mount_has_the_options_that_only_mount_keeps(
    table: str | Unknown, expected: tuple[str, ...] | None
) -> None:
    """They are those of the same source and directory; without the table there are none."""
    host = assemble_host(debian_host().file(UTAB, table).source(), TAKEN_AT)
    (mount,) = next(fs for fs in host.filesystems if fs.device_number == DATA).mounts
    assert mount.user_options == expected
