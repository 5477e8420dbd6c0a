"""The values that this kernel sets in /sys/fs/ext4 are the program's defaults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ext4audit.assemble.filesystem import read_settings
from ext4audit.evidence import need
from ext4audit.layout import changed_settings
from ext4audit.sources.live import LiveSource
from support.filesystems.scratch import Scratch


@pytest.mark.kernel
@pytest.mark.xdist_group("remedies")
@pytest.mark.parametrize(
    ("fstype", "words"),
    [
        ("ext4", ()),
        ("ext4", ("-E", "stride=16,stripe_width=96")),
        ("ext4", ("-O", "bigalloc", "-C", "65536")),
        ("ext4", ("-O", "^flex_bg")),
        ("ext4", ("-G", "4", "-b", "1024", "-g", "1024")),
        ("ext2", ()),
        ("ext3", ()),
    ],
)
def test_a_new_filesystem_has_the_defaults(
    scratch: Callable[..., Scratch], fstype: str, words: tuple[str, ...]
) -> None:
    """Otherwise a scan would report this kernel's defaults for each filesystem."""
    fs = scratch().make(*words, size="300M", fstype=fstype).mount(fstype=fstype).filesystem()
    found = need(fs.settings)
    assert {name for name, _ in found} >= {"mb_group_prealloc", "reserved_clusters"}
    assert changed_settings(fs) == ()
    (Path("/sys/fs/ext4", fs.name) / "reserved_clusters").write_text("1")
    assert dict(changed_settings(fs._replace(settings=read_settings(LiveSource(), fs.name)))) == {
        "reserved_clusters": 1
    }
