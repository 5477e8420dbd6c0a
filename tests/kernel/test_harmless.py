"""System calls of the program: it opens nothing for writing, and changes no state."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.filesystems.scratch import Scratch, run
from support.program import AS_NOBODY, environment
from support.shells.collector import SCRIPT
from support.timing import PATIENCE_SECONDS

STRACE = shutil.which("strace")
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(STRACE is None, reason="needs strace"),
]
Make = Callable[..., Scratch]
TRACED = (
    "open,openat,openat2,creat,truncate,ftruncate,fallocate,rename,renameat,renameat2,link,linkat,"
    "symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,mknod,mknodat,chmod,fchmod,fchmodat,"
    "chown,fchown,lchown,fchownat,utime,utimes,utimensat,futimesat,setxattr,fsetxattr,lsetxattr,"
    "removexattr,fremovexattr,lremovexattr,ioctl,mount,umount2,move_mount,fsopen,fsconfig,open_tree,"
    "mount_setattr,pivot_root,swapon,swapoff,sync,syncfs,quotactl,quotactl_fd,init_module,"
    "finit_module,delete_module,reboot,sethostname,settimeofday,clock_settime,bpf"
)
IOCTLS = frozenset(
    # terminals and pipes; sizes and geometry of block devices; requests of dumpe2fs to a device
    "TCGETS TIOCGWINSZ TIOCGPGRP FIONREAD FIOCLEX FIONCLEX FIONBIO BLKGETSIZE BLKGETSIZE64 "
    "BLKSSZGET BLKPBSZGET BLKROGET BLKALIGNOFF BLKIOMIN BLKIOOPT BLKROTATIONAL BLKDISCARDZEROES "
    "BLKGETZONESZ FDGETFDCSTAT CDROM_GET_CAPABILITY CDROM_LAST_WRITTEN "
    "FS_IOC_GETFLAGS FS_IOC_FSGETXATTR FS_IOC_FIEMAP DM_VERSION DM_TABLE_STATUS DM_DEV_STATUS "
    "LOOP_GET_STATUS64 LOOP_GET_STATUS NS_GET_NSTYPE NS_GET_USERNS TCGETS2".split()
)
"""Requests that only read. EXT4_IOC_GET_TUNE_SB_PARAM and FS_IOC_GETFSUUID have names only in
newer versions of strace: see UNNAMED."""
UNNAMED = (
    "_IOC(_IOC_READ, 0x66, 0x2d, 0xe8)",
    "_IOC(_IOC_READ, 0x15, 0, 0x11)",
    "FS_IOC_GETFSUUID",
)
CALL = re.compile(r"^\d+ +(?P<name>\w+)\((?P<rest>.*)$", re.MULTILINE)
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
OWN_PLACES = ("/dev/null", "/dev/tty")


def changes(trace: str, own: str) -> list[str]:
    """Return the calls in a trace that change anything outside the directory `own`."""
    return [
        found[0]
        for found in CALL.finditer(trace)
        if _changes(found["name"], found["rest"]) and not _is_own(found["name"], found["rest"], own)
    ]


def _is_own(name: str, rest: str, own: str) -> bool:
    """Return whether all paths of a call are below a directory; strace -y makes them absolute."""
    wanted = 2 if name.startswith(("rename", "link")) else 1
    return len(re.findall(rf'["<]{re.escape(own)}', rest)) >= wanted


def _changes(name: str, rest: str) -> bool:
    if name.startswith("open") or name == "creat":
        path = re.search(r'"([^"]*)"', rest)
        is_own = path is not None and path[1] in OWN_PLACES
        return not is_own and bool(name == "creat" or WRITING.search(rest))
    if name == "ioctl":
        request = rest.split(", ", maxsplit=1)[1]
        return re.split(r"[,) ]", request)[0] not in IOCTLS and not request.startswith(UNNAMED)
    # These take a descriptor of a file opened for writing, which is detected there.
    return name not in {"fchmod", "fchown", "ftruncate", "fallocate"}


def traced(
    trace: Path, *command: str | Path, codes: Collection[int] = (0, 1, 2, 3), **variables: str
) -> str:
    """Run a command under strace, assert its exit code, and return its trace."""
    assert STRACE is not None
    done = subprocess.run(
        [
            STRACE,
            "-f",
            "--seccomp-bpf",
            "-y",
            "-qq",
            "-s",
            "300",
            "-e",
            f"trace={TRACED}",
            "-o",
            trace,
            *command,
        ],
        env=environment(PYTHONDONTWRITEBYTECODE="1", **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode in codes, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return trace.read_text(errors="surrogateescape")


NOBODY = 65534


@pytest.fixture
def own() -> Iterator[Path]:
    """Make the directory for the program's own output, which everybody may enter and write to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place = Path(folder) / "own"
        place.mkdir()
        place.chmod(0o777)
        yield place


@pytest.fixture
def filesystems(scratch: Make) -> Iterator[dict[str, Scratch]]:
    """Mount a healthy, a destroyed and a busy filesystem, and make an image with a bad magic."""
    made = {name: scratch(name).make().mount() for name in ("healthy", "destroyed", "busy")}
    run("dd", "if=/dev/zero", f"of={made['destroyed'].device}", "bs=1024", "seek=1", "count=1")
    bad = scratch("bad").make()
    run("dd", "if=/dev/zero", f"of={bad.image}", "bs=1", "seek=1080", "count=2", "conv=notrunc")
    with busy(made["busy"].mount_point):
        yield {**made, "bad": bad}


def crashed(image: Path, scratch: Make) -> None:
    """Copy a mounted filesystem, whose journal is as after a power failure."""
    made = scratch("crashed").make().mount()
    (made.mount_point / "file").write_text("x")
    run("sync", "-f", made.mount_point)
    run("cp", "--sparse=always", made.image, image)
    made.unmount()
    assert "needs_recovery" in run("dumpe2fs", "-h", image)


def zeroed(image: Path, scratch: Make) -> None:
    """Make a filesystem with a primary superblock of zeros, like debugfs's `zero_super`."""
    run("cp", scratch("zeroed").make().image, image)
    run("debugfs", "-w", "-R", "zap_block -p 0 1", image)
    run("dd", "if=/dev/zero", f"of={image}", "bs=1024", "seek=1", "count=1", "conv=notrunc")


def marked(image: Path, at_bytes: int, mark: bytes) -> None:
    """Make a file that starts like another kind of volume."""
    run("truncate", "-s", "16M", image)
    with image.open("r+b") as file:
        file.seek(at_bytes)
        file.write(mark)


DAMAGED: dict[str, Callable[[Path, Make], object]] = {
    "crashed": crashed,
    "zeroed": zeroed,
    "luks": lambda image, _: marked(image, 0, b"LUKS\xba\xbe\x00\x02"),
    "lvm": lambda image, _: marked(image, 512, b"LABELONE" + b"\x01" + bytes(15) + b"LVM2 001"),
}


@pytest.fixture(params=DAMAGED)
def damaged(request: pytest.FixtureRequest, own: Path, scratch: Make) -> Iterator[tuple[Path, str]]:
    """Make a damaged or foreign image, and a loop device of it."""
    image = own.parent / "image"
    DAMAGED[request.param](image, scratch)
    image.chmod(0o644)
    device = run("losetup", "--find", "--show", image).strip()
    yield image, device
    run("losetup", "--detach", device)


@contextmanager
def busy(place: Path) -> Iterator[None]:
    """Write to a filesystem and sync it continuously."""
    end = threading.Event()

    def write() -> None:
        with (place / "file").open("wb", buffering=0) as file:
            while not end.is_set():
                file.write(b"x")
                os.fsync(file.fileno())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        end.set()
        writer.join()


def processes_that_name(target: str, trace: str) -> set[str]:
    """Return the IDs of the processes that named a file: each command has its own process."""
    return {line.split()[0] for line in trace.splitlines() if f'"{target}"' in line}


def traced_as(user: str, trace: Path, *commands: list[str]) -> str:
    """Run `ext4audit` with each command's arguments as a user, and return all traces."""
    if user == "root":
        starts = [[sys.executable, "-m", "ext4audit", *command] for command in commands]
        return "".join(traced(trace, *start) for start in starts)
    joined = [word for command in commands for word in (*command, ";")]
    return traced(trace, sys.executable, "-c", AS_NOBODY, *joined)


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_no_command_changes_anything(filesystems: dict[str, Scratch], own: Path, user: str) -> None:
    """This holds for healthy, damaged and busy filesystems, for root and for nobody."""
    places = [str(filesystems[name].mount_point) for name in ("healthy", "destroyed", "busy")]
    trace = traced_as(
        user,
        own.parent / "trace",
        ["scan", "-f", "json", "-o", str(own / "out")],
        ["scan", *places, filesystems["healthy"].device],
        ["scan", str(filesystems["bad"].image)],
        ["layout", places[0]],
        ["collect", "-o", str(own / "snapshot")],
        ["plan", "--disks", "1", "--size", "1T"],
    )
    assert filesystems["healthy"].device in trace
    assert str(filesystems["bad"].image) in trace
    assert changes(trace, str(own)) == []


@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("form", ["image", "device"])
def test_damaged_and_other_images_are_unchanged(
    damaged: tuple[Path, str], own: Path, form: str, user: str
) -> None:
    """No journal is replayed, no superblock repaired, and no label written."""
    image, device = damaged
    before = image.read_bytes()
    target = str(image) if form == "image" else device
    commands = [["layout", target], ["scan", target], ["collect", target, "-o", str(own / "out")]]
    trace = traced_as(user, own.parent / "trace", *commands)
    assert len(processes_that_name(target, trace)) >= len(commands)
    assert changes(trace, str(own)) == []
    assert image.read_bytes() == before


@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
def test_the_script_changes_nothing(
    filesystems: dict[str, Scratch], own: Path, shell: str, user: str
) -> None:
    """It creates only its temporary directory and its output file."""
    script = own.parent / "collect.sh"
    script.write_text(SCRIPT)
    script.chmod(0o644)
    wrapper = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    command: list[str | Path] = [
        *wrapper[: 4 * (user == "nobody")],
        *shell.split(),
        script,
        "-o",
        own / "out",
    ]
    trace = traced(own.parent / "trace", *command, codes=[0], TMPDIR=str(own))
    assert filesystems["healthy"].device in trace
    assert list(own.iterdir()) == [own / "out"]
    # It runs in its own directory, so a name without a directory is one of its files.
    assert [each for each in changes(trace, str(own)) if not RELATIVE.search(each)] == []


RELATIVE = re.compile(r'\b(?:link|unlink|rename)\("[\w.]+"')


@pytest.mark.parametrize(
    ("call", "is_change"),
    [
        ('openat(AT_FDCWD</>, "/etc/fstab", O_RDONLY|O_CLOEXEC) = 3', False),
        ('openat(AT_FDCWD</>, "/etc/fstab", O_RDWR) = 3', True),
        ('openat(AT_FDCWD</>, "/dev/sda", O_WRONLY|O_DIRECT) = 3', True),
        ('openat(AT_FDCWD</>, "/own/x", O_RDWR|O_CREAT|O_EXCL, 0600) = 3', False),
        ('openat(AT_FDCWD</>, "/dev/null", O_WRONLY) = 3', False),
        ('rename("/run/blkid/a", "/run/blkid/b") = 0', True),
        ('rename("/own/a", "/etc/b") = 0', True),
        ('rename("/own/a", "/own/b") = 0', False),
        ('unlinkat(3</own/x>, "a", 0) = 0', False),
        ('unlinkat(AT_FDCWD</root>, "a", 0) = 0', True),
        ("ioctl(3, BLKGETSIZE64, [1]) = 0", False),
        ("ioctl(3, BLKRRPART) = 0", True),
        ("ioctl(3, FITRIM, 0x7ffd) = 0", True),
        ("ioctl(3, _IOC(_IOC_READ, 0x66, 0x2d, 0xe8), 0x7f) = -1 ENOTTY", False),
        ("ioctl(3, _IOC(_IOC_WRITE, 0x66, 0x2c, 0xe8), 0x7f) = 0", True),
        ("fchmod(3, 0644) = 0", False),
        ("sync() = 0", True),
    ],
)
def test_change_is_detected(call: str, *, is_change: bool) -> None:
    """A real change is found in a trace."""
    assert bool(changes(f"123   {call}\n", "/own")) is is_change
