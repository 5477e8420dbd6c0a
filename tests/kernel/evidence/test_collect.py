"""The shell collector on real filesystems: it captures what a live scan sees."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.layout import read_group_table
from ext4audit.assemble.superblock import dump_superblock
from ext4audit.engine import audit
from ext4audit.evidence import Known, Unknown, Why, need
from ext4audit.facts.mount import DeviceNumber
from ext4audit.renderers import json_v1
from ext4audit.report import ReportSource
from ext4audit.rules import all_rules
from ext4audit.sources import Answer, Ask, ReadBytes, RunCommand, UdevDatabase, VirtualMemory
from ext4audit.sources.captured import MapSource
from ext4audit.sources.live import LiveSource
from support.filesystems.mounts import other_mount_namespace
from support.filesystems.scratch import Scratch, run, unique_label
from support.shells.collector import (
    SCRIPT,
    TAKEN_AT,
    captured,
    collect,
    differing_answers,
    entries,
    live,
    manifest,
    manifest_answers,
    some_shells,
    with_one_second_limit,
    without_ioctls,
)
from support.timing import wait_until

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]

SUPERBLOCK_BYTES, LAST_MOUNTED_BYTES = 1024, 0x88


@pytest.fixture
def executed() -> Iterator[Path]:
    """Return the path of a file that exists if a shell has executed a hostile name.

    The path is short: the superblock has 64 bytes for the name.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder, "x")


def hostile_names(executed: Path) -> list[bytes]:
    """Return names of mount points; a shell that executes one of them creates a file."""
    return [
        b"with blank",
        b"new\nline",
        b"last\n",
        b"esc\x1b[31mred\x01\x1f",
        b"$(touch %b)%%s%%n" % os.fsencode(executed),
        b"byte\xff",
        b"-rf",
        b"tab\there",
        b"back\\slash \\040 \\",
        b"'quote\"`id`*?[a]",
        "bidi\u202eabc\u2028".encode(),
    ]


def number_of(one: Scratch) -> DeviceNumber:
    """Return the device number of a mounted filesystem."""
    number = one.mount_point.stat().st_dev
    return DeviceNumber(os.major(number), os.minor(number))


def rendered(answers: Mapping[Ask, Answer], number: DeviceNumber) -> object:
    """Return the JSON report of one filesystem."""
    host = assemble_host(MapSource(answers), TAKEN_AT, only=[number])
    report = audit(ReportSource("live", "test"), host, all_rules())
    return json.loads(json_v1.render_report(report, tool_version="0"))


AWKS = [
    ("dash", "mawk"),
    ("bash", "gawk"),
    ("bash --posix", "original-awk"),
    ("busybox sh", "busybox awk"),
]


@pytest.mark.parametrize(("shell", "awk"), AWKS)
def test_hostile_names_are_captured_byte_by_byte(
    scratch: Make, executed: Path, shell: str, awk: str
) -> None:
    """Mount points, labels and paths of image files are read back as the live source reads them.

    The sh of CentOS 7 is bash in POSIX mode.
    """
    if shutil.which(awk.partition(" ")[0]) is None:
        pytest.skip(f"needs {awk}")
    made = [scratch(name).make("-L", "a\"b'c`$(d)") for name in hostile_names(executed)]
    for index, one in enumerate(made):
        renamed = one.image.with_name(f"{one.image.name} \n'\"\\{index}\udcff")
        one.image.rename(renamed)
        run("mount", "-o", "loop", renamed, _directory(one.mount_point))
    numbers = [number_of(one) for one in made]
    script = re.sub(r"\bawk (?=['-])", f"{awk} ", SCRIPT)
    assert script.count(f"{awk} '") + script.count(f"{awk} -v ") == 7
    assert differing_answers(shell, numbers, script=script) == {}
    assert not executed.exists()


def _directory(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


@some_shells
def test_the_device_of_an_external_journal_is_captured(
    scratch: Make, tmp_path: Path, shell: str
) -> None:
    """The device's number is taken from the output of dumpe2fs."""
    image = tmp_path / "journal"
    run("truncate", "-s", "16M", image)
    journal = run("losetup", "--find", "--show", image).strip()
    try:
        run("mke2fs", "-q", "-F", "-b", "4096", "-O", "journal_dev", journal)
        one = scratch("data").make("-b", "4096", "-J", f"device={journal}").mount()
        assert differing_answers(shell, [number_of(one)]) == {}
        (fs,) = one.host().filesystems
        assert fs.journal_stack is not None
        assert need(fs.journal_stack).path == journal
        one.unmount()
    finally:
        run("losetup", "--detach", journal)


@some_shells
def test_times_are_in_utc(scratch: Make, shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times have no zone in dumpe2fs's output: the host's local time was read as UTC."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    dump = RunCommand(("dumpe2fs", "-h", scratch().make().mount().device))
    mine, theirs = (
        re.findall(r"created: .*", str(need(found)))
        for found in (captured(shell)[dump], LiveSource().fetch(dump))
    )
    assert mine == theirs != []


@some_shells
@pytest.mark.parametrize(
    "value", ["a[$(touch {executed})]", "0x1; touch {executed}", "0x", "0x08g"]
)
def test_forged_line_of_dumpe2fs_is_not_evaluated(
    scratch: Make, executed: Path, shell: str, value: str
) -> None:
    """dumpe2fs prints the last mount point raw, and bash arithmetic runs commands in subscripts."""
    value = value.format(executed=executed)
    one = scratch("data").make("-O", "^metadata_csum")
    with one.image.open("r+b") as image:
        image.seek(SUPERBLOCK_BYTES + LAST_MOUNTED_BYTES)
        image.write(f"x\nJournal device: {value}\0".encode())
    one.mount()
    printed = run("dumpe2fs", "-h", one.device)
    assert f"\nJournal device: {value}\n" in printed
    assert RunCommand(("dumpe2fs", "-h", one.device)) in captured(shell)
    assert not executed.exists()


@some_shells
@pytest.mark.usefixtures("steady_limits")
def test_report_of_the_snapshot_equals_the_live_report(scratch: Make, shell: str) -> None:
    """Verdicts, findings, evidence and gaps are equal in the live and the replayed audit."""
    one = scratch().make().tune("-o", "nodelalloc").mount("nobarrier,noauto_da_alloc,commit=99")
    number = number_of(one)
    here, sent = live([number]), captured(shell)
    sent[VirtualMemory()] = here[VirtualMemory()]
    report = rendered(sent, number)
    assert report == rendered(without_ioctls(here), number)
    assert '"DUR001"' in json.dumps(report)


@pytest.mark.parametrize(
    "options",
    [
        ("-b", "1024"),
        ("-b", "4096", "-g", "2048"),
        ("-O", "^64bit", "-b", "2048"),
        ("-O", "sparse_super2,^resize_inode"),
        ("-O", "^sparse_super,^resize_inode"),
        ("-O", "bigalloc", "-C", "16384"),
    ],
    ids=" ".join,
)
def test_the_descriptors_are_captured_as_they_are(scratch: Make, options: tuple[str, ...]) -> None:
    """The group table of the snapshot equals the live one, and is read from the same bytes."""
    one = scratch().make(*options, size="300M").mount()
    number, device = number_of(one), one.device
    replay, here = MapSource(captured("sh")), LiveSource()
    superblock = dump_superblock(here, device, number)
    table = read_group_table(replay, device, number, superblock)
    assert table == read_group_table(here, device, number, superblock)
    assert isinstance(table, Known)
    assert table.origin == f"group descriptors of {device}"


def test_descriptors_that_lie_apart_are_captured_as_a_list(scratch: Make) -> None:
    """With meta_bg the output of `dumpe2fs -g` is recorded instead."""
    options = ("-O", "meta_bg,^resize_inode", "-b", "1024", "-g", "1024")
    one = scratch().make(*options, size="300M").mount()
    number, device = number_of(one), one.device
    answers = captured("sh")
    assert isinstance(answers[RunCommand(("dumpe2fs", "-g", device))], Known)
    superblock = dump_superblock(LiveSource(), device, number)
    groups = read_group_table(MapSource(answers), device, number, superblock)
    assert need(groups) == need(read_group_table(LiveSource(), device, number, superblock))


def test_lean_leaves_the_descriptors_out(scratch: Make) -> None:
    """The superblock is still captured: without dumpe2fs it is the only source."""
    device = scratch().make().mount().device
    asked = [ask for ask in captured("sh", "--lean") if isinstance(ask, ReadBytes)]
    assert [ask for ask in asked if ask.path == device] == [ReadBytes(device, 1024, 1024, 0)]


@some_shells
def test_devices_of_fstab_are_captured(scratch: Make, etc: Path, shell: str) -> None:
    """Devices by identifier and by path are captured, and mount points through links."""
    label = unique_label("my ")
    one = scratch("data dir").make("-L", label).mount()
    uuid = run("blkid", "-s", "UUID", "-o", "value", one.device).strip()
    link = one.mount_point.with_name("link")
    link.symlink_to(one.mount_point)
    place, named = (text.replace(" ", "\\040") for text in (str(one.mount_point), label))
    etc.write_text(
        f"UUID={uuid} {place} ext4 defaults 0 2\n"
        f'LABEL="{named}" {link}/ auto noatime 0 2\n'
        f"PARTUUID=no-such /nowhere ext2,ext3 noauto\n"
        f"{one.device} {link} ext4 ro\n"
        f"{one.image} /mnt/image ext4 loop 0 0\n"
        f"/dev/no\\134such /a\\011b\\012c ext4 defaults\n"
        "#UUID=x /y ext4 defaults\n"
        "tmpfs /tmp tmpfs defaults\n"
        "\n \t\nshort line\n/dev/disk/by-label/100%s /x%n ext4"
    )
    assert differing_answers(shell, [number_of(one)]) == {}


def test_loop_device_stack_is_captured(scratch: Make, tmp_path: Path) -> None:
    """For an image on a filesystem in an image, both stacks are captured down to the disk."""
    outer = scratch("outer").make(size="200M").mount()
    inner = Scratch(outer.mount_point / "inner", tmp_path / "inner mount").make().mount()
    try:
        assert differing_answers("sh", [number_of(inner)]) == {}
    finally:
        inner.unmount()


def test_a_filesystem_of_another_namespace_is_captured(scratch: Make) -> None:
    """It is unmounted here and alive there: the snapshot has one of the tables that show it."""
    one = scratch().make().mount("nobarrier")
    number = number_of(one)
    with other_mount_namespace():
        one.unmount()
        host = assemble_host(MapSource(captured("sh")), TAKEN_AT, only=[number])
    (fs,) = host.filesystems
    assert fs.alive
    assert need(fs.fstype) == "ext4"
    assert "nobarrier" in json.dumps([option.token for option in need(fs.options).options])


@contextmanager
def in_the_place_of(tool: str, content: str, tmp_path: Path) -> Iterator[None]:
    """Bind-mount a script over a tool, in this mount namespace."""
    stand_in = tmp_path / "tool"
    stand_in.write_text(content)
    stand_in.chmod(0o755)
    place = shutil.which(tool)
    assert place is not None
    run("mount", "--bind", stand_in, place)
    try:
        yield
    finally:
        run("umount", place)


def unmount_when_free(one: Scratch) -> None:
    """Unmount a filesystem that dying processes may still hold for a moment."""
    place = str(one.mount_point)
    assert wait_until(lambda: subprocess.run(["umount", place], check=False).returncode == 0)


IMPATIENT = with_one_second_limit(
    SCRIPT, 'run lsblk -J -o "$1"', after='[ $S = 0 ]||run lsblk -P -o "$1"'
)
"""The script, with a wait for lsblk of one second."""


@some_shells
def test_unkillable_command_does_not_stop_the_rest(
    scratch: Make, tmp_path: Path, shell: str
) -> None:
    """timeout(1) would wait forever for a process that a frozen filesystem blocks."""
    one = scratch().make().mount()
    run("fsfreeze", "--freeze", one.mount_point)
    try:
        hang = f"#!/bin/sh\nexec touch '{one.mount_point}/x'\n"
        with in_the_place_of("lsblk", hang, tmp_path):
            sent = collect(shell, script=IMPATIENT)
    finally:
        run("fsfreeze", "--unfreeze", one.mount_point)
        unmount_when_free(one)
    found = entries(sent)
    late = [entry["argv"][1] for entry in found if entry.get("timed_out")]
    assert late == ["-J", "-P"]
    assert found[-1]["path"] == "/etc/fstab"


@pytest.mark.skipif(shutil.which("udevadm") is None, reason="needs udevadm")
def test_the_udev_database_is_captured(scratch: Make) -> None:
    """Its entries are those of libudev: sorted, with the links."""
    number = number_of(scratch().make().mount())
    run("mkdir", "-p", "/run/udev")
    run("mount", "-t", "tmpfs", "tmpfs", "/run/udev")
    try:
        database = Path("/run/udev/data")
        database.mkdir()
        (database / f"b{number}").write_text(
            "S:disk/by-label/a\\x20b\nI:12345\nE:ID_FS_TYPE=ext4\n"
            "E:ID_MODEL=a'b\"c \\x\nG:systemd\n"
        )
        assert differing_answers("sh", [number]) == {}
        assert isinstance(captured("sh")[UdevDatabase(str(number))], Known)
    finally:
        run("umount", "/run/udev")


@pytest.fixture
def busybox_root(private_mounts: None, tmp_path: Path) -> Iterator[Path]:  # noqa: ARG001
    """Build a root directory that contains busybox and nothing else."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("needs busybox")
    root = tmp_path / "root"
    for name in ("bin", "tmp", "etc", "proc", "sys", "dev", "data"):
        (root / name).mkdir(parents=True)
    linked = subprocess.run(["ldd", busybox], capture_output=True, text=True, check=False).stdout
    for file in [busybox, *re.findall(r"/\S+", linked)]:
        copy = root / file.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    run("chroot", root, busybox, "--install", "-s", "/bin")
    for name in ("proc", "sys", "dev"):
        run("mount", "--rbind", f"/{name}", root / name)
    yield root
    for name in ("proc", "sys", "dev"):
        # Lazily: a process killed a moment ago may still hold /dev/null.
        run("umount", "--lazy", "--recursive", root / name)


def test_a_system_of_busybox_alone_can_be_captured(busybox_root: Path) -> None:
    """Without e2fsprogs and util-linux, the superblock's bytes are read and gaps are reported."""
    one = Scratch(busybox_root.parent / "image", busybox_root / "data").make().mount("nobarrier")
    number, device = number_of(one), one.device
    try:
        sent = collect("sh", wrapper=("chroot", str(busybox_root)))
    finally:
        one.unmount()
    answers = manifest_answers(manifest(sent))
    dumped = answers[RunCommand(("dumpe2fs", "-h", device))]
    assert isinstance(dumped, Unknown)
    assert dumped.why is Why.ABSENT
    (fs,) = assemble_host(MapSource(answers), TAKEN_AT, only=[number]).filesystems
    assert need(fs.superblock).block_bytes == 1024
    assert [mount.mount_point for mount in fs.mounts] == ["/data"]
    assert "nobarrier" in [option.token for option in need(fs.options).options]


def test_capture_without_root_equals_the_live_source(scratch: Make, tmp_path: Path) -> None:
    """As nobody the superblock is refused with the same hint, and the options are read."""
    tmp_path.chmod(0o755)
    one = scratch().make().mount("nobarrier")
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    answers = manifest_answers(manifest(collect("sh", wrapper=nobody)))
    dumped = answers[RunCommand(("dumpe2fs", "-h", one.device))]
    raw = answers[ReadBytes(one.device, 1024, 1024, 0)]
    for gap in (dumped, raw):
        assert isinstance(gap, Unknown)
        assert (gap.why, gap.hint) == (Why.DENIED, "run as root")
    (fs,) = assemble_host(MapSource(answers), TAKEN_AT, only=[number_of(one)]).filesystems
    assert "nobarrier" in [option.token for option in need(fs.options).options]
