"""DRF006: an ext4 entry of fstab that is not mounted."""

from __future__ import annotations

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Why
from ext4audit.facts.host import Host
from ext4audit.facts.mount import DeviceNumber, FstabEntry, Mount
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drift.drf006_fstab_entry_not_mounted import IN_CAPITALS, check
from support.builders import (
    UUID,
    disk,
    filesystem,
    fstab_entry,
    host,
    known,
    lsblk_row,
    mount,
    unknown,
)

TIMEOUT = "x-systemd.device-timeout=10s"


def verdict(on: Host) -> Verdict:
    """Judge a host."""
    return judge(check, None, on)


def with_entries(*entries: FstabEntry) -> Host:
    """Build a host with /data mounted, and these fstab entries."""
    return host(filesystem(), fstab=known(entries))


@pytest.mark.parametrize(
    ("on", "outcome"),
    [
        (with_entries(fstab_entry()), Outcome.PASS),
        (with_entries(fstab_entry(mount_point="/data/")), Outcome.PASS),
        (with_entries(fstab_entry(mount_point="/srv")), Outcome.FAIL),
        (with_entries(fstab_entry("nofail", mount_point="/srv")), Outcome.FAIL),
        (with_entries(fstab_entry("noauto", mount_point="/srv")), Outcome.NOT_APPLICABLE),
        (with_entries(fstab_entry(mount_point="/srv", fstype="auto")), Outcome.NOT_APPLICABLE),
        (
            with_entries(fstab_entry("x-systemd.automount", mount_point="/srv")),
            Outcome.NOT_APPLICABLE,
        ),
        (with_entries(), Outcome.NOT_APPLICABLE),
        (host(fstab=unknown("/etc/fstab")), Outcome.UNDETERMINED),
        (host(mounts=unknown("mount table")), Outcome.UNDETERMINED),
        (host(container="docker"), Outcome.NOT_APPLICABLE),
    ],
)
def test_drf006_outcomes(on: Host, outcome: Outcome) -> None:
    """An entry that should be mounted at boot but is not in the mount table is a finding."""
    assert verdict(on).outcome is outcome


@pytest.mark.parametrize(
    ("fstype", "alive", "point", "outcome"),
    [
        ("overlay", True, "/", Outcome.PASS),
        ("overlay", False, "/", Outcome.FAIL),
        ("tmpfs", True, "/", Outcome.FAIL),
        ("overlay", True, "/srv", Outcome.FAIL),
    ],
)
def test_drf006_root_below_an_overlay(
    fstype: str, alive: bool, point: str, outcome: Outcome
) -> None:
    """A kiosk or live system has its root and fstab below an overlay, and writes to memory."""
    over = mount(point, number=DeviceNumber(0, 30), fstype=fstype)
    fs = filesystem(mounts=(), alive=alive)
    on = host(fs, mounts=known((over,)), fstab=known((fstab_entry(mount_point=point),)))
    assert verdict(on).outcome is outcome


def test_drf006_prints_no_command_for_an_absent_device() -> None:
    """`mount` cannot help if the disk is absent, so no command is printed."""
    gone = fstab_entry(mount_point="/srv", number=unknown("device UUID=…"))
    (finding,) = verdict(with_entries(gone)).findings
    assert finding.remedies == ()


@pytest.mark.parametrize(
    ("there", "entry", "outcome"),
    [
        (mount("/srv"), fstab_entry(mount_point="/srv"), Outcome.PASS),
        (mount("/srv"), fstab_entry(mount_point="//srv/./"), Outcome.PASS),
        (
            mount("/srv"),
            fstab_entry(mount_point="/link")._replace(real_mount_point="/srv"),
            Outcome.PASS,
        ),
        (
            mount("/srv", number=DeviceNumber(0, 44), fstype="tmpfs"),
            fstab_entry(mount_point="/srv"),
            Outcome.FAIL,
        ),
        (mount("/srv", number=DeviceNumber(8, 9)), fstab_entry(mount_point="/srv"), Outcome.FAIL),
        (
            mount("/srv"),
            fstab_entry(mount_point="/srv", number=unknown("device LABEL=gone"))._replace(
                other_devices=(DeviceNumber(8, 0),),
            ),
            Outcome.FAIL,
        ),
        (
            mount("/srv"),
            fstab_entry(mount_point="/srv", number=unknown("device PARTUUID=x")),
            Outcome.UNDETERMINED,
        ),
        (
            mount("/srv", number=DeviceNumber(0, 44), fstype="tmpfs"),
            fstab_entry(mount_point="/srv", number=unknown("device PARTUUID=x")),
            Outcome.FAIL,
        ),
    ],
)
def test_drf006_compares_mount_point_and_device(
    there: Mount, entry: FstabEntry, outcome: Outcome
) -> None:
    """A mount point may be spelled differently; a different filesystem on it is a finding."""
    on = host(filesystem(mounts=(there,)), fstab=known((entry,)))
    assert verdict(on).outcome is outcome


def test_drf006_prints_no_mount_over_another_filesystem() -> None:
    """`mount` would hide the filesystem that is in use there."""
    there = mount("/srv", number=DeviceNumber(0, 44), fstype="tmpfs")
    on = host(filesystem(mounts=(there,)), fstab=known((fstab_entry(mount_point="/srv"),)))
    (finding,) = verdict(on).findings
    (advice,) = finding.remedies
    assert advice.steps == ()
    assert advice.summary.endswith("correct the line, or the mount.")
    assert finding.confidence is Confidence.CONFIRMED
    assert "/dev/sda (tmpfs, 0:44) on /srv" in {citation.value for citation in finding.citations}


@pytest.mark.parametrize("options", ["noauto", "defaults"])
def test_drf006_prints_no_command_for_a_second_entry_of_a_mount_point(options: str) -> None:
    """`mount` uses the first line, which names another filesystem (util-linux 2.38)."""
    first = fstab_entry(options, mount_point="/srv/.", number=known(DeviceNumber(8, 16)))
    second = fstab_entry(mount_point="/srv", line_number=8)
    *_, finding = verdict(with_entries(first, second)).findings
    (remedy,) = finding.remedies
    assert (finding.citations[0].label, remedy.steps) == ("fstab line 8", ())
    assert "mount takes the first of them, line 7" in remedy.summary


@pytest.mark.parametrize(
    ("word", "reported", "advice"),
    [
        ("nofail", "the boot continues", "If it will not come back, remove its line"),
        (
            "defaults",
            "waits for it and then fails",
            "If the host is to boot without it, add nofail",
        ),
    ],
)
def test_drf006_message_says_what_the_boot_does_without_the_device(
    word: str, reported: str, advice: str
) -> None:
    """An absent device stops the boot if the entry lacks nofail."""
    (finding,) = verdict(
        with_entries(fstab_entry(word, mount_point="/srv", number=ABSENT_DEVICE))
    ).findings
    assert reported in finding.message
    (remedy,) = finding.remedies
    assert remedy.summary.startswith(f"Attach the device. {advice}")


@pytest.mark.parametrize(
    ("spec", "is_said"), [("UUID=AB", True), ("PARTUUID=aB-01", True), ("LABEL=AB", False)]
)
def test_drf006_message_names_capitals_in_a_uuid(spec: str, *, is_said: bool) -> None:
    """No device has a UUID in capitals, and mount(8) compares UUIDs as text."""
    entry = fstab_entry(mount_point="/srv", number=ABSENT_DEVICE)
    entry = entry._replace(line=entry.line._replace(spec=spec))
    ((remedy,),) = (finding.remedies for finding in verdict(with_entries(entry)).findings)
    assert (remedy.summary == IN_CAPITALS) is is_said
    assert remedy.steps == ()


def named(spec: str, *options: str, mount_point: str = "/data") -> FstabEntry:
    """Build an entry for the mounted filesystem that names its device in another way."""
    entry = fstab_entry(*options, mount_point=mount_point)
    return entry._replace(line=entry.line._replace(spec=spec))


@pytest.mark.parametrize(
    ("entry", "arguments", "severity", "then"),
    [
        (named(f"UUID={UUID.upper()}"), (), Severity.HIGH, "then emergency mode"),
        (named(f"/dev/disk/by-uuid/{UUID.upper()}"), (), Severity.HIGH, "then emergency mode"),
        (named("PARTUUID=0DDBA11-02"), (), Severity.HIGH, "then emergency mode"),
        (named(f"UUID={UUID.upper()}", "nofail"), (), Severity.LOW, "continues without it"),
        (named(f"UUID={UUID.upper()}", mount_point="/"), (), Severity.HIGH, "remount of the root"),
        (
            named(f"UUID={UUID.upper()}", mount_point="/"),
            ("ro", "rw"),
            Severity.LOW,
            "remount of the root",
        ),
    ],
)
def test_drf006_uuid_in_capitals_is_not_found_at_the_next_boot(
    entry: FstabEntry, arguments: tuple[str, ...], severity: Severity, then: str
) -> None:
    """It may be mounted by hand, or since before the edit; mount -a and a remount fail (2.38.1)."""
    fs = filesystem(mounts=(mount(entry.line.mount_point),))
    on = host(fs, fstab=known((entry,)), kernel_arguments=known(arguments))
    (finding,) = verdict(on).findings
    assert (finding.severity, finding.confidence) == (severity, Confidence.LIKELY)
    assert then in finding.message
    assert [(remedy.summary, remedy.steps) for remedy in finding.remedies] == [(IN_CAPITALS, ())]


@pytest.mark.parametrize("spec", ["LABEL=DATA", f"UUID={UUID}", "/dev/SDA", "/dev/disk/by-label/A"])
def test_drf006_capitals_matter_in_uuids_only(spec: str) -> None:
    """Labels and paths are text with capitals."""
    assert verdict(with_entries(named(spec))).outcome is Outcome.PASS


def test_drf006_path_of_the_root_is_not_looked_for() -> None:
    """mount(8) remounts a root whose path does not exist (2.38.1)."""
    entry = named(f"/dev/disk/by-uuid/{UUID.upper()}", mount_point="/")
    on = host(filesystem(mounts=(mount("/"),)), fstab=known((entry,)))
    assert verdict(on).outcome is Outcome.PASS


def test_drf006_names_no_time_where_the_line_sets_its_own() -> None:
    """The boot waits as long as x-systemd.device-timeout= says, 90 seconds without it."""
    for word, text in (("noatime", "systemd: 90 seconds, then"), (TIMEOUT, "systemd: emergency")):
        entry = fstab_entry(word, mount_point="/srv", number=ABSENT_DEVICE)
        (finding,) = verdict(with_entries(entry)).findings
        assert f"({text}" in finding.message


@pytest.mark.parametrize("why", [why for why in Why if why is not Why.ABSENT])
@pytest.mark.parametrize("word", ["nofail", "defaults"])
def test_drf006_unknown_device_is_not_reported_as_missing(word: str, why: Why) -> None:
    """It is still certain that nothing is mounted."""
    number = unknown("device UUID=…", why)
    (finding,) = verdict(
        with_entries(fstab_entry(word, mount_point="/srv", number=number))
    ).findings
    assert finding.message.endswith("Whether its device is attached is unknown.")
    assert f"UUID={UUID} may be attached" in {citation.value for citation in finding.citations}
    assert finding.summary == "an fstab entry is not mounted"
    assert finding.remedies == ()


@pytest.mark.parametrize(
    ("entry", "cited"),
    [
        (fstab_entry(mount_point="/srv"), "is attached"),
        (
            fstab_entry(mount_point="/srv", number=unknown("device UUID=…", Why.ABSENT)),
            "was not found",
        ),
    ],
)
def test_drf006_cites_entry_device_and_mount_point(entry: FstabEntry, cited: str) -> None:
    """Each citation has its origin."""
    (finding,) = verdict(with_entries(entry)).findings
    spec = entry.line.spec
    assert [citation.value for citation in finding.citations] == [
        f"{spec} /srv ext4 defaults",
        f"{spec} {cited}",
        "nothing on /srv",
    ]


@pytest.mark.parametrize(
    ("spec", "mode", "severity", "words"),
    [
        ("LABEL=cloudimg-rootfs", "rw", Severity.LOW, "fails to remount it"),
        ("LABEL=cloudimg-rootfs", "ro", Severity.HIGH, "fails to remount it"),
        ("/dev/nowhere", "ro", Severity.LOW, "and remounts it"),
    ],
)
def test_drf006_root_entry_that_names_another_device(
    spec: str, mode: str, severity: Severity, words: str
) -> None:
    """WSL ships a label that no device has; only the remount of / fails, which may leave it ro."""
    root = mount("/", super_options=(mode,))
    entry = fstab_entry("discard", mount_point="/", spec=spec, number=ABSENT_DEVICE)
    entry = entry._replace(other_devices=(root.device_number,))
    on = host(filesystem(mounts=(root,)), mounts=known((root,)), fstab=known((entry,)))
    (finding,) = verdict(on).findings
    assert finding.severity is severity
    assert words in finding.message
    assert "emergency" not in finding.message


@pytest.mark.parametrize(("name", "is_offered"), [("sdb", False), ("vdb", True)])
def test_drf006_prints_no_command_for_a_second_path_to_a_mounted_filesystem(
    name: str, *, is_offered: bool
) -> None:
    """The kernel would mount it as a second filesystem; a virtual disk has only one path."""
    number = DeviceNumber(8, 16)
    unmounted = filesystem(number=number, alive=False, mounts=(), stack=known(disk(name, number)))
    entry = fstab_entry(spec=f"/dev/{name}", mount_point="/srv", number=known(number))
    live = filesystem(stack=known(disk("sda")))
    on = host(live, unmounted=known((unmounted,)), fstab=known((entry,)), devices=known(()))
    (finding,) = verdict(on).findings
    assert bool(finding.remedies) is is_offered


@pytest.mark.parametrize(
    ("own", "other", "place", "commands"),
    [
        (None, None, "/elsewhere", [False]),
        (UUID, None, "/elsewhere", [True]),
        (UUID, UUID, "/elsewhere", []),
        (None, None, "/more", [True]),
    ],
    ids=["nothing was read", "a UUID of its own", "a UUID that another has", "mounted twice"],
)
def test_drf006_prints_no_command_for_a_device_that_was_not_read(
    own: str | None, other: str | None, place: str, commands: list[bool]
) -> None:
    """With targets, the superblocks of all other devices are not read."""
    number = DeviceNumber(8, 16)
    entry = fstab_entry(spec="/dev/sdb", mount_point="/srv", number=known(number))
    rows = (
        lsblk_row("sda", DeviceNumber(8, 0), uuid=other),
        lsblk_row("sdb", number, uuid=own),
    )
    seen = (mount(), mount("/more", number=number)) if place == "/more" else (mount(),)
    on = host(filesystem(), fstab=known((entry,)), devices=known(rows), mounts=known(seen))
    (finding,) = verdict(on).findings
    assert [bool(remedy.steps) for remedy in finding.remedies] == commands


ABSENT_DEVICE = unknown("device UUID=…", Why.ABSENT)
NOT_MOUNTED = "an fstab entry is not mounted"
MOUNT_ON_TOP = mount("/srv", number=DeviceNumber(0, 44), fstype="tmpfs")


@pytest.mark.parametrize(
    ("on", "severity", "summary"),
    [
        (
            with_entries(fstab_entry("nofail", mount_point="/srv", number=ABSENT_DEVICE)),
            "low",
            f"{NOT_MOUNTED}: its device was not found, which nofail allows",
        ),
        (
            with_entries(fstab_entry("defaults", mount_point="/srv", number=ABSENT_DEVICE)),
            "high",
            f"{NOT_MOUNTED}: its device was not found",
        ),
        (with_entries(fstab_entry("nofail", mount_point="/srv")), "low", NOT_MOUNTED),
        (with_entries(fstab_entry("defaults", mount_point="/srv")), "high", NOT_MOUNTED),
        (
            with_entries(fstab_entry("nofail", mount_point="/srv", number=unknown("device"))),
            "low",
            NOT_MOUNTED,
        ),
        (
            host(
                filesystem(mounts=(MOUNT_ON_TOP,)),
                fstab=known((fstab_entry("nofail", mount_point="/srv", number=ABSENT_DEVICE),)),
            ),
            "high",
            "a different filesystem is mounted than fstab names",
        ),
    ],
    ids="away demanded attached attached-demanded unread another-there".split(),
)
def test_drf006_is_low_with_nofail(on: Host, severity: str, summary: str) -> None:
    """With nofail the filesystem may be missing, but another one may not replace it."""
    (finding,) = verdict(on).findings
    assert (finding.severity, finding.summary) == (Severity(severity), summary)
    is_guess = summary.startswith("a different filesystem")  # the entry's device was not found
    assert finding.confidence is (Confidence.LIKELY if is_guess else Confidence.CONFIRMED)


@pytest.mark.parametrize(
    ("words", "state", "own", "advised"),
    [
        ("ro", "rw", "rw", "mounted writable on /data"),
        ("ro", "rw", "ro", "mounted writable on /data"),
        ("defaults", "ro", "ro", ""),
        ("ro", "ro", "ro", ""),
        ("defaults", "rw", "rw", ""),
    ],
)
def test_drf006_prints_no_mount_that_the_kernel_refuses(
    words: str, state: str, own: str, advised: str
) -> None:
    """A device has one superblock; mount(8) mounts read-only what cannot be writable."""
    there = mount(flags=(own, "relatime"), super_options=(state,))
    entry = fstab_entry(words, mount_point="/srv")
    (finding,) = verdict(host(filesystem(mounts=(there,)), fstab=known((entry,)))).findings
    (remedy,) = finding.remedies
    assert bool(remedy.steps) is not bool(advised)
    assert advised in remedy.summary
