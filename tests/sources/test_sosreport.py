from __future__ import annotations

import json

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.archive_base import FOREIGN_LIMITS
from ext4audit.sources.archive_tree import File, MemoryArchive
from ext4audit.sources.foreign_capture import Output
from ext4audit.sources.sosreport import SosCapture
from foreign_archives import archive, below, empty


def capture(files: dict[str, str], root: str = "") -> SosCapture:
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
    held = capture({"etc/fstab": "a\n", "sos_commands/x": ""}, root)
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
    made = MemoryArchive("a.tar", FOREIGN_LIMITS)
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
    held = capture({name: "one", f"{name}.1": "two", f"{name}.3": "another device's"})
    assert held.run("dumpe2fs -h /dev/vg/lv") == [Output("one", name), Output("two", f"{name}.1")]
    assert held.run("dumpe2fs -h /dev/vda") == []


def test_a_manifest_says_which_command_a_file_is_of() -> None:
    """Two devices whose names mangle alike are told apart, whatever the order of the files."""
    one, two = "sos_commands/filesys/d", "sos_commands/filesys/d.1"
    text = manifest(
        entry("dumpe2fs -h /dev/vg.lv", one, 0), entry("/sbin/dumpe2fs  -h /dev/vg/lv", two, 1)
    )
    held = capture({one: "dot", two: "slash", "sos_reports/manifest.json": text})
    assert held.run("dumpe2fs -h /dev/vg/lv") == [Output("slash", two, 1)]
    assert held.run("dumpe2fs -h /dev/vg.lv") == [Output("dot", one, 0)]


def test_a_file_that_the_manifest_gives_to_one_command_is_no_other_ones() -> None:
    """The name alone would say that it is."""
    member = "sos_commands/filesys/dumpe2fs_-h_.dev.vg.lv"
    text = manifest(entry("dumpe2fs -h /dev/vg.lv", member))
    held = capture({member: "dot", "sos_reports/manifest.json": text})
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
    held = capture({"sos_commands/kernel/uname_-a": "L", "sos_reports/manifest.json": text})
    assert held.run("uname -a") == [Output("L", "sos_commands/kernel/uname_-a")]


def test_a_file_that_the_manifest_names_and_nobody_packed_is_a_failure() -> None:
    """It is not passed over: another file of the name would be another command's."""
    text = manifest(entry("uname -a", "sos_commands/kernel/gone"))
    held = capture({"sos_commands/x": "", "sos_reports/manifest.json": text})
    assert held.run("uname -a") == [Output("not in the archive", "sos_commands/kernel/gone", 1)]


def test_a_manifest_cannot_name_what_lies_outside() -> None:
    """A path with ".." leads out of no archive."""
    text = manifest(entry("uname -a", "../../../etc/shadow"))
    held = capture({"sos_commands/x": "", "sos_reports/manifest.json": text}, "top")
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
    assert [output.text for output in capture(files).outputs("lsblk")] == ["1", "2", "3"]


def test_an_archive_of_directories_holds_no_output() -> None:
    """And no error either."""
    held = SosCapture(empty("sos_commands"), "", kind="sosreport", commands="sos_commands")
    assert held.run("uname -a") == []
