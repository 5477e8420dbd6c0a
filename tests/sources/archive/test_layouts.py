from __future__ import annotations

import json

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.archive.capture import Output
from ext4audit.sources.archive.layouts import SosCapture, SupportconfigCapture
from ext4audit.sources.containers import ARCHIVE_LIMITS, File, MemoryArchive
from support.archives.contents import archive, below, empty


def sosreport_capture(files: dict[str, str], root: str = "") -> SosCapture:
    """Return the capture of a tree with these files."""
    return SosCapture(
        archive(below(root, files) if root else files),
        root,
        kind="sosreport",
        commands="sos_commands",
    )


def manifest(*commands: object) -> str:
    """Return a manifest in which one plugin ran these commands."""
    plugins = {"filesys": {"commands": list(commands)}, "odd": None, "odder": {"commands": 3}}
    return json.dumps({"components": {"report": {"plugins": plugins}}})


def entry(line: object, member: object, status: object = 0) -> dict[str, object]:
    """Return a command of the manifest."""
    return {"exec": line, "filepath": member, "return_code": status}


@pytest.mark.parametrize("root", ["", "sosreport-db-1-2026-11-21-abc"])
def test_a_file_is_read_by_the_path_that_it_had(root: str) -> None:
    """With a common top directory (a tar) and without (inside the unpacked one)."""
    held = sosreport_capture({"etc/fstab": "a\n", "sos_commands/x": ""}, root)
    assert held.read("/etc/fstab") == Known("a\n", "/etc/fstab")
    assert held.children("/etc") == ("fstab",)
    assert (held.read("/etc/crypttab"), held.children("/run")) == (None, None)


def test_bytes_that_are_no_utf_8_stay_what_they_are() -> None:
    """A label with the byte 0xFF comes back as a surrogate."""
    made = archive({"sos_commands/x": "", "etc/fstab": b"LABEL=\xff / ext4\n"})
    held = SosCapture(made, "", kind="sosreport", commands="sos_commands")
    assert held.read("/etc/fstab") == Known("LABEL=\udcff / ext4\n", "/etc/fstab")


def test_a_member_that_is_there_and_cannot_be_read_is_a_failure() -> None:
    """Not captured is another thing than damaged: the hint would be wrong."""
    made = MemoryArchive("a.tar", ARCHIVE_LIMITS)
    made.add("etc/fstab", File(None))
    held = SosCapture(made, "", kind="sosreport", commands="sos_commands")
    found = held.read("/etc/fstab")
    assert isinstance(found, Unknown)
    assert (found.why, found.detail) == (
        Why.FAILED,
        "a.tar: 'etc/fstab': was not kept in memory",
    )


def test_without_a_manifest_an_output_is_found_by_its_mangled_name() -> None:
    """In sos 3 there is none; numbered files of one name are all candidates, in their order."""
    name = "sos_commands/filesys/dumpe2fs_-h_.dev.vg.lv"
    held = sosreport_capture({name: "one", f"{name}.1": "two", f"{name}.3": "another device's"})
    assert held.run("dumpe2fs -h /dev/vg/lv") == [Output("one", name), Output("two", f"{name}.1")]
    assert held.run("dumpe2fs -h /dev/vda") == []


def test_a_manifest_says_which_command_a_file_is_of() -> None:
    """Two devices whose names mangle alike are disambiguated, whatever the order of the files."""
    one, two = "sos_commands/filesys/d", "sos_commands/filesys/d.1"
    text = manifest(
        entry("dumpe2fs -h /dev/vg.lv", one, 0), entry("/sbin/dumpe2fs  -h /dev/vg/lv", two, 1)
    )
    held = sosreport_capture({one: "dot", two: "slash", "sos_reports/manifest.json": text})
    assert held.run("dumpe2fs -h /dev/vg/lv") == [Output("slash", two, 1)]
    assert held.run("dumpe2fs -h /dev/vg.lv") == [Output("dot", one, 0)]


def test_a_file_that_the_manifest_gives_to_one_command_is_no_other_ones() -> None:
    """The name alone would say that it is."""
    member = "sos_commands/filesys/dumpe2fs_-h_.dev.vg.lv"
    text = manifest(entry("dumpe2fs -h /dev/vg.lv", member))
    held = sosreport_capture({member: "dot", "sos_reports/manifest.json": text})
    assert held.run("dumpe2fs -h /dev/vg/lv") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"components": []}',
        '{"components": {"report": {"plugins": []}}}',
        manifest(3, {}, entry(3, "x"), entry("uname -a", None), entry("id", "x", "no")),
    ],
)
def test_a_manifest_of_another_shape_is_as_good_as_none(text: str) -> None:
    """The names of the files remain."""
    held = sosreport_capture(
        {"sos_commands/kernel/uname_-a": "L", "sos_reports/manifest.json": text}
    )
    assert held.run("uname -a") == [Output("L", "sos_commands/kernel/uname_-a")]


def test_a_file_that_the_manifest_names_and_nobody_packed_is_a_failure() -> None:
    """It is not passed over: another file of the name would be another command's."""
    text = manifest(entry("uname -a", "sos_commands/kernel/gone"))
    held = sosreport_capture({"sos_commands/x": "", "sos_reports/manifest.json": text})
    assert held.run("uname -a") == [Output("not in the archive", "sos_commands/kernel/gone", 1)]


def test_a_manifest_cannot_name_what_lies_outside() -> None:
    """A path with ".." leads out of no archive."""
    text = manifest(entry("uname -a", "../../../etc/shadow"))
    held = sosreport_capture({"sos_commands/x": "", "sos_reports/manifest.json": text}, "top")
    (output,) = held.run("uname -a")
    assert (output.status, "root:" in output.text) == (1, False)


def test_all_outputs_of_a_program_are_found_by_either_way() -> None:
    """`lsblk` and its options, and not `lsblkx`."""
    text = manifest(entry("lsblk -t", "sos_commands/block/t"))
    files = {
        "sos_commands/block/t": "1",
        "sos_commands/block/lsblk": "2",
        "sos_commands/block/lsblk_-D": "3",
        "sos_commands/block/lsblkx": "4",
        "sos_reports/manifest.json": text,
    }
    assert [output.text for output in sosreport_capture(files).outputs("lsblk")] == ["1", "2", "3"]


def test_an_archive_of_directories_holds_no_output() -> None:
    """And no error either."""
    held = SosCapture(empty("sos_commands"), "", kind="sosreport", commands="sos_commands")
    assert held.run("uname -a") == []


TEXT = """\
=============================================================================
                     Support Utilities - Supportconfig
=============================================================================

#==[ Command ]======================================#
# /usr/bin/uname -a
Linux sles 5.14.21-150500.55.44-default #1 SMP x86_64 x86_64 x86_64 GNU/Linux

#==[ Configuration File ]===========================#
# /etc/fstab
UUID=1 / ext4 defaults 1 1
UUID=2 /data ext4 noatime 0 2

#==[ Configuration File ]===========================#
# /etc/mtab - File not found

#==[ Command ]======================================#
# mdadm --detail --scan
ERROR: Command not found or not executable

#==[ Log File ]=====================================#
# /var/log/messages - Last 500 Lines
#==[ not a heading
text

#==[ Command ]======================================#
# /usr/bin/uname -a
second
"""


def supportconfig_capture(
    text: str = TEXT, top: str = "scc_sles_261121_0557"
) -> SupportconfigCapture:
    """Return the capture of one text."""
    return SupportconfigCapture(archive({f"{top}/fs-diskio.txt": text}), top)


def test_a_command_is_found_whatever_folder_its_program_lay_in() -> None:
    """/usr/bin/uname and /bin/uname are one; a second run of it comes second."""
    line = "Linux sles 5.14.21-150500.55.44-default #1 SMP x86_64 x86_64 x86_64 GNU/Linux\n"
    assert supportconfig_capture().run("uname -a") == [
        Output(line, "fs-diskio.txt: uname -a"),
        Output("second\n", "fs-diskio.txt: uname -a"),
    ]
    assert supportconfig_capture().run("/bin/uname -a")[0].text == line


def test_a_file_has_no_comments_and_ends_in_a_newline() -> None:
    """For supportconfig removes them: the numbers of lines are not those of the host."""
    assert supportconfig_capture().read("/etc/fstab") == Known(
        "UUID=1 / ext4 defaults 1 1\nUUID=2 /data ext4 noatime 0 2\n", "/etc/fstab"
    )
    assert supportconfig_capture().children("/etc") == ("fstab",)


@pytest.mark.parametrize("path", ["/etc/mtab", "/etc/crypttab", "/etc/mtab - File not found"])
def test_a_file_that_was_not_found_is_not_there(path: str) -> None:
    """Its section has a heading for it."""
    assert supportconfig_capture().read(path) is None


def test_a_directory_without_sections_is_not_there() -> None:
    """Rather than empty."""
    assert supportconfig_capture().children("/proc/fs/ext4") is None


def test_the_error_of_a_missing_program_is_its_output() -> None:
    """It is judged later, like the texts of the other archives."""
    assert [output.text for output in supportconfig_capture().outputs("mdadm")] == [
        "ERROR: Command not found or not executable\n"
    ]


@pytest.mark.parametrize("text", ["", "#==[ Command ]===#", "#==[ Command ]===#\n\n# x\n", "x\n"])
def test_a_text_without_sections_holds_nothing(text: str) -> None:
    """And a section without a title is passed over."""
    held = supportconfig_capture(text)
    assert (held.read("/etc/fstab"), held.run("uname -a"), held.outputs("x")) == (None, [], [])


def test_lines_of_a_dos_console_are_lines() -> None:
    """Some were sent through programs that write CR and LF."""
    held = supportconfig_capture(TEXT.replace("\n", "\r\n"))
    assert held.read("/etc/fstab") == supportconfig_capture().read("/etc/fstab")
