from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ext4audit.facts.mount import FstabLine
from ext4audit.finding import Phase
from ext4audit.remedies.fstab import (
    device_steps,
    edit_options,
    edit_spec,
    option_steps,
    remove_quota_steps,
)
from support.builders import fstab_entry

BEFORE = (
    "# made by hand\n"
    "UUID=1234 / ext4 errors=remount-ro 0 1\n"
    "LINE\n"
    "UUID=1234 /data2 ext4 defaults,nobarrier 0 2"
)


def line(raw: str, mount_point: str = "/data") -> FstabLine:
    """Build the third line of a file, its options as the file spells them."""
    return FstabLine(3, "UUID=5678", mount_point, "ext4", tuple(raw.split(",")), raw, 0, 2)


def run(commands: tuple[str, ...], folder: Path) -> bool:
    """Run commands on the copy of fstab in a folder; whether all succeeded."""
    return all(
        subprocess.run(
            ["sh", "-c", command.replace("/etc/", f"{folder}/")], capture_output=True, check=False
        ).returncode
        == 0
        for command in commands
    )


def place(folder: Path, written: str) -> Path:
    """Write the copy of fstab with `written` as its third line."""
    fstab = folder / "fstab"
    fstab.write_bytes(BEFORE.replace("LINE", written).encode("utf-8", "surrogateescape"))
    return fstab


@pytest.mark.parametrize(
    ("raw", "drop", "add", "expected"),
    [
        ("noatime,nobarrier", ["nobarrier"], [], "noatime"),
        ("noatime,barrier=0,nofail", ["nobarrier"], [], "noatime,nofail"),
        ("nobarrier", ["barrier=0"], [], "defaults"),
        ("nobarrier,barrier=0", ["nobarrier"], ["barrier"], "barrier"),
        ("defaults", [], ["barrier"], "defaults,barrier"),
        ("defaults,dioread_nolock", ["dioread_nolock"], ["dioread_lock"], "defaults,dioread_lock"),
        ("nodioread_nolock,dioread_nolock", ["dioread_nolock"], [], "nodioread_nolock"),
        ("noatime,,nobarrier,", ["nobarrier"], [], "noatime"),
        (
            'context="system_u:object_r:a_t:s0:c1,c2",nodelalloc',
            ["nodelalloc"],
            [],
            'context="system_u:object_r:a_t:s0:c1,c2"',
        ),
        (
            r"x-a=\040*.[#]&\134,x'y`id`$(id),noload",
            ["norecovery"],
            [],
            r"x-a=\040*.[#]&\134,x'y`id`$(id)",
        ),
        ("x-b=\udcff+?(){}|^$,discard", ["discard"], ["commit=5"], "x-b=\udcff+?(){}|^$,commit=5"),
    ],
)
def test_the_edit_changes_only_the_options_and_the_undo_restores_the_file(
    raw: str, drop: list[str], add: list[str], expected: str, tmp_path: Path
) -> None:
    """The commands, run by a shell on a real file, change one field of one line and back."""
    fstab = place(tmp_path, f"UUID=5678\t/data  ext4 {raw}\t0 2")
    before = fstab.read_bytes()
    edit = edit_options(line(raw), drop, add)
    assert edit is not None
    assert run(edit.apply, tmp_path)
    edited = before.replace(
        raw.encode("utf-8", "surrogateescape"), expected.encode("utf-8", "surrogateescape"), 1
    )
    assert fstab.read_bytes() == edited
    assert (tmp_path / "fstab.ext4audit").read_bytes() == before
    assert run(edit.undo, tmp_path)
    assert fstab.read_bytes() == before


@pytest.mark.parametrize(
    ("mount_point", "written"),
    [
        ("/", "/"),
        ("/data", "/data/"),
        ("/my data", r"/my\040data"),
        ("/a\tb\\c", r"/a\011b\134c"),
        ("/#x", "/#x"),
        ("/ä", "/ä"),
        ("/ä", r"/\303\244"),
        ("/\udcff.*", "/\udcff.*"),
        ("/$(id)'\"", "/$(id)'\""),
    ],
)
def test_the_line_is_found_however_its_mount_point_is_spelled(
    mount_point: str, written: str, tmp_path: Path
) -> None:
    """Octal escapes, a last slash and bytes that are not UTF-8 do not hide a line."""
    fstab = place(tmp_path, f"UUID=5678 {written} ext4 nobarrier 0 2")
    edit = edit_options(line("nobarrier", mount_point), ["nobarrier"], [])
    assert edit is not None
    assert run(edit.apply, tmp_path)
    assert fstab.read_bytes().splitlines()[2].endswith(b" ext4 defaults 0 2")


@pytest.mark.parametrize(
    "changed",
    [
        "UUID=5678 /data ext4 nobarrier,noatime 0 2",
        "UUID=5678 /data ext4 noatime,nobarrier 0 2",
        "UUID=5678 /data2 ext4 nobarrier 0 2",
        "UUID=5678 /datum ext4 nobarrier 0 2",
        "# UUID=5678 /data ext4 nobarrier 0 2",
        "",
    ],
)
def test_a_file_that_was_changed_since_the_audit_is_left_alone(
    changed: str, tmp_path: Path
) -> None:
    """Where that line is another now, nothing is edited, and the last command says so."""
    fstab = place(tmp_path, changed)
    before = fstab.read_bytes()
    edit = edit_options(line("nobarrier"), ["nobarrier"], [])
    assert edit is not None
    assert not run(edit.apply, tmp_path)
    assert fstab.read_bytes() == before


@pytest.mark.parametrize(
    ("raw", "drop", "add"),
    [
        ("defaults,noatime", ["nobarrier"], []),
        ("defaults,barrier=1", ["nobarrier"], ["barrier"]),
        ("", [], ["barrier"]),
        ("defaults,x\0y", [], ["barrier"]),
    ],
)
def test_there_is_no_edit_where_nothing_changes_or_nothing_can(
    raw: str, drop: list[str], add: list[str]
) -> None:
    """No command is printed that would do nothing, or that no shell could run."""
    assert edit_options(line(raw), drop, add) is None


def test_the_commands_are_readable() -> None:
    """A person can read what is going to be run as root."""
    edit = edit_options(fstab_entry("noatime", "barrier=0").line, ["nobarrier"], [])
    assert edit is not None
    assert edit.apply == (
        "test -e /etc/fstab.ext4audit || cp -a /etc/fstab /etc/fstab.ext4audit",
        (
            "LC_ALL=C sed -i -E '7s#^([[:blank:]]*[^[:blank:]]+[[:blank:]]+/data/*[[:blank:]]+"
            r"[^[:blank:]]+[[:blank:]]+)noatime,barrier=0([[:blank:]]|$)#\1noatime\2#' /etc/fstab"
        ),
        (
            "sed -n 7p /etc/fstab | LC_ALL=C grep -qE '^[[:blank:]]*[^[:blank:]]+[[:blank:]]+"
            "/data/*[[:blank:]]+[^[:blank:]]+[[:blank:]]+noatime([[:blank:]]|$)' || "
            "{ echo 'line 7 of /etc/fstab is not what was audited: nothing changed, scan again' "
            ">&2; false; }"
        ),
    )


SPEC_LINES = [
    ("/data", "/dev/sda1 /data ext4 defaults 0 2"),
    ("/data", "  /dev/sda1\t/data/  ext4"),
    ("/my data", r"/dev/sda1 /my\040data ext4 noatime,x-a=/dev/sda1 0 2"),
    ("/\udcff.*", "/dev/sda1 /\udcff.* ext4 defaults 0 2"),
]


@pytest.mark.parametrize(("mount_point", "written"), SPEC_LINES)
def test_the_first_field_is_changed_and_changed_back(
    mount_point: str, written: str, tmp_path: Path
) -> None:
    """Only the device's name changes, and the undo restores the file byte for byte."""
    fstab = place(tmp_path, written)
    before = fstab.read_bytes()
    edit = edit_spec(line("", mount_point)._replace(spec="/dev/sda1"), "UUID=12-34")
    assert edit is not None
    assert run(edit.apply, tmp_path)
    assert fstab.read_bytes() == before.replace(b"/dev/sda1", b"UUID=12-34", 1)
    assert run(edit.undo, tmp_path)
    assert fstab.read_bytes() == before


@pytest.mark.parametrize(
    "changed",
    [
        "/dev/sda11 /data ext4 defaults 0 2",
        "/dev/sda1 /data2 ext4 defaults 0 2",
        "/dev/sda1 /x/data ext4 defaults 0 2",
        "/dev/disk/dev/sda1 /data ext4 defaults 0 2",
        "# /dev/sda1 /data ext4 defaults 0 2",
        "",
    ],
)
def test_the_first_field_of_another_line_is_left_alone(changed: str, tmp_path: Path) -> None:
    """A line that is not what was audited keeps its device, and the last command says so."""
    fstab = place(tmp_path, changed)
    before = fstab.read_bytes()
    edit = edit_spec(line("")._replace(spec="/dev/sda1"), "UUID=12-34")
    assert edit is not None
    assert not run(edit.apply, tmp_path)
    assert fstab.read_bytes() == before


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("UUID=1", "UUID=1"),
        ("LABEL=my disk", "UUID=1"),
        ("/dev/sda1", "UUID=$(id)"),
        ("/dev/sda1", ""),
    ],
)
def test_a_first_field_that_fstab_may_spell_otherwise_is_not_edited(spec: str, wanted: str) -> None:
    """Blanks and bytes in octal, and names that no identifier has."""
    assert edit_spec(line("")._replace(spec=spec), wanted) is None


@pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed")
def test_busybox_sed_understands_the_edit(tmp_path: Path) -> None:
    """A rescue system's sed edits the same line."""
    fstab = place(tmp_path, "UUID=5678 /data ext4 nobarrier 0 2")
    edit = edit_options(line("nobarrier"), ["nobarrier"], [])
    assert edit is not None
    assert run(tuple(c.replace(" sed ", " busybox sed ") for c in edit.apply), tmp_path)
    assert b"/data ext4 defaults 0 2" in fstab.read_bytes()


def test_the_steps_check_what_is_removed_and_what_is_added() -> None:
    """The order is edit, verification, rollback."""
    steps = option_steps(line("nobarrier,noatime"), ["nobarrier"], ["nofail"])
    checks = [step.command for step in steps if step.phase is Phase.VERIFY]
    listing = "findmnt --fstab -no OPTIONS /data | grep -qwF -e"
    assert checks == [f"! {listing} nobarrier", f"{listing} nofail"]
    phases = list(dict.fromkeys(step.phase for step in steps))
    assert phases == [Phase.PERSISTENT, Phase.VERIFY, Phase.ROLLBACK]


def test_there_are_no_steps_where_no_check_can_be_written() -> None:
    """A mount point with a newline at its end is no shell word: an edit alone is no change."""
    odd = line("nobarrier,usrquota", "/data\n")
    assert edit_options(odd, ["nobarrier"], ()) is not None
    assert option_steps(odd, ["nobarrier"], ()) == ()
    assert remove_quota_steps(odd, ["usrquota"]) == ()
    assert device_steps(odd, "UUID=9abc") == ()
