"""Magic numbers of what is no ext4, and what looks like text or an image."""

from __future__ import annotations

import pytest

from ext4audit.parsers.file_kind import SIGNATURES, is_named_as_image, is_text, is_zero


def kind_at(offset_bytes: int, magic: bytes) -> str:
    """Return the kind of a magic number at a place."""
    found = [each.kind for each in SIGNATURES if each[1:] == (offset_bytes, magic)]
    return found[0] if found else ""


@pytest.mark.parametrize(
    ("offset_bytes", "magic", "kind"),
    [
        (0, b"LUKS\xba\xbe", "LUKS"),
        (512, b"LABELONE", "an LVM physical volume"),
        (4086, b"SWAPSPACE2", "swap space"),
        (65526, b"SWAPSPACE2", "swap space"),
        (4096, b"\xfc\x4e\x2b\xa9", "a member of an md array"),
        (0, b"XFSB", "xfs"),
        (65600, b"_BHRfS_M", "btrfs"),
        (0, b"KDMV", "a VMDK image"),
        (0, b"\x1f\x8b\x08", "compressed with gzip"),
    ],
)
def test_magic_numbers_stand_where_the_formats_put_them(
    offset_bytes: int, magic: bytes, kind: str
) -> None:
    """By the specifications that the module names."""
    assert kind_at(offset_bytes, magic).startswith(kind)


def test_containers_precede_what_they_may_hold() -> None:
    """A volume of LVM can begin with the boot sector of anything."""
    kinds = [each.kind for each in SIGNATURES]
    assert kinds.index(kind_at(512, b"LABELONE")) < kinds.index("xfs") < kinds.index("NTFS")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"# a file\nof lines\n", True),
        ("caf\u00e9\n".encode(), True),
        ("x\ncaf\u00e9".encode()[:-1], True),
        (b"no line at all", False),
        (b"nul\0\n", False),
        (b"\xff\xfe\xff\xfe\xff\xfe\n\n", False),
        (b"", False),
    ],
)
def test_text_is_lines_without_control_characters(data: bytes, *, text: bool) -> None:
    """The end of what was read can cut a character."""
    assert is_text(data) is text


@pytest.mark.parametrize(
    ("path", "named"), [("/a/Disk.IMG", True), ("x.ext4", True), ("img", False), ("a.ibd", False)]
)
def test_some_names_are_those_of_images(path: str, *, named: bool) -> None:
    """Their endings say so, in any case."""
    assert is_named_as_image(path) is named


def test_zeros_are_zeros() -> None:
    """One other byte is enough."""
    assert is_zero(bytes(1024))
    assert not is_zero(bytes(1023) + b"\1")
