from __future__ import annotations

import pytest

from ext4audit.sources.archive.layouts import SosCapture
from ext4audit.sources.archive.md import Arrays
from support.archives.contents import archive

DETAIL = """\
/dev/md126:
        Raid Level : raid1
    Number   Major   Minor   RaidDevice State
       0       8       99        0      active sync   /dev/other
/dev/md127:
           Version : 1.2
     Creation Time : Sat Nov 21 05:56:57 2026
        Raid Level : raid0
        Array Size : 6282240 (5.99 GiB 6.43 GB)
      Raid Devices : 2
     Total Devices : 3

            Layout : original
        Chunk Size : 512K

    Number   Major   Minor   RaidDevice State
       0       8       16        1      active sync   /dev/sdb
       1       8       32        0      active sync   /dev/sdc
       2       8       48        -      spare   /dev/sdd
"""
EXAMINED = """\
/dev/sdb:
          Magic : a92b4efc
 Avail Dev Size : 6282240 sectors (3.00 GiB 3.22 GB)
    Data Offset : 264192 sectors
"""
NAMES = {"8:16": "sdb", "8:32": "sdc", "8:48": "sdd"}
MDSTAT = """\
Personalities : [raid0] [raid6] [raid5]
md127 : active raid0 sdc1[1] sdb1[0]
      6282240 blocks super 1.2 512k chunks

md5 : active (auto-read-only) raid5 sdf[3](S) sde[1] sdd[0](W)
      100 blocks super 1.2 level 5, 64k chunk, algorithm 2 [3/3] [UUU]

unused devices: <none>
"""


def attributes(files: dict[str, str], name: str = "md127") -> dict[str, str]:
    """Return the attributes of an array in a sosreport with these files."""
    made = archive({"sos_commands/x/x": "", **files})
    capture = SosCapture(made, "", kind="sosreport", commands="sos_commands")
    return Arrays(capture).attributes(name, NAMES.get)


def test_mdadm_has_geometry_and_slots() -> None:
    """One file holds all arrays; the slot is RaidDevice, and a spare has none."""
    files = {
        "sos_commands/md/mdadm_-D_.dev.md": DETAIL,
        "sos_commands/md/mdadm_-E_.dev.sdb": EXAMINED,
    }
    assert attributes(files) == {
        "level": "raid0",
        "chunk_size": "524288",
        "raid_disks": "2",
        "layout": "1",
        "reshape_position": "none",
        "dev-sdb/slot": "1",
        "dev-sdb/offset": "264192",
        "dev-sdb/size": "3141120",
        "dev-sdc/slot": "0",
        "dev-sdd/slot": "none",
    }


@pytest.mark.parametrize(
    ("layout", "number"),
    [
        ("left-asymmetric", "0"),
        ("right-asymmetric", "1"),
        ("left-symmetric", "2"),
        ("right-symmetric", "3"),
        ("near=2", "258"),
        ("far=2", "513"),
        ("offset=2", "66049"),
        ("near=3", "259"),
        ("original", "1"),
        ("alternate", "2"),
        ("-unknown-", None),
        ("parity-first", None),
    ],
)
def test_layout_number_equals_sysfs(layout: str, number: str | None) -> None:
    """An unknown layout is left out, and no default is used."""
    text = DETAIL.replace("original", layout)
    assert attributes({"sos_commands/md/mdadm_-D_.dev.md": text}).get("layout") == number


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "md127",
            {
                "level": "raid0",
                "chunk_size": "524288",
                "dev-sdc1/slot": "1",
                "dev-sdb1/slot": "0",
            },
        ),
        (
            "md5",
            {
                "level": "raid5",
                "chunk_size": "65536",
                "raid_disks": "3",
                "degraded": "0",
                "sync_action": "idle",
                "dev-sdf/slot": "none",
                "dev-sde/slot": "1",
                "dev-sdd/slot": "0",
            },
        ),
        ("md6", {}),
        ("unused", {}),
    ],
)
def test_mdstat_has_level_chunk_and_members(name: str, expected: dict[str, str]) -> None:
    """Without offsets and sizes the layout is unknown, but the level is known."""
    assert attributes({"proc/mdstat": MDSTAT}, name) == expected


@pytest.mark.parametrize(
    "text", ["", "mdadm: cannot open /dev/md*: No such file or directory\n", "/dev/md127:\n"]
)
def test_error_message_of_mdadm_is_not_an_array(text: str) -> None:
    """The level and members then come from mdstat; without it there is no attribute."""
    assert attributes({"sos_commands/md/mdadm_-D_.dev.md": text}) == {}


@pytest.mark.parametrize(
    ("level", "state", "active", "expected"),
    [
        ("raid1", "clean", 2, ("0", "idle")),
        ("raid1", "clean, degraded", 1, ("1", "idle")),
        ("raid6", "active, degraded, recovering", 1, ("1", "recover")),
        ("raid10", "active, resyncing (DELAYED)", 2, ("0", "resync")),
        ("raid1", "clean, resyncing (PENDING)", 2, ("0", "idle")),
        ("raid5", "clean, checking", 2, ("0", "check")),
        ("raid5", "clean, degraded, reshaping", 0, ("2", "reshape")),
        ("raid0", "clean", 2, (None, None)),
    ],
)
def test_mdadm_has_missing_members_and_sync_action(
    level: str, state: str, active: int, expected: tuple[str | None, str | None]
) -> None:
    """The values are those of sysfs, and absent for levels that have neither file there."""
    text = DETAIL.replace("Level : raid0", f"Level : {level}").replace(
        "     Total Devices : 3\n",
        f"     Total Devices : 3\n             State : {state} \n    Active Devices : {active}\n",
    )
    found = attributes({"sos_commands/md/mdadm_-D_.dev.md": text})
    assert (found.get("degraded"), found.get("sync_action")) == expected


DEGRADED = """\
md7 : active raid6 sdb[1] sdc[2] sdd[3] sde[4] sdf[5] sdg[6]
      100 blocks super 1.2 level 6, 512k chunk, algorithm 2 [7/6] [_UUUUUU]
      [>....................]  recovery =  0.4% (1/2) finish=9.9min speed=1K/sec
      bitmap: 0/1 pages [0KB], 65536KB chunk

md8 : active raid10 sdb[1] sdc[2]
      100 blocks super 1.2 512K chunks 2 near-copies [2/2] [UU]

md9 : active raid1 sdb[1](F) sdc[0]
      100 blocks super 1.2 [2/1] [U_]
        resync=DELAYED

md10 : active (auto-read-only) raid1 sdb[1] sdc[0]
      100 blocks super 1.2 [2/2] [UU]
        resync=PENDING

md11 : active raid5 sdb[3] sdc[1] sdd[0]
      100 blocks super 1.2 level 5, 64k chunk, algorithm 2 [3/2] [UU_]
      [>....................]  recover =  0.4% (1/2) finish=9.9min speed=1K/sec
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("md7", ("524288", "7", "1", "recover")),
        ("md8", ("524288", "2", "0", "idle")),
        ("md9", (None, "2", "1", "resync")),
        ("md10", (None, "2", "0", "idle")),
        ("md11", ("65536", "3", "1", "recover")),
    ],
)
def test_mdstat_has_chunk_missing_members_and_sync_action(
    name: str, expected: tuple[str | None, ...]
) -> None:
    """RAID10 prints a capital K; the chunk of a bitmap is not the chunk of the array."""
    found = attributes({"proc/mdstat": DEGRADED}, name)
    keys = ("chunk_size", "raid_disks", "degraded", "sync_action")
    assert tuple(found.get(key) for key in keys) == expected


def test_mdstat_without_blank_lines_has_each_array_apart() -> None:
    """The next array ends the lines of one."""
    joined = DEGRADED.replace("\n\n", "\n")
    names = ("md7", "md8", "md9", "md10", "md11")
    apart = [attributes({"proc/mdstat": DEGRADED}, name) for name in names]
    assert [attributes({"proc/mdstat": joined}, name) for name in names] == apart


def test_mdstat_completes_the_state_of_an_old_mdadm() -> None:
    """The two are merged; for a member mdadm takes precedence."""
    text = DETAIL.replace("/dev/md127", "/dev/md9").replace("raid0", "raid1")
    files = {"sos_commands/md/mdadm_-D_.dev.md": text, "proc/mdstat": DEGRADED}
    found = attributes(files, "md9")
    assert (found["degraded"], found["sync_action"], found["dev-sdb/slot"]) == ("1", "resync", "1")


@pytest.mark.parametrize(
    ("state", "active", "expected"),
    [("clean", 2, ("1", "resync")), ("clean, degraded, recovering", 0, ("2", "recover"))],
)
def test_member_missing_in_either_source_is_missing(
    state: str, active: int, expected: tuple[str, str]
) -> None:
    """A member counts as missing if either source lacks it."""
    own = f"Raid Level : raid1\n  State : {state}\n  Active Devices : {active}"
    text = DETAIL.replace("/dev/md127", "/dev/md9").replace("Raid Level : raid0", own)
    files = {"sos_commands/md/mdadm_-D_.dev.md": text, "proc/mdstat": DEGRADED}
    found = attributes(files, "md9")
    assert (found["degraded"], found["sync_action"]) == expected
