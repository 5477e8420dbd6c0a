"""Randomly changed texts from users and other programs, and the functions that read them.

Hypothesis drives this in tests/end_to_end/test_fuzzing.py. To run it for 600 seconds:

    PYTHONPATH=tests uv run python -m support.hosts.fuzz_texts 600
"""

from __future__ import annotations

import io
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import click

from ext4audit.assemble.host import assemble_host
from ext4audit.cli import did_you_mean
from ext4audit.cli.policy.baseline import read_baselines
from ext4audit.engine import audit
from ext4audit.facts import parse_toml
from ext4audit.parsers import (
    devices_and_mounts,
    disk_image,
    parse_dm_table,
    parse_os_release,
    superblock,
)
from ext4audit.parsers.probe_run import parse_probe_run
from ext4audit.policy import parse_policy
from ext4audit.report import Outcome, ReportSource
from ext4audit.rules import all_rules
from ext4audit.sources import ArchiveError
from ext4audit.sources.archive import recognise
from ext4audit.sources.captured_files import open_file
from ext4audit.sources.fleet import expected_names
from ext4audit.sources.snapshot import SnapshotError
from support.archives.contents import archive
from support.hosts.fuzzing import check

REFUSALS = (ValueError, ArchiveError, SnapshotError, click.UsageError)
"""The exceptions that readers raise for malformed input; in assembly, `derive` catches them."""
ROOT = Path(__file__).parents[3]
SOS = ROOT / "fixtures/archives/sosreport-hidden-nobarrier/archive"
LSBLK = (
    '{"blockdevices": [{"name":"sda","kname":"sda","maj:min":"8:0","fstype":null,"uuid":"null",'
    '"children":[{"name":"sda1","maj:min":"8:1","fstype":"ext4","uuid":"1-2","label":"a\\u2028b"}]}]}'
)
PROBE = '{"kind":"probe","schema_version":"1.0","mode":"probe","taken_at":"2026-01-01T00:00:00Z",'
MDSTAT = (
    "Personalities : [raid10]\nmd0 : active raid10 vda[3](F) vdb[2] loop5[1] sdc[0]\n"
    "      100 blocks super 1.2 512K chunks 2 near-copies [4/3] [_UUU]\n"
    "      [=>...]  recovery = 8.5% (1/2) finish=1min\n"
)
DETAIL = (
    "/dev/md0:\n  Raid Level : raid10\n  Raid Devices : 4\n  State : clean, degraded, recovering\n"
    "  Layout : near=2\n  Chunk Size : 512K\n    Number   Major   Minor   RaidDevice State\n"
    "  0  253  0  0  active sync  /dev/vda\n  -  0  0  1  removed\n"
)
LISTING = (
    "/dev:\ntotal 0\nbrw-rw----. 1 root disk system_u:object_r:x:s0 253, 0 Jun 1 10:00 vda\n"
    "drwxr-xr-x. 2 root root s 60 Jun 1 10:00 disk\n\n/dev/disk/by-uuid:\ntotal 0\n"
    "lrwxrwxrwx. 1 root root s 9 Jun 1 10:00 1111-22 -> ../../vda\n"
)
SPACE = (
    "Filesystem     1K-blocks  Used Available Use% Mounted on\n/dev/vda 100 50 40 56% /\n"
    "proc 0 0 0 - /proc\n/dev/very/long\n      10 5 5 50% /a b\n"
)
IN_ARCHIVES = {
    "df": ("sos_commands/filesys/df_-al", SPACE),
    "df of inodes": ("sos_commands/filesys/df_-ali", SPACE.replace("1K-blocks", "Inodes")),
    "mdadm -D": ("sos_commands/md/mdadm_-D_.dev.md", DETAIL),
    "mdstat": ("proc/mdstat", MDSTAT),
    "ls -alZR": ("sos_commands/block/ls_-alZR_.dev", LISTING),
    "lsblk of sos": ("sos_commands/block/lsblk", "NAME MAJ:MIN RM SIZE\nvda 253:0 0 1G\n"),
}
TASK = '{"changed": true, "rc": 0, "stdout": "{\\"format\\": 1, \\"answers\\": []}", "stderr": ""}'
POLICY = (
    'select = ["DUR"]\nfail_on = "high"\n[[suppress]]\nrule = "DUR001"\nreason = "x"\n'
    'expires = 2027-01-01\nmount = "/srv/*"\n'
)
INVENTORY = "[all]\ndb[01:20].example.com ansible_host=1\n; x\nweb[0:1][0:1]\n[all:vars]\na=b\n"
Target = Callable[[bytes], object]


def text(data: bytes) -> str:
    """Return bytes decoded as sources decode text."""
    return data.decode("utf-8", "surrogateescape")


@cache
def sos_files() -> dict[str, bytes]:
    """Return the files of a sosreport, including those of IN_ARCHIVES."""
    (top,) = SOS.iterdir()
    found = {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file()}
    return found | {path: content.encode() for path, content in IN_ARCHIVES.values()}


def of_archive(path: str) -> Target:
    """Return a target that audits a sosreport with the data in place of one file."""

    def target(data: bytes) -> None:
        found = recognise(archive({**sos_files(), path: data}))
        assert found is not None
        host = assemble_host(found.source, found.taken_at)
        report = audit(ReportSource("sosreport", "fuzz"), host, all_rules())
        assert Outcome.ERROR not in {verdict.outcome for verdict in report.verdicts}

    return target


def of_text_of(parse: Callable[[str], object]) -> Target:
    """Return a target that decodes the data as sources do and parses it."""
    return lambda data: parse(text(data))


def of_file(read: Callable[[str], object]) -> Target:
    """Return a target that reads a file with the data as its content."""

    def target(data: bytes) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            read(file.name)

    return target


def policy(data: bytes) -> object:
    """Read a policy file."""
    with suppress(RecursionError):  # read_policy turns it into a usage error
        return parse_policy(parse_toml(data.decode()), all_rules(), did_you_mean)
    return None


def report_text() -> str:
    """Return a JSON report that can serve as a baseline."""
    (path,) = SOS.parent.glob("expected.*.json")
    return path.read_text()


def targets() -> dict[str, tuple[str, Target]]:
    """Return a sample and its target for each kind of text, by name."""
    image = bytes(1024) + b"\xff" * 1024
    of_text: dict[str, tuple[str, Callable[[str], object]]] = {
        "lsblk JSON": (LSBLK, devices_and_mounts.parse_lsblk_json),
        "lsblk pairs": (
            'NAME="sda" MAJ:MIN="8:0" UUID="a"\n',
            devices_and_mounts.parse_lsblk_pairs,
        ),
        "dm table": ("0 8 striped 2 128 8:0 0 8:16 0\n", parse_dm_table),
        "mountinfo": (
            "1 2 8:1 / / rw shared:1 - ext4 /dev/sda rw\n",
            devices_and_mounts.parse_mount_table,
        ),
        "fstab": ("UUID=1 / ext4 defaults,x=y 0 1\n", devices_and_mounts.parse_fstab),
        "os-release": ('ID="debian"\nVERSION_ID=12\n', parse_os_release),
        "probe JSON": (PROBE + '"filesystem":{},"results":[{}]}', parse_probe_run),
    }
    of_bytes: dict[str, Target] = {
        "file kinds": lambda data: (disk_image.is_text(data), disk_image.parse_mbr(data)),
        "superblocks": superblock.parse_raw_superblock,
        "images": superblock.parse_image_superblock,
        "GPT": disk_image.parse_gpt_header,
    }
    read = {
        "baselines": (report_text(), of_file(read_baselines)),
        "inventories": (INVENTORY, of_file(expected_names)),
        "policies": (POLICY, policy),
        "Ansible trees": (TASK, lambda data: open_file(io.BytesIO(data), "fuzz")),
    }
    return {
        **{name: (seed, of_text_of(f)) for name, (seed, f) in of_text.items()},
        **{name: (text(image), target) for name, target in of_bytes.items()},
        **read,
        **{name: (seed, of_archive(path)) for name, (path, seed) in IN_ARCHIVES.items()},
    }


PIECES = (
    *(b"\n", b"\0", b"\xff", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xae", b" ", b"[", b"{"),
    *(
        b"-1",
        b"0",
        b"9" * 30,
        b"1" * 5000,
        b"[0:1]" * 400,
        b'"',
        b"null",
        b"\\012",
        b"a." * 3000,
        b"[" * 20_000,
    ),
)


def changed(seed: bytes, chance: random.Random) -> bytes:
    """Return a text with random changes: inserted pieces, removed bytes, repeated parts."""
    for _ in range(chance.randrange(6)):
        piece = chance.choice(PIECES) if chance.random() < 0.7 else chance.randbytes(8)
        start, end = sorted(chance.randrange(len(seed) + 1) for _ in range(2))
        match chance.randrange(4):
            case 0:
                seed = seed[:start] + piece + seed[start:]
            case 1:
                seed = seed[:start] + seed[end:]
            case 2:
                seed = seed[:start] + piece + seed[start + len(piece) :]
            case _:
                seed = seed[:end] + seed[start:]
        seed = seed[:50_000]
    return seed


def try_one(target: Target, data: bytes) -> None:
    """Call a target with data; it may raise only the exceptions in REFUSALS."""
    with suppress(*REFUSALS):
        target(data)


def run(seconds: float) -> Counter[str]:
    """Try random texts for some seconds; return the number of texts of each kind."""
    chance, every, tried = random.Random(), targets(), Counter[str]()  # noqa: S311
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name, (seed, target) = chance.choice(list(every.items()))
        data = changed(seed.encode("utf-8", "surrogateescape"), chance)
        began = time.monotonic()
        try:
            try_one(target, data)
            if tried.total() % 40 == 0:
                check(chance.randbytes(chance.randrange(1, 300)))
        except Exception:
            Path(tempfile.gettempdir(), "fuzz-input").write_bytes(data)
            print(name, "failed; its input is in fuzz-input", file=sys.stderr)
            raise
        if time.monotonic() - began > 5:
            print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr)
        tried[name] += 1
    return tried


if __name__ == "__main__":
    counts = run(float(sys.argv[1]))
    print(json.dumps(dict(counts.most_common())), counts.total())
