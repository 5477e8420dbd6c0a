"""What a scan reads of a mounted filesystem while it grows and is written to."""

from __future__ import annotations

import pytest

from lab.conftest import Guest
from lab.support.scenario import JsonObject

TABLES = ("one table", "meta_bg")
STEPS = 16
BEING_RESIZED = "the filesystem is being resized"


@pytest.fixture(params=TABLES)
def grown(guest: Guest, request: pytest.FixtureRequest) -> JsonObject:
    """Return the readings taken while one kind of filesystem grows."""
    result: JsonObject = guest["online_resize"][request.param]
    return result


def test_no_reading_of_a_growing_filesystem_is_torn(grown: JsonObject) -> None:
    """Each table has the superblock's groups, at their final places; a gap gives the reason."""
    tables = [reading for reading in grown["readings"] if "gap" not in reading]
    gaps = [reading["gap"] for reading in grown["readings"] if "gap" in reading]
    print(f"\n{len(tables)} tables, {len(gaps)} gaps while it grew to {grown['groups']} groups")
    assert [table for table in tables if not table["is_beginning_of_last"]] == []
    assert set(gaps) <= {BEING_RESIZED}
    assert len(gaps) <= len(grown["readings"]) // 4


def test_the_readings_saw_it_grow(grown: JsonObject) -> None:
    """Readings were taken during the growth: sizes between the first and the last were read."""
    assert grown["groups"] == 104
    assert len({reading["groups"] for reading in grown["readings"]} - {8, 104}) > 3


def test_the_descriptors_themselves_were_read(grown: JsonObject) -> None:
    """Every reading between two steps comes from the raw reader, which this test is about.

    dumpe2fs is the fallback only if a step of the growth overlapped every try.
    """
    readings = [reading for reading in grown["readings"] if "origin" in reading]
    origins = {reading["origin"].partition("/")[0] for reading in readings}
    assert origins <= {"group descriptors of ", "dumpe2fs -g "}
    between = [one["origin"] for one in readings if one["is_between_steps"]]
    assert len(between) >= STEPS - 1
    assert {origin.partition("/")[0] for origin in between} == {"group descriptors of "}


def test_what_grew_under_the_readers_is_sound(grown: JsonObject) -> None:
    """`e2fsck -fn` finds nothing; a complaint would have failed the scenario."""
    assert "Checking group summary information" in grown["fsck"]
