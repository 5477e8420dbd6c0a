from __future__ import annotations

import pytest

from ext4audit.assemble.devices.fstab import (
    DeviceResolver,
    list_devices,
    without_contradiction,
)
from ext4audit.assemble.host import assemble_host
from ext4audit.engine import judge
from ext4audit.evidence import Evidence, Excerpt, Known, Unknown, Why, need
from ext4audit.facts.devices import LsblkDevice
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.superblock import NO_LINKS
from ext4audit.report import Outcome
from ext4audit.rules.drift.drf003_fstab_identifier import check as twins
from ext4audit.sources import ReadFile, ResolvePath
from support.hosts.evidence_host import (
    DATA_UUID,
    LSBLK_JSON,
    LSBLK_PAIRS,
    TAKEN_AT,
    HostEvidence,
    absent,
    debian_host,
    dumpe2fs_text,
    failed,
)

SDC, SDD = DeviceNumber(8, 32), DeviceNumber(8, 48)
CLONE = "33333333-aaaa-4bbb-8ccc-00000000000f"


def labelled_host() -> HostEvidence:
    """Return a host with two more disks that have identifiers of every kind."""
    host = debian_host().disk("sdc", "8:32").disk("sdd", "8:48")
    host.listed(
        "sdc",
        "8:32",
        fstype="ext4",
        uuid=CLONE,
        label="my data",
        partuuid="0ddba11-02",
        partlabel='p "1" $(id)',
    )
    return host.listed("sdd", "8:48", fstype="ext4", label="DATA", uuid="2D00-F2E5")


def resolve(
    host: HostEvidence, spec: str, uuids: dict[str, DeviceNumber] | None = None
) -> Evidence[DeviceNumber]:
    """Resolve the first field of an fstab entry."""
    source = host.source()
    return DeviceResolver(source, list_devices(source), uuids or {}).resolve(spec)


@pytest.mark.parametrize(
    ("spec", "number"),
    [
        (f"UUID={DATA_UUID}", DeviceNumber(8, 16)),
        (f'UUID="{DATA_UUID}"', DeviceNumber(8, 16)),
        (f"UUID={CLONE}", SDC),
        ("UUID=2D00-F2E5", SDD),
        ("LABEL=data", DeviceNumber(8, 16)),
        ("LABEL=DATA", SDD),
        ("LABEL=my data", SDC),
        ('LABEL="my data"', SDC),
        ("PARTUUID=0ddba11-02", SDC),
        ('PARTLABEL=p "1" $(id)', SDC),
        ("/dev/sda1", DeviceNumber(8, 1)),
        ("/dev/sdc", SDC),
    ],
)
def test_a_specification_names_one_device(spec: str, number: DeviceNumber) -> None:
    """Identifiers are compared as text, as mount(8) does: "data" is not "DATA"."""
    found = resolve(labelled_host(), spec)
    assert isinstance(found, Known)
    assert found.value == number


@pytest.mark.parametrize(
    "path",
    [
        "/dev/disk/by-uuid/2d00-f2e5",
        "/dev/disk/by-id/wwn-0x5000",
        "/dev/mapper/vg0-data",
        "/dev/vg0/name=with=equals",
    ],
)
def test_a_path_is_followed_to_its_node(path: str) -> None:
    """A path is never parsed as KEY=value, even with "=" in it."""
    assert resolve(labelled_host().node(path, "8:32"), path) == Known(SDC, f"path {path}")


def test_a_by_id_name_is_found_by_the_link_of_udev() -> None:
    """Only udev's link shows it: a link that could not be read does not mean a missing device."""
    link = "/dev/disk/by-id/wwn-1"
    assert resolve(labelled_host().node(link, "8:32"), "ID=wwn-1") == Known(SDC, f"path {link}")
    lost = Unknown(f"path {link}", Why.TIMED_OUT)
    assert resolve(labelled_host().answer(ResolvePath(link), lost), "ID=wwn-1") == lost


@pytest.mark.parametrize("spec", [f"UUID={DATA_UUID.upper()}", "PARTUUID=0DDBA11-02"])
def test_a_uuid_in_capitals_names_no_device(spec: str) -> None:
    """mount(8) fails with "can't find UUID=" (util-linux 2.38.1), or silently with nofail."""
    found = resolve(labelled_host(), spec)
    assert isinstance(found, Unknown)
    assert found.why is Why.ABSENT


def test_a_superblocks_own_uuid_counts_first() -> None:
    """The superblock is newer than udev's database."""
    found = resolve(labelled_host(), f"UUID={CLONE}", {CLONE: SDD})
    assert found == Known(SDD, "superblock")


def test_a_resolved_specification_has_the_origin_lsblk() -> None:
    """The origin is lsblk, whose columns show it."""
    assert resolve(labelled_host(), "LABEL=data") == Known(DeviceNumber(8, 16), "lsblk -J")


@pytest.mark.parametrize(
    "spec", ["UUID=deadbeef", "LABEL=nowhere", "LABEL=my", "PARTUUID=x", "SERIAL=x", "UUID="]
)
def test_an_identifier_that_no_device_has_is_unknown_with_a_hint(spec: str) -> None:
    """Without root and udev, lsblk shows no identifiers at all."""
    assert resolve(labelled_host(), spec) == Unknown(
        f"device {spec}",
        Why.ABSENT,
        "no block device has it",
        "run as root",
    )


def test_an_identifier_that_no_program_printed_is_unknown() -> None:
    """In older archives blkid prints no PARTUUID, but a partition may have it all the same."""
    host = labelled_host().answer(LSBLK_JSON, absent("lsblk"))
    host.answer(LSBLK_PAIRS, 'NAME="sda" KNAME="sda" MAJ:MIN="8:0" FSTYPE="ext4" UUID="x" LABEL=""')
    found = [resolve(host, f"{key}=x") for key in ("LABEL", "PARTUUID")]
    whys = [each.why for each in found if isinstance(each, Unknown)]
    assert whys == [Why.ABSENT, Why.NOT_CAPTURED]


@pytest.mark.parametrize("spec", ["/dev/nowhere", "none", "/dev/$(id)\n\x1b[31m"])
def test_a_path_that_does_not_exist_is_unknown(spec: str) -> None:
    """The Unknown names the device as fstab spells it."""
    assert resolve(labelled_host(), spec) == absent(f"path {spec}")


@pytest.mark.parametrize(
    ("path", "number"),
    [
        (f"/dev/disk/by-uuid/{DATA_UUID}", DeviceNumber(8, 16)),
        (r"/dev/disk/by-label/my\x20data", SDC),
        ("/dev/disk/by-partuuid/0ddba11-02", SDC),
        (r"/dev/disk/by-partlabel/p\x20\x221\x22\x20$(id)", SDC),
    ],
)
def test_a_missing_link_by_uuid_names_the_device_with_that_uuid(
    path: str, number: DeviceNumber
) -> None:
    """Ubuntu's installer writes links by UUID into fstab; without udev there is no link."""
    found = resolve(labelled_host(), path)
    assert isinstance(found, Known)
    assert found.value == number
    assert resolve(labelled_host().node(path, "8:48"), path) == Known(SDD, f"path {path}")


def test_a_link_that_no_device_has_is_absent() -> None:
    """Neither udev nor lsblk lists such a device."""
    found = resolve(labelled_host(), "/dev/disk/by-uuid/dead")
    assert isinstance(found, Unknown)
    assert found.why is Why.ABSENT


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, Why.ABSENT),
        ('{"blockdevices": [{"name": "sda", "kname": "sda", "maj:min": "8:0"}]}', NO_LINKS.why),
        ("", NO_LINKS.why),
    ],
    ids=["with udev", "without udev", "without lsblk"],
)
def test_a_missing_link_proves_absence_only_if_udev_runs(text: str | None, why: Why) -> None:
    """Only udev shows where a link by-id or by-path leads."""
    host = labelled_host()
    if text is not None:
        host.answer(LSBLK_JSON, text).answer(LSBLK_PAIRS, failed())
    found = resolve(host, "/dev/disk/by-id/wwn-0x5000")
    assert isinstance(found, Unknown)
    assert found.why is why


def test_a_path_to_something_else_is_unknown() -> None:
    """An image file in fstab is not a device."""
    found = resolve(labelled_host().path("/srv/image", "8:1", 25, "file"), "/srv/image")
    assert found == Unknown("device /srv/image", Why.UNPARSABLE, "not a block device")


def test_lsblk_without_json_is_asked_for_pairs() -> None:
    """util-linux before 2.27 has no -J."""
    host = debian_host().answer(LSBLK_JSON, failed("lsblk", "invalid option -- 'J'"))
    devices = list_devices(host.source())
    assert isinstance(devices, Known)
    assert devices.origin == "lsblk -P"
    assert (
        LsblkDevice("sdb", "sdb", DeviceNumber(8, 16), "ext4", DATA_UUID, "data") in devices.value
    )


@pytest.mark.parametrize("text", ["", "not json", '{"blockdevices": 1}'])
def test_lsblk_with_invalid_json_is_asked_for_pairs(text: str) -> None:
    """Text that is not lsblk's JSON is not an answer."""
    devices = list_devices(debian_host().answer(LSBLK_JSON, text).source())
    assert isinstance(devices, Known)
    assert devices.origin == "lsblk -P"


def test_an_unresolved_path_may_be_the_device_mounted_there() -> None:
    """A regular file is certainly not the device, but an unreadable node may be."""
    host = debian_host().file("/etc/fstab", "/dev/disk/by-uuid/x /data ext4 defaults 0 2\n")
    host.answer(ResolvePath("/dev/disk/by-uuid/x"), Unknown("path", Why.TIMED_OUT))
    (data,) = (fs for fs in assemble_host(host.source(), TAKEN_AT).filesystems if fs.name == "sdb")
    (entry,) = need(data.fstab)
    assert (entry.line.mount_point, entry.other_devices) == ("/data", ())


@pytest.mark.parametrize("has_node", [True, False])
def test_a_dev_without_the_mounted_devices_proves_no_device_absent(*, has_node: bool) -> None:
    """In a chroot with a separate /dev, no path of fstab exists."""
    host = debian_host().file("/etc/fstab", "/dev/vg0/data /data ext4 defaults 0 2\n")
    if not has_node:
        host.answer(ResolvePath("/dev/sdb"), absent())
    (entry,) = need(assemble_host(host.source(), TAKEN_AT).fstab)
    assert entry.other_devices == ((DeviceNumber(8, 16),) if has_node else ())


def test_a_label_link_leads_to_the_filesystem_mounted_there() -> None:
    """If only targets are read, no other device is searched for the label."""
    host = debian_host().file("/etc/fstab", "/dev/disk/by-label/data /data ext4 defaults 0 2\n")
    host.answer(LSBLK_JSON, failed()).answer(LSBLK_PAIRS, failed())
    host.dumpe2fs("/dev/sdb", dumpe2fs_text(label="data"))
    only = [DeviceNumber(8, 16)]
    (entry,) = need(assemble_host(host.source(), TAKEN_AT, only=only).fstab)
    assert entry.device_number == Known(DeviceNumber(8, 16), "superblock")


EMPTY = '{"blockdevices": []}'


def test_an_lsblk_list_without_the_mounted_devices_is_not_used() -> None:
    """Without /sys, lsblk prints nothing and exits with 0: twins cannot be ruled out."""
    silent = debian_host().answer(LSBLK_JSON, EMPTY).answer(LSBLK_PAIRS, "")
    host = assemble_host(silent.source(), TAKEN_AT)
    assert isinstance(host.devices, Unknown)
    assert (host.devices.why, "sda1, sdb" in host.devices.detail) == (Why.FAILED, True)
    assert "mount /sys" not in host.devices.hint
    assert judge(twins, None, host).outcome is Outcome.UNDETERMINED


def test_an_lsblk_list_is_used_unless_sysfs_contradicts_it() -> None:
    """RAM disks are not in the output of lsblk, and removed devices are not in sysfs either."""
    host = assemble_host(debian_host().source(), TAKEN_AT)
    (first, *_) = host.filesystems
    ram = first._replace(device_number=DeviceNumber(1, 0))
    gone = first._replace(device_number=DeviceNumber(8, 99), stack=absent("block device 8:99"))
    assert without_contradiction(host.devices, [first, ram, gone]) is host.devices


@pytest.mark.parametrize(
    ("why", "lists_others", "stands"),
    [
        (Why.ABSENT, True, True),
        (Why.ABSENT, False, False),
        (Why.DENIED, True, False),
        (Why.TIMED_OUT, True, False),
    ],
    ids=["removed", "no /sys", "refused", "hung"],
)
def test_lsblk_may_omit_only_removed_devices(why: Why, lists_others: bool, stands: bool) -> None:
    """If neither lsblk nor /sys lists anything, no device was seen."""
    host = assemble_host(debian_host().source(), TAKEN_AT)
    others = need(host.devices) if lists_others else ()
    gone = host.filesystems[0]._replace(
        device_number=DeviceNumber(8, 99), stack=Unknown("block device 8:99", why)
    )
    found = without_contradiction(Known(others, "lsblk -J"), [gone])
    assert isinstance(found, Known) is stands
    assert isinstance(found, Known) or found.hint == "mount /sys"


def test_without_lsblk_the_unknown_has_the_first_reason() -> None:
    """It has the reason of the first attempt."""
    gap = Unknown("lsblk", Why.ABSENT, "no lsblk in /usr/bin", "install util-linux")
    host = debian_host().answer(LSBLK_JSON, gap).answer(LSBLK_PAIRS, failed("lsblk"))
    assert list_devices(host.source()) == gap
    assert resolve(host, "LABEL=data") == gap


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (f"UUID={DATA_UUID}", f"/dev/disk/by-uuid/{DATA_UUID}"),
        ("LABEL=data", "/dev/disk/by-label/data"),
        ('PARTUUID="5eed-01"', "/dev/disk/by-partuuid/5eed-01"),
    ],
)
def test_udev_links_resolve_identifiers_that_lsblk_lacks(spec: str, path: str) -> None:
    """The link of the same name leads to the device."""
    host = debian_host().answer(LSBLK_JSON, failed()).answer(LSBLK_PAIRS, failed())
    assert resolve(host.node(path, "8:16"), spec) == Known(DeviceNumber(8, 16), f"path {path}")


@pytest.mark.parametrize(("place", "is_found"), [("/", True), ("/data", False)])
def test_dev_root_is_the_device_mounted_on_the_root(place: str, *, is_found: bool) -> None:
    """Synology and many embedded systems have /dev/root in fstab, which is not a device node."""
    host = debian_host().file("/etc/fstab", f"/dev/root {place} ext4 defaults 0 1\n")
    (entry,) = need(assemble_host(host.source(), TAKEN_AT).fstab)
    assert isinstance(entry.device_number, Known) is is_found


@pytest.mark.parametrize(
    ("kind", "origin", "where"),
    [
        (Known, "/etc/fstab", "line 1"),
        (Known, "host/etc/fstab", "line 1"),
        (Excerpt, "fs-diskio.txt: /etc/fstab", "entry 1"),
    ],
)
def test_an_fstab_section_of_a_supportconfig_has_no_line_numbers(
    kind: type[Known[str]], origin: str, where: str
) -> None:
    """A supportconfig omits the comments of fstab, so the line number of an entry is unknown."""
    host = debian_host()
    ask = ReadFile("/etc/fstab")
    host.answers[ask] = kind("UUID=1 /x ext4 defaults 0 2\n", origin)
    (entry,) = need(assemble_host(host.source(), TAKEN_AT).fstab)
    assert entry.line.where == where
