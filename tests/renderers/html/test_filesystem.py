from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element

import pytest

from ext4audit.facts.mount import DeviceNumber, Layer, Provenance
from support.browser.html_page import details_element, rendered, text_of, with_class
from support.builders import disk, filesystem, host, known, layout, md_state, options, raid, unknown
from support.formats.sample_reports import barriers, hotspot, incomplete_report, md127, report

GAP = unknown("it")


def test_hidden_options_are_marked_and_first() -> None:
    """Options in force that the mount table hides are in the summary and in the table."""
    page = rendered(report(host(md127()), barriers))
    options = details_element(page, "21 mount options in force HIDDEN nobarrier")
    assert options.get("open") is not None
    row = text_of(next(options.iter("tbody"))[0])
    assert row.startswith("nobarriersuperblock default mount options")
    assert row.endswith("HIDDEN")
    assert "Kernel defaults: bsddf" in text_of(options)


def test_stack_is_a_diagram_and_a_table() -> None:
    """The filesystem is at the top, and each device is below everything built on it."""
    page = rendered(report(host(md127("/data")), barriers))
    picture = next(each for each in page.iter() if each.get("role") == "img")
    assert picture.get("aria-label") == "Device stack: raid0 of 2 disks, 512 KiB chunk"
    boxes = [text_of(each) for each in picture.iter() if each.tag.endswith("}svg")][1:]
    assert [box.partition(",")[0] for box in boxes] == [
        "/data",
        "/dev/md127",
        "/dev/vdb",
        "/dev/vdc",
    ]
    assert "write back, rotational" in boxes[1]
    table = details_element(page, "Device stack: raid0 of 2 disks")
    assert "/dev/vdbdisk100 GiBwrite backrotational" in text_of(table)


def test_equal_disks_are_drawn_as_one_pile() -> None:
    """Twelve disks in a row would be too wide to read; two disks keep their own names."""
    disks = [
        disk(f"sd{letter}", DeviceNumber(8, 16 * n)) for n, letter in enumerate("bcdefghijklm")
    ]
    page = rendered(report(host(filesystem(stack=known(raid(disks))))))
    assert len(with_class(page, "pile")) == 1
    assert "12 disks, sdb, sdc, sdd and 9 more" in text_of(page)


def test_unknown_members_are_drawn_as_a_box() -> None:
    """A device whose members are unknown is drawn on a box labelled as unknown."""
    gap = incomplete_report().host.gaps[0]
    partition = disk("sda1", kind="partition", below=gap)
    page = rendered(report(host(filesystem(stack=known(partition)))))
    assert len(with_class(page, "unknown")) == 1
    assert "not known, the mount table of PID 1" in text_of(page)


def test_load_of_each_member_has_bar_and_number() -> None:
    """The list of an uneven stripe is open; bars are relative to the busiest member."""
    chart = details_element(
        rendered(report(host(md127()), hotspot)), "Metadata on 2 members: the busiest has 2.00"
    )
    assert chart.get("open") is not None
    rows = list(next(chart.iter("tbody")))
    assert [text_of(row) for row in rows] == ["vdb20000200", "vdc0000"]
    bars = [each.get("width") for each in with_class(chart, "bitmaps") if each.get("x")]
    assert bars == ["100.00"]


def test_more_than_sixteen_members_are_summarized() -> None:
    """Of forty members the sixteen busiest get a bar; a sentence counts the others."""
    stripe = layout([n % 3 for n in range(40)])
    chart = details_element(
        rendered(report(host(filesystem(layout=known(stripe))))), "Metadata on 40 members"
    )
    assert len(list(next(chart.iter("tbody")))) == 16
    assert "and 24 more with 0 to 1 bitmaps each" in text_of(chart)


def test_degraded_array_shows_missing_members() -> None:
    """The stack table shows how many members an array lacks."""
    array = raid([disk()], level="raid1")
    broken = replace(array, md_state=known(md_state("raid1", 2, 1, "idle")))
    page = rendered(report(host(filesystem(stack=known(broken)))))
    assert "degraded: 1 missing" in text_of(details_element(page, "Device stack"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "writable"),
        ({"read_only": known(value=True)}, "read-only"),
        ({"read_only": GAP}, "read-only or not: not known"),
        ({"alive": False, "mounts": ()}, "not mounted"),
        ({"mounts": ()}, "writable; mounted in another mount namespace"),
        (
            {"options": known(options("emergency_ro"))},
            "shut down after an error: it refuses all writes",
        ),
    ],
)
def test_state_of_a_filesystem(changes: dict[str, Any], expected: str) -> None:
    """The state shows whether the filesystem is mounted and writable, or that this is unknown."""
    page = rendered(report(host(filesystem(**changes))))
    facts = {text_of(each[0]): text_of(each[1]) for each in term_pairs(page)}
    assert facts["State"] == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "100 GiB, 50% of it in use, 553600 inodes of 6553600"),
        ({"usage": GAP}, "100 GiB"),
        ({"usage": GAP, "superblock": GAP}, None),
    ],
)
def test_size_and_usage(changes: dict[str, Any], expected: str | None) -> None:
    """The usage needs a mounted filesystem; the size can also come from the superblock."""
    page = rendered(report(host(filesystem(**changes))))
    facts = {text_of(each[0]): text_of(each[1]) for each in term_pairs(page)}
    assert facts.get("Size") == expected


def term_pairs(page: Element) -> list[tuple[Element, Element]]:
    """Return the term and description elements of all lists of facts."""
    return list(zip(page.iter("dt"), page.iter("dd"), strict=True))


@pytest.mark.parametrize("complete", [True, False])
def test_incomplete_options_are_marked(*, complete: bool) -> None:
    """An incomplete option listing is marked as such, and the page says what would complete it."""
    chosen = options("nobarrier", complete=complete)
    page = rendered(report(host(filesystem(options=known(chosen)))))
    shown = text_of(details_element(page, "21 mount options" if complete else "1 mount option"))
    assert ("1 mount option known to be in force" in shown) != complete
    assert ("The source does not show every option." in shown) != complete
    assert ("UNKNOWN the effective options" in shown) != complete


def test_option_shows_superblock_and_mount_tokens() -> None:
    """The tokens of the superblock and of the mount are listed below an option's provenance."""
    layers = (
        Layer(Provenance.SUPERBLOCK_BITS, "nobarrier", "dumpe2fs"),
        Layer(Provenance.MOUNT, "barrier", "mountinfo"),
    )
    whole = options("barrier")
    won = whole._replace(options=tuple(o._replace(layers=layers) for o in whole.options))
    page = rendered(report(host(filesystem(options=known(won)))))
    shown = text_of(details_element(page, "21 mount options"))
    assert "superblock default mount options: nobarrier (dumpe2fs)" in shown
    assert "mount: barrier (mountinfo)" in shown


def test_hidden_options_precede_visible_options() -> None:
    """The table is sorted by how surprising an option is, not alphabetically."""
    chosen = options("nodelalloc", "nobarrier", hidden=["data=writeback"])
    page = rendered(report(host(filesystem(options=known(chosen)))))
    rows = next(details_element(page, "21 mount options").iter("tbody"))
    assert [text_of(row[0]) for row in rows] == ["data=writeback", "nodelalloc", "nobarrier"]
