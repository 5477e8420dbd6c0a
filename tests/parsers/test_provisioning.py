"""Provisioning documents as settings of plans: cloud-init, kickstart, Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.parsers.cloud_init import parse_cloud_init
from ext4audit.parsers.kickstart import parse_kickstart
from ext4audit.parsers.provisioning import Provisioned
from ext4audit.parsers.storage_class import parse_storage, size_of_quantity


def settings(found: Provisioned) -> list[dict[str, Any]]:
    """Return the settings of each filesystem."""
    return [dict(each.settings) for each in found.planned]


DISK = {"label": "data", "filesystem": "ext4", "device": "/dev/xvdb"}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"fs_setup": [DISK]}, {"mkfs": "-L data", "device": "/dev/xvdb"}),
        (
            {"fs_setup": [{**DISK, "partition": 2, "label": None, "extra_opts": ["-m", "0"]}]},
            {"mkfs": "-m 0", "device": "/dev/xvdb2"},
        ),
        (
            {
                "fs_setup": [
                    {**DISK, "device": "/dev/nvme1n1", "partition": 1, "filesystem": "ext3"}
                ]
            },
            {"mkfs": "-t ext3 -L data", "device": "/dev/nvme1n1p1"},
        ),
        (
            {
                "fs_setup": [{**DISK, "device": "swift", "label": None, "extra_opts": "-m 0 -E a"}],
                "device_aliases": {"swift": "/dev/sdc"},
                "mounts": [["swift", "/srv", "ext4", "noatime"]],
            },
            {
                "mkfs": "-m 0 -E a",
                "device": "/dev/sdc",
                "mount_point": "/srv",
                "mount_options": "noatime",
            },
        ),
        (
            {"fs_setup": [DISK], "mounts": [["LABEL=data", "/srv"]]},
            {
                "mkfs": "-L data",
                "device": "/dev/xvdb",
                "mount_point": "/srv",
                "mount_options": "defaults,nofail,x-systemd.after=cloud-init.service",
            },
        ),
    ],
)
def test_cloud_init(document: object, expected: dict[str, str]) -> None:
    """The device by alias and partition, the options of mke2fs, and the line of mounts."""
    assert settings(parse_cloud_init(document)) == [expected]


def test_cloud_init_gives_a_partition_its_share_of_the_disk() -> None:
    """disk_setup's percentages; 82 is a partition type."""
    document = {
        "disk_setup": {"/dev/xvdb": {"layout": [25, [75, 82]]}},
        "fs_setup": [{**DISK, "partition": number} for number in (1, 2)],
    }
    assert [each.share for each in parse_cloud_init(document).planned] == [25.0, 75.0]


@pytest.mark.parametrize(
    ("document", "reported"),
    [
        ([], "the document is not a mapping"),
        ({}, "it has no fs_setup"),
        ({"fs_setup": {}}, "fs_setup is not a list"),
        ({"fs_setup": ["x"]}, "fs_setup is not a mapping"),
        ({"fs_setup": [{**DISK, "cmd": "mkfs -t ext4"}]}, "a command of one's own"),
        ({"fs_setup": [{**DISK, "label": ["x"]}]}, "is not a text"),
        ({"fs_setup": [{**DISK, "label": "x" * 5000}]}, "longer than 4096"),
        (
            {
                "fs_setup": [{**DISK, "partition": 3}],
                "disk_setup": {"/dev/xvdb": {"layout": [50]}},
            },
            "no partition 3",
        ),
    ],
)
def test_cloud_init_of_another_shape_is_refused(document: object, reported: str) -> None:
    """Nothing is guessed of it."""
    with pytest.raises(ValueError, match=reported):
        parse_cloud_init(document)


def test_cloud_init_says_what_it_leaves_out() -> None:
    """Other types are not planned."""
    found = parse_cloud_init({"fs_setup": [DISK, {**DISK, "filesystem": "xfs"}]})
    assert (len(found.planned), found.skipped) == (1, ("/dev/xvdb is xfs",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'part /data --fstype=ext4 --size=2048 --fsoptions="noatime" --mkfsoptions="-m 0"',
            {"mount_point": "/data", "mount_options": "noatime", "mkfs": "-m 0", "size": "2048M"},
        ),
        (
            "partition /data --fstype ext3 --size 100 --grow --label d --onpart sdb1 # rest",
            {"mount_point": "/data", "mount_options": "", "mkfs": "-t ext3 -L d"}
            | {"device": "/dev/sdb1"},
        ),
        (
            "logvol /var --vgname=vg --name=var --size=4096 --fstype=ext4 --fsprofile=news",
            {"mount_point": "/var", "mount_options": "", "mkfs": "-T news", "size": "4096M"}
            | {"device": "/dev/vg/var"},
        ),
        (
            "part raid.1 --size=1000\npart raid.2 --size=900\npart raid.3 --size=1000\n"  # noqa: ISC004 - lines
            "raid /d --level=5 --device=md1 --fstype=ext4 --chunksize=64 raid.1 raid.2 raid.3",
            {"mount_point": "/d", "mount_options": "", "mkfs": "", "raid5": 3, "chunk": "64K"}
            | {"device": "/dev/md1", "size": "1800M"},
        ),
        (
            "raid /d --level=RAID1 --fstype=ext4 --spares=1 raid.1 raid.2 raid.3",
            {
                "mount_point": "/d",
                "mount_options": "",
                "mkfs": "",
                "raid1": 2,
                "device": "/dev/md0",
            },
        ),
    ],
)
def test_kickstart(text: str, expected: dict[str, object]) -> None:
    """Sizes are MiB, the smallest member counts, and a size that the disk decides is left open."""
    assert settings(parse_kickstart(text)) == [expected]


def test_kickstart_skips_sections_and_other_types() -> None:
    """Scripts are not commands of storage."""
    text = "part / --fstype=xfs --size=1\n%pre\npart /a --fstype=ext4 --size=1\n%end\npart swap\n"
    found = parse_kickstart(text)
    assert (found.planned, found.skipped) == ((), ("/ is xfs",))


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "it has no part, raid or logvol"),
        ("part /d --fstype=ext4 --size=x", "not a number of MiB"),
        ("raid /d --fstype=ext4 --level=RAID4 a b", "not a level"),
        ("raid /d --fstype=ext4 --level=0", "names no members"),
        ('part /d --fstype="ext4', "line 1: No closing quotation"),
        ("part /d " + "x" * 5000, "line 1 is longer"),
        ("\n" * 10_001, "more than 10000 lines"),
    ],
)
def test_kickstart_that_cannot_be_read_is_refused(text: str, reported: str) -> None:
    """With the line where there is one."""
    with pytest.raises(ValueError, match=reported):
        parse_kickstart(text)


CLASS = {"kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "ebs.csi.aws.com"}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {**CLASS, "mountOptions": ["noatime", "discard"]},
            {"mkfs": "", "mount_options": "noatime,discard", "on": "aws-ebs"},
        ),
        (
            {
                **CLASS,
                "provisioner": "x",
                "parameters": {"fsType": "ext3", "blockSize": "1024", "inodeSize": "512"},
            },
            {"mkfs": "-t ext3 -b 1024 -I 512", "mount_options": ""},
        ),
        (
            {**CLASS, "parameters": {"ext4BigAlloc": "true", "ext4ClusterSize": "16384"}},
            {"mkfs": "-O bigalloc -C 16384", "mount_options": "", "on": "aws-ebs"},
        ),
        (
            {
                "kind": "PersistentVolume",
                "metadata": {"name": "fast"},
                "spec": {
                    "capacity": {"storage": "100Gi"},
                    "csi": {"driver": "pd.csi.storage.gke.io", "fsType": "ext4"},
                },
            },
            {"mkfs": "", "mount_options": "", "on": "gcp-pd", "size": "100Gi"},
        ),
    ],
)
def test_storage_classes(document: object, expected: dict[str, str]) -> None:
    """Types, options and sizes; each is mounted by its name."""
    found = settings(parse_storage([None, {"kind": "List", "items": [document]}]))
    assert found == [{**expected, "mount_point": "/mnt/fast"}]


@pytest.mark.parametrize(
    ("text", "size"),
    [("100Gi", "100Gi"), ("100G", "100GB"), ("1.5Ti", "1.5Ti"), ("1000", "1000"), ("5k", "5KB")],
)
def test_quantities(text: str, size: str) -> None:
    """Kubernetes' G is decimal, and its Gi is binary."""
    assert size_of_quantity(text) == size


@pytest.mark.parametrize(
    ("documents", "reported"),
    [
        ([{"kind": "Pod"}], "no StorageClass and no PersistentVolume"),
        (["x"], "a document is not a mapping"),
        ([{**CLASS, "mountOptions": "noatime"}], "mountOptions is not a list"),
        ([{**CLASS, "parameters": ["x"]}], "parameters is not a mapping"),
    ],
)
def test_other_manifests_are_refused(documents: list[object], reported: str) -> None:
    """With what is wrong."""
    with pytest.raises(ValueError, match=reported):
        parse_storage(documents)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "fs_setup mounts disk_setup layout filesystem device kind spec csi metadata "
                "partition label parameters items capacity storage mountOptions".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("parse", [parse_cloud_init, lambda it: parse_storage([it])])
@given(document=ANYTHING)
def test_any_document_is_read_or_refused(
    parse: Callable[[object], Provisioned], document: object
) -> None:
    """With a ValueError, whatever it holds."""
    try:
        parse(document)
    except ValueError:
        return


@given(st.text(alphabet="part raidlogvol/--=\"'\n0 ext4size", max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """As a kickstart file."""
    try:
        parse_kickstart(text)
    except ValueError:
        return
