from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.mount import DeviceNumber, FstabLine, Mount, UserOptions
from ext4audit.parsers import decode_octal, split_options
from ext4audit.parsers.devices_and_mounts import (
    parse_fstab,
    parse_mount_table,
    parse_options_file,
    parse_utab,
)

FROM_A_HOST = st.binary(max_size=40).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    ("escaped", "name"),
    [
        ("plain", "plain"),
        (r"with\040blank", "with blank"),
        (r"tab\011newline\012", "tab\tnewline\n"),
        (r"back\134slash", "back\\slash"),
        (r"\134040", r"\040"),
        (r"\303\244", "ä"),
        ("ü\\040x", "ü x"),
        (r"\377", "\udcff"),
        ("\udcff\\040", "\udcff "),
        ("\udcc3\\244", "ä"),
        (r"src\040\0431", "src #1"),
        (r"\04", r"\04"),
        (r"\089", r"\089"),
        ("\\", "\\"),
        ("", ""),
    ],
)
def test_octal_escapes_are_bytes(escaped: str, name: str) -> None:
    """An escape stands for a byte; what is not three octal digits stays."""
    assert decode_octal(escaped) == name


@given(FROM_A_HOST)
def test_names_escaped_by_the_kernel_are_decoded(name: str) -> None:
    """Escaping as mangle_path() does, and decoding, gives the name back."""
    escaped = "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in name)
    assert decode_octal(escaped) == name


@given(st.text())
def test_decoding_raises_nothing_but_value_error(text: str) -> None:
    """Any text is decoded, or refused by ValueError where no byte can stand for it."""
    try:
        decode_octal(text)
    except ValueError:
        assert any(0xD800 <= ord(char) <= 0xDFFF for char in text)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("rw,relatime", ("rw", "relatime")),
        ("rw", ("rw",)),
        ("", ()),
        (",rw,,ro,", ("rw", "ro")),
        (
            'rw,context="system_u:object_r:container_file_t:s0:c498,c574",lowerdir=/a:/b',
            ("rw", 'context="system_u:object_r:container_file_t:s0:c498,c574"', "lowerdir=/a:/b"),
        ),
        ('lowerdir="/a,upperdir=/b', ('lowerdir="/a', "upperdir=/b")),
        ('a="b"c,d"', ('a="b"c', 'd"')),
        ("=,x", ("=", "x")),
        ('x-a=b"c,d",noatime', ('x-a=b"c,d"', "noatime")),
        ('x-a="b,c"d,noatime', ('x-a="b,c"d', "noatime")),
        ('"errors=panic,ro",noatime', ('"errors=panic,ro"', "noatime")),
        ('x-a="b"",c,d', ('x-a="b""', "c", "d")),
    ],
)
def test_options_split_at_commas_outside_quotes(text: str, options: tuple[str, ...]) -> None:
    """A comma inside a quoted value is part of it; a quote that never closes protects nothing."""
    assert split_options(text) == options


Stored = Callable[[str], str]
NAME = st.binary(max_size=30).map(
    lambda raw: "/" + raw.replace(b"\0", b"").decode("utf-8", "surrogateescape")
)


def mounts_of(text: str) -> tuple[Mount, ...]:
    """Return the mounts of a table of which each line can be read."""
    table = parse_mount_table(text)
    assert table.unread == ()
    return table.mounts


def test_hostile_mount_points_are_decoded_unchanged(stored: Stored) -> None:
    """Blanks, newline, ESC, vertical tab, NEL, U+2028 and byte 0xFF survive the kernel's file."""
    mounts = mounts_of(stored("mountinfo/6.18-hostile-names.txt"))
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
    mounts = mounts_of(stored("mountinfo/6.18-hostile-names.txt"))
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
    mounts = mounts_of(stored("mountinfo/6.18-hostile-names.txt"))
    overlay = next(mount for mount in mounts if mount.fstype == "overlay")
    assert overlay.super_options == (
        "rw",
        "lowerdir=lower\\,comma",
        "upperdir=upper",
        "workdir=work",
        "uuid=on",
    )


def test_a_source_may_be_empty_or_contain_a_hash(stored: Stored) -> None:
    """The kernel prints nothing for an empty source, and escapes "#" in one."""
    mounts = mounts_of(stored("mountinfo/6.18-hostile-names.txt"))
    assert [mount.source for mount in mounts[-2:]] == ["", "src #1"]


def test_bind_mounts_of_files_in_a_container_are_parsed(stored: Stored) -> None:
    """A container's table shows the host's ext4 by single files, with the host's device number."""
    mounts = mounts_of(stored("mountinfo/unknown-docker-container.txt"))
    files = [mount for mount in mounts if mount.fstype == "ext4"]
    assert [(str(mount.device_number), mount.mount_point) for mount in files] == [
        ("8:2", "/entrypoint.sh"),
        ("8:2", "/etc/resolv.conf"),
    ]
    assert files[0].root == "/root/cacti/entrypoint.sh"


def test_optional_fields_vary_in_number(stored: Stored) -> None:
    """One optional field or three: the type comes after the lone dash."""
    mounts = mounts_of(stored("mountinfo/reconstructed-btrfs-and-selinux.txt"))
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
        "64 63 7:0 / /mnt rw - ext4 \n64 63 7:0 / /mnt",
    ],
)
def test_a_table_without_any_mount_is_refused(text: str) -> None:
    """It must not read as "nothing is mounted"."""
    with pytest.raises(ValueError, match=r"mount|not a"):
        parse_mount_table(text)


TWO_LINES = "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n{}\n40 24 8:17 / /data rw - ext4 /dev/sdb1 rw\n"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("64 63 7:0 / /mnt", "not a mount: '64 63 7:0 / /mnt'"),
        ("30 24 8 / /a\\040b rw - ext4 /dev/x rw", "'8' is not a device number"),
        (
            "30 24 ?:? / /a\\040b rw - ext4 /dev/x rw",
            "the device number of /dev/x, mounted on /a b, is not in the archive",
        ),
    ],
)
def test_an_invalid_line_loses_no_other_line(line: str, error: str) -> None:
    """It is told beside the mounts, so that nobody takes the table for a whole one."""
    table = parse_mount_table(TWO_LINES.format(line))
    assert [mount.mount_point for mount in table.mounts] == ["/", "/data"]
    assert [(each.line_number, str(each.error)) for each in table.unread] == [(2, error)]


DRVFS = (
    r"30 24 0:149 / /Docker/host rw,noatime - 9p C:\134Program\040Files rw,dirsync,"
    r"aname=drvfs;path=C:\Program Files\Docker\Docker\resources;symlinkroot=/mnt/,trans=fd"
)


def test_docker_desktop_in_wsl_has_a_blank_in_the_options_of_9p() -> None:
    """The kernel does not escape it; all other mounts of the table were doubted for it."""
    table = parse_mount_table(TWO_LINES.format(DRVFS))
    assert [mount.mount_point for mount in table.mounts] == ["/", "/Docker/host", "/data"]
    assert table.unread == ()
    options = table.mounts[1].super_options
    assert options[2:] == (
        r"aname=drvfs;path=C:\Program Files\Docker\Docker\resources;symlinkroot=/mnt/",
        "trans=fd",
    )


@pytest.mark.parametrize("joined", ["rw", "rw "])
def test_two_lines_joined_in_one_are_no_mount(joined: str) -> None:
    """A second separator tells that a line break is missing: the second mount is not hidden."""
    line = f"30 24 0:149 / /n rw - 9p n {joined}31 24 8:33 / /e rw - ext4 /dev/sdc1 rw"
    assert len(parse_mount_table(TWO_LINES.format(line)).unread) == 1


def _escape(name: str, also: str = "") -> str:
    """Escape a name as mangle_path() of fs/seq_file.c does."""
    return "".join(f"\\{ord(c):03o}" if c in " \t\n\\" + also else c for c in name)


@given(
    root=NAME,
    mount_point=NAME,
    source=NAME,
    optional=st.lists(st.sampled_from(["shared:1", "master:274", "unbindable"])),
)
def test_any_names_in_a_line_are_decoded_unchanged(
    root: str, mount_point: str, source: str, optional: list[str]
) -> None:
    """A line that the kernel would print for any names gives these names back."""
    fields = [
        *("36", "35", "253:1", _escape(root), _escape(mount_point), "rw,noatime"),
        *optional,
        *("-", "ext4", _escape(source, "#"), "rw,errors=continue"),
    ]
    assert mounts_of(" ".join(fields) + "\n") == (
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
            propagation=tuple(optional),
        ),
    )


@given(st.one_of(st.text(), st.text(alphabet="0123:/ -\\\n,rwe")))
def test_any_text_is_parsed_or_refused_as_mountinfo(text: str) -> None:
    """Nothing but ValueError leaves the parser."""
    try:
        parse_mount_table(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not


ODD = Path(__file__).parents[2] / "fixtures/texts/fstab/libmount-2.38.1-odd-lines.txt"


def test_the_fstab_of_debian_is_parsed(stored: Stored) -> None:
    """Comments are skipped, escapes decoded, missing fields defaulted, options kept as spelled."""
    lines = parse_fstab(stored("fstab/debian-12.txt"))
    assert [(line.line_number, line.mount_point) for line in lines] == [
        (5, "/"),
        (6, "/data"),
        (7, "/mnt/with space"),
        (8, "/boot/efi"),
        (9, "none"),
    ]
    assert lines[1] == FstabLine(
        6,
        "/dev/mapper/vg0-data",
        "/data",
        "ext4",
        ("noatime", "nobarrier", "data=writeback"),
        "noatime,nobarrier,data=writeback",
        0,
        2,
        stored("fstab/debian-12.txt").split("\n")[5],
    )
    assert lines[2].spec == "LABEL=my label"
    assert (lines[2].dump_frequency, lines[2].fsck_pass) == (0, 0)


def test_odd_lines_are_accepted_or_ignored_as_by_mount(stored: Stored) -> None:
    """The lines that libmount 2.38.1 called parse errors are missing, all others are here."""
    lines = parse_fstab(stored("fstab/libmount-2.38.1-odd-lines.txt"))
    assert [line.line_number for line in lines] == [4, 5, 6, 7, 9, 11, 13, 16, 17, 18, 19]
    by_mount_point = {line.mount_point: line for line in lines}
    assert by_mount_point["/a"].options == ("defaults",)
    assert by_mount_point["/a"].raw_options == "defaults"
    assert (by_mount_point["/c"].dump_frequency, by_mount_point["/c"].fsck_pass) == (1, 0)
    assert by_mount_point["/h"].fsck_pass == 2  # the line ends in a carriage return
    assert by_mount_point["/j"].dump_frequency == -1
    assert by_mount_point["/m"].spec == "/dev/m\x0b/m"
    assert by_mount_point["/n"].options == ("defaults", 'context="a,b"')
    assert by_mount_point["/o"].spec == "LABEL=a#b"


def test_findmnt_accepts_the_same_lines(stored: Stored) -> None:
    """The libmount of this machine agrees on which lines of the odd table are mounts."""
    ours = parse_fstab(stored("fstab/libmount-2.38.1-odd-lines.txt"))
    printed = subprocess.run(
        ["findmnt", "-F", str(ODD), "-P", "-o", "TARGET"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert printed.splitlines() == [f'TARGET="{line.mount_point}"' for line in ours]


@pytest.mark.parametrize(
    ("line", "spec", "mount_point", "options", "raw_options"),
    [
        (
            r"\040x" + "\t" + r"/\303\244\134\011 ext4 a\040b,c",
            " x",
            "/ä\\\t",
            ("a b", "c"),
            r"a\040b,c",
        ),
        ("-x /\udcff\x1b[31m ext4 rw,,ro", "-x", "/\udcff\x1b[31m", ("rw", "ro"), "rw,,ro"),
        ("$(id) /[/red] ext4 $(id)", "$(id)", "/[/red]", ("$(id)",), "$(id)"),
        ("a\u2028b /c\x85d ext4 rw", "a\u2028b", "/c\x85d", ("rw",), "rw"),
        ("\u00a0 /nbsp ext4 rw", "\u00a0", "/nbsp", ("rw",), "rw"),
    ],
)
def test_hostile_names_in_fstab_are_decoded(
    line: str, spec: str, mount_point: str, options: tuple[str, ...], raw_options: str
) -> None:
    """Only blanks and tabs separate fields, only a newline ends a line, escapes are bytes."""
    assert parse_fstab(f"\n{line}\n") == (
        FstabLine(2, spec, mount_point, "ext4", options, raw_options, 0, 0, line),
    )


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "  \t \n", "/dev/sda1 /\n", "x\n"])
def test_an_fstab_may_have_no_entries(text: str) -> None:
    """An empty table, and one of comments and broken lines, is a table without entries."""
    assert parse_fstab(text) == ()


def test_a_file_of_zeros_is_not_an_empty_fstab() -> None:
    """It is what a crash leaves of a file that was being written."""
    with pytest.raises(ValueError, match="NUL"):
        parse_fstab("\0" * 512)


@pytest.mark.parametrize(
    ("before", "generator"),
    [
        (
            "# To make changes, edit the fileSystems and swapDevices NixOS options\n#\n",
            "NixOS",
        ),
        ("# This file was generated from your Guix configuration.  Any changes\n", "Guix"),
        ("# >>> [openmediavault]\n/dev/sda1 / ext4\n", "openmediavault"),
        ("# >>> [openmediavault]\n/dev/sda1 / ext4\n# <<< [openmediavault]\n", ""),
        ("# / was on /dev/sda1 during installation\n", ""),
    ],
)
def test_the_generator_of_an_fstab_line_is_read_from_comments(before: str, generator: str) -> None:
    """They are those of nixpkgs, of gnu/system.scm, and of OpenMediaVault's deploy/fstab."""
    assert parse_fstab(f"{before}/dev/sdb /data ext4\n")[-1].generator == generator


@given(st.one_of(st.text(), st.text(alphabet="a/ \t\n\\0134#,\r")))
def test_any_text_is_parsed_or_refused_as_fstab(text: str) -> None:
    """Nothing but ValueError leaves the parser, and line numbers lie within the text."""
    try:
        lines = parse_fstab(text)
    except ValueError:
        return
    assert all(1 <= line.line_number <= text.count("\n") + 1 for line in lines)


@pytest.mark.parametrize(
    ("name", "count", "some"),
    [
        ("3.10-data-err-abort", 18, {"ro", "(null)", "delalloc", "errors=remount-ro"}),
        ("4.14-nobarrier", 16, {"rw", "block_validity", "data=writeback"}),
        (
            "4.19-quota-and-false-dax",
            28,
            {"dioread_lock", "dax", "max_dir_size_kb=0", "jqfmt=vfsv1", "usrjquota=aquota.user"},
        ),
        ("5.19-no-acl", 24, {"nojournal_checksum", "user_xattr", "dioread_nolock"}),
        ("6.x-default", 25, {"acl", "barrier", "data=ordered", "commit=5"}),
        ("6.18-ext2", 26, {"nodelalloc", "dioread_nolock", "i_version"}),
        (
            "6.18-quota",
            28,
            {"prefetch_block_bitmaps", "jqfmt=vfsv1", "usrjquota=aquota.user", "data=writeback"},
        ),
        (
            "6.18-superblock-defaults",
            28,
            {"nobarrier", "nodelalloc", "noauto_da_alloc", "stripe=1536", "fc_debug_force"},
        ),
    ],
)
def test_the_options_file_of_every_era_is_parsed_in_order(
    stored: Stored, name: str, count: int, some: set[str]
) -> None:
    """Every kernel's file lists its options in order, with quota options and unknown ones kept."""
    tokens = parse_options_file(stored(f"ext4-options/{name}.txt"))
    assert len(tokens) == count
    assert tokens[0] in {"rw", "ro"}
    assert some <= set(tokens)


def test_quota_words_on_the_last_line_are_options_of_their_own() -> None:
    """What the kernel glues to the last line with commas are options of their own."""
    text = "rw\ninode_readahead_blks=32,jqfmt=vfsv1,usrjquota=a.user\n"
    assert parse_options_file(text) == (
        "rw",
        "inode_readahead_blks=32",
        "jqfmt=vfsv1",
        "usrjquota=a.user",
    )


def test_an_escaped_name_is_decoded_after_the_split() -> None:
    """A quota file's name with a comma stays in one piece."""
    tokens = parse_options_file("rw\ninode_readahead_blks=32,usrjquota=a\\054b\n")
    assert tokens[-1] == "usrjquota=a,b"


def test_a_file_that_is_cut_between_two_lines_is_refused(stored: Stored) -> None:
    """Without `data=` there would be no journal, and without `nobarrier` nothing to report."""
    whole = stored("ext4-options/6.x-default.txt")
    ends = [match.end() for match in re.finditer("\n", whole.partition("inode_readahead")[0])]
    assert len(ends) > 10
    for end in ends:
        with pytest.raises(ValueError, match="the options end before inode_readahead_blks="):
            parse_options_file(whole[:end])


@pytest.mark.parametrize("text", ["", "\n", "bsddf\nrw\n", "rwx\n", "No such file\n"])
def test_an_options_file_without_ro_or_rw_is_refused(text: str) -> None:
    """An empty read is not "no option is in force"."""
    with pytest.raises(ValueError, match="does not start with rw or ro"):
        parse_options_file(text)


@given(st.one_of(st.text(), st.text().map("rw\n".__add__)))
def test_any_text_is_parsed_or_refused_as_ext4_options(text: str) -> None:
    """Nothing but ValueError leaves the parser."""
    try:
        parse_options_file(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not


def test_the_table_of_mount_has_options_that_the_kernel_does_not_show() -> None:
    """Its lines have keys, in any order; a line without options is none, and loop= is left out."""
    text = (
        'SRC=/dev/sda TARGET=/a\\040b ROOT=/ OPTS=_netdev,x-q="1,2",x-w=c\\040d,loop=/dev/loop0\n'
        "ID=31 SRC=/dev/sdb TARGET=/c ROOT=/\nodd\n\n"
        "OPTS=uhelper=udisks2,user=bob TARGET=/d SRC=/dev/sdc BINDSRC=/x\n"
    )
    assert parse_utab(text) == (
        UserOptions("/dev/sda", "/a b", ("_netdev", 'x-q="1,2"', "x-w=c d")),
        UserOptions("/dev/sdc", "/d", ("uhelper=udisks2", "user=bob")),
    )
    assert parse_utab("") == ()
