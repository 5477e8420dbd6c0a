"""PRF002: renaming over an existing file waits until its dirty data is submitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Unknown, Why
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import ActiveProfile, Filesystem, all_profiles
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Remedy, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.performance.prf002_auto_da_alloc_stall import check
from support.builders import (
    disk,
    filesystem,
    host,
    known,
    loop,
    memory,
    options,
    queue,
    raid,
    unknown,
)
from support.filesystems.scratch import Scratch, apply_remedy, judge_host, roll_back, run, run_shell
from support.images.mke2fs import sparse_image
from support.judging import only_finding, verdict_on
from support.remedies.dirty_limits import own_limits, read_limits, set_limits

MIB = 1 << 20
ABSENT = Unknown("queue file", Why.ABSENT)


verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def on_one_disk(
    *, name: str = "sda", below: BlockDevice | None = None, **limits: Any
) -> Filesystem:
    """Build a filesystem on one disk with these queue settings."""
    return filesystem(stack=known(below or disk(name, limits=queue(**limits))))


def with_options(*tokens: str, **how: Any) -> Filesystem:
    """Build a filesystem mounted with these options."""
    return filesystem(options=known(options(*tokens, **how)))


NO_OPTIONS_FILE = Unknown("the effective options", Why.ABSENT)


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        pytest.param(filesystem(), Outcome.FAIL, id="defaults"),
        pytest.param(with_options("data=writeback"), Outcome.FAIL, id="data=writeback"),
        pytest.param(with_options("noauto_da_alloc"), Outcome.PASS, id="noauto_da_alloc"),
        pytest.param(with_options("nodelalloc"), Outcome.PASS, id="nodelalloc"),
        pytest.param(with_options("data=journal"), Outcome.PASS, id="data=journal"),
        pytest.param(with_options(hidden=("nodelalloc",)), Outcome.PASS, id="hidden nodelalloc"),
        pytest.param(
            with_options("nodelalloc", complete=False), Outcome.PASS, id="one token is enough"
        ),
        pytest.param(with_options(complete=False), Outcome.UNDETERMINED, id="options not seen"),
        pytest.param(
            with_options("auto_da_alloc", "delalloc", complete=False),
            Outcome.UNDETERMINED,
            id="data mode not seen",
        ),
        pytest.param(
            with_options("auto_da_alloc", "delalloc", complete=False, gap=NO_OPTIONS_FILE),
            Outcome.UNDETERMINED,
            id="no options file: a missing data= is not a missing journal",
        ),
        pytest.param(
            filesystem(options=unknown("options")), Outcome.UNDETERMINED, id="no options at all"
        ),
        pytest.param(filesystem(alive=False), Outcome.NOT_APPLICABLE, id="not mounted"),
        pytest.param(filesystem(fstype=known("ext3")), Outcome.NOT_APPLICABLE, id="ext3"),
        pytest.param(filesystem(fstype=known("ext2")), Outcome.NOT_APPLICABLE, id="ext2"),
        pytest.param(
            filesystem(fstype=unknown("fstype")), Outcome.UNDETERMINED, id="fstype not seen"
        ),
        pytest.param(filesystem(read_only=known(value=True)), Outcome.NOT_APPLICABLE, id="ro"),
        pytest.param(
            filesystem(read_only=unknown("read-only")), Outcome.UNDETERMINED, id="rw not seen"
        ),
    ],
)
def test_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """Rename waits if delalloc and auto_da_alloc are in force, whatever data= is."""
    assert verdict_of(fs).outcome is outcome


def test_filesystem_without_a_journal_fails_too() -> None:
    """A complete options file without data= means no journal, and the stall is the same."""
    seen = options()
    without = tuple(option for option in seen.options if option.name != "data")
    fs = filesystem(options=known(type(seen)(seen.source, True, without, ("rw",))))
    citations = {c.label: c.value for c in finding_of(fs).citations}
    assert citations["data"] == "none: no journal, which does not change the wait"


def test_pass_cites_the_option_that_prevents_the_stall() -> None:
    """The evidence of a pass is the option that prevents the wait, with its origin."""
    (citation,) = verdict_of(with_options("noauto_da_alloc")).evidence
    assert (citation.label, citation.value) == ("auto_da_alloc", "noauto_da_alloc")
    assert citation.origin == "/proc/fs/ext4/sda/options"


FAST = disk("nvme0n1", DeviceNumber(259, 0))
SSD = disk("sdb", DeviceNumber(8, 16), queue(rotational=False))
CARD = disk("mmcblk0", DeviceNumber(179, 0))


@pytest.mark.parametrize(
    ("fs", "changes", "seconds", "severity"),
    [
        # 1 GiB is 1073741824 bytes; a throttled queue takes 8 x 1280 KiB.
        pytest.param(on_one_disk(), {}, "9", Severity.LOW, id="rotational, throttled"),
        pytest.param(
            on_one_disk(wbt_latency_usec=0), {}, "6", Severity.LOW, id="rotational, deep queue"
        ),
        pytest.param(
            on_one_disk(wbt_latency_usec=ABSENT),
            {},
            "6",
            Severity.LOW,
            id="a kernel without throttling",
        ),
        pytest.param(on_one_disk(below=CARD), {}, "27", Severity.LOW, id="memory card"),
        pytest.param(on_one_disk(rotational=False), {}, "3", Severity.INFO, id="SSD"),
        pytest.param(on_one_disk(name="nvme0n1"), {}, "1.1", Severity.INFO, id="NVMe"),
        pytest.param(on_one_disk(name="vda"), {}, "6", Severity.INFO, id="virtio says rotational"),
        pytest.param(on_one_disk(name="xvda"), {}, "6", Severity.INFO, id="Xen"),
        pytest.param(
            on_one_disk(), {"virtualization": "kvm"}, "6", Severity.INFO, id="SCSI in a VM"
        ),
        pytest.param(
            on_one_disk(name="nvme0n1", nr_requests=ABSENT, wbt_latency_usec=ABSENT),
            {},
            "1.1",
            Severity.INFO,
            id="NVMe multipath has no request queue",
        ),
        pytest.param(
            on_one_disk(),
            {"memory": known(memory(dirty_bytes=250_485_760))},
            "2",
            Severity.INFO,
            id="2.0 s",
        ),
        pytest.param(
            on_one_disk(),
            {"memory": known(memory(dirty_bytes=251_485_760))},
            "2",
            Severity.LOW,
            id="2.01 s",
        ),
        pytest.param(
            on_one_disk(),
            {"memory": known(memory(dirty_bytes=10_485_760 + 1_940 * 120_000))},
            "1.9",
            Severity.INFO,
            id="1.94 s",
        ),
        pytest.param(
            on_one_disk(nr_requests=4, wbt_latency_usec=0),
            {"memory": known(memory(dirty_bytes=125_242_880))},
            "1",
            Severity.INFO,
            id="a queue of 4",
        ),
        pytest.param(
            on_one_disk(nr_requests=4, max_sectors_kb=10240),
            {"memory": known(memory(dirty_bytes=161_943_040))},
            "1",
            Severity.INFO,
            id="throttling cannot deepen a queue",
        ),
        pytest.param(
            on_one_disk(below=raid([FAST, SSD], level="raid1", limits=queue(nr_requests=ABSENT))),
            {},
            "3",
            Severity.INFO,
            id="the slowest leaf decides",
        ),
        pytest.param(
            on_one_disk(below=loop(known((FAST,)))), {}, "9", Severity.LOW, id="loop device"
        ),
    ],
)
def test_estimate_and_severity(
    fs: Filesystem, changes: dict[str, Any], seconds: str, severity: Severity
) -> None:
    """(file - queue) / throughput of the class; low above 2 seconds on slow disks."""
    finding = finding_of(fs, **changes)
    assert f"can block rename() for ~{seconds} s (" in finding.message
    assert (finding.severity, finding.confidence) == (severity, Confidence.LIKELY)


@pytest.mark.parametrize(
    ("fs", "changes", "message"),
    [
        (
            on_one_disk(name="vda"),
            {},
            "a 1 GiB file that was just written can block rename() for ~6 s",
        ),
        (
            on_one_disk(below=disk("vda", size_sectors=known(400 * MIB // 512))),
            {},
            "a 400 MiB file that was just written can block rename() for ~2 s",
        ),
        (
            on_one_disk(name="vda"),
            {"memory": known(memory(dirty_bytes=200 * MIB))},
            "a 200 MiB file that was just written can block rename() for ~1.1 s",
        ),
    ],
)
def test_message_and_summary_by_speed(
    fs: Filesystem, changes: dict[str, Any], message: str
) -> None:
    """The file in the message is limited by filesystem and dirty limit; the summary has a rate."""
    finding = finding_of(fs, **changes)
    assert finding.message == f"Replacing {message} (175 MB/s assumed)."
    assert finding.summary == (
        "rename() over a file just written can block ~6 s per GiB (175 MB/s assumed)"
    )


def test_file_that_fits_into_the_queue_passes() -> None:
    """The evidence of the pass includes the estimate."""
    verdict = verdict_of(
        on_one_disk(wbt_latency_usec=0), memory=known(memory(dirty_bytes=300 * MIB))
    )
    assert verdict.outcome is Outcome.PASS
    assert "0.0 s = (file - queue) / throughput" in [c.value for c in verdict.evidence]


@pytest.mark.parametrize(
    ("profile", "severity", "last_resort"),
    [
        (None, Severity.INFO, False),
        ("tidb", Severity.INFO, False),
        ("builds", Severity.LOW, True),
    ],
)
def test_profile_raises_the_severity(
    profile: str | None, severity: Severity, last_resort: bool
) -> None:
    """Only with such a profile does a disk of unknown speed get remedies."""
    active = (ActiveProfile(all_profiles()[profile]),) if profile else ()
    finding = finding_of(on_one_disk(name="vda"), profiles=active)
    assert finding.severity is severity
    assert any("noauto_da_alloc" in each.summary for each in finding.remedies) is last_resort


def test_no_remedy_with_an_option_that_a_profile_forbids() -> None:
    """The profile for etcd forbids noauto_da_alloc."""
    active = (ActiveProfile(all_profiles()["etcd"]),)
    remedies = finding_of(on_one_disk(), profiles=active).remedies
    assert len(remedies) == len(finding_of(on_one_disk()).remedies) - 1
    assert not any("noauto_da_alloc" in remedy.summary for remedy in remedies)


def test_cites_the_inputs_of_the_estimate() -> None:
    """All citations but the assumptions are shown by default."""
    finding = finding_of(on_one_disk())
    citations = {c.label: c.value for c in finding.citations}
    assert citations == {
        "auto_da_alloc": "auto_da_alloc",
        "delalloc": "delalloc",
        "data": "data=ordered",
        "dirty limit": "3072 MiB (vm.dirty_ratio = 20 % of 15360 MiB available; memory 16384 MiB)",
        "queue of sda": "nr_requests 256, max_sectors_kb 1280, wbt_lat_usec 75000: takes 10 MiB",
        "estimate": "8.9 s = (file - queue) / throughput",
        "assumptions": "sda 120 MB/s (rotational disk); a file of 1 GiB; throttled queues take 8 "
        "requests",
    }
    assert [c.label for c in finding.citations if not c.detail] == ["assumptions"]


@pytest.mark.parametrize(
    ("members", "named"),
    [(3, "sdb, sdc, sdd"), (4, "sdb … sde (4)")],
)
def test_equal_queues_are_summarized(members: int, named: str) -> None:
    """The first and the last name stand for all of them, with their number."""
    disks = [disk(f"sd{'bcde'[i]}", DeviceNumber(8, 16 * (i + 1))) for i in range(members)]
    citations = {c.label: c.value for c in finding_of(on_one_disk(below=raid(disks))).citations}
    assert f"queue of {named}" in citations
    assert citations["assumptions"].startswith(f"{named} 120 MB/s")
    assert citations["assumptions"].endswith("; the members of the stripe share it evenly")


def test_cites_a_dirty_limit_in_bytes() -> None:
    """If vm.dirty_bytes is set, the ratio has no effect."""
    finding = finding_of(on_one_disk(), memory=known(memory(dirty_bytes=256 * MIB)))
    citations = {c.label: c.value for c in finding.citations}
    assert citations["dirty limit"].startswith("256 MiB (vm.dirty_bytes = 268435456;")


@pytest.mark.parametrize(
    ("fs", "changes", "gap"),
    [
        pytest.param(on_one_disk(), {"memory": unknown("memory")}, "memory", id="memory"),
        pytest.param(filesystem(stack=unknown("stack")), {}, "stack", id="stack"),
        pytest.param(on_one_disk(nr_requests=unknown("nr")), {}, "nr", id="nr_requests"),
        pytest.param(on_one_disk(max_sectors_kb=unknown("kb")), {}, "kb", id="max_sectors_kb"),
        pytest.param(on_one_disk(wbt_latency_usec=unknown("wbt")), {}, "wbt", id="throttling"),
        pytest.param(
            on_one_disk(rotational=unknown("rotational")), {}, "rotational", id="rotational"
        ),
    ],
)
def test_finding_without_an_estimate_reports_the_gap(
    fs: Filesystem, changes: dict[str, Any], gap: str
) -> None:
    """The options are known, so the note is right; the gap shows that its severity is a guess."""
    verdict = verdict_of(fs, **changes)
    (finding,) = verdict.findings
    assert verdict.outcome is Outcome.FAIL
    assert finding.severity is Severity.INFO
    assert finding.message.endswith("the duration cannot be estimated.")
    assert finding.citations[-1].value == f"not possible without: {gap}"
    assert [unknown.what for unknown in verdict.unknowns] == [gap]


def test_info_finding_only_recommends_fsync() -> None:
    """Without a risk of stalls, no remedy gives up crash safety."""
    (remedy,) = finding_of(on_one_disk(name="vda")).remedies
    assert remedy.steps == ()
    assert "call fsync() on the new file before the rename" in remedy.summary


def test_remedies_are_ordered_by_safety() -> None:
    """Application, queue and backlog come first, and last the one that gives up crash safety."""
    remedies = finding_of(on_one_disk()).remedies
    assert [remedy.disruption for remedy in remedies] == [
        Disruption.ONLINE,
        Disruption.ONLINE,
        Disruption.ONLINE,
        Disruption.REMOUNT,
    ]
    assert [bool(remedy.steps) for remedy in remedies] == [False, True, True, False]
    assert "noauto_da_alloc" in remedies[3].summary
    assert "empty or truncated after a crash" in (remedies[3].trade_off or "")


def test_no_sysctl_remedy_in_a_container() -> None:
    """A sysctl would fail there, or change the host for all its containers."""
    finding = finding_of(on_one_disk(), container="lxc")
    assert [remedy.steps for remedy in finding.remedies if remedy.steps] == []
    assert len(finding.remedies) == 2
    assert [remedy.steps for remedy in finding_of(on_one_disk()).remedies if remedy.steps] != []


def commands(remedy: Remedy) -> list[tuple[str, str]]:
    """Return phase and command of each step."""
    return [(step.phase.value, step.command) for step in remedy.lines]


def test_throttling_remedy_commands() -> None:
    """The commands set the knob, add a udev rule, check it, and restore the old value."""
    knob = "/sys/block/sda/queue/wbt_lat_usec"
    rules = "/etc/udev/rules.d/60-ext4audit-wbt-sda.rules"
    udev_rule = (
        'ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="sda", ATTR{queue/wbt_lat_usec}="0"'
    )
    remedy = finding_of(on_one_disk()).remedies[1]
    assert commands(remedy) == [
        ("immediate", f"echo 0 > {knob}"),
        (
            "persistent",
            f"echo '{udev_rule}' > {rules}",
        ),
        ("verify", f"grep -qx 0 {knob}"),
        ("rollback", f"rm -f {rules}"),
        ("rollback", f"echo 75000 > {knob}"),
    ]
    assert "file of up to 320 MiB" in remedy.summary
    assert "from ~8.9 s to ~6.2 s" in remedy.summary


@pytest.mark.parametrize(
    "fs",
    [
        pytest.param(on_one_disk(wbt_latency_usec=0), id="it is off"),
        pytest.param(on_one_disk(nr_requests=8), id="the queue is shallow anyway"),
    ],
)
def test_no_throttling_remedy_without_effect(fs: Filesystem) -> None:
    """The remedy is offered only if the estimate falls."""
    assert not any("throttling" in remedy.summary for remedy in finding_of(fs).remedies)


@pytest.mark.parametrize(
    "name", ["sd a", "sda;reboot", "$(reboot)", "../sda", "sda\n", "-sda", "s*"]
)
def test_no_command_for_a_hostile_disk_name(name: str) -> None:
    """For a name with special characters for a shell, a path or udev, the remedy has no command."""
    remedy = finding_of(on_one_disk(name=name)).remedies[1]
    assert "throttling" in remedy.summary
    assert remedy.steps == ()


@pytest.mark.parametrize(
    ("before", "restored"),
    [
        pytest.param({}, "vm.dirty_background_ratio=10 vm.dirty_ratio=20", id="ratios"),
        pytest.param(
            {"dirty_bytes": 1 << 30, "dirty_background_bytes": 1 << 28},
            "vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824",
            id="bytes",
        ),
        pytest.param(
            {"dirty_background_ratio_percent": 0},
            "vm.dirty_background_ratio=1 vm.dirty_background_ratio=0 vm.dirty_ratio=20",
            id="a ratio of 0 must change to be taken",
        ),
    ],
)
def test_dirty_limit_remedy_is_two_seconds_of_writing(
    before: dict[str, int], restored: str
) -> None:
    """At 120 MB/s, 228 MiB are written in 2 s; writeback starts at a quarter of that."""
    remedy = finding_of(on_one_disk(), memory=known(memory(**before))).remedies[2]
    lines = "vm.dirty_background_bytes = 59768832\\nvm.dirty_bytes = 239075328\\n"
    assert commands(remedy) == [
        ("immediate", "sysctl -w vm.dirty_background_bytes=59768832 vm.dirty_bytes=239075328"),
        (
            "persistent",
            f"printf '{lines}' > /etc/sysctl.d/60-ext4audit-dirty.conf",
        ),
        ("verify", "sysctl -n vm.dirty_bytes | grep -qx 239075328"),
        ("rollback", "rm -f /etc/sysctl.d/60-ext4audit-dirty.conf"),
        ("rollback", f"sysctl -w {restored}"),
    ]


# The remaining tests run the printed commands on the kernel of this machine.


@pytest.fixture
def dirty_limits() -> Iterator[None]:
    """Set the kernel's default vm.dirty_* on the machine, and restore the values afterwards."""
    with own_limits("vm.dirty_background_ratio=10", "vm.dirty_ratio=20"):
        yield


@pytest.fixture
def etc(tmp_path: Path, private_mounts: None) -> Iterator[Path]:  # noqa: ARG001
    """Mount a copy of /etc over /etc in this mount namespace."""
    copy = tmp_path / "etc"
    run("cp", "-a", "/etc", copy)
    (copy / "udev" / "rules.d").mkdir(parents=True, exist_ok=True)
    run("mount", "--bind", copy, "/etc")
    yield copy
    run("umount", "/etc")


@dataclass(frozen=True)
class RealFilesystem:
    """A real ext4 on a loop device over tmpfs, which has no other queue below it."""

    scratch: Scratch

    @property
    def knob(self) -> Path:
        """The throttling setting of the loop device."""
        name = self.scratch.device.removeprefix("/dev/")
        return Path(f"/sys/block/{name}/queue/wbt_lat_usec")

    def finding(self) -> Finding:
        """Scan the machine and return the only finding."""
        (finding,) = self.verdict().findings
        return finding

    def verdict(self) -> Verdict:
        """Scan the machine with the profile that needs the estimate, and return the verdict."""
        builds = ActiveProfile(all_profiles()["builds"])
        return judge_host(self.scratch.host()._replace(profiles=(builds,)), "PRF002")


@pytest.fixture
def mounted(
    tmp_path: Path,
    private_mounts: None,  # noqa: ARG001
    dirty_limits: None,  # noqa: ARG001
) -> Iterator[RealFilesystem]:
    """Mount a filesystem with throttling as on a disk, and restore the loop device's setting."""
    with sparse_image(768 * MIB) as image:
        scratch = Scratch(image, tmp_path / "mnt").make(size="768M").mount()
        one = RealFilesystem(scratch)
        before = one.knob.read_text()
        one.knob.write_text("75000")
        yield one
        one.knob.write_text(before)
        scratch.unmount()


def remedy_with_summary(finding: Finding, words: str) -> Remedy:
    """Return the remedy whose summary contains these words."""
    (remedy,) = [remedy for remedy in finding.remedies if words in remedy.summary]
    return remedy


@pytest.mark.kernel
def test_throttling_remedy_lowers_the_real_estimate(mounted: RealFilesystem, etc: Path) -> None:
    """The printed commands change the setting, write the udev rule, and undo both."""
    before = mounted.finding()
    remedy = remedy_with_summary(before, "writeback throttling")
    apply_remedy(remedy)
    assert mounted.knob.read_text() == "0\n"
    after = mounted.finding()
    assert seconds_of(after) < seconds_of(before)
    assert not any("writeback throttling" in remedy.summary for remedy in after.remedies)
    (rules,) = (etc / "udev" / "rules.d").glob("60-ext4audit-wbt-*.rules")
    assert rules.read_text() == (
        f'ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="{mounted.scratch.device[5:]}", '
        'ATTR{queue/wbt_lat_usec}="0"\n'
    )
    roll_back(remedy)
    assert mounted.knob.read_text() == "75000\n"
    assert not rules.exists()


def seconds_of(finding: Finding) -> float:
    """Return the estimate of a finding in seconds."""
    (estimate,) = [c.value for c in finding.citations if c.label == "estimate"]
    return float(estimate.split(" ")[0])


@pytest.mark.kernel
def test_verify_step_fails_while_throttling_is_on(mounted: RealFilesystem) -> None:
    """The verify step of the remedy can fail."""
    remedy = remedy_with_summary(mounted.finding(), "writeback throttling")
    with pytest.raises(AssertionError):
        apply_remedy(remedy, (Phase.VERIFY,))


@pytest.mark.kernel
@pytest.mark.parametrize(
    "setting",
    [
        pytest.param("vm.dirty_background_ratio=10 vm.dirty_ratio=40", id="ratios"),
        pytest.param("vm.dirty_background_bytes=536870912 vm.dirty_bytes=8589934592", id="bytes"),
        pytest.param(
            "vm.dirty_background_ratio=1 vm.dirty_background_ratio=0 vm.dirty_ratio=40",
            id="a background ratio of 0",
        ),
    ],
)
def test_dirty_limit_remedy_lowers_the_real_severity(
    mounted: RealFilesystem, etc: Path, setting: str
) -> None:
    """The printed commands set the limits, survive a reload, and restore the exact old values."""
    set_limits(*setting.split(" "))
    before = read_limits()
    finding = mounted.finding()
    assert finding.severity is Severity.LOW
    remedy = remedy_with_summary(finding, "Limit dirty memory")
    with pytest.raises(AssertionError):
        apply_remedy(remedy, (Phase.VERIFY,))
    apply_remedy(remedy)
    bounded = read_limits()
    after = mounted.finding()
    assert after.severity is Severity.INFO
    assert seconds_of(after) <= 2.0
    set_limits(*setting.split(" "))
    run_shell("sysctl -p /etc/sysctl.d/60-ext4audit-dirty.conf")
    assert read_limits() == bounded
    roll_back(remedy)
    assert read_limits() == before
    assert not list((etc / "sysctl.d").glob("60-ext4audit-*"))


@pytest.mark.kernel
def test_noauto_da_alloc_passes_on_a_real_filesystem(mounted: RealFilesystem, etc: Path) -> None:
    """The option named by the last remedy, which has no commands, prevents the wait."""
    assert etc.is_dir()
    assert remedy_with_summary(mounted.finding(), "noauto_da_alloc").steps == ()
    run("mount", "-o", "remount,noauto_da_alloc", mounted.scratch.mount_point)
    assert mounted.verdict().outcome is Outcome.PASS


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("mkfs", "opts", "outcome"),
    [
        ((), "data=writeback", Outcome.FAIL),
        ((), "data=journal", Outcome.PASS),
        (("-O", "^has_journal"), "", Outcome.FAIL),
        ((), "nodelalloc", Outcome.PASS),
        ((), "ro", Outcome.NOT_APPLICABLE),
    ],
)
def test_outcomes_on_real_mounts(
    tmp_path: Path, private_mounts: None, mkfs: tuple[str, ...], opts: str, outcome: Outcome
) -> None:
    """The evidence is what the kernel reports of a real mount, including a missing journal."""
    assert private_mounts is None
    with sparse_image(64 * MIB) as image:
        scratch = Scratch(image, tmp_path / "mnt").make(*mkfs).mount(opts)
        try:
            assert scratch.judge("PRF002").outcome is outcome
        finally:
            scratch.unmount()


def test_equal_queues_are_cited_once() -> None:
    """The equal disks of an array are cited once, with their number."""
    members = [disk(f"sd{letter}", DeviceNumber(8, 16 * n)) for n, letter in enumerate("bcdefg")]
    fs = filesystem(stack=known(raid(members)))
    (finding,) = judge(check, fs, host(fs)).findings
    queues = [c.label for c in finding.citations if c.label.startswith("queue of")]
    assert queues == ["queue of sdb … sdg (6)"]
    (assumed,) = [c.value for c in finding.citations if c.label == "assumptions"]
    assert assumed.startswith("sdb … sdg (6) 120 MB/s (rotational disk)")
    assert assumed.endswith("the members of the stripe share it evenly")


def test_members_of_a_stripe_share_the_file() -> None:
    """A file on twelve disks is written by twelve queues, in a twelfth of the time of one disk."""
    members = [disk(f"sd{chr(98 + n)}", DeviceNumber(8, 16 * n)) for n in range(12)]

    def seconds(stack: BlockDevice) -> float:
        fs = filesystem(stack=known(stack))
        return seconds_of(judge(check, fs, host(fs)).findings[0])

    alone, striped = seconds(members[0]), seconds(raid(members))
    mirrored = seconds(raid(members, level="raid1"))
    assert (alone, striped, mirrored) == (8.9, 0.7, 8.9)


def test_estimate_is_limited_by_filesystem_size() -> None:
    """A filesystem of 64 MiB cannot stall for long, whatever the memory."""
    small = disk(size_sectors=known(64 * MIB // 512))
    fs = filesystem(stack=known(small))
    (finding,) = judge(check, fs, host(fs)).findings
    assert (finding.severity, seconds_of(finding)) == (Severity.LOW, 0.5)
    assert ("size", "64 MiB: no more can be dirty") in [
        (c.label, c.value) for c in finding.citations
    ]


def test_no_throttling_remedy_with_little_effect() -> None:
    """A remedy that shortens the wait by less than a tenth is not offered."""
    queued = queue(nr_requests=80)
    fs = filesystem(stack=known(disk(limits=queued)))
    (finding,) = judge(check, fs, host(fs)).findings
    assert not any("throttling" in remedy.summary for remedy in finding.remedies)
