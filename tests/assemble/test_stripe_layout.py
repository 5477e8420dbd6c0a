from __future__ import annotations

import pytest

from evidence_host import TAKEN_AT, HostEvidence, absent, debian_host, denied, dumpe2fs_text
from ext4audit.assemble.host import assemble_host
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.host import Filesystem
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.mount import DeviceNumber
from ext4audit.sources.ask import RunCommand
from ext4audit.sources.recording import RecordingSource
from raw_filesystem import descriptor_bytes, descriptors_at, superblock_at, superblock_bytes

MD = DeviceNumber(9, 127)
GROUPS = RunCommand(("dumpe2fs", "-g", "/dev/md127"))
HEADER = "\ngroup:block:super:gdt:bbitmap:ibitmap:itable\n"


def group_table(groups: int) -> str:
    """Return a table whose bitmaps all lie in the first chunk of their group."""
    lines = (
        f"{n}:{n * 32768}:-1:-1:{n * 32768 + 1}:{n * 32768 + 2}:{n * 32768 + 3}-{n * 32768 + 514}\n"
        for n in range(groups)
    )
    return HEADER + "".join(lines)


def raid_host(level: str = "raid0") -> HostEvidence:
    """Return a host whose /data is on an array of two disks, with its 200 block groups."""
    host = debian_host().disk("vdb", "254:16").disk("vdc", "254:32")
    host.stacked("md127", str(MD), vdb="254:16", vdc="254:32").md(
        str(MD), ["vdb", "vdc"], level=level
    )
    host.mount(30, str(MD), "/data", "/dev/md127").options("md127")
    host.dumpe2fs("/dev/md127", dumpe2fs_text()).tell(GROUPS, group_table(200))
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
    """The same layout comes out of the device's own bytes."""
    host = raid_host().tell(GROUPS, denied())
    for reading in (0, 1):
        host.tell(superblock_at("/dev/md127", reading), superblock_bytes(200))
    host.tell(descriptors_at("/dev/md127", 200), descriptor_bytes(0, 200))
    layout = layout_of(host)
    assert isinstance(layout, Known)
    assert layout.origin.startswith("group descriptors of /dev/md127, ")
    assert [member.bitmaps for member in layout.value.members] == [400, 0]


def test_a_stripe_that_cannot_be_seen_is_guessed_with_a_doubt() -> None:
    """The I/O sizes of a volume suggest its stripe; that its table is hidden stays with it."""
    host = debian_host().disk("vdb", "254:16").disk("vdc", "254:32")
    host.stacked("dm-0", "253:0", vdb="254:16", vdc="254:32")
    host.dm("253:0", "vg-data", "LVM-x", denied("dmsetup table"))
    base = "/sys/dev/block/253:0/queue"
    host.file(f"{base}/minimum_io_size", "65536\n").file(f"{base}/optimal_io_size", "131072\n")
    host.mount(30, "253:0", "/data", "/dev/mapper/vg-data").options("dm-0")
    host.dumpe2fs("/dev/mapper/vg-data", dumpe2fs_text())
    host.tell(RunCommand(("dumpe2fs", "-g", "/dev/mapper/vg-data")), group_table(200))
    host.without("/proc/fs/ext4/sdb").without("/sys/fs/ext4/sdb")
    layout = assemble_host(host.source(), TAKEN_AT, only={DeviceNumber(253, 0)})
    found = layout.filesystems[0].layout
    assert isinstance(found, Known)
    assert [member.name for member in found.value.members] == ["column 0", "column 1"]
    assert [doubt.why for doubt in found.value.doubts] == [Why.DENIED]


def test_a_mirror_has_no_layout() -> None:
    """Where nothing is striped, nothing is counted."""
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
def test_a_group_table_that_is_missing_or_cut_off_is_a_hole(
    answer: str | Unknown, why: Why
) -> None:
    """A part of the groups must not be counted as a whole filesystem."""
    layout = layout_of(raid_host().tell(GROUPS, answer))
    assert isinstance(layout, Unknown)
    assert layout.why is why


def test_without_the_superblock_there_is_no_layout() -> None:
    """Block size and group size are the superblock's."""
    layout = layout_of(raid_host().dumpe2fs("/dev/md127", denied("superblock of /dev/md127")))
    assert layout == denied("superblock of /dev/md127")


def test_without_a_stack_the_layout_is_its_hole() -> None:
    """Whether something is striped below cannot be seen."""
    found = data_of(raid_host().without(f"/sys/dev/block/{MD}"))
    assert isinstance(found.stack, Unknown)
    assert found.layout == found.stack
