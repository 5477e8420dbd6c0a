"""HLT008: timeouts of network volumes that are attached as NVMe disks."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Unknown, Why
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Finding, NewFile, Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.health.hlt008_network_disk_timeout import check
from support.builders import disk, filesystem, host, known, lsblk_row, queue, unknown

EBS = "Amazon Elastic Block Store"
ALIBABA = "Alibaba Cloud Elastic Block Storage     "
ABSENT = Unknown("queue/io_timeout", Why.ABSENT, "No such file or directory")


def nvme(timeout: int | Unknown = 30000, model: str | None = EBS) -> BlockDevice:
    """Build an NVMe disk."""
    limits = queue(io_timeout_msec=timeout)
    return disk("nvme1n1", DeviceNumber(259, 0), limits, model=model)


def verdict(device: BlockDevice, arguments: Any = known(()), **changes: Any) -> Verdict:
    """Judge a filesystem on a disk."""
    fs = filesystem(**{"stack": known(device), **changes})
    return judge(check, fs, host(fs, kernel_arguments=arguments))


@pytest.mark.parametrize(
    ("device", "arguments", "outcome"),
    [
        (nvme(), (), Outcome.FAIL),
        (nvme(model=ALIBABA), (), Outcome.FAIL),
        (nvme(4294966296), (), Outcome.PASS),
        (nvme(254976), (), Outcome.PASS),
        (nvme(250000), (), Outcome.PASS),
        (nvme(249999), (), Outcome.FAIL),
        (nvme(ABSENT), (), Outcome.FAIL),
        (nvme(ABSENT), ("nvme_core.io_timeout=30",), Outcome.FAIL),
        (nvme(ABSENT), ("nvme_core.io_timeout=30", "nvme_core.io_timeout=255"), Outcome.PASS),
        (nvme(ABSENT), ("nvme.io_timeout=4294967295",), Outcome.PASS),
        (nvme(ABSENT), ("nvme_core.io_timeout=long",), Outcome.UNDETERMINED),
        (nvme(unknown("queue/io_timeout")), (), Outcome.UNDETERMINED),
        (nvme(model="Amazon EC2 NVMe Instance Storage"), (), Outcome.NOT_APPLICABLE),
        (nvme(model=None), (), Outcome.NOT_APPLICABLE),
        (disk(), (), Outcome.NOT_APPLICABLE),
        (disk(below=unknown("slaves"), name="dm-0"), (), Outcome.UNDETERMINED),
    ],
)
def test_hlt008_outcomes(device: BlockDevice, arguments: tuple[str, ...], outcome: Outcome) -> None:
    """A local disk may report an error after 30 s; a network volume may recover later."""
    assert verdict(device, known(arguments)).outcome is outcome


def test_hlt008_unknown_model_is_not_taken_for_a_local_disk() -> None:
    """An archive without `device/model` and with an incomplete lsblk does not have the model."""
    fs = filesystem(stack=known(nvme(model=None)))
    row = lsblk_row("nvme1n1", DeviceNumber(259, 0), unlisted=frozenset({"MODEL"}))
    judged = judge(check, fs, host(fs, kernel_arguments=known(()), devices=known((row,))))
    assert judged.outcome is Outcome.UNDETERMINED


def test_hlt008_does_not_apply_to_unmounted_filesystems() -> None:
    """No filesystem becomes read-only there."""
    assert verdict(nvme(), alive=False, mounts=()).outcome is Outcome.NOT_APPLICABLE


def test_hlt008_without_the_kernel_command_line_is_undetermined() -> None:
    """On old kernels it is the only evidence of the timeout."""
    assert verdict(nvme(ABSENT), unknown("/proc/cmdline")).outcome is Outcome.UNDETERMINED


def test_hlt008_reads_the_model_from_lsblk() -> None:
    """Archives contain the output of lsblk more often than sysfs."""
    device = nvme(model=None)
    fs = filesystem(stack=known(device))
    rows = (lsblk_row("nvme1n1", device.device_number, model=EBS, transport="nvme"),)
    judged = judge(check, fs, host(fs, devices=known(rows, "lsblk -P")))
    (finding,) = judged.findings
    assert (finding.citations[1].value, finding.citations[1].origin) == (EBS, "lsblk -P")


def test_hlt008_confidence_if_the_kernel_does_not_show_the_timeout() -> None:
    """A finding about a timeout that the kernel does not show is at most likely."""
    (shown,), (assumed,) = verdict(nvme()).findings, verdict(nvme(ABSENT)).findings
    assert (shown.severity, shown.confidence) == (Severity.MEDIUM, Confidence.CONFIRMED)
    assert assumed.confidence is Confidence.LIKELY
    assert assumed.message == shown.message, "the driver's own default is 30 s"
    assert [r.steps for r in assumed.remedies] == [()]
    assert shown.message == (
        "nvme1n1 is a network volume (Amazon Elastic Block Store), and the driver waits only 30 s "
        "for it: a longer stall causes an I/O error, and ext4 becomes read-only."
    )


def steps_of(finding: Finding, phase: Phase) -> list[str]:
    """Return the commands of a phase."""
    return [step.command for step in finding.remedies[0].lines if step.phase is phase]


def test_hlt008_remedy_writes_a_udev_rule_for_the_model() -> None:
    """NVMe names can change at a reboot; instance stores keep their timeout."""
    (finding,) = verdict(nvme()).findings
    assert finding.fact == EBS
    (change,) = finding.remedies[0].file_changes
    assert isinstance(change, NewFile)
    assert change.path == "/etc/udev/rules.d/60-ext4audit-timeout-amazon-elastic-block-store.rules"
    assert f'ATTRS{{model}}=="{EBS}"' in change.content
    assert 'ATTR{queue/io_timeout}="4294967295"' in change.content


def test_hlt008_commands_set_verify_and_roll_back(tmp_path: Path) -> None:
    """A shell runs them on a file in place of sysfs: set, verify and roll back."""
    knob = tmp_path / "io_timeout"
    knob.write_text("30000\n")
    (finding,) = verdict(nvme()).findings

    def run(phase: Phase) -> int:
        text = steps_of(finding, phase)[-1].replace(
            "/sys/block/nvme1n1/queue/io_timeout", f"{knob}"
        )
        return subprocess.run(["sh", "-c", text], check=False).returncode

    assert run(Phase.VERIFY) == 1
    assert run(Phase.IMMEDIATE) == 0
    assert (knob.read_text(), run(Phase.VERIFY)) == ("4294967295\n", 0)
    assert run(Phase.ROLLBACK) == 0
    assert knob.read_text() == "30000\n"


def test_hlt008_prints_no_command_for_an_unquotable_name() -> None:
    """Sysfs has no such name, but a captured name may be odd."""
    (finding,) = verdict(replace(nvme(), name="nvme1 n1")).findings
    assert finding.remedies[0].steps == ()


REMEDIES_NOT_RUN = "tests/lab runs the commands on an NVMe disk; this machine may have none."
