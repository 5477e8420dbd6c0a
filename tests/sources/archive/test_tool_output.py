from __future__ import annotations

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import StatFilesystem
from support.archives.contents import DATA_UUID, dumpe2fs_header, sosreport

FOLDER = "sos_commands/filesys"
BLOCKS = """\
Filesystem     1K-blocks     Used Available Use% Mounted on
proc                   0        0         0    - /proc
/dev/vda1       41151808 20856180  18175628  54% /
/dev/vdb        10255636       24   9712868   1% /data
/dev/vdb        10255636       24   9712868   1% /da ta
"""
INODES = """\
Filesystem      Inodes  IUsed   IFree IUse% Mounted on
proc                 0      0       0     - /proc
/dev/vda1      2621440 711538 1909902   28% /
/dev/vdb        655360     11  655349    1% /data
/dev/vdb        655360     11  655349    1% /da ta
"""
DATA = "253:16 4096 2563909 2563903 2428217 655360 655349"


def fetched(files: dict[str, str], path: str = "/data") -> object:
    """Return the answer of a sosreport with these files."""
    return sosreport(files).source.fetch(StatFilesystem(path))


@pytest.mark.parametrize(
    ("blocks", "inodes"),
    [
        ("df_-al_-x_autofs", "df_-ali_-x_autofs"),
        ("df_-al", "df_-ali"),
        ("df_-alP", "df_-li"),
    ],
)
def test_df_equals_statvfs(blocks: str, inodes: str) -> None:
    """Total, free and available to users, all in blocks; then total and free inodes."""
    files = {f"{FOLDER}/{blocks}": BLOCKS, f"{FOLDER}/{inodes}": INODES}
    assert fetched(files) == Known(DATA, f"{FOLDER}/{blocks}, {FOLDER}/{inodes}")


@pytest.mark.parametrize(
    ("blocks", "inodes"),
    [
        ("", INODES),
        (BLOCKS, ""),
        (BLOCKS, INODES.replace("655360     11  655349    1%", "-  -  -  -")),
        (BLOCKS.replace("/dev/vdb ", "/dev/vda1 "), INODES),
        ("df: command not found\n", INODES),
        (BLOCKS.replace("1K-blocks", "Size"), INODES),
    ],
)
def test_incomplete_df_lines_are_rejected(blocks: str, inodes: str) -> None:
    """A line for another device, in another unit, or with missing values is rejected as well."""
    found = fetched({f"{FOLDER}/df_-al": blocks, f"{FOLDER}/df_-ali": inodes})
    assert isinstance(found, Unknown)
    assert found.why is Why.NOT_CAPTURED
    assert found.hint == "capture again with sos report -e filesys, or with ext4audit collect"


FORGED = "size:               5000"
HEADER = "sos_commands/filesys/dumpe2fs_-h_.dev.vdb"
BLKID = "sos_commands/block/blkid_-c_.dev.null"


@pytest.mark.parametrize(
    ("files", "block_bytes"),
    [
        ({HEADER: dumpe2fs_header(DATA_UUID).replace("size:               4096", FORGED)}, None),
        (
            {
                HEADER: dumpe2fs_header(DATA_UUID).replace(
                    "<none>", "x\nBlock size:               1"
                )
            },
            None,
        ),
        ({HEADER: "Operation not permitted\n"}, None),
        ({HEADER: "", BLKID: '/dev/vdb: BLOCK_SIZE="2048" TYPE="ext4"\n'}, 2048),
        ({BLKID: f'/dev/vdb: UUID="{DATA_UUID}" BLOCK_SIZE="512" TYPE="ext4"\n'}, 4096),
    ],
)
def test_block_size_is_not_the_unit_of_df(files: dict[str, str], block_bytes: int | None) -> None:
    """Counts in KiB must not make a filesystem of 4 KiB blocks one of 1 KiB blocks."""
    found = fetched({f"{FOLDER}/df_-al": BLOCKS, f"{FOLDER}/df_-ali": INODES, **files})
    if block_bytes is None:
        assert isinstance(found, Unknown)
        assert "in KiB, and the size of a block is not in the archive" in found.detail
        assert found.hint == "capture again with ext4audit collect"
    else:
        assert isinstance(found, Known)
        assert found.value.split(" ")[1:3] == [
            str(block_bytes),
            str(10255636 * 1024 // block_bytes),
        ]


@pytest.mark.parametrize("path", ["/data/x", "/nowhere"])
def test_a_path_that_is_no_mount_point_is_not_in_df(path: str) -> None:
    """A file below may be on another mount that the archive does not show."""
    files = {f"{FOLDER}/df_-al": BLOCKS, f"{FOLDER}/df_-ali": INODES}
    assert isinstance(fetched(files, path), Unknown)


def test_long_source_on_its_own_line() -> None:
    """Before coreutils 8.9, df printed such lines."""
    wrapped = BLOCKS.replace("/dev/vdb        1025", "/dev/vdb\n                1025")
    files = {f"{FOLDER}/df_-al": wrapped, f"{FOLDER}/df_-ali": INODES}
    assert fetched(files) == Known(DATA, f"{FOLDER}/df_-al, {FOLDER}/df_-ali")


def test_the_mount_on_top_is_the_one_that_df_measured() -> None:
    """A mount that it hides has another line, for another device."""
    below = "/dev/vda1  1 1 0 100% /data\n"
    head, _, rest = BLOCKS.partition("/dev/vdb")
    files = {
        f"{FOLDER}/df_-al": f"{head}{below}/dev/vdb{rest}",
        f"{FOLDER}/df_-ali": INODES,
    }
    found = fetched(files)
    assert isinstance(found, Known)
    assert found.value == DATA
