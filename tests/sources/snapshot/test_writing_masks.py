"""Both collectors mask credentials, so that they stay on their host."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import Answer, Ask, ReadFile, RunCommand, Uname
from ext4audit.sources.captured import MapSource, read_snapshot
from ext4audit.sources.snapshot import SnapshotError
from ext4audit.sources.snapshot.writing import mask, masked_text
from support.hosts.snapshots import write_snapshot
from support.shells.collector import (
    SCRIPT,
    collect,
    entries,
    manifest,
    manifest_answers,
    some_shells,
)

LINES = [
    (
        "//srv/x /m cifs user=u,password=S3cret,uid=1 0 0",
        "//srv/x /m cifs user=u,password=***,uid=1 0 0",
    ),
    ("//srv/x /m cifs PassWd=S3cret,,with/comma,ro 0 0", "//srv/x /m cifs PassWd=***,ro 0 0"),
    ("//srv/x /m cifs pass=S3=cret\t0 0", "//srv/x /m cifs pass=***\t0 0"),
    ("//srv/x /m cifs user=u%S3c%ret,uid=1 0 0", "//srv/x /m cifs user=u%***,uid=1 0 0"),
    ("//srv/x /m cifs ro,UserName=d/u%S3c,,ret 0 0", "//srv/x /m cifs ro,UserName=d/u%*** 0 0"),
    ("# //srv/x /m cifs password2=S3cret 0 0", "# //srv/x /m cifs password2=*** 0 0"),
    (
        "a:6789:/ /m ceph name=admin,secret=S3cretQ==,noatime",
        "a:6789:/ /m ceph name=admin,secret=***,noatime",
    ),
    ("http://u:S3cret@host/ /m davfs", "http://u:***@host/ /m davfs"),
    ("curlftpfs#u:S3c@ret@host /m fuse", "curlftpfs#u:***@host /m fuse"),
    (
        "ro netroot=iscsi:u:S3cret:u2:S3cret2@10.0.0.1::3260 quiet",
        "ro netroot=iscsi:***@10.0.0.1::3260 quiet",
    ),
    ('ro rd.iscsi.password="S3cret two, three" quiet', "ro rd.iscsi.password=*** quiet"),
    ('ro "rd.iscsi.password=S3cret two" quiet', 'ro "rd.iscsi.password=***" quiet'),
    (
        "ro systemd.set_credential=passwd.plaintext-password.root:S3cret quiet",
        "ro systemd.set_credential=*** quiet",
    ),
    (
        "systemd.set_credential_binary=passwd.hashed-password.root:S3cretQ== ro",
        "systemd.set_credential_binary=*** ro",
    ),
    ('ro "systemd.set_credential=a:S3cret two" quiet', 'ro "systemd.set_credential=***" quiet'),
    (
        "90 27 0:44 / /m rw - fuse curlftpfs#ftp://u:S3cret@host/ rw,user_id=0",
        "90 27 0:44 / /m rw - fuse curlftpfs#ftp://u:***@host/ rw,user_id=0",
    ),
    ("inst.vncpassword=S3cret\udcff\u20ac", "inst.vncpassword=***"),
    ("registry_token=S3cret a.SECRET_KEY=S3cret", "registry_token=*** a.SECRET_KEY=***"),
]
KEPT = """# <file system> <mount point> <type> <options> <dump> <pass>
UUID="3e6be9de-8139-11d1-9106-a43f08d823a6" / ext4 errors=remount-ro,x-systemd.after=a@b.service 0 1
//srv/x /m cifs credentials=/etc/cifs.cred,user=u 0 0
//srv/x%20y /m%1 cifs user=u,prefixpath=a%20b 0 0
10.0.0.1:/export /n nfs4 ro 0 0
[fe80::1]:/export /bypass nfs4 ro 0 0
/dev/disk/by-path/ip-10.0.0.1:3260-iscsi-iqn.2001-04.com.example:a-lun-1 /p ext4 defaults 0 2
BOOT_IMAGE=/vmlinuz root=UUID=1 rootflags=commit=5 console=ttyS0,115200 systemd.unit=x:y
"""


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_what_looks_like_a_credential_is_masked(line: str, expected: str) -> None:
    """The value is masked; key and host stay, since they show what kind of mount it is."""
    assert masked_text(line) == expected


def test_everything_else_stays_as_it_is() -> None:
    """The header of Debian's fstab ends in <pass>, and a credentials file is only named."""
    assert masked_text(KEPT) == KEPT


@pytest.mark.parametrize(
    ("shell", "awk"),
    [
        ("dash", "mawk"),
        ("bash", "gawk"),
        ("dash", "original-awk"),
        ("busybox sh", "busybox awk"),
    ],
)
def test_the_script_masks_the_same(shell: str, awk: str, tmp_path: Path) -> None:
    """The result is the same in each awk, byte by byte, and so is the note."""
    if shutil.which(awk.partition(" ")[0]) is None:
        pytest.skip(f"needs {awk}")
    fstab = tmp_path / "fstab"
    text = KEPT + "".join(f"{line}\n" for line, _ in LINES) + KEPT
    fstab.write_text(text, errors="surrogateescape")
    script = re.sub(r"\bawk (?=['-])", f"{awk} ", SCRIPT)
    script = script.replace("/etc/fstab", str(fstab)).replace("/^.(etc.fstab|", f"/({fstab.name}|")
    sent = manifest(collect(shell, "--lean", script=script))
    assert manifest_answers(sent)[ReadFile(str(fstab))] == Known(masked_text(text), str(fstab))
    assert json.loads(sent.decode("utf-8", "surrogateescape"))["masked"] == [str(fstab)]
    assert b"S3c" not in sent


FSTAB, CMDLINE = ReadFile("/etc/fstab"), ReadFile("/proc/cmdline")
MOUNTS, OTHERS_MOUNTS = ReadFile("/proc/self/mountinfo"), ReadFile("/proc/17/mountinfo")
OTHER = ReadFile("/etc/os-release")


def test_only_files_that_can_hold_credentials_are_masked_and_named() -> None:
    """A file without credentials is not named; other answers are never changed."""
    answers: dict[Ask, Answer] = {
        FSTAB: Known("//a /b cifs password=x\n", "/etc/fstab"),
        CMDLINE: Known("ro quiet\n", "/proc/cmdline"),
        MOUNTS: Known("1 0 0:4 / /m rw - fuse curlftpfs#u:x@host rw\n", "/proc/self/mountinfo"),
        OTHERS_MOUNTS: Known("1 0 0:4 / / rw - 9p u:x@host rw\n", "/proc/17/mountinfo"),
        OTHER: Known("password=x", "/etc/os-release"),
        Uname(): Unknown("uname", Why.DENIED, "password=x"),
    }
    masked, paths = mask(answers)
    assert paths == ["/etc/fstab", "/proc/17/mountinfo", "/proc/self/mountinfo"]
    assert masked == {
        **answers,
        FSTAB: Known("//a /b cifs password=***\n", "/etc/fstab"),
        MOUNTS: Known("1 0 0:4 / /m rw - fuse curlftpfs#u:***@host rw\n", "/proc/self/mountinfo"),
        OTHERS_MOUNTS: Known("1 0 0:4 / / rw - 9p u:***@host rw\n", "/proc/17/mountinfo"),
    }


def test_the_script_masks_mount_tables(tmp_path: Path) -> None:
    """The table shows the sources of FUSE mounts as they were given."""
    table = "1 0 0:4 / /m rw - fuse curlftpfs#u:S3cret@host rw\n"
    place = tmp_path / "mountinfo"
    place.write_text(table)
    script = SCRIPT.replace("long /proc/self/mountinfo\n", f"long {place}\nreturn\n")
    script = script.replace("proc.*(line|info)", ".*(line|info)")
    sent = manifest(collect("sh", script=script))
    assert manifest_answers(sent)[ReadFile(str(place))] == Known(masked_text(table), str(place))
    assert "proc.*(line|info)" in SCRIPT


INTEGRITY = (
    "0 98 integrity 8:16 0 32 J 4 block_size:4096 internal_hash:hmac(sha256):5ec4e7 "
    "journal_mac:hmac(sha256):5ec4e7 fix_padding\n0 9 crypt capi:xts(aes)-plain64 :32:logon:x 0\n"
)
HIDDEN = INTEGRITY.replace("5ec4e7", "***")


def test_keys_of_dm_integrity_are_masked() -> None:
    """The kernel prints them in the table; dmsetup hides the keys of dm-crypt only."""
    ask = RunCommand(("dmsetup", "table", "-j", "253", "-m", "0"))
    assert mask({ask: Known(INTEGRITY, "dmsetup")}) == ({ask: Known(HIDDEN, "dmsetup")}, [])


@some_shells
def test_the_script_masks_keys_of_dm_integrity(shell: str) -> None:
    """The output of dmsetup is filtered after its run."""
    (edit,) = re.findall(r"^run dmsetup table .*\n(sed .*)\n", SCRIPT, re.MULTILINE)
    instead = f"\nrun printf %s '{INTEGRITY}'\n{edit}\nreturn\n"
    sent = collect(shell, script=SCRIPT.replace("\nlong /proc/self/mountinfo\n", instead))
    (run,) = [entry for entry in entries(sent) if entry["ask"] == "run_command"]
    assert run["stdout"] == HIDDEN


def test_the_note_is_in_the_snapshot(tmp_path: Path) -> None:
    """It can be read back; a note that is not a list of paths is rejected."""
    place = tmp_path / "snapshot"
    answers: dict[Ask, Answer] = {CMDLINE: Known("a=b\n", "/proc/cmdline")}
    write_snapshot(place, answers, taken_at="2026-01-02T03:04:05Z", masked=["/proc/cmdline"])
    source, _ = read_snapshot(place)
    assert isinstance(source, MapSource)
    assert source.fetch(CMDLINE) == answers[CMDLINE]
    file = place / "manifest.json"
    document = json.loads(file.read_text())
    assert document["masked"] == ["/proc/cmdline"]
    file.write_text(json.dumps({**document, "masked": "/proc/cmdline"}))
    with pytest.raises(SnapshotError, match="masked: not a list of strings"):
        read_snapshot(place)
