"""`ext4audit fix` on real filesystems: what its script changes, restores, and survives."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.filesystems.scratch import run
from support.hanging import fuse_server
from support.program import run as run_program
from support.remedies.fixing import SHELLS, FixScenario, calls_with_faults
from support.timing import HANG_SECONDS

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("remedies")]
Made = Callable[..., FixScenario]
REMOUNT = ("--disruption", "remount")
OPTIONS = "nobarrier,noatime,commit=300"
TWO = (*REMOUNT, "--select", "DUR001,CMP003")
"""Two remedies that edit the same line of fstab; one of them also remounts."""


@pytest.fixture
def made(tmp_path: Path, etc: Path) -> Iterator[Made]:
    """Return a maker of scenes: a filesystem mounted by fstab with the given options."""
    devices: list[str] = []

    def make(options: str = OPTIONS, *tune: str, name: str = "data") -> FixScenario:
        image, where = tmp_path / "image", tmp_path / name
        where.mkdir()
        run("truncate", "-s", "64M", image)
        run("mke2fs", "-q", "-F", "-t", "ext4", image)
        if tune:
            run("tune2fs", *tune, image)
        device = run("losetup", "--find", "--show", image).strip()
        devices.append(device)
        spelled = str(where).replace("\\", "\\134").replace(" ", "\\040").replace("#", "\\043")
        etc.write_text(f"# first\n{device}\t{spelled} ext4 {options}  0 2\n# last, cut", "utf-8")
        run("mount", "-t", "ext4", "-o", options, device, where)
        # An unmount takes this away, which no option brings back.
        Path(f"/sys/fs/ext4/{device.removeprefix('/dev/')}/mb_stream_req").write_text("33")
        return FixScenario(tmp_path, device, where, etc)

    yield make
    for device in devices:
        subprocess.run(["umount", "-A", device], check=False, capture_output=True)
        run("losetup", "--detach", device)


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    """Return the output of a run, which must have succeeded."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refused(done: subprocess.CompletedProcess[str], reason: str) -> None:
    """Check that a run stopped with this reason."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert reason in done.stderr


@pytest.mark.parametrize("shell", [words for _, words in SHELLS], ids=[name for name, _ in SHELLS])
def test_apply_and_undo(made: Made, shell: list[str]) -> None:
    """The dry run changes nothing; a second --apply and a second --undo do nothing."""
    scene = made()
    scene.write_script(*TWO)
    before, words = scene.state(), tuple(shell)
    assert "2 to apply" in succeeded(scene.run_script(shell=words))
    assert scene.state() == before
    assert not (scene.folder / "state").exists()
    assert "2 applied and verified" in succeeded(scene.run_script("--apply", shell=words))
    fixed = scene.state()
    line = scene.fstab.read_text().splitlines()[1]
    assert line.split()[3] == "noatime,commit=300"
    assert line.startswith("UUID=")
    assert "nobarrier" not in str(fixed["options"])
    assert "nothing was changed" in succeeded(scene.run_script("--apply", shell=words))
    assert scene.state() == fixed
    succeeded(scene.run_script("--verify", shell=words))
    assert "2 undone" in succeeded(scene.run_script("--undo", shell=words))
    assert scene.state() == before
    assert "nothing to undo" in succeeded(scene.run_script("--undo", shell=words))
    assert scene.run_script("--verify", shell=words).returncode == 1
    assert scene.state() == before


def test_scan_after_apply_has_no_findings(made: Made) -> None:
    """The scan finds nothing immediately and nothing after the next mount."""
    scene = made("nobarrier,data=writeback", "-E", "mount_opts=nodelalloc")
    rules = "DUR001,DUR002,DUR003,CMP003"
    scene.write_script("--disruption", "unmount", "--select", rules, "--fail-on", "low")
    succeeded(scene.run_script("--apply"))
    for _ in range(2):
        done = run_program("scan", str(scene.mount_point), "--select", rules, "--fail-on", "low")
        assert done.returncode == 0, done.stdout
        run("umount", scene.mount_point)
        run("mount", scene.mount_point)


ANEW = ("--disruption", "unmount", "--select", "DUR001,DUR003", "--fail-on", "low")


@pytest.mark.parametrize(
    ("options", "chosen", "mode"),
    [
        (OPTIONS, TWO, "fail"),
        (OPTIONS, TWO, "kill"),
        ("nobarrier,data=writeback", ANEW, "fail"),
        ("nobarrier,data=writeback", ANEW, "late"),
    ],
    ids=["two-fail", "two-kill", "anew-fail", "anew-late"],
)
def test_fault_at_any_call_is_recoverable(
    made: Made, options: str, chosen: tuple[str, ...], mode: str
) -> None:
    """Each remedy is in its old or new state; --undo restores, and --apply completes."""
    scene = made(options)
    scene.write_script(*chosen)
    before = scene.state()
    succeeded(scene.run_script("--apply", path=scene.inject(0, mode)))
    calls, after = scene.calls, scene.state()
    lines = {str(before["fstab"]), str(after["fstab"])}
    succeeded(scene.run_script("--undo"))
    assert calls > 10
    for at in calls_with_faults(calls):
        done = scene.run_script("--apply", path=scene.inject(at, mode))
        assert done.returncode != 0 or scene.state() == after, (at, done.stdout, done.stderr)
        assert scene.fstab.read_bytes().count(b"\n") == 2, at
        lines.add(str(scene.fstab.read_bytes()))
        if at % 2:
            assert "applied" in succeeded(scene.run_script("--apply")), at
            assert scene.state() == after, at
        succeeded(scene.run_script("--undo"))
        assert scene.state() == before, (at, done.stdout, done.stderr)
    assert {str(before["fstab"]), str(after["fstab"])} <= lines
    assert len(lines) <= 3  # before, between the two edits, after


@pytest.mark.parametrize("mode", ["kill", "late"])
def test_killed_undo_is_completed_by_the_next(made: Made, mode: str) -> None:
    """This holds for a kill at any call of --undo."""
    scene = made("nobarrier,data=writeback")
    scene.write_script(*ANEW)
    before = scene.state()
    succeeded(scene.run_script("--apply"))
    succeeded(scene.run_script("--undo", path=scene.inject(0, mode)))
    for at in calls_with_faults(scene.calls):
        succeeded(scene.run_script("--apply"))
        scene.run_script("--undo", path=scene.inject(at, mode))
        succeeded(scene.run_script("--undo"))
        assert scene.state() == before, at


LAST_RESORT = (*REMOUNT, "--select", "PRF003", "--fail-on", "info")
"""A remedy whose undo needs an unmount where no remount disables delalloc (6.13 and later)."""


def test_killed_last_resort_is_completed_by_the_next_undo(made: Made) -> None:
    """Nobody has to mount it first, and a setting in /sys that the unmount took away comes back."""
    scene = made("nodelalloc")
    scene.write_script(*LAST_RESORT)
    before = scene.state()
    succeeded(scene.run_script("--apply"))
    assert "unmounted and mounted again" in succeeded(
        scene.run_script("--undo", path=scene.inject(0, "kill"))
    )
    for at in calls_with_faults(scene.calls):
        for mode in ("kill", "late", "fail"):
            succeeded(scene.run_script("--apply"))
            scene.run_script("--undo", path=scene.inject(at, mode))
            succeeded(scene.run_script("--undo"))
            assert scene.state() == before, (at, mode)


def test_an_unmount_by_somebody_else_is_not_taken_back(made: Made) -> None:
    """Nor is another filesystem hidden that was mounted there."""
    scene = made("nodelalloc")
    scene.write_script(*LAST_RESORT)
    succeeded(scene.run_script("--apply"))
    run("umount", scene.mount_point)
    refused(scene.run_script("--undo"), "is not mounted as audited")
    run("mount", "-t", "tmpfs", "tmpfs", scene.mount_point)
    refused(scene.run_script("--undo"), "is not mounted as audited")
    run("umount", scene.mount_point)
    run("mount", "-t", "ext4", scene.device, scene.mount_point)
    succeeded(scene.run_script("--undo"))


def test_another_host_is_refused(made: Made) -> None:
    """The host is identified by its machine-id; nothing is changed."""
    scene = made()
    scene.write_script(*TWO)
    before = scene.state()
    (scene.fstab.parent / "machine-id").write_text("0" * 32 + "\n")
    refused(scene.run_script(), "this is not the audited host")
    refused(scene.run_script("--apply"), "this is not the audited host")
    refused(scene.run_script("--undo"), "this is not the audited host")
    assert scene.state() == before


def test_another_filesystem_on_the_device_is_refused(made: Made) -> None:
    """The filesystem is identified by the UUID in its superblock."""
    scene = made()
    scene.write_script(*TWO)
    run("umount", scene.mount_point)
    run("mke2fs", "-q", "-F", "-t", "ext4", scene.device)
    run("mount", "-o", OPTIONS, scene.device, scene.mount_point)
    before = scene.state()
    refused(scene.run_script(), "does not have the filesystem with UUID")
    refused(scene.run_script("--apply"), "does not have the filesystem with UUID")
    assert scene.state() == before


def test_changed_fstab_line_is_refused(made: Made) -> None:
    """Nothing is edited or remounted if an option in the line has changed since the audit."""
    scene = made()
    scene.write_script(*TWO)
    scene.fstab.write_bytes(scene.fstab.read_bytes().replace(b"noatime", b"relatime"))
    before = scene.state()
    refused(scene.run_script(), "line 2 of /etc/fstab has changed since the audit")
    refused(scene.run_script("--apply"), "line 2 of /etc/fstab has changed since the audit")
    assert scene.state() == before


def test_remedy_without_its_earlier_edits_is_refused(made: Made) -> None:
    """It is refused before its remount; the dry run shows it, as in Ansible's check mode."""
    scene = made("noatime,commit=300")
    run("mount", "-o", "remount,nobarrier", scene.device, scene.mount_point)
    scene.fstab.write_text(scene.fstab.read_text().replace("noatime", "noatime,nobarrier"))
    scene.write_script(*REMOUNT, "--select", "DUR001,DUR007", "--fail-on", "info")
    before = scene.state()
    assert "1 to apply" in succeeded(scene.run_script("--only", "2"))
    refused(
        scene.run_script("--apply", "--only", "2"),
        "refused: line 2 of /etc/fstab lacks the edit of",
    )
    assert scene.state() == before
    for number in "12":
        succeeded(scene.run_script("--apply", "--only", number))
    succeeded(scene.run_script("--undo"))
    assert scene.state() == before


def test_a_remount_keeps_what_was_changed_since(made: Made) -> None:
    """Flags are read at run time, and the undo only restores the script's own options."""
    scene = made()
    scene.write_script(*REMOUNT, "--select", "DUR001")
    run("mount", "-o", "remount,nosuid,nodev", scene.device, scene.mount_point)
    before = scene.state()
    succeeded(scene.run_script("--apply"))
    assert "nosuid,nodev" in str(scene.state()["mounts"])
    run("mount", "-o", "remount,nosuid,noexec,relatime", scene.device, scene.mount_point)
    succeeded(scene.run_script("--undo"))
    assert scene.state()["options"] == before["options"]
    assert "nosuid,noexec,relatime" in str(scene.state()["mounts"])


def symlinked(scene: FixScenario) -> Callable[[], object]:
    """Replace fstab by a symbolic link."""
    target = scene.fstab.with_name("fstab.real")
    scene.fstab.rename(target)
    scene.fstab.symlink_to(target)
    return lambda: None


def bound(scene: FixScenario) -> Callable[[], object]:
    """Bind-mount fstab on itself."""
    run("mount", "--bind", scene.fstab, scene.fstab)
    return lambda: run("umount", scene.fstab)


def immutable(scene: FixScenario) -> Callable[[], object]:
    """Make fstab immutable."""
    run("chattr", "+i", scene.fstab)
    return lambda: run("chattr", "-i", scene.fstab)


def read_only(_scene: FixScenario) -> Callable[[], object]:
    """Make /etc read-only."""
    run("mount", "-o", "remount,bind,ro", "/etc")
    return lambda: run("mount", "-o", "remount,bind,rw", "/etc")


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (symlinked, "/etc/fstab is a symbolic link to "),
        (bound, "/etc/fstab is a mount point"),
        (immutable, "/etc/fstab is immutable or append-only"),
        (read_only, "/etc is on a read-only filesystem"),
    ],
)
@pytest.mark.parametrize("shell", [words for _, words in SHELLS], ids=[name for name, _ in SHELLS])
def test_an_fstab_that_cannot_be_replaced_is_refused(
    made: Made,
    prepare: Callable[[FixScenario], Callable[[], object]],
    reason: str,
    shell: list[str],
) -> None:
    """Nothing is changed, not even the options in force."""
    scene = made()
    scene.write_script(*REMOUNT, "--select", "DUR001")
    restore = prepare(scene)
    try:
        before = scene.state()
        refused(scene.run_script(shell=tuple(shell)), reason)
        refused(scene.run_script("--apply", shell=tuple(shell)), reason)
        assert scene.state() == before
    finally:
        restore()


def test_hanging_mount_point_of_another_line_does_not_block_the_edit(made: Made) -> None:
    """The check by findmnt looks up the directories of all lines it is given, and would hang."""
    scene = made()
    place, top = scene.folder / "dead", scene.folder / "top"
    place.mkdir()
    top.mkdir()
    words = [sys.executable, fuse_server.__file__, str(place), str(top), "getattr", "0"]
    words.append(str(scene.folder / "stopped"))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "mounted\n"
        try:
            entry = f"\nserver:/x {place} nfs defaults 0 0\n"
            scene.fstab.write_text(scene.fstab.read_text() + entry)
            scene.write_script(*TWO)
            succeeded(scene.run_script("--apply"))
            assert entry in scene.fstab.read_text()
        finally:
            server.kill()
            run("umount", "--lazy", place)


@pytest.mark.parametrize("free_bytes", range(20, 200, 15))
def test_full_disk_for_the_state_file(made: Made, free_bytes: int) -> None:
    """An interrupted remedy is rolled back, although nothing more can be recorded."""
    scene = made("nobarrier,data=writeback")
    scene.write_script(*ANEW)
    before, state = scene.state(), scene.folder / "state"
    identity = re.search(r"^id=(\w+)$", scene.script.read_text(), re.MULTILINE)
    assert identity is not None
    state.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", state)
    try:
        padding = ("x\n" * 4096)[-(4096 - free_bytes) :]
        (state / f"fix-{identity[1]}.state").write_text(padding)
        done = scene.run_script("--apply")
        after = scene.state()
    finally:
        run("umount", state)
    assert done.returncode == 1
    assert "cannot write to" in done.stderr
    assert after["mounts"] == before["mounts"] or "DUR001" in done.stdout
    assert (after["fstab"] == before["fstab"]) == (after["options"] == before["options"])


def test_concurrent_runs_are_refused(made: Made) -> None:
    """The lock names the process that holds it; if the process is gone, the lock is stale."""
    scene = made()
    scene.write_script(*TWO)
    state = scene.folder / "state"
    state.mkdir()
    stat = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(") ")[2].split()
    (state / "lock").symlink_to(f"{os.getpid()}-{stat[19]}")
    before = scene.state()
    refused(scene.run_script("--apply"), f"another script is running: process {os.getpid()}")
    assert scene.state() == before
    (state / "lock").unlink()
    (state / "lock").symlink_to(f"{os.getpid()}-1")
    done = scene.run_script("--apply")
    succeeded(done)
    assert "removed the stale lock" in done.stderr
    assert not (state / "lock").is_symlink()


def test_only_its_owner_reads_the_state(made: Made) -> None:
    """The file has mode 0600, its directory 0700, and the owner can execute the script."""
    scene = made()
    scene.write_script(*TWO)
    succeeded(scene.run_script("--apply"))
    (file,) = (scene.folder / "state").glob("fix-*.state")
    assert oct(file.stat().st_mode) == "0o100600"
    assert oct(file.parent.stat().st_mode) == "0o40700"
    assert oct(scene.script.stat().st_mode) == "0o100700"


def test_existing_folder_keeps_its_mode(made: Made) -> None:
    """Another user may read the service's metrics there; even the mode of /tmp was changed."""
    scene = made()
    scene.write_script(*TWO)
    state = scene.folder / "state"
    state.mkdir(exist_ok=True)
    state.chmod(0o1777)
    succeeded(scene.run_script("--apply"))
    (file,) = state.glob("fix-*.state")
    assert oct(state.stat().st_mode) == "0o41777"
    assert oct(file.stat().st_mode) == "0o100600"


def test_the_edited_file_keeps_its_mode_and_owner_and_a_copy(made: Made) -> None:
    """Every byte of the other lines is kept; the output names the copy."""
    scene = made()
    os.chown(scene.fstab, 7, 8)
    scene.fstab.chmod(0o640)
    scene.write_script(*TWO)
    before = scene.fstab.read_bytes()
    printed = succeeded(scene.run_script("--apply"))
    (name,) = (line.split()[-1] for line in printed.splitlines() if " backup of " in line)
    assert Path(name).read_bytes() == before
    status = scene.fstab.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (7, 8, 0o640)
    first, _, last = scene.fstab.read_bytes().split(b"\n")
    assert (first, last) == (b"# first", b"# last, cut")


def overlay(scene: FixScenario) -> Callable[[], object]:
    """Mount an overlay whose directories are on the filesystem."""
    for name in ("lower", "upper", "work", "merged"):
        (scene.mount_point / name).mkdir()
    merged = scene.folder / "merged"
    merged.mkdir()
    place = str(scene.mount_point).replace("\\", "\\\\")
    words = ",".join(f"{n}dir={place}/{n}" for n in ("lower", "upper", "work"))
    run("mount", "-t", "overlay", "-o", words, "overlay", merged)
    return lambda: run("umount", merged)


def looped(scene: FixScenario) -> Callable[[], object]:
    """Attach a loop device to a file on the filesystem."""
    run("truncate", "-s", "1M", scene.mount_point / "file")
    device = run("losetup", "--find", "--show", scene.mount_point / "file").strip()
    return lambda: run("losetup", "--detach", device)


def elsewhere(_scene: FixScenario) -> Callable[[], object]:
    """Start a process that holds a copy of the mount namespace."""
    hold = f"echo x; exec sleep {HANG_SECONDS}"
    command = ["unshare", "-m", "--propagation", "private", "sh", "-c", hold]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd="/")
    assert process.stdout is not None
    process.stdout.readline()

    def end() -> None:
        process.kill()
        process.communicate()

    return end


def state_behind_a_link(scene: FixScenario) -> Callable[[], object]:
    """Link the records folder, which does not exist, to the filesystem."""
    (scene.folder / "state").symlink_to(scene.mount_point)
    return (scene.folder / "state").unlink


def bound_elsewhere(scene: FixScenario) -> Callable[[], object]:
    """Bind-mount the filesystem on a second directory."""
    other = scene.folder / "other"
    other.mkdir()
    run("mount", "--bind", scene.mount_point, other)
    return lambda: run("umount", other)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (overlay, "the overlay on "),
        (looped, "is in use by the loop device loop"),
        (elsewhere, "in the mount namespace of process "),
        (bound_elsewhere, "is in use by the mount on "),
        (state_behind_a_link, "where this script records its steps"),
    ],
)
@pytest.mark.parametrize("name", ["data", "a b#c\\d"])
def test_users_of_a_filesystem_are_named_before_the_unmount(
    made: Made, prepare: Callable[[FixScenario], Callable[[], object]], reason: str, name: str
) -> None:
    """An unmount despite such a holder would exit with 0 and change nothing."""
    scene = made("data=writeback", name=name)
    scene.write_script("--disruption", "unmount", "--select", "DUR003", "--fail-on", "low")
    restore = prepare(scene)
    try:
        before = scene.state()
        refused(scene.run_script(), reason)
        refused(scene.run_script("--apply"), reason)
        assert scene.state() == before
    finally:
        restore()
