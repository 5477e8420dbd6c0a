"""Script steps that need more than an edit and a remount: e2fsck, files, settings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ext4audit import remedies
from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem
from ext4audit.finding import (
    Check,
    Disruption,
    Inspection,
    LineEdit,
    NewFile,
    NewMount,
    Phase,
    Programs,
    Remedy,
    Step,
    Unmount,
)
from ext4audit.fixing import ChosenRemedy
from ext4audit.fixing.script import AuditedHost, build_script
from ext4audit.remedies import superblock_fields as fields
from ext4audit.rules import all_rules
from support.builders import fstab_entry
from support.filesystems.scratch import run, scanned_host
from support.remedies.fixing import FixScenario, calls_with_faults

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("remedies")]
RULE = next(rule for rule in all_rules() if rule.code == "HLT001")


@pytest.fixture
def scene(tmp_path: Path, etc: Path) -> Iterator[FixScenario]:
    """Mount a filesystem."""
    image, where = tmp_path / "image", tmp_path / "data"
    where.mkdir()
    run("truncate", "-s", "64M", image)
    run("mke2fs", "-q", "-F", "-t", "ext4", image)
    device = run("losetup", "--find", "--show", image).strip()
    etc.write_text("")
    run("mount", "-t", "ext4", device, where)
    yield FixScenario(tmp_path, device, where, etc)
    subprocess.run(["umount", "-A", device], check=False, capture_output=True)
    run("losetup", "--detach", device)


def write(scene: FixScenario, *steps: Step) -> None:
    """Write the script of one remedy with these steps."""
    (fs,) = scanned_host(scene.mount_point).filesystems
    chosen = ChosenRemedy(
        RULE, str(scene.mount_point), Remedy("Try.", Disruption.UNMOUNT, steps), (fs,)
    )
    host = AuditedHost(os.uname().nodename, None, "now", "0")
    built = build_script(host, [chosen], [])
    assert not built.left
    scene.script.write_text(built.text)


def check_steps(scene: FixScenario) -> tuple[Step, ...]:
    """Return steps that unmount, check, and mount as before."""
    again = f"mount -t ext4 -o rw,relatime {scene.device} {scene.mount_point}"
    return (
        Step(
            Phase.IMMEDIATE,
            f"umount {scene.mount_point}",
            change=Unmount(str(scene.mount_point), again),
        ),
        Step(Phase.IMMEDIATE, f"e2fsck -f -p {scene.device}", change=Check(scene.device)),
        Step(
            Phase.IMMEDIATE,
            again,
            done=f"mountpoint -q {scene.mount_point}",
            change=NewMount(str(scene.mount_point), done_before=True),
        ),
    )


def test_filesystem_that_e2fsck_refuses_stays_unmounted(scene: FixScenario) -> None:
    """The message shows the mount command; neither --apply nor --undo mounts it before."""
    write(scene, *check_steps(scene))
    # Two files share blocks: e2fsck -p cannot repair that, and exits with 4.
    (scene.mount_point / "a").write_bytes(b"x" * 8192)
    (scene.mount_point / "b").write_bytes(b"y" * 8192)
    run("umount", scene.mount_point)
    run("debugfs", "-w", "-R", "copy_inode /a /b", scene.device)
    run("mount", "-t", "ext4", scene.device, scene.mount_point)
    first = scene.run_script("--apply")
    assert first.returncode == 1, first.stdout + first.stderr
    assert "e2fsck refused to repair" in first.stderr
    for word in ("--apply", "--undo"):
        done = scene.run_script(word)
        assert done.returncode == 1
        assert f"mount it: mount -t ext4 -o rw,relatime {scene.device}" in done.stderr
        assert not os.path.ismount(scene.mount_point)
    subprocess.run(["e2fsck", "-f", "-y", scene.device], check=False, capture_output=True)
    run("mount", "-t", "ext4", scene.device, scene.mount_point)
    done = scene.run_script("--apply")
    assert done.returncode == 0, done.stderr
    assert os.path.ismount(scene.mount_point)


@pytest.mark.parametrize("mode", ["fail", "kill", "late"])
def test_a_fault_around_a_check_ends_mounted(scene: FixScenario, mode: str) -> None:
    """After --undo it is mounted, no matter which call was interrupted."""
    write(scene, *check_steps(scene))
    before = scene.state()
    assert scene.run_script("--apply", path=scene.inject(0, mode)).returncode == 0
    for at in calls_with_faults(scene.calls):
        scene.run_script("--apply", path=scene.inject(at, mode))
        done = scene.run_script("--undo")
        if done.returncode:
            # An e2fsck made to fail with 32 has refused: the user must mount it.
            assert "stays unmounted" in done.stderr, (at, done.stderr)
            run("mount", "-t", "ext4", scene.device, scene.mount_point)
            assert scene.run_script("--undo").returncode == 0
        assert scene.state()["mounts"] == before["mounts"], at


def test_a_file_with_other_content_is_neither_replaced_nor_removed(scene: FixScenario) -> None:
    """It is refused before any change; an undo does not touch a file changed since."""
    path = scene.fstab.parent / "ext4audit-test.conf"
    steps = Step(
        Phase.PERSISTENT, f"printf 'a\\nb\\n' > {path}", change=NewFile(str(path), "a\nb\n")
    )
    write(scene, steps)
    path.write_text("other\n")
    done = scene.run_script("--apply")
    assert (done.returncode, "exists with different content" in done.stderr) == (1, True)
    path.unlink()
    assert scene.run_script("--apply").returncode == 0
    assert path.read_text() == "a\nb\n"
    assert oct(path.stat().st_mode) == "0o100644"
    assert "already applied" in scene.run_script("--apply").stdout
    path.write_text("mine\n")
    done = scene.run_script("--undo")
    assert (done.returncode, "has changed" in done.stderr) == (1, True)
    path.write_text("a\nb\n")
    assert scene.run_script("--undo").returncode == 0
    assert not path.exists()


def test_the_text_finds_a_line_whose_number_is_not_known(scene: FixScenario) -> None:
    """The audit had no line numbers; if the line is missing, nothing is changed."""
    lines = [f"UUID=1 /a ext4 {words} 0 2" for words in ("nobarrier", "defaults")]
    sed = f"sed -i 's/nobarrier/defaults/' {scene.fstab}"
    change = LineEdit(str(scene.fstab), 1, lines[0], lines[1], is_numbered=False)
    write(scene, Step(Phase.PERSISTENT, sed, "", f"grep -qxF '{lines[1]}' {scene.fstab}", change))
    around = "# a comment\n\nUUID=2 /b ext4 nobarrier 0 2\n{}\n# the last line\n"
    scene.fstab.write_text(around.format(lines[0]))
    assert "@@ -4 +4 @@" in scene.run_script().stdout
    assert scene.run_script("--apply").returncode == 0
    assert scene.fstab.read_text() == around.format(lines[1])
    assert "already applied" in scene.run_script("--apply").stdout
    assert scene.run_script("--undo").returncode == 0
    assert scene.fstab.read_text() == around.format(lines[0])
    scene.fstab.write_text(around.format("# gone"))
    done = scene.run_script("--apply")
    assert (done.returncode, "is as audited" in done.stderr) == (1, True), done.stderr
    assert scene.fstab.read_text() == around.format("# gone")


def test_a_directory_that_cannot_be_listed_is_refused(scene: FixScenario) -> None:
    """It is refused at once: the script would stop there, with later remedies not run."""
    missing = scene.folder / "missing"
    first = Step(Phase.IMMEDIATE, f"ls -A {missing}", change=Inspection(runs_first=True))
    write(scene, first, Step(Phase.IMMEDIATE, "true", "true"))
    done = scene.run_script()
    assert (done.returncode, f"refused: failed: ls -A {missing}" in done.stderr) == (1, True)
    missing.mkdir()
    assert "1 to apply" in scene.run_script().stdout


def test_step_without_effect_fails_and_is_rolled_back(scene: FixScenario) -> None:
    """Each step is verified by its result."""
    mark = scene.folder / "mark"
    write(
        scene,
        Step(Phase.IMMEDIATE, f"touch {mark}", f"rm -f {mark}", f"test -e {mark}"),
        Step(Phase.IMMEDIATE, "true", "true", "false"),
    )
    done = scene.run_script("--apply")
    assert done.returncode == 1
    assert "step 2 ran without the expected result" in done.stderr
    assert "rolled back" in done.stderr
    assert not mark.exists()


def test_unverified_remedy_is_rolled_back(scene: FixScenario) -> None:
    """Its own checks run after all steps."""
    mark = scene.folder / "mark"
    write(
        scene,
        Step(Phase.IMMEDIATE, f"touch {mark}", f"rm -f {mark}", f"test -e {mark}"),
        Step(Phase.VERIFY, "false"),
    )
    done = scene.run_script("--apply")
    assert (done.returncode, "verification failed: false" in done.stderr) == (1, True)
    assert not mark.exists()


def throttled(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that disable writeback throttling of the device."""
    value = int(Path(f"/sys/block/{fs.name}/queue/wbt_lat_usec").read_text())
    return remedies.configuration.disable_writeback_throttling([(fs.name, value)])[:1]


OTHER_LATENCY = "cd /sys/block/{name}/queue && echo $(($(cat wbt_lat_usec) + 1)) > wbt_lat_usec"
OTHER_STRING = """umount {where} &&
debugfs -w -R 'set_super_value mount_opts nodelalloc,commit=9' {device} &&
mount {device} {where}"""


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        ("tune2fs -r 77 {device}", lambda fs: fields.set_reserved_blocks(fs, 100)),
        ("tune2fs -r 77 {device}", lambda fs: fields.reserve_nothing(fs, 3276)),
        ("tune2fs -e panic {device}", lambda fs: fields.stop_at_errors(fs, "errors=remount-ro")),
        (
            "tune2fs -u 7 {device}",
            lambda fs: fields.give_reserve_to_root(fs, {"resuid": "resuid=5"}),
        ),
        (
            "tune2fs -E stride=3,stripe_width=6 {device}",
            lambda fs: fields.set_stripe(fs, need(fs.superblock), 4, 8),
        ),
        (
            OTHER_STRING,
            lambda fs: remedies.options.change_option(fs, "delalloc", "delalloc"),
        ),
        (OTHER_LATENCY, throttled),
    ],
    ids=["reserve", "no reserve", "errors", "owner", "stripe", "string", "queue"],
)
def test_changed_value_is_refused(
    scene: FixScenario, change: str, steps: Callable[[Filesystem], tuple[Step, ...]]
) -> None:
    """A rollback could not restore it. The audited and the wanted value are accepted."""
    run("umount", scene.mount_point)
    run("tune2fs", "-r", "3276", "-u", "5", "-E", "mount_opts=nodelalloc", scene.device)
    run("mount", scene.device, scene.mount_point)
    (fs,) = scanned_host(scene.mount_point).filesystems
    write(scene, *steps(fs))
    assert "1 to apply" in scene.run_script().stdout
    run(
        "sh",
        "-c",
        change.format(device=scene.device, where=scene.mount_point, name=scene.name),
    )
    before = scene.state()
    for word in ((), ("--apply",)):
        done = scene.run_script(*word)
        assert (done.returncode, "changed since the audit" in done.stderr) == (1, True), done.stderr
    assert scene.state() == before
    Path(f"/sys/block/{scene.name}/queue/wbt_lat_usec").write_text("-1")  # the default


def test_the_text_of_a_command_does_not_make_it_reversible(scene: FixScenario) -> None:
    """A command that begins with test(1) can write as well: only its step says that it does not."""
    made = scene.folder / "made"
    write(scene, Step(Phase.IMMEDIATE, f"test -d {scene.folder} && touch {made}"))
    assert scene.run_script("--apply").returncode == 0
    done = scene.run_script("--undo")
    assert f"cannot be undone: test -d {scene.folder} && touch {made}\n" in done.stdout


def test_a_dry_run_leaves_out_the_tests_that_write(scene: FixScenario) -> None:
    """Which ones do is declared: the name of a file in a test says nothing."""
    named, written = scene.folder / "mktemp", scene.folder / "written"
    written.mkdir()
    write_file = f"mktemp -p {written}"
    programs = Programs(done=("mktemp",))
    verify = Step(Phase.VERIFY, write_file, programs=Programs(("mktemp",)))
    write(scene, Step(Phase.IMMEDIATE, f"touch {named}", "true", f"test -e {named}"), verify)
    named.touch()
    assert "1 already applied" in scene.run_script().stdout
    assert not list(written.iterdir())
    assert scene.run_script("--verify").returncode == 0
    assert len(list(written.iterdir())) == 1
    write(scene, Step(Phase.IMMEDIATE, "true", "true", write_file, programs=programs))
    assert "1 to apply" in scene.run_script().stdout
    assert len(list(written.iterdir())) == 1
    assert scene.run_script("--verify").returncode == 0
    assert len(list(written.iterdir())) == 2


def test_irreversible_steps_are_named_and_counted(scene: FixScenario) -> None:
    """This includes commands after a guard; no message claims that the old state is back."""
    held = scene.folder / "held"
    write(
        scene,
        Step(Phase.IMMEDIATE, f"test ! -e {held} && touch {scene.folder / 'for-ever'}"),
        Step(Phase.IMMEDIATE, f"test ! -e {held}", change=Inspection()),
        Step(Phase.IMMEDIATE, f"while test -e {held}; do sleep 1; done", change=Inspection()),
        Step(Phase.VERIFY, f"test ! -e {scene.folder / 'broken'}"),
    )
    assert scene.run_script("--apply").returncode == 0
    done = scene.run_script("--undo")
    assert f"cannot be undone: touch {scene.folder / 'for-ever'}\n" in done.stdout
    assert done.stdout.count("cannot be undone") == 1
    assert (done.returncode, "0 undone; 1 cannot be undone" in done.stderr) == (1, True)
    (scene.folder / "broken").touch()
    done = scene.run_script("--apply")
    assert "rolled back, except what cannot be undone" in done.stderr
    assert "as before" not in done.stderr


def test_a_check_that_has_run_does_not_run_again(scene: FixScenario) -> None:
    """Only the script's own record shows that it ran, while the verification still passes."""
    broken = scene.folder / "broken"
    write(scene, *check_steps(scene), Step(Phase.VERIFY, f"test ! -e {broken}"))
    assert "1 to apply" in scene.run_script().stdout
    assert scene.run_script("--apply").returncode == 0
    assert "0 to apply" in scene.run_script().stdout
    assert scene.run_script("--verify").returncode == 0
    mounted = scene.state()["superblock"]
    assert "nothing was changed" in scene.run_script("--apply").stdout
    assert scene.state()["superblock"] == mounted
    broken.touch()
    assert "1 to apply" in scene.run_script().stdout
    assert scene.run_script("--verify").returncode == 1


@pytest.mark.parametrize("output", ["/dev/full", "&- 2>&- <&-", "&1 | :"])
def test_output_that_cannot_be_written_makes_no_step_fail(scene: FixScenario, output: str) -> None:
    """An edit used to fail without a reason when the name of its copy could not be printed.

    With `--apply | head -1`, SIGPIPE ended tune2fs, and again during its rollback.
    """
    scene.fstab.write_text("a\n")
    edit = LineEdit(str(scene.fstab), 1, "a", "b")
    printing = Step(Phase.PERSISTENT, "sh -c 'echo told || :'")
    write(scene, printing, Step(Phase.PERSISTENT, "sed", change=edit))
    run("sh", "-c", f"EXT4AUDIT_STATE={scene.folder}/state sh {scene.script} --apply >{output}")
    assert scene.fstab.read_text() == "b\n"


def test_a_full_disk_leaves_no_cut_copy_of_a_file(scene: FixScenario) -> None:
    """A copy is whole or missing: cp had left an empty fstab copy with a date."""
    scene.fstab.write_text("a\n")
    write(scene, Step(Phase.PERSISTENT, "sed", change=LineEdit(str(scene.fstab), 1, "a", "b")))
    before = sorted(scene.fstab.parent.iterdir())
    shims = scene.folder / "full"
    shims.mkdir()
    (shims / "cp").write_text('#!/bin/sh\nfor last; do :; done\n: >"$last"\nexit 1\n')
    (shims / "cp").chmod(0o755)
    done = scene.run_script("--apply", path=shims)
    assert (done.returncode, "cannot copy /etc/fstab to " in done.stderr) == (1, True)
    assert sorted(scene.fstab.parent.iterdir()) == before
    assert scene.fstab.read_text() == "a\n"


def test_an_interrupted_run_says_how_to_go_on(scene: FixScenario) -> None:
    """The script stops at once; the filesystem may be unmounted then."""
    write(scene, Step(Phase.IMMEDIATE, "kill -s TERM $$", "true"))
    done = scene.run_script("--apply")
    assert (done.returncode, "interrupted: --undo takes back" in done.stderr) == (143, True)


def test_hostile_names_are_not_executed(tmp_path: Path, etc: Path) -> None:
    """A mount point with blanks, quotes, a newline and a command is not executed.

    Nor do a control character of eight bits, and one that reverses a text, reach the terminal.
    """
    where = tmp_path / "a b'\"$(touch pwned)\n#é\\\x9b31m\u202e"
    where.mkdir()
    image = tmp_path / "image"
    run("truncate", "-s", "64M", image)
    run("mke2fs", "-q", "-F", "-t", "ext4", image)
    device = run("losetup", "--find", "--show", image).strip()
    spelled = "".join(
        chr(b) if 0x21 <= b <= 0x7E and b not in b"\\#" else f"\\{b:03o}"
        for b in os.fsencode(where)
    )
    etc.write_text(f"{device} {spelled} ext4 nobarrier 0 2\n")
    run("mount", "-t", "ext4", "-o", "nobarrier", device, where)
    scene = FixScenario(tmp_path, device, where, etc)
    try:
        before = scene.state()
        done = scene.write_script("--disruption", "remount", "--select", "DUR001")
        assert done.returncode == 0, done.stderr
        assert scene.script.read_bytes().isascii()
        done = scene.run_script("--apply")
        assert done.returncode == 0
        assert "#é\\?31m?\n" in done.stdout
        assert {"\x9b", "\u202e"}.isdisjoint(done.stdout + done.stderr)
        assert "barrier" in str(scene.state()["options"]).splitlines()
        assert scene.run_script("--undo").returncode == 0
        assert scene.state() == before
        assert not list(tmp_path.glob("**/pwned"))
    finally:
        run("umount", where)
        run("losetup", "--detach", device)


@pytest.mark.parametrize("name", ["plain", "with blank", "dätä", "a'b", "link", "made"])
def test_mount_by_fstab_is_undone_at_any_path(scene: FixScenario, name: str) -> None:
    """Names spelled with printf, and links, were not found in the mount table.

    A directory that mount(8) creates could not be listed beforehand.
    """
    place = scene.folder / name
    real = scene.folder / "real" if name == "link" else place
    options = "x-mount.mkdir" if name == "made" else "noatime"
    if name != "made":
        real.mkdir()
    if name == "link":
        place.symlink_to(real)
    (fs,) = scanned_host(scene.mount_point).filesystems
    run("umount", scene.mount_point)
    escaped = str(place).replace(" ", "\\040")
    scene.fstab.write_text(f"{scene.device} {escaped} ext4 {options} 0 0\n")
    entry = fstab_entry(options, mount_point=str(place))._replace(real_mount_point=str(real))
    steps = remedies.mounting.mount_by_fstab(entry, fs.device_number)
    chosen = ChosenRemedy(RULE, "it", Remedy("Mount it.", Disruption.ONLINE, steps), (fs,))
    scene.script.write_text(
        build_script(AuditedHost(os.uname().nodename, None, "now", "0"), [chosen], []).text
    )
    assert scene.run_script("--apply").returncode == 0
    assert place.is_mount()
    assert scene.run_script("--undo").returncode == 0
    assert not place.is_mount()
