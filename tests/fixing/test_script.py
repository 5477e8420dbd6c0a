"""Data of a script: the arguments with which it calls the functions of fix.sh."""

from __future__ import annotations

import re

import pytest

from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import (
    Assignment,
    Check,
    Disruption,
    LineEdit,
    NewFile,
    NewMount,
    Phase,
    Programs,
    Remedy,
    Remount,
    Setting,
    Step,
    Unmount,
)
from ext4audit.fixing import ChosenRemedy
from ext4audit.fixing.script import AuditedHost, Script, build_script
from ext4audit.rules import all_rules
from support.builders import disk, filesystem, known, mount, unknown

RULE = next(rule for rule in all_rules() if rule.code == "DUR001")
HOST = AuditedHost("db1", "0123", "2026-01-02T03:04:05Z", "0.2")
DATA = filesystem(mounts=(mount("/a b"),), uuid="u-1")
IN_A_PARTITION = known(
    disk(number=DeviceNumber(0, 2), kind="partition", below=known((disk(kind="image"),)))
)
"""Device of a filesystem in an image of a whole disk."""
LINES = ("/dev/a /a ext4 nobarrier,commit=5 0 2", "/dev/a /a ext4 commit=5 0 2", "/dev/a /a ext4 x")


def script(*remedies: tuple[Step, ...], fs: object = DATA) -> Script:
    """Build the script of some remedies of one filesystem."""
    chosen = [
        ChosenRemedy(RULE, f"/{n}", Remedy("Do it.", Disruption.ONLINE, steps), (fs,))  # type: ignore[arg-type]
        for n, steps in enumerate(remedies)
    ]
    return build_script(HOST, chosen, ())


def calls(made: Script, number: int = 1) -> dict[str, str]:
    """Return the calls of a remedy by label, each joined into one line."""
    (body,) = re.findall(rf"(?ms)^remedy_{number}\(\) \{{\n(.*?)^\}}$", made.text)
    cases = re.findall(r"(?ms)^\t(\w+)\)\n\t\t(.*?)\n\t\t;;$", body)
    return {label: " ".join(text.split()) for label, text in cases}


def edit(before: str, after: str) -> Step:
    """Build an edit of line 2 with its check."""
    change = LineEdit("/etc/fstab", 2, before, after)
    return Step(Phase.PERSISTENT, "sed", "", "grep line", change)


def test_an_edited_line_has_all_states_that_it_takes() -> None:
    """Each edit states the number of its initial state: the first, or the previous edit's."""
    made = script((edit(LINES[0], LINES[1]),), (edit(LINES[0], LINES[0].replace("=5", "=9")),))
    first, second = (calls(made, n)["1"] for n in (1, 2))
    assert first.startswith("edit_line /etc/fstab 2 1 ")
    assert second.startswith("edit_line /etc/fstab 2 2 ")
    assert first.removeprefix("edit_line /etc/fstab 2 1") == second.removeprefix(
        "edit_line /etc/fstab 2 2"
    )
    assert first.count("/dev/a /a ext4") == 3


def test_an_edit_without_a_number_looks_for_its_line() -> None:
    """Line number 0 makes the script search for the text."""
    step = edit(LINES[0], LINES[1])
    assert isinstance(step.change, LineEdit)
    made = script((step._replace(change=step.change._replace(is_numbered=False)),))
    assert calls(made)["1"].startswith("edit_line /etc/fstab 0 1 ")


def test_each_kind_of_change_has_its_function() -> None:
    """Calls name the device that they inspect; mount points are escaped as in mountinfo."""
    device, name, number = DATA.device, DATA.name, str(DATA.device_number)
    again = f"mount {device} '/a b'"
    made = script(
        (
            Step(Phase.PERSISTENT, "printf", change=NewFile("/etc/x", "1\n")),
            Step(
                Phase.IMMEDIATE,
                "mount -o remount",
                "mount -o first",
                "grep -q y",
                Remount("/a b", ("nobarrier",), ("barrier", "commit=5")),
                "umount '/a b' && mount -o second",
            ),
        ),
        (
            Step(Phase.IMMEDIATE, "umount '/a b'", again, change=Unmount("/a b", again)),
            Step(Phase.IMMEDIATE, "e2fsck -p", "undo", "done", Check(device, wholes=("/dev/a b",))),
            Step(Phase.IMMEDIATE, "tune2fs -m 1", "tune2fs -m 5", "true"),
            Step(Phase.IMMEDIATE, "tune2fs -r 1", "tune2fs -r 5", "true", Setting("grep 5")),
            Step(Phase.IMMEDIATE, again, "", "mountpoint", NewMount("/a b"), "umount '/a b'"),
            Step(Phase.VERIFY, "grep -q z"),
        ),
    )
    key = r"'/a\040b'"
    by_unmount = """'{ umount '"'"'/a b'"'"' && mount -o second; }'"""
    first, second = calls(made, 1), calls(made, 2)
    assert re.findall(r"^#   (\d+)\. ", made.text, re.MULTILINE) == ["1", "2"]
    assert first["filesystems"] == f"filesystem {device} {name} {number} u-1"
    assert first["1"] == "new_file /etc/x 1"
    assert first["2"].startswith(f"remount '/a b' {key} {name} {number} ")
    assert first["2"].endswith("'barrier<nobarrier' 'commit=5<'")
    assert f" false {by_unmount} 'grep -q y' " in first["2"]
    assert first["verify"] == ":"
    assert second["1"].startswith(f"unmount '/a b' {key} {name} {number} ")
    assert second["2"] == f"check {device} {name} -fp 'e2fsck -p' undo done '/dev/a b'"
    assert second["3"] == "run_step 'tune2fs -m 1' 'tune2fs -m 5' true"
    assert second["4"] == "setting 'tune2fs -r 1' 'tune2fs -r 5' true 'grep 5'"
    assert second["5"].startswith(f"mount_step {key} ")
    assert second["verify"] == "verify false 'grep -q z'"
    assert "steps=2 strict=true" in made.text
    assert "steps=5 strict=false" in made.text


def test_a_mount_without_an_unmount_names_its_directory() -> None:
    """However its commands are spelled: the change has the name."""
    step = Step(Phase.IMMEDIATE, "LANG=C mount x", "", "done", NewMount("/x y"), "umount -v x")
    key = r"'/x\040y'"
    words = f"mount_step {key} 'LANG=C mount x' 'umount -v x' done"
    assert calls(script((step,)))["1"] == f"{words} false"
    step = step._replace(change=NewMount("/x y", done_before=True))
    assert calls(script((step,)))["1"] == f"{words} true"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"uuid": None}, "its UUID is unknown, so"),
        (
            {"uuid": None, "superblock": unknown("superblock", hint="run as root")},
            "its UUID is unknown (run as root), so the script could not identify it",
        ),
        ({"stack": known(disk(kind="image"))}, "it is an image"),
        ({"stack": IN_A_PARTITION}, "it is an image"),
        ({"device": "/dev/a\n"}, "a name that a shell script cannot contain"),
        ({"mounts": (mount("/b"),)}, "no audited filesystem is mounted on /a b"),
    ],
)
def test_what_a_script_cannot_hold_is_left_out(changes: dict[str, object], reason: str) -> None:
    """The script's head gives the reason."""
    step = Step(Phase.IMMEDIATE, "mount", change=Remount("/a b", (), ("barrier",)))
    base = {"mounts": (mount("/a b"),), "uuid": "u-1"}
    made = script((step,), fs=filesystem(**{**base, **changes}))
    assert made.chosen == ()
    (left,) = made.left
    assert reason in str(left)
    assert "# Applied remedies: none." in made.text
    assert "# Omitted findings:" in made.text


@pytest.mark.parametrize(("name", "uuid"), [("tune2fs -U", "''"), ("tune2fs -L", "u-1")])
def test_a_uuid_that_a_step_changes_is_no_precondition(name: str, uuid: str) -> None:
    """--undo and a second run find another one."""
    sets = (Assignment(DATA.device, name, "random"),)
    made = script((Step(Phase.IMMEDIATE, "set it", sets=sets),))
    assert calls(made)["filesystems"].endswith(f" {uuid}")


def test_the_settings_name_host_and_tools() -> None:
    """The listed tools are those that the steps name and those of the functions."""
    programs = Programs(("tune2fs",), ("blkid",), ("findmnt",), ("resize2fs",))
    first = Step(Phase.IMMEDIATE, "echo e2fsck", "undo", "done", programs=programs)
    made = script((first, Step(Phase.VERIFY, "check", programs=Programs(("dumpe2fs",)))))
    (tools,) = re.findall(r"^tools='(.*)'$", made.text, re.MULTILINE)
    assert {"tune2fs", "blkid", "findmnt", "dumpe2fs"} < set(tools.split())
    assert not {"e2fsck", "resize2fs"} & set(tools.split())
    assert "\nmachine_id=0123\nnode=db1\n" in made.text
    assert "\nremedies=1\n" in made.text
    assert f"\nid={made.identity}\n" in made.text
    assert re.fullmatch(r"[0-9a-f]{12}", made.identity)
    assert made.text.endswith('\nmain "$@"\n')
