"""The grammar of mount options matches what this kernel does with each option."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ext4audit.facts.options import Handling, handling_of, is_refused_for, needs_journal
from support.filesystems.scratch import run
from support.options.grammar import REQUIRED_COMPANIONS, options_to_try
from support.timing import PATIENCE_SECONDS

pytestmark = pytest.mark.kernel
UPSTREAM = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:3])


@pytest.fixture
def device(tmp_path: Path, private_mounts: None) -> Iterator[str]:  # noqa: ARG001
    """Return a loop device; the test writes its contents."""
    image = tmp_path / "image"
    run("truncate", "-s", "64M", image)
    (tmp_path / "mnt").mkdir()
    name = run("losetup", "--find", "--show", image).strip()
    yield name
    run("losetup", "--detach", name)


def takes(device: str, place: Path, options: str, fstype: str = "ext4") -> bool:
    """Mount and unmount; return whether the kernel accepted the options."""
    argv = ("mount", "-i", "--options-source=disable", "-t", fstype, "-o", options, device, place)
    taken = (
        subprocess.run(argv, capture_output=True, check=False, timeout=PATIENCE_SECONDS).returncode
        == 0
    )
    if taken:
        run("umount", place)
    return taken


def test_kernel_treats_each_option_as_the_grammar_says(device: str, tmp_path: Path) -> None:
    """Accepted and ignored options mount, refused ones do not; the rest are not known."""
    run("mke2fs", "-q", "-F", "-b", "4096", "-t", "ext4", device)
    wrong = []
    for word in options_to_try():
        fate = handling_of(word, UPSTREAM).handling
        taken = takes(device, tmp_path / "mnt", REQUIRED_COMPANIONS.get(word, word))
        if fate is not Handling.NOT_KNOWN and taken is (fate is Handling.REFUSED):
            wrong.append((word, fate, taken))
    assert not wrong, str(wrong)
    run("e2fsck", "-fp", device)


@pytest.mark.parametrize("fstype", ["ext2", "ext3"])
def test_older_types_refuse_options_of_ext4(device: str, tmp_path: Path, fstype: str) -> None:
    """The filesystem was made as that type, and can be mounted without the option."""
    run("mke2fs", "-q", "-F", "-b", "4096", "-t", fstype, device)
    assert takes(device, tmp_path / "mnt", "rw", fstype)
    wrong = []
    for word in options_to_try():
        if handling_of(word, UPSTREAM).handling is not Handling.TAKEN:
            continue
        taken = takes(device, tmp_path / "mnt", REQUIRED_COMPANIONS.get(word, word), fstype)
        if taken is is_refused_for(word, fstype):
            wrong.append((word, taken))
    assert not wrong, str(wrong)


def test_journal_options_without_a_journal_are_refused(device: str, tmp_path: Path) -> None:
    """The data mode and the checksums are features of the journal."""
    run("mke2fs", "-q", "-F", "-b", "4096", "-t", "ext4", "-O", "^has_journal", device)
    for word in ("data=ordered", "data=journal", "journal_checksum", "nobarrier", "commit=5"):
        assert takes(device, tmp_path / "mnt", word) is not needs_journal(word), word


@pytest.mark.parametrize(
    "options",
    [
        "journal_async_commit",
        "data=ordered,journal_async_commit",
        "data=journal,delalloc",
        "data=journal,dax=always",
        "usrjquota=a",
        "grpjquota=a",
    ],
)
def test_conflicting_options_are_refused(device: str, tmp_path: Path, options: str) -> None:
    """Each would be accepted alone, or with another partner."""
    run("mke2fs", "-q", "-F", "-b", "4096", "-t", "ext4", device)
    assert not takes(device, tmp_path / "mnt", options)
