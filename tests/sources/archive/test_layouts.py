from __future__ import annotations

import json

import pytest

from ext4audit.evidence import Excerpt, Known, Unknown, Why
from ext4audit.sources.archive.capture import Output, cut_off, tailed
from ext4audit.sources.archive.layouts import TIMED_OUT, SosCapture, SupportconfigCapture
from ext4audit.sources.containers import ARCHIVE_LIMITS, File, MemoryArchive
from support.archives.contents import archive, empty_archive, moved_below


def sosreport_capture(files: dict[str, str], root: str = "") -> SosCapture:
    """Return the capture of a sosreport with these files."""
    return SosCapture(
        archive(moved_below(root, files) if root else files),
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
    """The tar has a common top directory; the unpacked tree may be opened inside it."""
    held = sosreport_capture({"etc/fstab": "a\n", "sos_commands/x": ""}, root)
    assert held.read("/etc/fstab") == Known("a\n", "/etc/fstab")
    assert held.children("/etc") == ("fstab",)
    assert (held.read("/etc/crypttab"), held.children("/run")) == (None, None)


def test_invalid_utf_8_is_kept() -> None:
    """A label with the byte 0xFF comes back as a surrogate."""
    made = archive({"sos_commands/x": "", "etc/fstab": b"LABEL=\xff / ext4\n"})
    held = SosCapture(made, "", kind="sosreport", commands="sos_commands")
    assert held.read("/etc/fstab") == Known("LABEL=\udcff / ext4\n", "/etc/fstab")


def test_unreadable_member_is_a_failure() -> None:
    """A damaged file is not reported as not captured, which would give the wrong hint."""
    made = MemoryArchive("a.tar", ARCHIVE_LIMITS)
    made.add("etc/fstab", File(None))
    held = SosCapture(made, "", kind="sosreport", commands="sos_commands")
    found = held.read("/etc/fstab")
    assert isinstance(found, Unknown)
    assert (found.why, found.detail) == (
        Why.FAILED,
        "a.tar: 'etc/fstab': was not kept in memory",
    )


def test_output_without_a_manifest_is_found_by_its_mangled_name() -> None:
    """There is none in sos 3; numbered files of one name are all candidates, in order."""
    name = "sos_commands/filesys/dumpe2fs_-h_.dev.vg.lv"
    held = sosreport_capture({name: "1\n", f"{name}.1": "2\n", f"{name}.3": "another device's\n"})
    assert held.run("dumpe2fs -h /dev/vg/lv") == [Output("1\n", name), Output("2\n", f"{name}.1")]
    assert held.run("dumpe2fs -h /dev/vda") == []


def test_manifest_maps_files_to_commands() -> None:
    """Two devices with the same mangled name are distinguished, whatever the order of the files."""
    one, two = "sos_commands/filesys/d", "sos_commands/filesys/d.1"
    text = manifest(
        entry("dumpe2fs -h /dev/vg.lv", one, 0), entry("/sbin/dumpe2fs  -h /dev/vg/lv", two, 1)
    )
    held = sosreport_capture({one: "dot\n", two: "slash\n", "sos_reports/manifest.json": text})
    assert held.run("dumpe2fs -h /dev/vg/lv") == [Output("slash\n", two, 1)]
    assert held.run("dumpe2fs -h /dev/vg.lv") == [Output("dot\n", one, 0)]


def test_file_of_one_command_is_not_used_for_another() -> None:
    """By its name alone it would match."""
    member = "sos_commands/filesys/dumpe2fs_-h_.dev.vg.lv"
    text = manifest(entry("dumpe2fs -h /dev/vg.lv", member))
    held = sosreport_capture({member: "dot\n", "sos_reports/manifest.json": text})
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
def test_invalid_manifest_is_ignored(text: str) -> None:
    """File names are used instead."""
    held = sosreport_capture(
        {"sos_commands/kernel/uname_-a": "L\n", "sos_reports/manifest.json": text}
    )
    assert held.run("uname -a") == [Output("L\n", "sos_commands/kernel/uname_-a")]


def test_missing_file_of_the_manifest_is_a_failure() -> None:
    """The file is not skipped, as another file of that name belongs to another command."""
    text = manifest(entry("uname -a", "sos_commands/kernel/gone"))
    held = sosreport_capture({"sos_commands/x": "", "sos_reports/manifest.json": text})
    assert held.run("uname -a") == [Output("not in the archive", "sos_commands/kernel/gone", 1)]


def test_manifest_path_cannot_leave_the_archive() -> None:
    """A path with ".." cannot lead out of the archive."""
    text = manifest(entry("uname -a", "../../../etc/shadow"))
    held = sosreport_capture({"sos_commands/x": "", "sos_reports/manifest.json": text}, "top")
    (output,) = held.run("uname -a")
    assert (output.status, "root:" in output.text) == (1, False)


def test_all_outputs_of_a_program_are_found() -> None:
    """`lsblk` with any options is found, and `lsblkx` is not."""
    text = manifest(entry("lsblk -t", "sos_commands/block/t"))
    files = {
        "sos_commands/block/t": "1\n",
        "sos_commands/block/lsblk": "2\n",
        "sos_commands/block/lsblk_-D": "3\n",
        "sos_commands/block/lsblkx": "4\n",
        "sos_reports/manifest.json": text,
    }
    found = sosreport_capture(files).outputs("lsblk")
    assert [output.text for output in found] == ["1\n", "2\n", "3\n"]


OUTPUTS = {f"insights_commands/{name}": f"{name}" for name in "abcdefgh"}


def insights_capture(files: dict[str, str]) -> SosCapture:
    """Return the capture of an Insights archive with these files."""
    return SosCapture(archive(files), "", kind="insights", commands="insights_commands")


def test_truncated_text_is_a_gap() -> None:
    """Files of the kernel and outputs must end with a newline; other files need not."""
    files = {
        "proc/sys/vm/dirty_ratio": "4",
        "etc/fstab": "/dev/a / ext4",
        "sos_commands/kernel/sysctl_-a": "vm.dirty_background_ratio = 10\nvm.dirty_ratio = 4",
        "sos_commands/kernel/uname_-a": "Linux\n",
    }
    held = sosreport_capture(files)
    cut = held.read("/proc/sys/vm/dirty_ratio")
    assert isinstance(cut, Unknown)
    assert (cut.why, cut.detail) == (Why.UNPARSABLE, cut_off("").text)
    assert held.read("/etc/fstab") == Known("/dev/a / ext4", "/etc/fstab")
    assert held.run("sysctl -a") == [cut_off("sos_commands/kernel/sysctl_-a")]


@pytest.mark.parametrize("status", [124, 137])
def test_output_of_a_stopped_command_is_a_gap(status: int) -> None:
    """With partial output an array would have fewer members."""
    member = "sos_commands/md/mdadm_-D_.dev.md"
    text = manifest(entry("mdadm -D /dev/md0", member, status))
    held = sosreport_capture({member: "/dev/md0:\n", "sos_reports/manifest.json": text})
    assert held.outputs("mdadm") == [Output(TIMED_OUT, member, status)]


@pytest.mark.parametrize("listed", [False, True])
def test_tail_of_a_long_output_is_a_gap(*, listed: bool) -> None:
    """A full dumpe2fs is an example; the manifest names the place of the truncated output."""
    member = "sos_strings/filesys/dumpe2fs_.dev.vda.tailed"
    told = manifest(entry("dumpe2fs  /dev/vda", member)) if listed else ""
    files = {member: "Group 9: \n", "sos_commands/x": "", "sos_reports/manifest.json": told}
    assert sosreport_capture(files).run("dumpe2fs /dev/vda") == [tailed(member)]


def test_archive_without_final_newlines_is_not_truncated() -> None:
    """Insights joins lines without a final newline since 2024."""
    held = insights_capture({**OUTPUTS, "proc/cmdline": "ro quiet", "etc/fstab": "", "x": "a\n"})
    assert held.read("/proc/cmdline") == Known("ro quiet\n", "/proc/cmdline")
    assert (held.read("/etc/fstab"), held.read("/x")) == (
        Known("", "/etc/fstab"),
        Known("a\n", "/x"),
    )
    assert held.run("a") == [Output("a\n", "insights_commands/a")]


@pytest.mark.parametrize("name", ["dumpe2fs_-h_.dev.sda1", "udevadm_info_.dev.sda"])
def test_joined_blank_last_line_is_not_a_final_newline(name: str) -> None:
    """Otherwise all texts of the archive would count as truncated."""
    files = {**OUTPUTS, f"insights_commands/{name}": "Journal start: 0\n", "proc/cmdline": "ro"}
    assert insights_capture(files).read("/proc/cmdline") == Known("ro\n", "/proc/cmdline")


@pytest.mark.parametrize("ended", ["insights_commands/a", "insights_commands/h"])
def test_one_final_newline_shows_that_others_are_truncated(ended: str) -> None:
    """Older archives end their texts as sosreports do."""
    files = {**OUTPUTS, ended: "x\n", "proc/cmdline": "ro qu"}
    assert isinstance(insights_capture(files).read("/proc/cmdline"), Unknown)


def test_archive_of_directories_has_no_output() -> None:
    """Nor does it cause an error."""
    held = SosCapture(empty_archive("sos_commands"), "", kind="sosreport", commands="sos_commands")
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
    """Return the capture of one supportconfig text."""
    return SupportconfigCapture(archive({f"{top}/fs-diskio.txt": text}), top)


def test_command_is_found_by_the_name_of_its_program() -> None:
    """/usr/bin/uname and /bin/uname are the same; a second run comes second."""
    line = "Linux sles 5.14.21-150500.55.44-default #1 SMP x86_64 x86_64 x86_64 GNU/Linux\n"
    assert supportconfig_capture().run("uname -a") == [
        Output(line, "fs-diskio.txt: uname -a"),
        Output("second\n", "fs-diskio.txt: uname -a"),
    ]
    assert supportconfig_capture().run("/bin/uname -a")[0].text == line


def test_a_file_has_no_comments_and_ends_in_a_newline() -> None:
    """Supportconfig removes the comments, so line numbers are not those of the host.

    The origin is the text that holds the section, and not the path alone.
    """
    assert supportconfig_capture().read("/etc/fstab") == Excerpt(
        "UUID=1 / ext4 defaults 1 1\nUUID=2 /data ext4 noatime 0 2\n", "fs-diskio.txt: /etc/fstab"
    )
    assert supportconfig_capture().children("/etc") == ("fstab",)


@pytest.mark.parametrize("path", ["/etc/mtab", "/etc/crypttab", "/etc/mtab - File not found"])
def test_file_that_was_not_found_is_absent(path: str) -> None:
    """The section has a heading that shows this."""
    assert supportconfig_capture().read(path) is None


def test_directory_without_sections_is_absent() -> None:
    """It is not reported as empty."""
    assert supportconfig_capture().children("/proc/fs/ext4") is None


def test_the_error_of_a_missing_program_is_its_output() -> None:
    """The text is judged later, like outputs of the other archives."""
    assert [output.text for output in supportconfig_capture().outputs("mdadm")] == [
        "ERROR: Command not found or not executable\n"
    ]


@pytest.mark.parametrize("end", ["", "\n", "\n#==[ Comma"])
def test_truncated_section_is_a_gap(end: str) -> None:
    """Each section ends with a blank line; those before the last are complete."""
    start, _, fstab = TEXT.partition("#==[ Configuration File ]")
    text = "#==[ Configuration File ]" + fstab.partition("\nUUID=2")[0]
    found = supportconfig_capture(start + text + end).read("/etc/fstab")
    assert isinstance(found, Unknown)
    assert (found.why, found.detail) == (Why.UNPARSABLE, "fs-diskio.txt is cut off in it")
    assert supportconfig_capture(start + text + end).run("uname -a")[0].status is None
    cut = supportconfig_capture(start.rstrip("\n")).run("uname -a")
    assert cut == [cut_off("fs-diskio.txt: uname -a")]


def test_kernel_file_with_a_zeroed_block_is_a_gap() -> None:
    """A block of zeros hides an option and what follows it."""
    text = "#==[ Configuration File ]===#\n# /proc/fs/ext4/vda/options\nrw\n\0\0=ordered\n\n"
    assert isinstance(supportconfig_capture(text).read("/proc/fs/ext4/vda/options"), Unknown)


@pytest.mark.parametrize("text", ["", "#==[ Command ]===#", "#==[ Command ]===#\n\n# x\n", "x\n"])
def test_text_without_sections_is_empty(text: str) -> None:
    """A section without a title is skipped."""
    held = supportconfig_capture(text)
    assert (held.read("/etc/fstab"), held.run("uname -a"), held.outputs("x")) == (None, [], [])


def test_crlf_line_ends() -> None:
    """Some texts were sent through programs that write CR and LF."""
    held = supportconfig_capture(TEXT.replace("\n", "\r\n"))
    assert held.read("/etc/fstab") == supportconfig_capture().read("/etc/fstab")
