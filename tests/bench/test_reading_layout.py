"""The cost of reading the metadata layout: bytes, CPU and memory, at 1, 16 and 64 TiB.

Run with `uv run pytest -m bench -s`: it prints what it measured.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.images.mke2fs import needs_e2fsprogs, run, sparse_image

pytestmark = [pytest.mark.bench, needs_e2fsprogs]
TIB = 1 << 40
MIB = 1 << 20
DESCRIPTOR_BYTES_OF_A_TIB = MIB // 2
# Runs in its own process, because peak memory is measured: VmHWM of proc_pid_status(5), because
# ru_maxrss starts at the parent's peak. The first line of proc_pid_io(5) is the bytes read.
PROGRAM = """
import json, re, resource, sys
from ext4audit.assemble.layout import read_image_group_table
from ext4audit.assemble import ask
from ext4audit.assemble.superblock import read_raw_superblock
from ext4audit.parsers.dumpe2fs import parse_group_table
from ext4audit.sources import RunCommand
from ext4audit.sources.live import LiveSource

def now():
    with open("/proc/self/io") as io, open("/proc/self/status") as status:
        read = int(io.readline().split()[1])
        peak = int(re.search("VmHWM: *([0-9]+)", status.read().expandtabs())[1]) << 10
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used), read, peak

image, source = sys.argv[1], LiveSource()
read_raw_superblock(source, "/dev/null")
import ext4audit.parsers.superblock  # which is else loaded, and read, with the first superblock
before = now()
if sys.argv[2] == "raw":
    table = read_image_group_table(source, image, read_raw_superblock(source, image))
else:
    command = RunCommand(("dumpe2fs", "-g", image))
    table = ask(source, command, parse_group_table, "groups")
after = now()
print(json.dumps([table.value.groups, *(b - a for a, b in zip(before, after))]))
"""


def measured(image: str, reader: str) -> tuple[int, float, int, int]:
    """Return the groups, CPU seconds, bytes read and growth of the peak memory of one reader."""
    command = (sys.executable, "-c", PROGRAM, image, reader)
    groups, seconds, read_bytes, memory_bytes = json.loads(subprocess.check_output(command))
    return groups, seconds, read_bytes, memory_bytes


@pytest.mark.parametrize("tib", [1, 16, 64])
def test_the_descriptors_are_read_once_and_never_held_twice(tib: int) -> None:
    """Reading takes at most 1.1 times their bytes, and memory grows by at most twice as much."""
    descriptors = tib * DESCRIPTOR_BYTES_OF_A_TIB
    with sparse_image(tib * TIB) as image:
        run(f"mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1,nodiscard {image}")
        groups, seconds, read_bytes, memory_bytes = measured(str(image), "raw")
        _, listing, _, listing_bytes = measured(str(image), "dumpe2fs -g")
    print(
        f"\n{tib} TiB: {seconds * 1000:.0f} ms, {read_bytes / MIB:.2f} MiB read, "
        f"{memory_bytes / MIB:.1f} MiB more memory; "
        f"dumpe2fs -g {listing * 1000:.0f} ms, {listing_bytes / MIB:.1f} MiB more"
    )
    assert groups == tib * 8192
    assert read_bytes < 1.1 * (descriptors + 1024)
    assert memory_bytes < 2 * descriptors + MIB
    assert seconds < listing
