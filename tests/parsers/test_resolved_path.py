from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.resolved_path import ResolvedPath
from ext4audit.parsers.resolved_path import parse_resolved_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "mount_id=30\ndevice_number=8:1\ntype=directory\n",
            ResolvedPath(30, DeviceNumber(8, 1), "directory"),
        ),
        (
            "mount_id=24\ndevice_number=0:6\ntype=block\nrepresents=9:127\n",
            ResolvedPath(24, DeviceNumber(0, 6), "block", DeviceNumber(9, 127)),
        ),
        (
            "type=other\nmount_id=1\ndevice_number=0:5\nrepresents=\n",
            ResolvedPath(1, DeviceNumber(0, 5), "other"),
        ),
    ],
)
def test_a_path_leads_to_a_mount(text: str, expected: ResolvedPath) -> None:
    """The keys come in any order, and only a block device node represents a device."""
    assert parse_resolved_path(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mount_id=30\n",
        "mount_id=x\ndevice_number=8:1\ntype=file\n",
        "mount_id=30\ndevice_number=8\ntype=file\n",
        "mount_id=30\ndevice_number=8:1\ntype=socket\n",
        "mount_id=30\ndevice_number=8:1\ntype=block\nrepresents=x\n",
        "rubbish\n",
    ],
)
def test_another_answer_is_refused(text: str) -> None:
    """A missing key, an unknown type or something else than a number is no answer."""
    with pytest.raises(ValueError, match=r"lacks|not|no type"):
        parse_resolved_path(text)


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Nothing but ValueError leaves the parser."""
    try:
        parse_resolved_path(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not
