"""Settings of plans from provisioning documents: cloud-init, kickstart, Kubernetes."""

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
AZURE = "/dev/disk/azure/scsi1/lun0"
MOUNTED = {"mount_point": "/srv", "mount_options": "noatime"}


def mounted(
    device: str,
    *,
    on: str,
    place: str = "/srv",
    alias: str = "",
    layout: object = None,
    partition: object = None,
) -> dict[str, object]:
    """Build a document with one filesystem and one entry of mounts."""
    name = device.partition(".")[0]
    return {
        "device_aliases": {name: alias},
        "disk_setup": {name: {"layout": layout}},
        "fs_setup": [{"filesystem": "ext4", "device": device, "partition": partition}],
        "mounts": [["swap", None], [on, place, "ext4", "noatime"]],
    }


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
        (
            mounted("ephemeral0.1", on="ephemeral0.1", alias="/dev/sdb", layout=[66, [33, 82]]),
            {"mkfs": "", "device": "/dev/sdb1", **MOUNTED},
        ),
        (mounted(AZURE, on=f"{AZURE}-part1", partition=1), {"device": f"{AZURE}-part1", **MOUNTED}),
        (mounted("/dev/vdb1", on="vdb"), {"device": "/dev/vdb1", **MOUNTED}),
        (mounted("/dev/vdb", on="vdb"), {"device": "/dev/vdb", **MOUNTED}),
        (mounted("/dev/vdb", on="vdb", partition=2), {"device": "/dev/vdb2"}),
        (
            mounted("/dev/nvme1n1", on="/dev/nvme1n1p1", layout=True, partition="auto"),
            {"device": "/dev/nvme1n1p1", **MOUNTED},
        ),
        (mounted("/dev/vdb", on="/dev/vdb", layout=True), {"device": "/dev/vdb1", **MOUNTED}),
        (
            mounted("ephemeral0.0", on="ephemeral0.0", alias="/dev/vdb"),
            {"device": "/dev/vdb", **MOUNTED},
        ),
        (mounted("/dev/vdb", on="/dev/vdb", place="none"), {"device": "/dev/vdb"}),
    ],
)
def test_cloud_init_filesystems_are_planned(document: object, expected: dict[str, str]) -> None:
    """The device is given by alias and partition; mke2fs options and the mounts entry are read."""
    (found,) = settings(parse_cloud_init(document))
    assert found == {"mkfs": "", **found, **expected}
    assert ("mount_point" in found) is ("mount_point" in expected)


def test_cloud_init_gives_a_partition_its_share_of_the_disk() -> None:
    """The shares are percentages of disk_setup; 82 is a partition type."""
    document = {
        "disk_setup": {"/dev/xvdb": {"layout": [25, [75, 82]]}},
        "fs_setup": [{**DISK, "partition": number} for number in (1, 2)],
    }
    assert [each.share for each in parse_cloud_init(document).planned] == [25.0, 75.0]
    named = {**document, "fs_setup": [{**DISK, "device": "/dev/xvdb2"}]}
    assert [each.share for each in parse_cloud_init(named).planned] == [75.0]
    dotted = mounted("ephemeral0.1", on="x", layout=[66, [33, 82]])
    assert [each.share for each in parse_cloud_init(dotted).planned] == [66.0]


@pytest.mark.parametrize(
    ("document", "reported"),
    [
        ([], "the document is not a mapping"),
        ({}, "it has no fs_setup"),
        ({"fs_setup": {}}, "fs_setup is not a list"),
        ({"fs_setup": ["x"]}, "fs_setup is not a mapping"),
        ({"fs_setup": [{**DISK, "label": ["x"]}]}, "is not a text"),
        ({"fs_setup": [{**DISK, "label": "x" * 5000}]}, "longer than 4096"),
        ({"fs_setup": [{**DISK, "device": "${device}"}]}, "is of a template: render it first"),
        (mounted("/dev/vdb", on="/dev/vdb", place="${place}"), "is of a template"),
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
    """Missing values are not guessed."""
    with pytest.raises(ValueError, match=reported):
        parse_cloud_init(document)


IDENTIFIER = "3e6be9de-8139-11d1-9106-a43f08d823a6"


@pytest.mark.parametrize(
    ("setup", "spec"),
    [
        ({"label": "data"}, "LABEL=data"),
        ({"label": "data"}, 'LABEL="data"'),
        ({"label": "data"}, "/dev/disk/by-label/data"),
        ({"extra_opts": ["-L", "data"]}, "LABEL=data"),
        ({"extra_opts": f"-U {IDENTIFIER}"}, f"UUID={IDENTIFIER.upper()}"),
        ({"extra_opts": ["-U", IDENTIFIER]}, f"/dev/disk/by-uuid/{IDENTIFIER}"),
        ({"device": "ephemeral0"}, "ephemeral"),
    ],
)
def test_a_line_of_mounts_names_a_filesystem_in_any_way(
    setup: dict[str, object], spec: str
) -> None:
    """Labels and UUIDs match in each spelling: a missed entry would hide its options."""
    document = {
        "fs_setup": [{"filesystem": "ext4", "device": "/dev/xvdb", **setup}],
        "mounts": [[spec, "/srv", "ext4", "noatime"]],
    }
    found = parse_cloud_init(document)
    assert settings(found)[0].items() >= MOUNTED.items()
    assert found.skipped == ()


def test_a_filesystem_without_a_mounts_line_is_named() -> None:
    """The default options are judged, and another entry may be meant for it."""
    found = parse_cloud_init({"fs_setup": [DISK], "mounts": [["/dev/disk/by-id/x", "/srv"]]})
    (sentence,) = found.skipped
    assert sentence.startswith("the mount of /dev/xvdb, which no line of mounts names")


def test_a_mount_of_an_existing_filesystem_is_named() -> None:
    """Its options must not be dropped silently; swap and network filesystems are not ext4."""
    mounts = [["vdb", "/srv", "ext4", "nobarrier"], ["x:/y", "/nfs", "nfs"], ["swap", None]]
    mounts += [["LABEL=data", "/data", "ext4"]]
    found = parse_cloud_init({"fs_setup": [DISK], "mounts": mounts})
    assert found.skipped == ("the mount of vdb on /srv, which no fs_setup makes",)


def test_filesystems_without_a_mounts_line_have_distinct_mount_points() -> None:
    """Two filesystems with the default mount point could not be planned."""
    setups = [DISK, {**DISK, "label": "a/b", "device": "/dev/xvdc"}, {**DISK, "label": None}]
    found = parse_cloud_init({"fs_setup": setups})
    places = [each["mount_point"] for each in settings(found)]
    assert places == ["/mnt/data", "/mnt/xvdc", "/mnt/xvdb"]


def test_cloud_init_parts_that_are_not_planned_are_named() -> None:
    """Other types, and commands, are not planned, and the others still are."""
    others = [{**DISK, "filesystem": "xfs"}, {**DISK, "cmd": "mkfs -t ext4 %(device)s"}]
    disks = {"/dev/xvdb": {"layout": [50], "typ": "gpt"}}
    known = {**DISK, "overwrite": True, "replace_fs": "xfs", "opts": "-m 0"}
    found = parse_cloud_init({"fs_setup": [known, *others], "disk_setup": disks})
    assert len(found.planned) == 1
    assert found.skipped[0] == "/dev/xvdb is xfs"
    assert "a command of one's own" in found.skipped[1]
    assert found.skipped[-2:] == (
        "opts in fs_setup of /dev/xvdb, which is not known",
        "typ in disk_setup of /dev/xvdb, which is not known",
    )


ARRAY = "".join(f"part raid.{number} --size=1000\n" for number in (1, 2, 3))
VOLUME = "volgroup vg pv.1\nlogvol /d --vgname=vg --name=d --size=100 --fstype=ext4"


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
def test_kickstart_filesystems_are_planned(text: str, expected: dict[str, object]) -> None:
    """Sizes are in MiB, the smallest member counts, and a size set by the disk is left out."""
    assert settings(parse_kickstart(text)) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("part /d --fstype=ext4 --active --size=500", {"size": "500M"}),
        ("part /d --fstype=ext4 --label --size=500", {"size": "500M", "mkfs": ""}),
        ("part /d --type ext4 --usepart=sda1 --size=500", {"device": "/dev/sda1"}),
        ("part /d --fstype=ext4 --onpart=LABEL=x", {"device": "/dev/disk/by-label/x"}),
        (
            "mount /dev/sdb1 /d --reformat=ext4 --mountoptions=ro --mkfsoptions='-m 1'",
            {"device": "/dev/sdb1", "mount_options": "ro", "mkfs": "-m 1", "mount_point": "/d"},
        ),
        ("part\t/d\t--fstype=ext4\t--size=500", {"size": "500M"}),
        ("part /d --fsty=ext4 --si 500 --fsoption=ro", {"size": "500M", "mount_options": "ro"}),
        ("%ksappend http://x/y\npart /d --fstype=ext4 --size=500", {"size": "500M"}),
        (
            f"{ARRAY}raid pv.1 --level=0 --chunksize=64 raid.1 raid.2 raid.3\n{VOLUME}",
            {"raid0": 3, "chunk": "64K", "size": "100M", "device": "/dev/vg/d"},
        ),
        (
            f"{ARRAY}raid pv.1 --level=0 raid.1 raid.2 raid.3\n{VOLUME} --thin --poolname=p",
            {"size": "100M"},
        ),
        ("part /d --fstype=ext4 --size=9 --grow --maxsize=500", {"size": "500M"}),
        ("part /d --fstype=ext4 --size=9 --grow", {"size": None}),
        ("raid /d --fstype=ext4 --level=1 --device=0 a b", {"device": "/dev/md0"}),
        ("raid /d --fstype=ext4 --level=1 --device=boot a b", {"device": "/dev/md/boot"}),
        ("raid /d --fstype=ext4 --level=1 --device=/dev/md7 a b", {"device": "/dev/md7"}),
        ("part /d --fstype=ext4 --size=9 --bytes-per-inode=8192", {"mkfs": "-i 8192"}),
        (
            f"{ARRAY}raid /d --fstype=ext4 --level=10 raid.1 raid.2 raid.3",
            {"raid10": 3, "size": "1500M"},
        ),
    ],
)
def test_kickstart_is_read_as_by_anaconda(text: str, expected: dict[str, object]) -> None:
    """An option without a value does not take the next option; a volume is on the array below."""
    (found,) = settings(parse_kickstart(text))
    assert {key: found.get(key) for key in expected} == expected
    assert ("raid0" in found) is ("raid0" in expected)


def test_a_volume_on_several_devices_with_an_array_is_not_planned() -> None:
    """Nothing shows on which of them it is."""
    text = f"{ARRAY}raid pv.1 --level=1 raid.1 raid.2\npart pv.2 --size=9\n{VOLUME}"
    found = parse_kickstart(text.replace("volgroup vg pv.1", "volgroup vg pv.1 pv.2"))
    assert found.skipped == ("/d is on several devices, and some of them are arrays",)


@pytest.mark.parametrize(
    "text",
    ["raid /d --fstype=ext4 --level=RAID4 a b", f"raid pv.1 --level=linear a b\n{VOLUME}"],
)
def test_an_array_that_cannot_be_planned_hinders_no_other_filesystem(text: str) -> None:
    """Its filesystem is named."""
    found = parse_kickstart(f"{text}\npart /a --fstype=ext4 --size=9")
    assert [each["mount_point"] for each in settings(found)] == ["/a"]
    assert found.skipped == ("/d is on an array of a level that cannot be planned",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mount sda1 /d", "is not formatted"),
        ("mount sda1 /d --reformat", "is of the default type"),
        ("mount sda1 none", ""),
        ("raid /d --device=0 --fstype=ext4 --useexisting", "is on an array that exists"),
        (f"raid pv.1 --device=0 --useexisting\n{VOLUME}", "is on an array that exists"),
    ],
)
def test_partitions_that_a_kickstart_file_keeps_are_named(text: str, why: str) -> None:
    """Other filesystems are still planned."""
    found = parse_kickstart(f"{text}\npart /a --fstype=ext4 --size=9")
    assert [each["mount_point"] for each in settings(found)] == ["/a"]
    assert [each.partition(" ")[0] for each in found.skipped] == (["/d"] if why else [])
    assert all(why in each for each in found.skipped)


def test_options_that_no_kickstart_has_are_named() -> None:
    """Anaconda refuses the file; the plan must not pass without them."""
    found = parse_kickstart("part /d --fstype=ext4 --size=9 --fsopts=nobarrier")
    assert found.skipped == ("--fsopts of /d, which is not known",)
    assert len(found.planned) == 1


def test_kickstart_skips_sections_and_other_types() -> None:
    """Scripts are not storage commands; an included file that may have some is named."""
    text = "part / --fstype=xfs --size=1\n%pre\npart /a --fstype=ext4 --size=1\n%end\npart swap\n"
    text += "%include /tmp/disks\n%packages\n%include more\n%end\n"
    found = parse_kickstart(text)
    included = "%include /tmp/disks, a file that is not read"
    assert (found.planned, found.skipped) == ((), ("/ is xfs", included))


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "it has no part, raid or logvol"),
        ("part /d --fstype=ext4 --size=x", "not a number of MiB"),
        ("raid /d --fstype=ext4 --level=0", "names no members"),
        ('part /d --fstype="ext4', "line 1: No closing quotation"),
        ("part /d " + "x" * 5000, "line 1 is longer"),
        ("\n" * 10_001, "more than 10000 lines"),
        ("raid /d --fstype=ext4 --level=5 {% for d in e %} raid.{{ d }} {% endfor %}", "template"),
    ],
)
def test_kickstart_that_cannot_be_read_is_refused(text: str, reported: str) -> None:
    """The error names the line if there is one."""
    with pytest.raises(ValueError, match=reported):
        parse_kickstart(text)


CLASS = {"kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "ebs.csi.aws.com"}


def longhorn(parameters: dict[str, str]) -> dict[str, object]:
    """Build a class of a driver whose disks are not known."""
    return {**CLASS, "provisioner": "driver.longhorn.io", "parameters": parameters}


def volume(**spec: object) -> dict[str, object]:
    """Build a PersistentVolume with this source."""
    return {"kind": "PersistentVolume", "metadata": {"name": "fast"}, "spec": spec}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {**CLASS, "mountOptions": ["noatime", "discard"]},
            {"mkfs": "-m 0", "mount_options": "noatime,discard", "on": "aws-ebs"},
        ),
        (
            {
                **CLASS,
                "provisioner": "x",
                "parameters": {"fsType": "ext3", "blockSize": "1024", "inodeSize": "512"},
            },
            {"mkfs": "-t ext3 -m 0 -b 1024 -I 512", "mount_options": ""},
        ),
        (
            {**CLASS, "parameters": {"ext4BigAlloc": "true", "ext4ClusterSize": "16384"}},
            {"mkfs": "-m 0 -O bigalloc -C 16384", "mount_options": "", "on": "aws-ebs"},
        ),
        (
            {**CLASS, "parameters": {"ext4EncryptionSupport": "true"}},
            {"mkfs": "-m 0 -O encrypt", "mount_options": "", "on": "aws-ebs"},
        ),
        (
            {**CLASS, "provisioner": "ebs.csi.eks.amazonaws.com"},
            {"mkfs": "-m 0", "mount_options": "", "on": "aws-ebs"},
        ),
        (
            longhorn({"fsType": "ext4", "mkfsParams": "-I 256 -O ^metadata_csum,^64bit"}),
            {"mkfs": "-m 0 -I 256 -O ^metadata_csum,^64bit", "mount_options": ""},
        ),
        (
            longhorn({"fs": "ext4", "createoptions": "-b 2048"}),
            {"mkfs": "-b 2048", "mount_options": ""},
        ),
        (
            longhorn({"fstype": "ext4", "mkfsOptions": '["-m", "0 1"]'}),
            {"mkfs": "-m '0 1'", "mount_options": ""},
        ),
        (longhorn({"fsType": "ext2"}), {"mkfs": "-t ext2", "mount_options": ""}),
        (
            volume(gcePersistentDisk={"pdName": "x"}),
            {"mkfs": "-m 0", "mount_options": "", "on": "gcp-pd"},
        ),
        (
            volume(local={"path": "/dev/sdb", "fsType": "ext4"}),
            {"mkfs": "-m 0", "mount_options": ""},
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
            {"mkfs": "-m 0", "mount_options": "", "on": "gcp-pd", "size": "100Gi"},
        ),
    ],
)
def test_storage_classes_and_volumes_are_planned(
    document: object, expected: dict[str, str]
) -> None:
    """Types, options and sizes are read; each filesystem is mounted by its name."""
    found = settings(parse_storage([None, {"kind": "List", "items": [document]}]))
    assert found == [{**expected, "mount_point": "/mnt/fast"}]


def test_the_items_of_a_list_have_the_kind_of_the_list() -> None:
    """The API server does not repeat the kind, so the classes must not be dropped."""
    bare = {key: value for key, value in CLASS.items() if key != "kind"}
    found = parse_storage([{"kind": "StorageClassList", "items": [bare]}, CLASS])
    assert len(found.planned) == 2


@pytest.mark.parametrize(
    ("document", "skipped"),
    [
        ({**CLASS, "provisioner": "efs.csi.aws.com"}, "StorageClass fast names no type"),
        ({**CLASS, "provisioner": "kubernetes.io/no-provisioner"}, "StorageClass fast names no"),
        ({**CLASS, "parameters": {"fsType": "xfs"}}, "StorageClass fast is xfs"),
        (volume(nfs={"server": "x"}), "PersistentVolume fast names no type"),
        (volume(local={"path": "/srv"}), "PersistentVolume fast names no type"),
        (
            volume(csi={"driver": "ebs.csi.aws.com"}, volumeMode="Block"),
            "PersistentVolume fast is a block device",
        ),
        ({**CLASS, "kind": "PersistentVolumeClaim"}, "PersistentVolumeClaim fast is not read"),
    ],
)
def test_objects_without_ext4_are_named(document: object, skipped: str) -> None:
    """An unknown driver, a network filesystem and a raw device are not reported as ext4."""
    found = parse_storage([document])
    assert found.planned == ()
    assert found.skipped[0].startswith(skipped)


def test_options_in_parameters_that_are_not_read_are_named() -> None:
    """A driver passes them to mke2fs or mount(8), but the plan lacks them."""
    key = "linstor.csi.linbit.com/mountOpts"
    parameters = {"fsType": "ext4", key: "nobarrier", "mkfsParams": "-m 1", "mounter": "rbd"}
    found = parse_storage([{**CLASS, "parameters": parameters}])
    assert len(found.planned) == 1
    (sentence,) = found.skipped
    assert sentence.startswith(f"{key} of StorageClass")


def test_a_class_and_a_volume_of_one_name_have_distinct_mount_points() -> None:
    """Names are unique per kind only."""
    same = {**volume(iscsi={"fsType": "ext4"}), "metadata": CLASS["metadata"]}
    found = parse_storage([CLASS, same])
    first, second = (each["mount_point"] for each in settings(found))
    assert second == f"{first}-2"


def test_the_annotation_of_a_volume_has_its_mount_options() -> None:
    """The annotation is older than mountOptions of the spec, and overrides them."""
    metadata = {"annotations": {"volume.beta.kubernetes.io/mount-options": "noatime,nobarrier"}}
    spec = {"mountOptions": ["discard"], "iscsi": {"fsType": "ext4"}}
    volume = {"kind": "PersistentVolume", "metadata": metadata, "spec": spec}
    (found,) = settings(parse_storage([volume]))
    assert found["mount_options"] == "noatime,nobarrier"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("100Gi", "100Gi"),
        ("100G", "100GB"),
        ("1.5Ti", "1.5Ti"),
        ("1000", "1000"),
        ("5k", "5KB"),
        ("1e11", "100000000000"),
        ("128974848000m", "128974848"),
        (".5E", "500000000000000000"),
        ("1Ei", str(1 << 60)),
        ("+1.E+3", "1000"),
        ("1500m", "2"),
    ],
)
def test_quantities_of_kubernetes_are_parsed(text: str, size: str) -> None:
    """Kubernetes' G is decimal, and its Gi is binary."""
    assert size_of_quantity(text) == size


@pytest.mark.parametrize(
    ("documents", "reported"),
    [
        ([{"kind": "Pod"}], "no StorageClass and no PersistentVolume"),
        (["x"], "a document is not a mapping"),
        ([{**CLASS, "mountOptions": "noatime"}], "mountOptions is not a list"),
        ([{**CLASS, "parameters": ["x"]}], "parameters is not a mapping"),
        ([longhorn({"fsType": "ext4", "mkfsOptions": "[" * 4000})], "nested|delimiter|value"),
    ],
)
def test_other_manifests_are_refused(documents: list[object], reported: str) -> None:
    """The error names the cause."""
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
    """The parser raises nothing but ValueError, whatever the document holds."""
    try:
        parse(document)
    except ValueError:
        return


@given(st.text(alphabet="part raidlogvol/--=\"'\n0 ext4size", max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """The text is read as a kickstart file."""
    try:
        parse_kickstart(text)
    except ValueError:
        return
