"""`ext4audit scan IMAGE`, run as a process, on images made by the real mke2fs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.filesystems.scratch import run as shell
from support.images.mke2fs import needs_e2fsprogs
from support.images.partitioned import LINUX, boot_record, grow, with_gpt, write_at
from support.program import root_fstype, run, run_as_nobody

pytestmark = needs_e2fsprogs
MIB = 1 << 20
AS_IMAGE = "audited as an image; to audit the filesystem that holds it, name its directory"


def make_filesystem(image: Path, *options: str, at: int = 0) -> Path:
    """Make a filesystem of 16 MiB in a file, at a byte offset."""
    where = ("-E", f"offset={at}") if at else ()
    shell("mke2fs", "-q", "-F", "-t", "ext4", *where, *options, image, "16M")
    return image


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Return an image of a healthy filesystem."""
    return make_filesystem(tmp_path / "fs.img")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return a disk of two partitions, the second with barriers off in its superblock."""
    image = tmp_path / "disk.img"
    grow(image, 64 * MIB)
    with_gpt(image, {1: (2048, 34815), 2: (34816, 67583)})
    make_filesystem(image, "-L", "good", at=MIB)
    make_filesystem(image, "-L", "bad", at=17 * MIB)
    shell("tune2fs", "-o", "nobarrier", f"{image}?offset={17 * MIB}")
    return image


@pytest.fixture
def shared_image(image: Path) -> Iterator[Path]:
    """Move the image to a folder that everybody can enter: pytest's are private to its user."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.move(image, folder))


def report(done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    """Return the JSON of a scan, after checking its exit code."""
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_clean_image_is_a_complete_audit(image: Path) -> None:
    """Exit 0: rules need nothing that only a mount shows; a note says what was audited."""
    done = run("scan", "-f", "json", str(image))
    found = report(done)
    assert found["source"]["kind"] == "image"
    assert found["source"]["label"] == str(image)
    assert (found["complete"], found["gaps"]) == (True, [])
    (fs,) = found["filesystems"]
    assert (fs["device"], fs["mounted"], fs["mount_points"]) == (str(image), False, [])
    assert fs["uuid"] == fs["id"]
    assert [device["kind"] for device in fs["stack"]] == ["image"]
    assert done.stderr == f"ext4audit: {image}: {AS_IMAGE}\n"


def test_text_says_that_it_is_an_image(image: Path) -> None:
    """No host is named, because none was audited."""
    done = run("scan", str(image))
    assert done.stdout.splitlines()[0].startswith(f"image {image}")
    assert done.stdout.splitlines()[-1].startswith("1 filesystem: no findings; ")
    assert run("scan", "-q", str(image)).stdout.startswith(f"image {image}: 1 filesystem: ")


def test_image_report_matches_the_schema(disk: Path) -> None:
    """Consumers of JSON need no special case for images."""
    schema = json.loads(run("schema").stdout)
    found = report(run("scan", "-f", "json", str(disk)), code=1)
    jsonschema.Draft202012Validator(schema).validate(found)


def test_host_rules_do_not_judge_images(image: Path) -> None:
    """HLT003 is the only rule about a host that also judges images."""
    found = report(run("scan", "-f", "json", str(image)))
    verdicts = found["verdicts"]
    of_host = [verdict["rule"] for verdict in verdicts if verdict["filesystem"] is None]
    assert of_host == ["HLT003"]
    assert {verdict["filesystem"] for verdict in verdicts if verdict["filesystem"]} == {
        found["filesystems"][0]["id"]
    }


def test_image_with_recorded_errors_is_not_clean(image: Path) -> None:
    """Its superblock requires e2fsck before the next mount."""
    shell("debugfs", "-w", "-R", "ssv state 2", image)
    found = report(run("scan", "-f", "json", str(image)), code=1)
    (failed,) = [verdict for verdict in found["verdicts"] if verdict["outcome"] == "fail"]
    assert failed["rule"] == "HLT003"


def test_hidden_superblock_option_of_a_partition_is_found(disk: Path) -> None:
    """Each partition is a filesystem; finding and command name the partition."""
    found = report(run("scan", "-f", "json", str(disk)), code=1)
    assert [fs["label"] for fs in found["filesystems"]] == ["good", "bad"]
    outcomes = [(v["filesystem"], v["outcome"]) for v in found["verdicts"] if v["rule"] == "DUR002"]
    assert [outcome for _, outcome in outcomes] == ["pass", "fail"]
    (failed,) = [v for v in found["verdicts"] if v["outcome"] == "fail"]
    (finding,) = failed["findings"]
    assert (finding["severity"], "nobarrier" in finding["message"]) == ("medium", True)
    commands = [step["command"] for step in finding["remedies"][0]["steps"]]
    assert commands[0] == f"tune2fs -o ^nobarrier '{disk}?offset={17 * MIB}'"


def test_printed_command_fixes_the_partition(disk: Path) -> None:
    """It runs on the file, the check holds, and the next scan is clean."""
    found = report(run("scan", "-f", "json", str(disk)), code=1)
    (failed,) = [v for v in found["verdicts"] if v["outcome"] == "fail"]
    steps = failed["findings"][0]["remedies"][0]["steps"]
    for step in steps:
        if step["phase"] != "rollback":
            shell("sh", "-c", step["command"])
    assert run("scan", str(disk)).returncode == 0
    for step in steps:
        if step["phase"] == "rollback":
            shell("sh", "-c", step["command"])
    assert run("scan", str(disk)).returncode == 1


def test_images_and_mounts_in_one_report(image: Path) -> None:
    """If any target belongs to this host, the source is live, and host rules apply."""
    if root_fstype() != "ext4":
        pytest.skip(f"/ is {root_fstype()}, not ext4")
    done = run("scan", "-f", "json", "--select", "DUR002,DRF006", "/", str(image))
    found = json.loads(done.stdout)
    assert found["source"]["kind"] == "live"
    assert found["filesystems"][-1]["device"] == str(image)
    assert len(found["filesystems"]) == 2
    assert "DRF006" in [verdict["rule"] for verdict in found["verdicts"]]


def test_two_images_in_one_report(image: Path, disk: Path) -> None:
    """A copy has a separate id, and a repeated target is audited once."""
    copy = image.with_name("copy.img")
    shell("cp", image, copy)
    done = run("scan", "-f", "json", "--fail-on", "never", *map(str, (image, copy, disk, image)))
    found = report(done)
    ids = [fs["id"] for fs in found["filesystems"]]
    assert len(ids) == len(set(ids)) == 4
    assert found["source"]["label"] == f"{image}, {copy}, {disk}"


def test_image_is_audited_without_root(shared_image: Path) -> None:
    """Read permission for the file is enough for the same verdicts."""
    shared_image.chmod(0o444)
    root, nobody = (
        run("scan", "-f", "json", str(shared_image)),
        run_as_nobody("scan", "-f", "json", str(shared_image)),
    )
    assert report(nobody)["verdicts"] == report(root)["verdicts"]


def test_unreadable_image_is_reported(shared_image: Path) -> None:
    """Like any file it then selects the filesystem that holds it, and a note says so."""
    shared_image.chmod(0o400)
    done = run_as_nobody("scan", str(shared_image))
    assert "not an image: not checked whether it is an image: Permission denied" in (done.stderr)


def test_e2image_file_is_audited_without_commands(tmp_path: Path) -> None:
    """A copy of metadata must be corrected at its origin."""
    made = make_filesystem(tmp_path / "fs.img")
    shell("tune2fs", "-o", "nobarrier", made)
    shell("e2image", made, tmp_path / "fs.e2i")
    found = report(run("scan", "-f", "json", str(tmp_path / "fs.e2i")), code=1)
    (failed,) = [v for v in found["verdicts"] if v["outcome"] == "fail"]
    assert [r["steps"] for r in failed["findings"][0]["remedies"]] == [[], []]


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (b"QFI\xfb\x00\x00\x00\x02".ljust(1024, b"\0"), "a QCOW2 image, which is not supported"),
        (
            b"\x10\xb7\x2b\x7fExt2 Image 1.0\0".ljust(1024, b"\0"),
            "an e2image file without a superblock",
        ),
    ],
)
def test_damaged_image_is_a_usage_error(tmp_path: Path, content: bytes, reported: str) -> None:
    """Nothing is audited instead."""
    path = tmp_path / "image"
    path.write_bytes(content)
    done = run("scan", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{path}: {reported}" in done.stderr


def test_good_image_beside_a_damaged_one_is_audited(image: Path, tmp_path: Path) -> None:
    """The bad one is reported in a message."""
    bad = tmp_path / "bad.img"
    bad.write_bytes(image.read_bytes())
    write_at(bad, {1024 + 0x78: b"W"})
    done = run("scan", "-f", "json", str(bad), str(image))
    assert [fs["device"] for fs in report(done)["filesystems"]] == [str(image)]
    assert f"{bad}: the checksum of its superblock is wrong" in done.stderr


def test_disk_without_ext4_is_refused(tmp_path: Path) -> None:
    """Nothing is audited instead."""
    disk = tmp_path / "windows.img"
    grow(disk, MIB)
    write_at(disk, {0: boot_record((LINUX, 8, 8))})
    done = run("scan", str(disk))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{disk}: no ext2, ext3 or ext4 in its partitions (1)" in done.stderr
    assert "to audit the filesystem that holds it, name its directory" in done.stderr


def test_zeroed_superblock_error_names_the_backups(tmp_path: Path) -> None:
    """The named command repairs a copy, which can then be audited."""
    image = make_filesystem(tmp_path / "fs")
    shell("dd", "if=/dev/zero", f"of={image}", "bs=1024", "seek=1", "count=1", "conv=notrunc")
    for command in ("scan", "layout"):
        done = run(command, str(image))
        assert (done.returncode, done.stdout) == (2, "")
        assert "its superblock is zeroed; a backup can be read, block 8193 of 1024" in done.stderr
    shell("sh", "-c", f"e2fsck -fy -b 8193 -B 1024 {image} || test $? -eq 1")
    assert run("scan", str(image)).returncode == 0


@pytest.mark.parametrize("where", ["descriptors", "journal"])
def test_damage_outside_the_superblock_makes_the_audit_incomplete(
    tmp_path: Path, where: str
) -> None:
    """The damage is named, with a command to check it."""
    image = make_filesystem(tmp_path / "fs.img", "-b", "4096")
    assert run("scan", str(image)).returncode == 0
    place, what = 4096, f"block groups of {image}"
    if where == "journal":
        printed = shell("debugfs", "-R", "bmap <8> 0", image)
        place, what = int(printed) * 4096, f"journal of {image}"
    write_at(image, {place: b"\xff" * 4096})
    found = report(run("scan", "-f", "json", str(image)), code=3)
    assert (found["complete"], [gap["what"] for gap in found["gaps"]]) == (False, [what])
    assert found["gaps"][0]["hint"] == "check it with e2fsck -fn, and repair a copy"
    assert "ValueError" not in found["gaps"][0]["detail"]


def test_image_without_a_journal_has_no_gap(tmp_path: Path) -> None:
    """It has no journal to read, so there is no gap."""
    image = make_filesystem(tmp_path / "fs.img", "-O", "^has_journal")
    assert json.loads(run("scan", "-f", "json", str(image)).stdout)["gaps"] == []


@pytest.mark.parametrize("fstype", ["ext2", "ext3", "ext4"])
def test_filesystem_type_of_an_image_is_from_its_features(tmp_path: Path, fstype: str) -> None:
    """There is no mount that shows the type."""
    image = tmp_path / "fs.img"
    shell("mke2fs", "-q", "-F", "-t", fstype, image, "16M")
    done = run("scan", "-v", str(image))
    assert f"{image}: {fstype}, " in done.stdout


def test_superblock_with_wrong_magic_number_is_destroyed(tmp_path: Path) -> None:
    """Its other fields are not trusted."""
    image = make_filesystem(tmp_path / "fs")
    write_at(image, {1024 + 0x38: b"\x34\x12"})
    done = run("scan", str(image))
    assert (done.returncode, done.stdout) == (2, "")
    assert "its superblock is destroyed; a backup can be read" in done.stderr


@pytest.mark.parametrize("name", ["junk", "junk.img"])
def test_random_data_is_refused(tmp_path: Path, name: str) -> None:
    """It does not silently select the filesystem that holds it."""
    junk = tmp_path / name
    junk.write_bytes(bytes(range(256)) * 4096)
    done = run("scan", str(junk))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{junk}: no ext2, ext3 or ext4: no superblock at byte 1024" in done.stderr


@pytest.mark.skipif(shutil.which("mkswap") is None, reason="util-linux makes no swap here")
def test_swap_area_is_named_in_the_error(tmp_path: Path) -> None:
    """The swap signature is at the end of the first page."""
    path = tmp_path / "swapfile"
    grow(path, MIB)
    path.chmod(0o600)
    shell("mkswap", path)
    done = run("scan", str(path))
    assert done.returncode == 2
    assert f"{path}: no ext2, ext3 or ext4: swap space" in done.stderr


@pytest.mark.parametrize("name", [b"a\n\x1b[31m$(id).img", b"\xff\xfe.img", b"q?offset=5.img"])
def test_hostile_image_name_is_escaped(tmp_path: Path, name: bytes) -> None:
    """It is escaped on the terminal; the image is still audited."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    make_filesystem(tmp_path / "fs.img").rename(path)
    done = run("scan", "-v", str(path))
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_fifo_is_refused(tmp_path: Path) -> None:
    """It is not opened: it may never have a writer."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = run("scan", str(fifo))
    assert done.returncode in {0, 1, 2, 3}
    assert "an image" not in done.stderr


def test_unreadable_partition_makes_the_audit_incomplete(disk: Path) -> None:
    """A filesystem missing from a truncated copy is not one without findings."""
    os.truncate(disk, 17 * MIB + 1500)
    done = run("scan", "-f", "json", str(disk))
    found = report(done, code=3)
    (gap,) = found["gaps"]
    assert (gap["what"], gap["detail"]) == ("partition 2", "the image ends before it")
    assert len(found["filesystems"]) == 1
