from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Unknown, Why
from ext4audit.facts.devices import BlockDevice, DmDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber, Layer, Provenance
from ext4audit.finding import Citation, Confidence, Disruption, Phase, Severity
from ext4audit.parsers import parse_dm_table
from ext4audit.report import Outcome
from ext4audit.rules.durability.dur001_barrier_disabled import check
from support.builders import (
    disk,
    filesystem,
    fstab_entry,
    host,
    known,
    loop,
    mount,
    options,
    queue,
    raid,
    superblock,
    unknown,
)
from support.judging import only_finding, verdict_on
from support.remedies.shell import RemedyShell

WRITE_THROUGH = queue(write_cache="write through")
UNKNOWN_CACHE = queue(write_cache=unknown("/sys/block/sda/queue/write_cache"))
NO_STACK = Unknown("/sys/dev/block/8:0", Why.ABSENT, "no sysfs here", "run on the host")
LOWER_NUMBER = DeviceNumber(254, 1)


def member(name: str, minor: int, *, through: bool = False) -> BlockDevice:
    """Build a member disk of an array."""
    return disk(name, DeviceNumber(8, minor), WRITE_THROUGH if through else queue())


def dm(*below: BlockDevice, cache: str = "write back") -> BlockDevice:
    """Build a linear volume over these devices."""
    return disk(
        "dm-0",
        DeviceNumber(252, 0),
        queue(write_cache=cache),
        kind="dm-linear",
        below=known(below),
    )


def mapped(table: str | None, *, cache: str = "write back", uuid: str = "LVM-x") -> BlockDevice:
    """Build a mapped device over a write-through disk; None is a table that only root can read."""
    parsed = known(parse_dm_table(table)) if table else unknown("device-mapper table of 252:0")
    below = dm(member("sdb", 16, through=True), cache=cache)
    return replace(below, kind="dm", dm=DmDevice("vg0-data", uuid, parsed))


def with_nobarrier(device: BlockDevice, *tokens: str, **changes: Any) -> Filesystem:
    """Build a filesystem on a device, with barriers off or with these options."""
    return filesystem(
        options=known(options(*(tokens or ("nobarrier",)))), stack=known(device), **changes
    )


verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


CRITICAL = (Severity.CRITICAL, Confidence.CONFIRMED)
HARMLESS = (Severity.INFO, Confidence.CONFIRMED)
DOUBTFUL = (Severity.INFO, Confidence.LIKELY)
HIGH = (Severity.HIGH, Confidence.CONFIRMED)
UNKNOWN = (Severity.HIGH, Confidence.POSSIBLE)

NUMBER = DeviceNumber(8, 1)
STACKS = {
    "disk, write back": (disk(), CRITICAL),
    "disk, write through": (disk(limits=WRITE_THROUGH), HARMLESS),
    "disk, not seen": (disk(limits=UNKNOWN_CACHE), UNKNOWN),
    "partition, write back": (
        disk("sda1", NUMBER, kind="partition", below=known((disk(),))),
        CRITICAL,
    ),
    "md over write back": (raid([member("sdb", 16), member("sdc", 32)]), CRITICAL),
    "md over write through": (
        raid([member("sdb", 16, through=True), member("sdc", 32, through=True)]),
        DOUBTFUL,
    ),
    "md over mixed": (raid([member("sdb", 16, through=True), member("sdc", 32)]), CRITICAL),
    "md, members not seen": (
        replace(raid([member("sdb", 16)]), below=unknown("/sys/block/md127/slaves")),
        UNKNOWN,
    ),
    "one of two not seen": (
        raid([member("sdb", 16, through=True), disk("sdc", DeviceNumber(8, 32), UNKNOWN_CACHE)]),
        UNKNOWN,
    ),
    "dm that still says write back": (dm(member("sdb", 16, through=True)), DOUBTFUL),
    "dm, write through": (dm(member("sdb", 16, through=True), cache="write through"), HARMLESS),
    "dm, overridden above write back": (dm(member("sdb", 16), cache="write through"), CRITICAL),
    "thin volume": (mapped("0 2048 thin 253:4 1"), CRITICAL),
    "LVM cache, writeback": (
        mapped("0 2048 cache 253:1 253:2 253:3 128 2 metadata2 writeback smq 0"),
        CRITICAL,
    ),
    "LVM cache, writethrough": (
        mapped("0 2048 cache 253:1 253:2 253:3 128 2 metadata2 writethrough smq 0"),
        DOUBTFUL,
    ),
    "dm-writecache": (mapped("0 2048 writecache s 253:1 253:2 4096 0"), CRITICAL),
    "dm-clone": (mapped("0 2048 clone 253:1 253:2 253:3 8"), CRITICAL),
    "dm-integrity": (mapped("0 2048 integrity 8:16 0 4 J 0", uuid="CRYPT-INTEGRITY-x"), CRITICAL),
    "VDO": (mapped("0 2048 vdo V4 8:16 1024 4096 32768 16380"), CRITICAL),
    "VDO, synchronous": (
        mapped("0 2048 vdo V2 8:16 1024 4096 32768 16380 on auto x", cache="write through"),
        HARMLESS,
    ),
    "dm-zoned": (mapped("0 2048 zoned 8:16"), CRITICAL),
    "dm-pcache": (mapped("0 2048 pcache /dev/pmem0 8:16"), CRITICAL),
    "thin volume, overridden": (mapped("0 2048 thin 253:4 1", cache="write through"), HARMLESS),
    "a linear segment and a thin one": (
        mapped("0 8 linear 8:16 0\n8 2048 thin 253:4 1"),
        CRITICAL,
    ),
    "dm-crypt": (mapped("0 2048 crypt aes-xts-plain64 :64:logon:x 0 8:16 4096"), DOUBTFUL),
    "table not seen, write back": (mapped(None), UNKNOWN),
    "table not seen, write through": (mapped(None, cache="write through"), HARMLESS),
    "LUKS, table not seen": (mapped(None, uuid="CRYPT-LUKS2-x"), DOUBTFUL),
    "AWS instance store": (disk(model="Amazon EC2 NVMe Instance Storage"), HIGH),
    "GCP local SSD": (
        disk(udev=(("DEVLINKS", "/dev/disk/by-id/google-local-ssd-0"),)),
        HIGH,
    ),
    "AWS EBS": (disk(model="Amazon Elastic Block Store"), CRITICAL),
}


@pytest.mark.parametrize(("device", "grade"), STACKS.values(), ids=STACKS.keys())
def test_severity_by_worst_leaf_device(
    device: BlockDevice, grade: tuple[Severity, Confidence]
) -> None:
    """The worst leaf device counts, because stacked devices inherit or fix their cache mode."""
    finding = finding_of(with_nobarrier(device))
    assert (finding.severity, finding.confidence) == grade


@pytest.mark.parametrize(
    ("disks", "names"),
    [("b", "sdb: "), ("bcd", "sdb, sdc, sdd: "), ("bcdef", "sdb, sdc, sdd and 2 more: ")],
)
def test_message_names_three_disks_and_counts_the_others(disks: str, names: str) -> None:
    """An array of sixty disks takes one line; the evidence lists all of them."""
    members = [member(f"sd{letter}", 16 * number) for number, letter in enumerate(disks, 1)]
    assert names in finding_of(with_nobarrier(raid(members))).message


def backing_filesystem(*tokens: str, through: bool = False) -> Filesystem:
    """Build the filesystem that holds a loop device's backing file."""
    return filesystem(
        number=LOWER_NUMBER,
        name="vda1",
        uuid="lower",
        options=known(options(*tokens)),
        stack=known(disk("vda", LOWER_NUMBER, WRITE_THROUGH if through else queue())),
    )


@pytest.mark.parametrize(
    ("others", "through", "grade"),
    [
        ((backing_filesystem(),), False, (Severity.MEDIUM, Confidence.CONFIRMED)),
        ((backing_filesystem("nobarrier"),), False, CRITICAL),
        ((backing_filesystem("nobarrier"),), True, DOUBTFUL),
        ((), False, (Severity.MEDIUM, Confidence.LIKELY)),
    ],
    ids=["barriers on below", "off below", "off below, write through", "not ext4 below"],
)
def test_loop_device_severity_by_filesystem_of_its_backing_file(
    others: tuple[Filesystem, ...], through: bool, grade: tuple[Severity, Confidence]
) -> None:
    """The loop device's "write back" is irrelevant: flushes become fsync() of the backing file."""
    below = disk("vda", LOWER_NUMBER, WRITE_THROUGH if through else queue())
    device = loop(known((below,)), backing=LOWER_NUMBER)
    finding = finding_of(with_nobarrier(device, number=DeviceNumber(7, 0)), *others)
    assert (finding.severity, finding.confidence) == grade


def test_backing_file_of_a_loop_device_is_cited() -> None:
    """If the filesystem that holds it is unknown, the file's name may help a person."""
    finding = finding_of(with_nobarrier(loop(), number=DeviceNumber(7, 0)))
    file = Citation("file of loop0", "/var/lib/image.img", "/sys/block/loop0/loop")
    assert file in finding.citations


def test_circular_loop_device_terminates() -> None:
    """A backing file that, by some bind mount, is on its own loop device is not followed."""
    device = loop(backing=DeviceNumber(7, 0))
    finding = finding_of(with_nobarrier(device, number=DeviceNumber(7, 0)))
    assert finding.severity is Severity.MEDIUM


@pytest.mark.parametrize(
    "fs",
    [
        with_nobarrier(disk(), "barrier"),
        with_nobarrier(disk(), "nodelalloc"),
        filesystem(options=known(options("barrier", mount_table=["rw", "barrier"]))),
        filesystem(fstab=known((fstab_entry("nobarrier"),))),
        with_nobarrier(disk(), "barrier", fstype=known("ext3")),
    ],
    ids=["on", "another option", "on against the superblock", "fstab not in force", "ext3"],
)
def test_barriers_pass_with_evidence(fs: Filesystem) -> None:
    """`nobarrier` contains `barrier`, so whole tokens are compared; a pass cites its evidence."""
    verdict = verdict_of(fs)
    assert verdict.outcome is Outcome.PASS
    assert ("option in force: barrier", "barrier", "/proc/fs/ext4/sda/options") in [
        (each.label, each.value, each.origin) for each in verdict.evidence
    ]


@pytest.mark.parametrize(
    "fs",
    [
        with_nobarrier(disk()),
        with_nobarrier(disk(), "barrier=0"),
        with_nobarrier(disk(), fstype=known("ext3")),
        with_nobarrier(disk(), fstype=known("ext2")),
        with_nobarrier(disk(), mounts=()),
        filesystem(options=known(options(hidden=["nobarrier"]))),
        filesystem(options=known(options("nobarrier", complete=False))),
        with_nobarrier(
            disk(), superblock=unknown("the superblock"), read_only=unknown("read-only")
        ),
    ],
    ids=["mount", "barrier=0", "ext3", "ext2", "namespace", "hidden", "mount table", "no root"],
)
def test_nobarrier_fails_from_any_origin(fs: Filesystem) -> None:
    """This includes ext2 and ext3, another namespace, the superblock, and a scan without root."""
    verdict = verdict_of(fs)
    assert (verdict.outcome, verdict.findings[0].severity) == (Outcome.FAIL, Severity.CRITICAL)


def test_what_is_not_mounted_is_not_judged() -> None:
    """A filesystem has options in force only while the kernel has it mounted."""
    verdict = verdict_of(filesystem(alive=False, mounts=(), options=unknown("options")))
    assert (verdict.outcome, verdict.note) == (Outcome.NOT_APPLICABLE, "it is not mounted")


@pytest.mark.parametrize(
    "evidence",
    [
        unknown("the options"),
        known(options(complete=False)),
        known(options("noatime", complete=False)),
    ],
    ids=["nothing", "a mount table without the word", "other words"],
)
def test_option_missing_from_the_mount_table_does_not_pass(evidence: Any) -> None:
    """An unread superblock may hide nobarrier."""
    verdict = verdict_of(filesystem(options=evidence))
    assert verdict.outcome is Outcome.UNDETERMINED
    assert verdict.unknowns[0].hint == "run as root"


def test_read_only_superblock_is_latent() -> None:
    """Nothing is written that could be lost until someone remounts it."""
    finding = finding_of(with_nobarrier(disk(), read_only=known(value=True)))
    assert finding.severity is Severity.INFO
    assert "read-only" in finding.message


@pytest.mark.parametrize(
    ("fs", "gap"),
    [
        (filesystem(options=known(options("nobarrier")), stack=NO_STACK), NO_STACK),
        (with_nobarrier(disk(limits=UNKNOWN_CACHE)), UNKNOWN_CACHE.write_cache),
    ],
)
def test_unknown_cache_is_assumed_volatile_and_reported(fs: Filesystem, gap: Unknown) -> None:
    """In a container without sysfs the finding is possible, and the gap is reported with it."""
    verdict = verdict_of(fs)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.findings[0].confidence is Confidence.POSSIBLE
    assert verdict.unknowns == (gap,)


def test_unknown_cache_beside_an_instance_store_is_reported() -> None:
    """The instance store is high for sure, and the other disk may be critical."""
    store = disk("nvme1n1", DeviceNumber(259, 1), model="Amazon EC2 NVMe Instance Storage")
    unseen = disk("sdc", DeviceNumber(8, 32), UNKNOWN_CACHE)
    verdict = verdict_of(with_nobarrier(raid([store, unseen])))
    assert verdict.findings[0].severity is Severity.HIGH
    assert verdict.unknowns == (UNKNOWN_CACHE.write_cache,)


def test_cites_every_device_and_the_origin_of_the_option() -> None:
    """The finding cites the option, its origin, fstab, and the cache of each member."""
    fs = with_nobarrier(
        raid([member("sdb", 16, through=True), member("sdc", 32)]),
        fstab=known((fstab_entry("noatime", "barrier=0"),)),
    )
    finding = finding_of(fs)
    assert {each.label: each.value for each in finding.citations} == {
        "option in force: barrier": "nobarrier",
        "mount table": "rw,nobarrier",
        "fstab line 7": "noatime,barrier=0",
        "write cache of sdb": "write through",
        "write cache of sdc": "write back",
        "write cache of md127": "write back (md arrays always report this)",
    }
    assert all(each.origin for each in finding.citations)
    assert "sdc: the write cache is volatile" in finding.message
    assert "sdb" not in finding.message


def test_each_conflicting_source_is_cited_once() -> None:
    """The kernel, the superblock and the mount table are cited where they disagree."""
    found = options("nobarrier")
    layers = (
        Layer(Provenance.KERNEL_DEFAULT, "barrier", "Linux 6.1.0"),
        Layer(Provenance.SUPERBLOCK_BITS, "nobarrier", "dumpe2fs -h"),
        Layer(Provenance.MOUNT, "nobarrier", "/proc/self/mountinfo"),
    )
    with_layers = tuple(
        o._replace(layers=layers) if o.name == "barrier" else o for o in found.options
    )
    fs = with_nobarrier(disk(limits=WRITE_THROUGH))
    fs = fs._replace(options=known(found._replace(options=with_layers)))
    assert [(each.label, each.value, each.origin) for each in finding_of(fs).citations] == [
        ("option in force: barrier", "nobarrier", "/proc/fs/ext4/sda/options"),
        ("kernel default", "barrier", "Linux 6.1.0"),
        ("superblock, default mount options", "nobarrier", "dumpe2fs -h"),
        ("mount table", "rw,nobarrier", "/proc/self/mountinfo"),
        ("write cache of sda", "write through", "/sys/block/sda/queue/write_cache"),
    ]


def test_hidden_nobarrier_is_attributed_to_the_superblock() -> None:
    """The evidence names the superblock, and the remedy clears its bit."""
    fs = filesystem(
        options=known(options(hidden=["nobarrier"])),
        superblock=known(superblock(default_mount_options=("nobarrier",))),
    )
    finding = finding_of(fs)
    assert ("set by", "superblock, default mount options") in [
        (each.label, each.value) for each in finding.citations
    ]
    persistent = [s.command for s in finding.remedies[0].lines if s.phase is Phase.PERSISTENT]
    assert persistent == ["tune2fs -o ^nobarrier /dev/sda"]


@pytest.mark.parametrize(
    ("fs", "arguments", "expected"),
    [
        (
            with_nobarrier(disk(), mounts=(mount("/"),)),
            ("quiet", "rootflags=noatime,barrier=0"),
            "Enable barriers. Correct rootflags= in the boot loader's configuration as well.",
        ),
        (
            with_nobarrier(disk()),
            ("rootflags=nobarrier",),
            (
                "Enable barriers. Neither fstab nor the superblock sets it: correct the unit or "
                "script that mounts it."
            ),
        ),
        (with_nobarrier(disk(), fstab=known((fstab_entry("nobarrier"),))), (), "Enable barriers."),
        (
            with_nobarrier(disk(), fstab=known((fstab_entry("nobarrier"),)), mounts=()),
            (),
            "Enable barriers, in the mount namespace that has it mounted.",
        ),
    ],
    ids=["rootflags", "not the root", "fstab", "elsewhere"],
)
def test_remedy_names_settings_that_no_command_changes(
    fs: Filesystem, arguments: tuple[str, ...], expected: str
) -> None:
    """They are the kernel command line, a unit or script, and another namespace."""
    verdict = judge(check, fs, host(fs, kernel_arguments=known(arguments)))
    assert verdict.findings[0].remedies[0].summary == expected


def test_second_remedy_is_advice_without_commands() -> None:
    """For those who wanted speed, it describes an alternative without a command to copy."""
    advice = finding_of(with_nobarrier(disk())).remedies[1]
    assert (advice.steps, advice.disruption) == ((), Disruption.ONLINE)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[RemedyShell]:
    """Return a shell on a real filesystem mounted without barriers."""
    shell = RemedyShell(tmp_path)
    try:
        shell.write_fstab("noatime,nobarrier")
        shell.mount()
        yield shell
    finally:
        shell.close()


@pytest.mark.kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_remedy_on_a_real_filesystem(shell: RemedyShell) -> None:
    """After the steps the rule passes, also after a new mount; the rollback undoes them."""
    fs = shell.filesystem({"barrier": Provenance.MOUNT})
    before = shell.state()
    (remedy, _) = finding_of(fs).remedies
    for step in remedy.lines:
        if step.phase is not Phase.ROLLBACK:
            shell.check(step.command)
    assert verdict_of(shell.filesystem()).outcome is Outcome.PASS
    shell.unmount()
    shell.mount()
    assert verdict_of(shell.filesystem()).outcome is Outcome.PASS
    for step in remedy.lines:
        if step.phase is Phase.ROLLBACK:
            shell.check(step.command)
    assert shell.state() == before
