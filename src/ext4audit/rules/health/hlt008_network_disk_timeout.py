"""HLT008: A network disk times out so early that a stall makes the filesystem read-only."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Evidence, Known, Unknown, Why, for_wording, need, raise_for
from ext4audit.facts import whole_number
from ext4audit.facts.devices import BlockDevice, listed_device
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared import gaps_below

NETWORK_DISKS: tuple[str, ...] = (
    "Amazon Elastic Block Store",
    "Alibaba Cloud Elastic Block Storage",
)
"""Models of NVMe network volumes, for which the vendors recommend the longest timeout."""
NVME = "nvme"
"""The kernel's name prefix for such disks."""
LONG_MSEC = 250_000
"""Old kernels accept at most 255 s, which jiffies round down."""
DEFAULT_SECONDS = 30
"""The default of nvme_core.io_timeout (drivers/nvme/host/core.c)."""
PARAMETERS = ("nvme_core.io_timeout=", "nvme.io_timeout=")


@rule(
    "HLT008",
    "network-disk-timeout",
    severity=Severity.MEDIUM,
    since="0.2",
    in_plans=False,
    references=(
        "https://docs.aws.amazon.com/ebs/latest/userguide/timeout-nvme-ebs-volumes.html",
        "https://github.com/amazonlinux/amazon-ec2-utils/pull/8",
        "https://github.com/kubernetes/kops/issues/5694",
        "https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-block",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    How long the NVMe driver waits for a request (`queue/io_timeout`) on network volumes: Amazon
    EBS and Alibaba Cloud disks, recognized by their model. Less than 250 seconds is a finding.
    Kernels before 5.0 do not show the value of a disk: there, `nvme_core.io_timeout` on the
    kernel command line decides, and without it the driver's default of 30 seconds is assumed.

    ## Why it matters

    A network volume can be unreachable for longer than 30 seconds and then recover. The driver
    reports an I/O error instead of waiting. ext4 then aborts its journal and becomes read-only,
    and only an unmount and e2fsck, or a restart, bring it back.

    ## Remedy

    Set `queue/io_timeout` to the maximum, now and by a udev rule for this model. AWS recommends
    the maximum (`nvme_core.io_timeout=4294967295`); its own images set it.

    ## When to ignore

    Ignore it if an error is better than a wait, for example because another host takes over. Local
    NVMe disks, including instance stores, are not checked: their errors should be reported soon.
    """
    refuse_unmounted(fs)
    stack = need(fs.stack)
    models = [(disk, _model(disk, host)) for disk in stack.leaves() if disk.name.startswith(NVME)]
    unknowns = [*gaps_below(stack), *(m for _, m in models if isinstance(m, Unknown))]
    volumes = [
        (disk, model)
        for disk, model in models
        if isinstance(model, Known) and model.value in NETWORK_DISKS
    ]
    for disk, model in volumes:
        waits = _timeout(disk, host)
        if isinstance(waits, Unknown):
            unknowns.append(waits)
        elif waits.value < LONG_MSEC:
            yield _finding(disk, model, waits)
        else:
            yield _cite(disk, waits)
    raise_for(unknowns)
    if not volumes:
        raise NotApplicable("no network volume is below it")


def _model(disk: BlockDevice, host: Host) -> Evidence[str]:
    """Return the model of a disk, from sysfs or lsblk; empty if it has none."""
    if disk.model:
        return Known(disk.model.strip(), f"/sys/block/{disk.name}/device/model")
    if isinstance(host.devices, Unknown):
        return host.devices
    row = listed_device(host.devices.value, disk.device_number)
    if row is not None and "MODEL" in row.unlisted:
        return Unknown(f"model of {disk.name}", Why.NOT_CAPTURED)
    return Known(((row.model if row else None) or "").strip(), host.devices.origin)


def _timeout(disk: BlockDevice, host: Host) -> Evidence[int]:
    """Return the timeout in milliseconds, the driver's if the kernel shows none for the disk."""
    shown = disk.queue.io_timeout_msec
    if isinstance(shown, Known) or shown.why is not Why.ABSENT:
        return shown
    if isinstance(host.kernel_arguments, Unknown):
        return host.kernel_arguments
    set_to = [
        argument.partition("=")[2]
        for argument in host.kernel_arguments.value
        if argument.startswith(PARAMETERS)
    ]
    if not set_to:
        return Known(DEFAULT_SECONDS * 1000, "default of the NVMe driver")
    seconds = whole_number(set_to[-1])
    if seconds is None:
        return Unknown("nvme_core.io_timeout", Why.UNPARSABLE, f"{set_to[-1]:.40}")
    return Known(seconds * 1000, host.kernel_arguments.origin)


def _cite(disk: BlockDevice, waits: Known[int]) -> Citation:
    return Citation(f"io_timeout of {disk.name}", f"{waits.value} ms", waits.origin)


def _finding(disk: BlockDevice, model: Known[str], waits: Known[int]) -> Finding:
    is_shown = isinstance(disk.queue.io_timeout_msec, Known)
    seconds = waits.value // 1000
    return Finding(
        message=f"{disk.name} is a network volume ({model.value}), and the driver waits only "
        f"{seconds} s for it: a longer stall causes an I/O error, and ext4 becomes read-only.",
        severity=Severity.MEDIUM,
        confidence=Confidence.CONFIRMED if is_shown else Confidence.LIKELY,
        citations=(
            _cite(disk, waits),
            Citation(f"model of {disk.name}", model.value, model.origin),
        ),
        remedies=(_remedy(disk, model.value),),
        fact=model.value,
        summary=f"the driver waits only {seconds} s for a network volume",
    )


def _remedy(disk: BlockDevice, model: str) -> Remedy:
    """Return the remedy, with commands if the kernel shows a timeout for the disk."""
    present = for_wording(disk.queue.io_timeout_msec, None)
    steps = (
        remedies.configuration.lengthen_timeout(disk.name, model, present, LONG_MSEC)
        if present is not None
        else ()
    )
    how = "now and at every start" if steps else "with nvme_core.io_timeout in the boot loader"
    return Remedy(
        f"Let the driver wait for the network volume, {how}.",
        Disruption.ONLINE if steps else Disruption.REBOOT,
        steps,
        trade_off="Programs wait as long as the volume stalls, and get no error from it.",
    )
