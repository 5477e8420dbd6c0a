"""`ext4audit layout`, run as a process, on images made by the real mke2fs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import click
import pytest

from ext4audit.cli import run_program
from ext4audit.cli.layout import _of_image
from ext4audit.evidence import Truncated, Unknown, Why
from support.hosts.fixture_hosts import HOSTS
from support.images.mke2fs import TWELVE_DISKS_BLOCKS, needs_e2fsprogs, sparse_image
from support.images.mke2fs import run as shell
from support.images.partitioned import grow, with_gpt, write_at
from support.program import run
from support.terminals import on_terminal
from support.timing import HANG_SECONDS, assert_no_waiting

pytestmark = needs_e2fsprogs
TWELVE = ("--members", "12", "--chunk", "512K")


@pytest.fixture(scope="module")
def article() -> Iterator[Path]:
    """Yield the filesystem of the public article: 12 disks of 100 GiB less 64 MiB."""
    with sparse_image(TWELVE_DISKS_BLOCKS * 4096) as image:
        shell(f"mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=1,nodiscard {image}")
        yield image


def layout(*arguments: str) -> dict[str, object]:
    """Return the JSON of a layout, which must succeed."""
    done = run("layout", *arguments, "-f", "json")
    assert done.returncode == 0, done.stderr
    page: dict[str, object] = json.loads(done.stdout)
    return page


def laid(page: dict[str, object]) -> dict[str, Any]:
    """Return the layout itself, as in the JSON of `scan`."""
    found = page["layout"]
    assert isinstance(found, dict)
    return found


def bitmaps(page: dict[str, object]) -> list[int]:
    """Return the number of bitmaps on each member."""
    members = laid(page)["members"]
    assert isinstance(members, list)
    return [member["block_bitmaps"] + member["inode_bitmaps"] for member in members]


def test_the_figures_of_the_article_come_out_to_the_last_digit(article: Path) -> None:
    """Three of twelve disks hold the bitmaps of a default ext4 on twelve disks."""
    page = layout(str(article), *TWELVE)
    assert bitmaps(page) == [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0]
    assert page["counsel"]["advice"] == {  # type: ignore[index]
        "blocks_per_group_option": 32744,
        "flex_bg_groups": 16,
        "evenness": 0.9999,
        "is_default": False,
    }


def test_the_text_has_a_bar_for_each_member_the_sentence_and_the_advice(article: Path) -> None:
    """The text shows the three disks, the sentence with N_eff, and the remedy."""
    done = run("layout", str(article), *TWELVE)
    lines = done.stdout.splitlines()
    row = next(line for line in lines if line.startswith("  member 4 "))
    assert row.split() == ["member", "4", "6400", "█" * 24, "3193", "0", "30%"]
    assert "Effectively 3 of 12 disks serve this metadata." in lines
    assert "with -g 32744 -G 16, restore" in done.stdout
    assert "12 to 13 members" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("columns", "head", "row"),
    [
        (40, "member    bitmaps tables desc. churn", ["6400", "3193", "0", "30%"]),
        (81, "bitmaps            table starts", ["6400", "█" * 8, "3193", "0", "30%"]),
        (70, "bitmaps            table starts", ["6400", "█" * 8, "3193", "0", "30%"]),
        (82, "bitmaps                            table", ["6400", "█" * 24, "3193", "0", "30%"]),
    ],
)
def test_the_table_fits_the_terminal(
    article: Path, columns: int, head: str, row: list[str]
) -> None:
    """Rows wrapped by the terminal are unreadable: bars are dropped first, then long heads."""
    words = ("--no-pager", "layout", str(article), *TWELVE, "--color", "never")
    shown = on_terminal(*words, rows=100, columns=columns)
    lines = shown.screen.splitlines()
    assert any(head in line for line in lines)
    found = next(line for line in lines if line.startswith("  member 4 "))
    assert found.split()[2:] == row
    rows = [line for line in lines if line.startswith("  member ")]
    assert max(map(len, rows)) <= columns


def test_where_blocks_cannot_be_shown_the_bars_are_ascii(article: Path) -> None:
    """A terminal without Unicode gets bars of #."""
    done = run("layout", str(article), *TWELVE, env={"PYTHONIOENCODING": "ascii"})
    assert done.stdout.isascii()
    assert "#" * 24 in done.stdout


def test_more_than_32_members_are_folded(article: Path) -> None:
    """Of sixty disks the sixteen busiest have a row each, and the others one sentence."""
    done = run("layout", str(article), "--members", "60", "--chunk", "512K")
    rows = [line for line in done.stdout.splitlines() if line.startswith("  member ")]
    assert len(rows) == 17  # including the heading
    assert "and 44 more with 0 to " in done.stdout


def test_the_offset_of_a_partition_moves_the_load_to_other_members(article: Path) -> None:
    """A filesystem that starts 1 MiB into the array has its bitmaps two members further."""
    page = layout(str(article), *TWELVE, "--offset", "1M")
    assert bitmaps(page) == [0, 0, 6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32]


def test_an_offset_without_an_array_is_no_other_place_in_an_image(article: Path) -> None:
    """The filesystem starts at 0, so the offset would have no effect."""
    done = run("layout", str(article), "--offset", "1M")
    message = "its filesystem begins at byte 0; an offset on an array needs --members and --chunk"
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_an_offset_of_0_is_that_of_none(article: Path) -> None:
    """Scripts that read the offset from a partition table also pass 0."""
    page = layout(str(article), *TWELVE, "--offset", "0")
    assert bitmaps(page) == [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0]


def test_the_picture_is_one_file_of_svg_with_the_sentence(article: Path) -> None:
    """The SVG parses, has no script, and has a description for people who cannot see it."""
    done = run("layout", str(article), *TWELVE, "-f", "svg")
    root = ET.fromstring(done.stdout)  # noqa: S314 - our own output
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    assert root.findtext(f"{space}desc") == "Effectively 3 of 12 disks serve this metadata."
    assert not list(root.iter(f"{space}script"))
    assert len(list(root.iter(f"{space}rect"))) > 12


def test_an_image_of_a_whole_array_is_read_at_the_offset() -> None:
    """--offset is also where the filesystem starts in an image of the whole array."""
    with sparse_image(9 << 30) as image:
        shell(f"mkfs.ext4 -q -F -b 4096 -E offset=1048576,lazy_itable_init=1 {image} 2000000")
        page = layout(str(image), "--members", "4", "--chunk", "64K", "--offset", "1M")
    assert laid(page)["groups"] == 62
    assert laid(page)["stripe"]["offset_bytes"] == 1 << 20


def test_without_a_stripe_the_page_says_how_to_state_one(article: Path) -> None:
    """An image has no members; the text names the options that describe them."""
    done = run("layout", str(article))
    assert "1 member, no stripe" in done.stdout
    assert "--members N --chunk SIZE" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["/proc"], "/proc: not ext4: proc (mounted on /proc)"),
        (["/proc/nonexistent"], "/proc/nonexistent: does not exist"),
        ([""], "'': does not exist"),
        (["/etc/hostname", *TWELVE], "/etc/hostname: not a readable ext4 image"),
        (["/", "--members", "12"], "--members and --chunk need each other"),
        (["/", "--level", "raid5"], "--level needs --members and --chunk"),
        (["/dev", "--offset", "1M"], "--offset on a device needs --members and --chunk"),
        (["--from", "x.snapshot", "--offset", "1M"], "--offset on a device needs --members"),
        (["/", "--members", "12", "--chunk", "x"], "'x' is not a size"),
        (["/", "--members", "1", "--chunk", "64K"], "raid0 takes 2 to 1920 members"),
        (["/", "--members", "12", "--chunk", "512KB"], "chunks are binary: 512K"),
        (["/", *TWELVE, "--offset", "100"], "100 is not a multiple of 512 bytes"),
        (
            ["/", "--members", "3", "--chunk", "64K", "--level", "raid6"],
            "raid6 takes 4 to 1920 members",
        ),
    ],
)
def test_what_cannot_be_shown_is_a_usage_error(arguments: list[str], reported: str) -> None:
    """A path without ext4 or an incomplete description exits with 2 and a reason."""
    done = run("layout", *arguments)
    assert done.returncode == 2
    assert reported in done.stderr
    assert not done.stdout


def test_a_hostile_image_name_stays_text(tmp_path: Path) -> None:
    """A name with ESC, markup and a byte that is not UTF-8 is escaped in every format."""
    image = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\x1b[31m<b>\xff&.img"))
    with image.open("wb") as file:
        file.truncate(64 << 20)
    shell(f'cd {tmp_path} && for f in *.img; do mkfs.ext4 -q -F "./$f"; done')
    given = ("--members", "2", "--chunk", "64K")
    text, svg = run("layout", str(image), *given), run("layout", str(image), *given, "-f", "svg")
    assert "\x1b" not in text.stdout
    assert "\\x1b[31m<b>\\xff&.img" in text.stdout
    assert "\\x1b[31m&lt;b&gt;\\xff&amp;.img" in svg.stdout
    ET.fromstring(svg.stdout)  # noqa: S314 - our own output
    assert layout(str(image), *given)["target_b64"]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return a disk with a partition of 512 MiB of ext4 at 1 MiB, and space for another."""
    image = tmp_path / "disk.img"
    grow(image, 1200 << 20)
    with_gpt(image, {1: (2048, 1050623), 2: (1050624, 2099199)})
    shell(f"mke2fs -q -F -t ext4 -g 1024 -b 4096 -E offset=1048576 {image} 512M")
    return image


def test_the_only_filesystem_of_a_disk_is_found_by_its_partition(disk: Path) -> None:
    """The layout starts at the partition's offset on the array."""
    page = layout(str(disk), "--members", "4", "--chunk", "64K")
    assert page["target"] == f"{disk}?offset=1048576"
    assert laid(page)["groups"] == 128
    assert laid(page)["stripe"]["offset_bytes"] == 1048576


def test_the_mkfs_line_of_a_partition_makes_it_where_it_is(disk: Path) -> None:
    """mke2fs takes no offset after the name; the next partition keeps its filesystem."""
    shell(f"mke2fs -q -F -t ext4 -b 4096 -E offset={1050624 * 512} {disk} 512M")
    given = ("--members", "4", "--chunk", "64K", "--offset", "1M")
    before, neighbour = layout(str(disk), *given), f"dumpe2fs -h '{disk}?offset=537919488'"
    line, kept = str(before["mkfs"]), shell(neighbour)
    shell(line.replace("mkfs.ext4", "mkfs.ext4 -q -F"))
    after = layout(str(disk), *given)
    assert bitmaps(after) != bitmaps(before)
    assert laid(after)["evenness"] == pytest.approx(before["counsel"]["advice"]["evenness"])  # type: ignore[index]
    assert shell(neighbour) == kept


def test_the_mkfs_line_of_a_part_of_an_image_keeps_its_size(tmp_path: Path) -> None:
    """The evenness is computed for this size; mke2fs would use the whole file."""
    image, given = tmp_path / "part.img", ("--members", "12", "--chunk", "64K")
    grow(image, 8 << 30)
    shell(f"mke2fs -q -F -t ext4 -b 4096 {image} 1000000")
    assert str(layout(str(image), *given)["mkfs"]).endswith(f" {image} 1000000")
    grow(image, 1000000 * 4096)
    assert str(layout(str(image), *given)["mkfs"]).endswith(f" {image}")


def test_of_several_filesystems_one_is_chosen_by_its_offset(disk: Path) -> None:
    """Without an offset the error names where each of them starts."""
    shell(f"mke2fs -q -F -t ext4 -b 4096 -E offset={1050624 * 512} {disk} 256M")
    done = run("layout", str(disk))
    assert done.returncode == 2
    assert "2 filesystems start at bytes 1048576, 537919488" in done.stderr
    page = layout(str(disk), "--members", "4", "--chunk", "64K", "--offset", "513M")
    assert (laid(page)["groups"], laid(page)["stripe"]["offset_bytes"]) == (2, 537919488)
    assert laid(layout(str(disk), "--offset", "513M"))["groups"] == 2


def test_a_file_of_e2image_has_the_layout_of_its_filesystem(disk: Path, tmp_path: Path) -> None:
    """Its descriptors are at other offsets, with the same contents."""
    alone, copy = tmp_path / "fs.img", tmp_path / "fs.e2i"
    shell(f"dd if={disk} of={alone} bs=1M skip=1 count=512 conv=sparse && e2image {alone} {copy}")
    given = ("--members", "4", "--chunk", "64K", "--offset", "1M")
    page = layout(str(copy), *given)
    assert bitmaps(page) == bitmaps(layout(str(disk), *given))
    assert page["mkfs"] is None


def test_a_damaged_image_is_a_usage_error(disk: Path) -> None:
    """The locations in its superblock cannot be trusted."""
    write_at(disk, {1048576 + 1024 + 0x78: b"W"})
    done = run("layout", str(disk))
    assert done.returncode == 2
    assert "partition 1: the checksum of its superblock is wrong" in done.stderr


def hang(*_: object, **__: object) -> None:
    """Block like a dead server."""
    time.sleep(HANG_SECONDS)


@pytest.mark.parametrize("words", [[], ["-o", "FILE"]])
def test_a_target_that_does_not_answer_is_given_up(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dead server does not answer stat(2) either, nor does a dead destination."""
    monkeypatch.setattr("ext4audit.cli.layout.TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr("ext4audit.sources.timeouts.LONGEST_WAIT_SECONDS", 0.1)
    hung = "ext4audit.cli.files._refusal" if words else "ext4audit.sources.live.files.resolve_path"
    monkeypatch.setattr(hung, hang)
    with assert_no_waiting():
        assert run_program(["layout", "/srv", *words]) == 2
    assert "no answer within 0.1 s" in capsys.readouterr().err


def test_the_ready_line_is_printed(article: Path) -> None:
    """It has the stripe numbers and the inode ratio; an even layout has no line."""
    line = f"mkfs.ext4 -b 4096 -g 32744 -G 16 -i 16384 -E stride=128,stripe_width=1536 {article}"
    assert f"  {line}\n" in run("layout", str(article), *TWELVE).stdout
    assert layout(str(article), *TWELVE)["mkfs"] == line
    assert layout(str(article), "--members", "5", "--chunk", "512K")["mkfs"] is None


def test_the_churn_share_is_called_modelled(article: Path) -> None:
    """It is within 5 points of the 36 % that the lab measures."""
    page = layout(str(article), *TWELVE)
    shares = page["modelled_churn_shares"]
    assert isinstance(shares, list)
    assert max(shares) == pytest.approx(0.36, abs=0.05)
    text = run("layout", str(article), *TWELVE).stdout
    assert "Churn of small files, modelled: the busiest member gets 39%" in text
    assert "table starts" in text


HOT = str(HOSTS / "md-raid0-hot-member" / "snapshot")


@pytest.mark.parametrize("words", [[], ["/dev/md127"], ["md127"]])
def test_captured_evidence_has_a_layout(words: list[str]) -> None:
    """It shows the only filesystem on a stripe, or the named one."""
    page = layout("--from", HOT, *words)
    assert bitmaps(page) == [544, 0, 0, 0]
    assert page["target"] == "/dev/md127"


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["--from", HOT, "/nowhere"], "no ext4 filesystem matches /nowhere; name one of: /data"),
        (["--from", HOT, ""], "no ext4 filesystem matches ''; name one of: /data"),
        (
            ["--from", str(HOSTS / "healthy-debian-12" / "snapshot")],
            "no filesystems are on an array; name one of: /",
        ),
        (["--from", "/proc/nonexistent"], "--from /proc/nonexistent"),
        ([], "ext4audit: DEVICE|IMAGE|MOUNTPOINT is missing"),
    ],
)
def test_captured_evidence_that_does_not_fit_is_a_usage_error(
    words: list[str], reported: str
) -> None:
    """The error lists the existing filesystems."""
    done = run("layout", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert reported in done.stderr


@pytest.mark.parametrize(
    ("kind", "reported"),
    [(Truncated, "it is truncated: words"), (Unknown, "ext4 image: words")],
)
def test_a_cut_is_known_by_its_kind(kind: type[Unknown], reported: str) -> None:
    """The detail is for people."""
    with pytest.raises(click.UsageError, match=reported):
        _of_image(kind("page", Why.FAILED, "words"), "/x.img")


def test_images_that_are_cut_off_are_named(tmp_path: Path) -> None:
    """If the cut is after the descriptors, the layout has a warning; before, there is no layout."""
    image = tmp_path / "cut.img"
    image.touch()
    os.truncate(image, 1 << 30)
    shell(f"mkfs.ext4 -q -F {image}")
    assert "truncated" not in run("layout", str(image)).stdout
    os.truncate(image, (1 << 30) - 1)
    assert "it is truncated: it should have 1073741824 bytes" in run("layout", str(image)).stdout
    os.truncate(image, 100 << 20)
    shown = run("layout", str(image), "--members", "4", "--chunk", "64K").stdout
    assert "it is truncated: it should have 1073741824 bytes" in shown
    os.truncate(image, 3000)
    assert "it is truncated" in run("layout", str(image)).stderr
    os.truncate(image, 0)
    assert "the file is empty" in run("layout", str(image)).stderr
