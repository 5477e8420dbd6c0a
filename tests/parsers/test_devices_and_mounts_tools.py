from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.devices import DmSegment, LsblkDevice, ThinPool
from ext4audit.facts.mount import DeviceNumber
from ext4audit.parsers import parse_dm_table, parse_thin_pool
from ext4audit.parsers.devices_and_mounts import (
    parse_lsblk_json,
    parse_lsblk_pairs,
    parse_md_arrays,
)
from support.timing import assert_no_waiting

Stored = Callable[[str], str]
HOSTILE = (
    LsblkDevice(
        "loop0",
        "loop0",
        DeviceNumber(7, 0),
        "ext4",
        "4a1e8f2e-7a56-4f0a-9d0c-1c5d0a6e8b11",
        'a"\\ \udcff\n$x`\t',
        "11111111-2222-4333-8444-555555555501",
        'data "x" $(id)',
    ),
    LsblkDevice(
        "loop1",
        "loop1",
        DeviceNumber(7, 1),
        "ext4",
        "4a1e8f2e-7a56-4f0a-9d0c-1c5d0a6e8b12",
        "ümlaut 1",
        model="QEMU HARDDISK",
    ),
)


def test_json_and_pairs_agree_on_hostile_labels(stored: Stored) -> None:
    """Quotes, backslash, newline, byte 0xFF and UTF-8 come back from all three forms."""
    assert parse_lsblk_json(stored("lsblk/2.38.1-hostile-labels.json")) == HOSTILE
    assert parse_lsblk_pairs(stored("lsblk/2.38.1-hostile-labels.pairs.txt")) == HOSTILE
    assert parse_lsblk_pairs(stored("lsblk/2.38.1-shell-keys.pairs.txt")) == HOSTILE


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ('"uuid":"null","label":"null","fstype":"null"', (None, None, None)),
        ('"uuid":"x","label":"null","fstype":"ext4"', ("x", "null", "ext4")),
        ('"uuid":null,"label":"null","fstype":null', (None, "null", None)),
    ],
)
def test_a_quoted_null_is_not_an_identifier(
    fields: str, expected: tuple[str | None, str | None, str | None]
) -> None:
    """Two devices would share the UUID "null"; a label is called so where JSON's null is used."""
    rows = ",".join(
        f'{{"name":"sd{letter}","kname":"sd{letter}","maj:min":"8:{index}",{fields}}}'
        for index, letter in enumerate("ab")
    )
    devices = parse_lsblk_json(f'{{"blockdevices":[{rows}]}}')
    assert [(each.uuid, each.label, each.fstype) for each in devices] == [expected] * 2


def test_a_device_below_two_members_is_returned_once(stored: Stored) -> None:
    """The tree shows an array below each member; the list has it once, where it came first."""
    devices = parse_lsblk_json(stored("lsblk/reconstructed-md-raid0.json"))
    assert [(device.name, device.kernel_name) for device in devices] == [
        ("sda", "sda"),
        ("md127", "md127"),
        ("vg0-data", "dm-0"),
        ("nvme0n1", "nvme0n1"),
    ]
    assert devices[0].model == "QEMU HARDDISK"
    assert devices[0].transport == "sata"
    assert devices[2] == LsblkDevice(
        "vg0-data",
        "dm-0",
        DeviceNumber(253, 0),
        "ext4",
        "4a1e8f2e-7a56-4f0a-9d0c-1c5d0a6e8b11",
        "data",
        parents=frozenset({devices[1].device_number}),
    )
    disks = [device.device_number for device in (devices[0], devices[3])]
    assert devices[1].parents == frozenset(disks)


def test_pairs_may_have_other_columns_in_another_order(stored: Stored) -> None:
    """Columns are found by name; messages between the lines are skipped; a model is stripped."""
    rhel = parse_lsblk_pairs(stored("lsblk/2.2x-rhel6-lvm.pairs.txt"))
    assert [(device.name, device.kernel_name, str(device.device_number)) for device in rhel] == [
        ("sda", "sda", "8:0"),
        ("sda1", "sda1", "8:1"),
        ("vg_trex-lv_root", "dm-0", "253:0"),
    ]
    assert rhel[2].partuuid is None
    snappy = parse_lsblk_pairs(stored("lsblk/2.2x-snappy-dual.pairs.txt"))
    assert (snappy[0].model, snappy[0].transport) == ("QEMU HARDDISK", "ata")
    assert (snappy[1].partlabel, snappy[1].partuuid) == (
        "system-a",
        "3c8e4b16-9cc3-49a3-b505-f067fe7c67c7",
    )


def test_an_empty_list_of_devices_is_valid() -> None:
    """A container may see no block device at all."""
    assert parse_lsblk_json('{\n   "blockdevices": [\n\n   ]\n}\n') == ()
    assert parse_lsblk_pairs("") == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"blockdevices": null}',
        '{"blockdevices": [1]}',
        '{"blockdevices": [{"name": "sda", "kname": "sda"}]}',
        '{"blockdevices": [{"name": "sda", "kname": "sda", "maj:min": "x"}]}',
        '{"blockdevices": [{"name": "a", "kname": "a", "maj:min": "8:0", "children": 7}]}',
        pytest.param("[" * 100_000, id="nested"),
    ],
)
def test_other_json_is_refused(text: str) -> None:
    """JSON that is not lsblk's raises ValueError, however deep it is nested."""
    with pytest.raises(ValueError, match=r"JSON|NAME|number|Expecting"):
        parse_lsblk_json(text)


def test_a_long_list_of_devices_takes_linear_time() -> None:
    """A hostile snapshot may hold 60 MiB of JSON: each node is looked at once."""
    nodes = ",".join(["{}"] * 400_000)
    with assert_no_waiting(), pytest.raises(ValueError, match="NAME"):
        parse_lsblk_json(f'{{"blockdevices": [{{"children": [{nodes}]}}]}}')


@pytest.mark.parametrize(
    "text", ["lsblk: invalid option -- 'P'\n", 'NAME="sda" KNAME="sda"\n', 'MAJ:MIN="8:0"\n']
)
def test_pairs_without_a_device_are_refused(text: str) -> None:
    """An error message, or a line without the columns that identify a device, is no list."""
    with pytest.raises(ValueError, match=r"pair|NAME"):
        parse_lsblk_pairs(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize("parse", [parse_lsblk_json, parse_lsblk_pairs])
@given(text=st.one_of(st.text(), st.text(alphabet='{}[]":=,NAMEK1\n')))
def test_any_text_is_parsed_or_refused_as_lsblk(parse: Callable[[str], object], text: str) -> None:
    """Nothing but ValueError leaves the parsers."""
    try:
        parse(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not


@given(
    st.dictionaries(
        st.sampled_from(["name", "kname", "maj:min", "label", "children"]),
        JSON,
    )
)
def test_any_json_is_parsed_or_refused(device: dict[str, Any]) -> None:
    """Values of any type stand where lsblk prints strings."""
    try:
        parse_lsblk_json(json.dumps({"blockdevices": [device]}))
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not


@given(st.binary(max_size=30))
def test_any_label_in_pairs_is_decoded_unchanged(raw: bytes) -> None:
    """Every byte that lsblk escapes is the byte that comes back."""
    escaped = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\`$' else f"\\x{byte:02x}"
        for byte in raw
    )
    (device,) = parse_lsblk_pairs(f'NAME="a" KNAME="a" MAJ:MIN="8:0" LABEL="{escaped}"\n')
    assert (device.label or "") == raw.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("text", ["A" * 400_000, "A=" * 200_000])
def test_a_long_invalid_line_is_refused_in_linear_time(text: str) -> None:
    """A text from a stranger's archive is refused in the time that it takes to read it."""
    with pytest.raises(ValueError, match="pair"):
        parse_lsblk_pairs(text)


@pytest.mark.parametrize(
    ("name", "segments"),
    [
        ("linear", (DmSegment(0, 12541952, "linear", ("9:127", "3072")),)),
        (
            "two-bands",
            (
                DmSegment(0, 811008, "linear", ("9:127", "2048")),
                DmSegment(811008, 802816, "linear", ("9:126", "2048")),
            ),
        ),
        (
            "striped",
            (
                DmSegment(
                    0,
                    73728,
                    "striped",
                    ("3", "128", "8:9", "384", "8:8", "384", "8:7", "9789824"),
                ),
            ),
        ),
        (
            "crypt",
            (
                DmSegment(
                    0,
                    41910272,
                    "crypt",
                    (
                        "aes-xts-plain64",
                        ":64:logon:cryptsetup:0f1e2d3c-4b5a-4978-8796-a5b4c3d2e1f0-d0",
                        "0",
                        "8:3",
                        "32768",
                        "1",
                        "allow_discards",
                    ),
                ),
            ),
        ),
        (
            "cache",
            (
                DmSegment(
                    0,
                    2080768,
                    "cache",
                    tuple("252:3 252:2 252:4 128 2 metadata2 writethrough mq 0".split()),
                ),
            ),
        ),
    ],
)
def test_each_line_of_a_dm_table_is_a_segment(
    stored: Callable[[str], str], name: str, segments: tuple[DmSegment, ...]
) -> None:
    """Each line is a segment with its target and the target's arguments."""
    assert parse_dm_table(stored(f"dmsetup/{name}.txt")) == segments


def test_a_target_may_have_no_argument() -> None:
    """The targets error and zero take none."""
    assert parse_dm_table("0 8 error \n") == (DmSegment(0, 8, "error", ()),)


@pytest.mark.parametrize(
    "text", ["", "\n", "0 8\n", "vg0-data: 0 8 linear 8:0 0\n", "x 8 linear 8:0 0\n"]
)
def test_a_text_that_is_not_a_dm_table_is_refused(text: str) -> None:
    """A device without a live table, and the table of all devices, are not a device's table."""
    with pytest.raises(ValueError, match=r"live table|not a line|not a decimal"):
        parse_dm_table(text)


@given(st.text())
def test_any_text_is_parsed_or_refused_as_dm_table(text: str) -> None:
    """Nothing but ValueError leaves the parser."""
    try:
        parse_dm_table(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not


CONF = """\
# mdadm.conf
HOMEHOST <system>
MAILADDR root
ARRAY /dev/md0 metadata=1.2 UUID=3aaa0122:29827cfa:5331ad66:ca767371
   name=db1:0
ARRAY <ignore> UUID=11111111:29827cfa:5331ad66:ca767371
array home level=raid1 # ARRAY /dev/md7
"""


def test_the_devices_of_array_lines_are_returned() -> None:
    """A continued line is no new one, an ignored array is none, a bare name is in /dev/md."""
    assert parse_md_arrays(CONF) == ("/dev/md0", "/dev/md/home")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("ARR /dev/md1\n", ("/dev/md1",)),
        ('ARRAY "/dev/md/a" UUID=1\n', ("/dev/md/a",)),
        ("ARRAY UUID=1:2:3:4\n", ()),
        ("ARRAY\n", ()),
        ("#ARRAY /dev/md1\n", ()),
        ("ARRAY\n\n  /dev/md3\n", ("/dev/md3",)),
        ("ARRAYS /dev/md1\nAR /dev/md2\n", ()),
        ("   ARRAY /dev/md4", ("/dev/md4",)),
    ],
)
def test_keywords_of_mdadm_conf_may_be_abbreviated_or_quoted(
    text: str, expected: tuple[str, ...]
) -> None:
    """mdadm.conf(5): keywords in any case and cut to three letters, quotes, comments."""
    assert parse_md_arrays(text) == expected


POOL = "0 81920 thin-pool 1 173/4161600 80/640 - "


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        (
            f"{POOL}rw discard_passdown queue_if_no_space - 1024\n",
            ThinPool("rw", 80, 640, 173, 4161600, queues=True, needs_check=False),
        ),
        (
            f"{POOL}out_of_data_space no_discard_passdown error_if_no_space - 1024\n",
            ThinPool("out_of_data_space", 80, 640, 173, 4161600, queues=False, needs_check=False),
        ),
        (
            f"{POOL}ro discard_passdown queue_if_no_space needs_check 1024\n",
            ThinPool("ro", 80, 640, 173, 4161600, queues=True, needs_check=True),
        ),
        (f"{POOL}rw discard_passdown\n", ThinPool("rw", 80, 640, 173, 4161600)),
        ("0 81920 thin-pool Fail\n", ThinPool("Fail")),
        ("0 81920 thin-pool Error\n", ThinPool("Fail")),
    ],
    ids=["healthy", "full", "damaged", "before 3.14", "failed", "no status"],
)
def test_the_status_of_a_thin_pool_is_parsed(text: str, pool: ThinPool) -> None:
    """drivers/md/dm-thin.c, pool_status()."""
    assert parse_thin_pool(text) == pool


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0 8 linear\n",
        "0 8 thin-pool\n",
        "0 8 thin-pool 1 x/2 3/4 - rw\n",
        f"{POOL}\n",
        POOL + "odd",
    ],
)
def test_an_invalid_status_of_a_thin_pool_is_refused(text: str) -> None:
    """Half a line is not a pool with room."""
    with pytest.raises(ValueError, match=r"."):
        parse_thin_pool(text)


@given(st.text())
def test_any_text_is_parsed_or_refused_as_the_status_of_a_pool(text: str) -> None:
    """It comes from a host, and can be anything."""
    with suppress(ValueError):
        parse_thin_pool(f"0 8 thin-pool {text}")
