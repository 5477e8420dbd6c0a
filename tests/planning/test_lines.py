"""plan_lines: the commands to copy. tests/kernel/test_plan_lines.py runs them."""

from __future__ import annotations

import shlex

import pytest

from builders import superblock
from ext4audit.facts.plan import Plan
from ext4audit.planning.lines import plan_lines
from planned import disk_plan, plan


def lines(of: Plan, **fields: object) -> dict[str, str]:
    """Return the commands by key, for a superblock with some fields changed."""
    return {line.key: line.command for line in plan_lines(of, superblock(**fields))}


def test_the_lines_of_an_array() -> None:
    """The user's words first, then the stripe's numbers."""
    found = lines(plan("-g 32744 -G 16 -m 0", "noatime"), blocks_per_group=32744)
    assert found == {
        "mkfs": "mkfs.ext4 -g 32744 -G 16 -m 0 -E stride=128,stripe_width=1536 /dev/md0",
        "verify": "dumpe2fs -h /dev/md0 2>/dev/null | grep -Eq '^Blocks per group: +32744$'",
        "mount": "mkdir -p /data && mount -t ext4 -o noatime /dev/md0 /data",
        "fstab": "printf 'UUID=%s %s ext4 %s 0 2\\n' "
        '"$(blkid -s UUID -o value /dev/md0)" /data noatime',
        "tune2fs_stripe": "tune2fs -E stride=128,stripe_width=1536 /dev/md0",
    }


@pytest.mark.parametrize(
    ("of", "line"),
    [
        (disk_plan(), "mkfs.ext4 /dev/sdX"),
        (disk_plan("-F -q -L x -O ^64bit"), "mkfs.ext4 -F -q -L x -O '^64bit' /dev/sdX"),
        (disk_plan("-t ext3 -m 0"), "mkfs.ext3 -m 0 /dev/sdX"),
        (disk_plan("-L '$(reboot)'"), "mkfs.ext4 -L '$(reboot)' /dev/sdX"),
        (plan("-E stride=16"), "mkfs.ext4 -E stride=16,stripe_width=1536 /dev/md0"),
    ],
)
def test_the_line_of_mkfs(of: Plan, line: str) -> None:
    """No shell sees a word of it as more than a word; what the user said of the stripe stays."""
    assert lines(of)["mkfs"] == line


def test_cleared_defaults_have_a_line() -> None:
    """tune2fs takes them out after mke2fs has set them."""
    assert lines(disk_plan(cleared=("nobarrier", "discard")))["tune2fs"] == (
        "tune2fs -o '^nobarrier,^discard' /dev/sdX"
    )


def test_a_mount_point_is_quoted_for_the_shell_and_for_fstab() -> None:
    """A blank is octal in fstab (fstab(5))."""
    found = lines(disk_plan("", mount_point="/srv/my data"))
    assert found["mount"] == "mkdir -p '/srv/my data' && mount -t ext4 /dev/sdX '/srv/my data'"
    assert shlex.split(found["fstab"])[-2:] == ["/srv/my\\040data", "defaults"]


def test_the_root_is_checked_first() -> None:
    """The last field of fstab."""
    assert "0 1\\n" in lines(disk_plan("", mount_point="/"))["fstab"]


def test_without_a_superblock_there_is_nothing_to_check() -> None:
    """Nor the numbers of the stripe, which count blocks."""
    keys = [line.key for line in plan_lines(plan(), None)]
    assert keys == ["mkfs", "mount", "fstab"]
