from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.parsers.mountinfo import parse_mountinfo

Stored = Callable[[str], str]
NAME = st.binary(max_size=30).map(
    lambda raw: "/" + raw.replace(b"\0", b"").decode("utf-8", "surrogateescape")
)


def test_hostile_mount_points_come_back_as_they_were_made(stored: Stored) -> None:
    """Blanks, newline, ESC, vertical tab, NEL, U+2028 and byte 0xFF survive the kernel's file."""
    mounts = parse_mountinfo(stored("mountinfo/6.18-hostile-names.txt"))
    assert [mount.mount_point for mount in mounts] == [
        "/mnt",
        "/mnt/a",
        "/mnt/with space",
        "/mnt/new\nline",
        "/mnt/tab\there",
        "/mnt/back\\slash",
        "/mnt/\udcff\x1b[31m",
        "/mnt/ümlaut #1",
        "/mnt/vt\x0bnel\x85ls\u2028x",
        "/mnt/-dash",
        "/mnt/$(id)",
        "/mnt/stacked",
        "/mnt/stacked",
        "/mnt/merged",
        "/mnt/empty",
        "/mnt/empty",
    ]


def test_bind_mounts_and_stacked_mounts_keep_their_own_lines(stored: Stored) -> None:
    """A read-only bind mount, a deleted root, and two mounts on one directory are four mounts."""
    mounts = parse_mountinfo(stored("mountinfo/6.18-hostile-names.txt"))
    by_id = {mount.mount_id: mount for mount in mounts}
    assert by_id[66] == Mount(
        66,
        63,
        DeviceNumber(7, 0),
        "/",
        "/mnt/new\nline",
        ("ro", "nosuid", "relatime"),
        "ext4",
        "/dev/loop0",
        ("rw",),
    )
    assert by_id[65].root == "/sub//deleted"
    assert by_id[75].parent_id == 74
    assert by_id[75].super_options == (
        "rw",
        "data=writeback",
        "jqfmt=vfsv1",
        "usrjquota=aquota.user",
    )


def test_an_escaped_comma_belongs_to_the_option(stored: Stored) -> None:
    """Overlay escapes the comma of a directory's name, so that decoding comes after splitting."""
    mounts = parse_mountinfo(stored("mountinfo/6.18-hostile-names.txt"))
    overlay = next(mount for mount in mounts if mount.fstype == "overlay")
    assert overlay.super_options == (
        "rw",
        "lowerdir=lower\\,comma",
        "upperdir=upper",
        "workdir=work",
        "uuid=on",
    )


def test_a_source_may_be_empty_or_hold_a_hash(stored: Stored) -> None:
    """The kernel prints nothing for an empty source, and escapes "#" in one."""
    mounts = parse_mountinfo(stored("mountinfo/6.18-hostile-names.txt"))
    assert [mount.source for mount in mounts[-2:]] == ["", "src #1"]


def test_bind_mounts_of_files_in_a_container(stored: Stored) -> None:
    """A container's table shows the host's ext4 by single files, with the host's device number."""
    mounts = parse_mountinfo(stored("mountinfo/unknown-docker-container.txt"))
    files = [mount for mount in mounts if mount.fstype == "ext4"]
    assert [(str(mount.device_number), mount.mount_point) for mount in files] == [
        ("8:2", "/entrypoint.sh"),
        ("8:2", "/etc/resolv.conf"),
    ]
    assert files[0].root == "/root/cacti/entrypoint.sh"


def test_optional_fields_vary_in_number(stored: Stored) -> None:
    """One optional field or three: the type comes after the lone dash."""
    mounts = parse_mountinfo(stored("mountinfo/reconstructed-btrfs-and-selinux.txt"))
    assert [mount.fstype for mount in mounts] == ["btrfs", "btrfs", "overlay"]
    assert mounts[0].root == "/root"
    assert mounts[2].super_options[:2] == (
        "rw",
        'context="system_u:object_r:container_file_t:s0:c498,c574"',
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "rubbish\n",
        "64 63 7:0 / /mnt rw,relatime ext4 /dev/loop0 rw\n",
        "64 63 7:0 / /mnt rw,relatime - ext4 /dev/loop0\n",
        "64 63 7:0 / /mnt rw,relatime - ext4 /dev/loop0 rw more\n",
        "x 63 7:0 / /mnt rw,relatime - ext4 /dev/loop0 rw\n",
        "64 63 7 / /mnt rw,relatime - ext4 /dev/loop0 rw\n",
        "64 63 7:0 / /mnt rw - ext4 /dev/loop0 rw\n64 63 7:0 / /mnt",
    ],
)
def test_a_broken_table_is_refused_as_a_whole(text: str) -> None:
    """A table of which a line is lost must not read as a table without that mount."""
    with pytest.raises(ValueError, match=r"mount|not a"):
        parse_mountinfo(text)


def _escape(name: str, also: str = "") -> str:
    """Escape a name as mangle_path() of fs/seq_file.c does."""
    return "".join(f"\\{ord(c):03o}" if c in " \t\n\\" + also else c for c in name)


@given(
    root=NAME,
    mount_point=NAME,
    source=NAME,
    optional=st.lists(st.sampled_from(["shared:1", "master:274", "unbindable"])),
)
def test_any_names_come_back_from_a_line(
    root: str, mount_point: str, source: str, optional: list[str]
) -> None:
    """A line that the kernel would print for any names gives these names back."""
    fields = [
        *("36", "35", "253:1", _escape(root), _escape(mount_point), "rw,noatime"),
        *optional,
        *("-", "ext4", _escape(source, "#"), "rw,errors=continue"),
    ]
    assert parse_mountinfo(" ".join(fields) + "\n") == (
        Mount(
            36,
            35,
            DeviceNumber(253, 1),
            root,
            mount_point,
            ("rw", "noatime"),
            "ext4",
            source,
            ("rw", "errors=continue"),
        ),
    )


@given(st.one_of(st.text(), st.text(alphabet="0123:/ -\\\n,rwe")))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Nothing but ValueError leaves the parser."""
    try:
        parse_mountinfo(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not
