"""Citations: which are shown by default, and how a superblock field becomes readable."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.evidence import MOUNT_TABLE, Evidence, Unknown, Why
from ext4audit.facts.mount import Provenance
from ext4audit.facts.superblock import PrimarySuperblock
from ext4audit.finding import Citation
from ext4audit.rules.shared import (
    cite_discard,
    cite_mount_points,
    cite_mount_table,
    in_brief,
    superblock_field,
    what_else_sets_it,
)
from ext4audit.sources import denied_hint
from support.builders import (
    disk,
    filesystem,
    fstab_entry,
    host,
    known,
    mount,
    options,
    queue,
    superblock,
    unknown,
)


@pytest.mark.parametrize(
    ("primary", "hint"),
    [
        (known(PrimarySuperblock()), "install e2fsprogs"),
        (
            known(PrimarySuperblock("it is zeroed", Unknown("dumpe2fs", Why.FAILED))),
            "repair the superblock on the device (HLT007)",
        ),
        (
            known(PrimarySuperblock(failed=Unknown("dumpe2fs", Why.TIMED_OUT, hint="wait"))),
            "wait",
        ),
        (Unknown("/dev/sda", Why.FAILED, "Input/output error"), ""),
        (Unknown("/dev/sda", Why.DENIED, hint=denied_hint(is_root=False)), "run as root"),
        (
            Unknown("/dev/sda", Why.DENIED, hint=denied_hint(is_root=True)),
            "run on the host, outside containers",
        ),
    ],
    ids=[
        "readable",
        "damaged",
        "dumpe2fs hung",
        "root whose device fails",
        "no root",
        "root in a container",
    ],
)
def test_hint_by_state_of_the_device(primary: Evidence[PrimarySuperblock], hint: str) -> None:
    """Root in a container is not advised to run as root."""
    own = known(superblock(), "EXT4_IOC_GET_TUNE_SB_PARAM")
    fs = filesystem(superblock=own)._replace(primary=primary)
    found: Evidence[int] = superblock_field(fs, "reserved blocks", lambda _: None)
    assert isinstance(found, Unknown)
    assert (found.why, found.hint) == (Why.NOT_CAPTURED, hint)


def test_missing_field_does_not_suggest_installing_dumpe2fs() -> None:
    """A field that dumpe2fs does not print is not in the superblock."""
    own = known(superblock(), "the output of a program")
    printed = known(PrimarySuperblock(is_printed=True))
    fs = filesystem(superblock=own)._replace(primary=printed)
    found: Evidence[int] = superblock_field(fs, "reserved blocks", lambda _: None)
    assert isinstance(found, Unknown)
    assert found.hint == ""


def test_citations_beyond_the_fourth_are_detail() -> None:
    """Citations beyond the fourth are detail, in order of importance."""
    cited = in_brief(Citation(label, "1", "test") for label in "abcdef")
    assert [each.label for each in cited] == list("abcdef")
    assert [each.detail for each in cited] == [False] * 4 + [True] * 2


def test_discard_amount_is_detail() -> None:
    """The amount is cited only if it is known."""
    device = disk("sda", limits=queue(discard_max_bytes=4096))
    origin = "/sys/block/sda/queue/discard_max_bytes"
    cited = Citation("discard_max_bytes of sda", "4096", origin, detail=True)
    assert cite_discard(device) == (cited,)
    assert cite_discard(disk(limits=queue(discard_max_bytes=unknown("discards")))) == ()


def test_options_of_a_mount_in_another_namespace_are_unknown() -> None:
    """Its options are unknown there, as with an unreadable mount table, and are cited so."""
    elsewhere = options("barrier")._replace(mount_table=None)
    assert cite_mount_table(elsewhere) == Citation(
        "mount table", "no mount was found", "/proc/self/mountinfo"
    )
    assert cite_mount_table(elsewhere._replace(mount_table=("rw", "stripe=4"))) == Citation(
        "mount table", "rw,stripe=4", "/proc/self/mountinfo"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fstab": known(())}, "Neither fstab nor the superblock sets it"),
        ({"fstab": unknown("fstab")}, "Its origin is unknown"),
        ({"fstab": known((fstab_entry("nobarrier"),))}, ""),
        ({"fstab": known(()), "options": unknown("options")}, ""),
        # The mount table omits it, so the superblock set it at mount time, and not a script.
        (
            {
                "fstab": known(()),
                "options": known(options(hidden=["nobarrier"], set_by=Provenance.UNKNOWN)),
            },
            "",
        ),
    ],
)
def test_other_origins_of_an_option_are_named(changes: dict[str, Any], said: str) -> None:
    """No step of a remedy can correct a unit or a script."""
    fs = filesystem(**{"options": known(options("nobarrier")), **changes})
    sentence = what_else_sets_it(fs, host(fs), "barrier")
    assert said in sentence
    assert bool(said) is bool(sentence)


@pytest.mark.parametrize(
    ("points", "shown"),
    [
        ((), "none in this mount namespace"),
        (("/a", "/home"), "/a, /home"),
        (("/a", "/b", "/home"), "/a, /b, /home"),
        (("/a", "/b", "/c", "/home"), "/home, /a, /b and 1 more"),
    ],
)
def test_decisive_mount_point_is_shown(points: tuple[str, ...], shown: str) -> None:
    """The order changes only if some are left out."""
    fs = filesystem(mounts=tuple(mount(point) for point in points))
    cited = cite_mount_points(fs, lambda point: point == "/home")
    assert cited == Citation("mount points", shown, MOUNT_TABLE, detail=True)
