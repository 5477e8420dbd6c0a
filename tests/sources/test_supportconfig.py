from __future__ import annotations

import pytest

from ext4audit.evidence import Known
from ext4audit.sources.foreign_capture import Output
from ext4audit.sources.supportconfig import SupportconfigCapture
from foreign_archives import archive

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


def capture(text: str = TEXT, top: str = "scc_sles_261121_0557") -> SupportconfigCapture:
    """Return the capture of one text."""
    return SupportconfigCapture(archive({f"{top}/fs-diskio.txt": text}), top)


def test_a_command_is_found_whatever_folder_its_program_lay_in() -> None:
    """/usr/bin/uname and /bin/uname are one; a second run of it comes second."""
    line = "Linux sles 5.14.21-150500.55.44-default #1 SMP x86_64 x86_64 x86_64 GNU/Linux\n"
    assert capture().run("uname -a") == [
        Output(line, "fs-diskio.txt: uname -a"),
        Output("second\n", "fs-diskio.txt: uname -a"),
    ]
    assert capture().run("/bin/uname -a")[0].text == line


def test_a_file_has_no_comments_and_ends_in_a_newline() -> None:
    """For supportconfig removes them: the numbers of lines are not those of the host."""
    assert capture().read("/etc/fstab") == Known(
        "UUID=1 / ext4 defaults 1 1\nUUID=2 /data ext4 noatime 0 2\n", "/etc/fstab"
    )
    assert capture().children("/etc") == ("fstab",)


@pytest.mark.parametrize("path", ["/etc/mtab", "/etc/crypttab", "/etc/mtab - File not found"])
def test_a_file_that_was_not_found_is_not_there(path: str) -> None:
    """Its section has a heading that says so."""
    assert capture().read(path) is None


def test_a_directory_without_sections_is_not_there() -> None:
    """Rather than empty."""
    assert capture().children("/proc/fs/ext4") is None


def test_the_error_of_a_missing_program_is_its_output() -> None:
    """It is judged later, like the texts of the other archives."""
    assert [output.text for output in capture().outputs("mdadm")] == [
        "ERROR: Command not found or not executable\n"
    ]


@pytest.mark.parametrize("text", ["", "#==[ Command ]===#", "#==[ Command ]===#\n\n# x\n", "x\n"])
def test_a_text_without_sections_holds_nothing(text: str) -> None:
    """And a section without a title is passed over."""
    held = capture(text)
    assert (held.read("/etc/fstab"), held.run("uname -a"), held.outputs("x")) == (None, [], [])


def test_lines_of_a_dos_console_are_lines() -> None:
    """Some were sent through programs that write CR and LF."""
    held = capture(TEXT.replace("\n", "\r\n"))
    assert held.read("/etc/fstab") == capture().read("/etc/fstab")
