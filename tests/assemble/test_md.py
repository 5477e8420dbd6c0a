"""What is read of an md array beyond what test_stack.py reads of every array."""

from __future__ import annotations

import pytest

from evidence_host import HostEvidence, debian_host
from ext4audit.assemble.md import read_md
from ext4audit.evidence import need
from ext4audit.facts.block import MdArray
from ext4audit.sources.ask import ReadFile
from ext4audit.sources.recording import RecordingSource

NUMBER = "9:127"
DIRECTORY = f"/sys/dev/block/{NUMBER}"


def array_host(level: str) -> HostEvidence:
    """Return a host with an array of two disks."""
    host = debian_host().disk("vdb", "254:16").disk("vdc", "254:32")
    return host.stacked("md127", NUMBER, vdb="254:16", vdc="254:32").md(
        NUMBER, ["vdb", "vdc"], level=level
    )


def array_of(host: HostEvidence) -> MdArray:
    """Return the array, which must be there."""
    found = read_md(host.source(), DIRECTORY)
    assert found is not None
    return need(found)


@pytest.mark.parametrize(
    ("level", "text", "sectors"),
    [
        ("raid10", "1048576\n", 2097152),
        ("raid10", "-1\n", -2),
        ("raid10", "odd\n", None),
        ("raid0", "1048576\n", None),
        ("raid5", "1048576\n", None),
    ],
)
def test_only_a_raid10_needs_to_know_how_much_of_its_members_it_uses(
    level: str, text: str, sectors: int | None
) -> None:
    """Its far copies begin where the first ones end. `md/component_size` is in KiB."""
    host = array_host(level).file(f"{DIRECTORY}/md/component_size", text)
    assert array_of(host).component_sectors == sectors


def test_a_snapshot_without_the_size_has_the_array_all_the_same() -> None:
    """Captures of before did not ask for it."""
    assert array_of(array_host("raid10")).component_sectors is None


def test_other_levels_are_not_even_asked() -> None:
    """A snapshot holds what is asked, and no more."""
    recorder = RecordingSource(array_host("raid0").source())
    read_md(recorder, DIRECTORY)
    assert ReadFile(f"{DIRECTORY}/md/component_size") not in recorder.answers


@pytest.mark.parametrize("slot", ["none", "journal"])
def test_spares_and_journals_are_no_members(slot: str) -> None:
    """The write journal of a RAID5 holds no data that stays (Documentation/driver-api/md)."""
    host = array_host("raid5").md_member(NUMBER, "vdd", slot)
    assert [member.name for member in array_of(host).members] == ["vdb", "vdc"]


@pytest.mark.parametrize(
    ("files", "degraded", "action"),
    [
        ({"degraded": "0\n", "sync_action": "idle\n"}, 0, "idle"),
        ({"degraded": "1\n", "sync_action": "recover\n"}, 1, "recover"),
        ({}, None, None),
    ],
)
def test_redundant_levels_tell_their_state(
    files: dict[str, str], degraded: int | None, action: str | None
) -> None:
    """A RAID0 has neither file (Linux 6.18)."""
    host = array_host("raid1" if files else "raid0")
    for name, text in files.items():
        host.file(f"{DIRECTORY}/md/{name}", text)
    found = array_of(host)
    assert (found.degraded, found.sync_action) == (degraded, action)
