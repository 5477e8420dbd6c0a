"""Sample reports and pages with one of everything, for the tests of formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ext4audit.engine import audit
from ext4audit.evidence import Unknown, Why, need
from ext4audit.facts.devices import DmDevice
from ext4audit.facts.host import Filesystem, Host, OperatingSystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    LineEdit,
    NewFile,
    Phase,
    Programs,
    Remedy,
    Severity,
    Step,
    Suppression,
)
from ext4audit.renderers import Audited, Page, text
from ext4audit.report import FixedFinding, Report, ReportSource, Verdict
from ext4audit.rule import NotApplicable, Rule, RuleOutput, host_rule, rule
from support.builders import (
    UNREAD,
    disk,
    filesystem,
    fstab_entry,
    host,
    kernel,
    known,
    layout,
    mount,
    options,
    raid,
)

LIVE = ReportSource("live", "this host")

QUOTED = r"""$(printf '/mnt/a\033\133b')"""
"""How a remedy quotes the mount point of `md127`."""

HOSTILE_NAMES = {
    "newline": "/mnt/a\nb",
    "carriage return": "/mnt/a\rb",
    "escape": "/mnt/\x1b[31mred\x1b[0m",
    "substitution": "/mnt/$(reboot)`id`",
    "markup": "/mnt/[/red][bold]",
    "byte 0xff": "/mnt/\udcff\udcfe",
    "lone surrogate": "/mnt/\ud800",
    "leading dash": "-rf",
    "bidi override": "/mnt/\u202egnp.\u202c",
    "workflow command": "::error file=x::owned",
    "zero width": "/mnt/a\u200bb\ufeff",
    "separators": "/mnt/a\u2028b\u2029c\x85d",
    "emoji code": "/mnt/:smile:",
    "tab": "/mnt/a\tb",
    "backslash": "/mnt/a\\x1b",
    "very long": "/mnt/" + "x" * 4000,
}


@rule("DUR001", "barrier-disabled", severity=Severity.CRITICAL, since="0.1")
def barriers(fs: Filesystem, _host: Host) -> RuleOutput:
    """Find `nobarrier`."""
    effective = need(fs.options)
    barrier = need(effective.token("barrier"))
    yield Citation("barrier", barrier, effective.source)
    if barrier == "nobarrier":
        yield Finding(
            "Write barriers are off above disks with a volatile write cache: a power cut can "
            "corrupt the filesystem.",
            Severity.CRITICAL,
            Confidence.CONFIRMED,
            (
                Citation("option in force", "nobarrier", "/proc/fs/ext4/md127/options"),
                Citation("mount point", fs.mount_points[0], "/proc/self/mountinfo"),
            ),
            (BARRIER_REMEDY, Remedy("Use drives with power-loss protection.", Disruption.UNMOUNT)),
        )


BARRIER_REMEDY = Remedy(
    "Enable barriers again.",
    Disruption.ONLINE,
    (
        Step(
            Phase.IMMEDIATE,
            f'mount -o remount,barrier "{QUOTED}"',
            f'mount -o remount,nobarrier "{QUOTED}"',
        ),
        Step(
            Phase.PERSISTENT,
            "tune2fs -o ^nobarrier /dev/md127",
            "tune2fs -o nobarrier /dev/md127",
        ),
        Step(Phase.VERIFY, "grep -x barrier /proc/fs/ext4/md127/options"),
    ),
    trade_off="Each fsync() waits for a cache flush.",
)


EDIT_REMEDY = Remedy(
    "Take nodelalloc away.",
    Disruption.REMOUNT,
    (
        Step(
            Phase.IMMEDIATE,
            "umount /data",
            "mount /data || mount -a",
            unmounts=True,
        ),
        Step(
            Phase.IMMEDIATE,
            "e2fsck -p /dev/sda || test $? -eq 1",
            programs=Programs(("e2fsck",)),
        ),
        Step(Phase.IMMEDIATE, "mount /data", "umount /data"),
        Step(
            Phase.PERSISTENT,
            "sed -i '7s/,nodelalloc//' /etc/fstab",
            change=LineEdit(
                "/etc/fstab",
                7,
                "/dev/sda\t/data\text4\tdefaults,nodelalloc 0 2",
                "/dev/sda\t/data\text4\tdefaults 0 2",
            ),
        ),
        Step(
            Phase.PERSISTENT,
            "printf 'a = 1\\n\\nb = 2\\n' > /etc/new",
            change=NewFile("/etc/new", "a = 1\n\nb = 2\n"),
        ),
        Step(Phase.VERIFY, "! grep nodelalloc /etc/fstab"),
        Step(Phase.VERIFY, "test -e /etc/new"),
    ),
)


@rule("PRF003", "nodelalloc-without-profile", severity=Severity.MEDIUM, since="0.1")
def edits(_fs: Filesystem, _host: Host) -> RuleOutput:
    """Find that files must be changed on every filesystem."""
    yield Finding("Slow.", Severity.MEDIUM, Confidence.CONFIRMED, (), (EDIT_REMEDY,))


@rule("CAP002", "slow-disk", severity=Severity.MEDIUM, since="0.1")
def slow(fs: Filesystem, _host: Host) -> RuleOutput:
    """Find the same defect on every filesystem, with a message and a remedy of its own."""
    remount = Step(Phase.IMMEDIATE, f"mount -o remount,barrier {fs.device}")
    yield Finding(
        f"The disk {fs.device} is slow.",
        Severity.MEDIUM,
        Confidence.CONFIRMED,
        (Citation("device", fs.device, f"/sys{fs.device}"),),
        (Remedy("Make it fast.", Disruption.REMOUNT, (remount,)),),
        summary="the disk is slow",
    )


@rule("LAY001", "striped-metadata-hotspot", severity=Severity.HIGH, since="0.1")
def hotspot(fs: Filesystem, _host: Host) -> RuleOutput:
    """Find an uneven stripe; apply to stripes only."""
    if fs.layout is None:
        raise NotApplicable("no stripe lies below")
    if need(fs.layout).skew > 1:
        yield Finding(
            "All bitmaps lie on 1 of 2 disks.",
            Severity.MEDIUM,
            Confidence.LIKELY,
            (Citation("skew", "2.00", "dumpe2fs /dev/md127"),),
            (
                Remedy(
                    "Make the filesystem anew.",
                    Disruption.RECREATE,
                    (Step(Phase.PERSISTENT, "mkfs.ext4 -g 32744 /dev/md127"),),
                    destructive=True,
                ),
            ),
        )


@rule("PRF002", "auto-da-alloc-stall", severity=Severity.INFO, since="0.1")
def renames(fs: Filesystem, _host: Host) -> RuleOutput:
    """Inform of a filesystem labelled "renames"."""
    if fs.label == "renames":
        yield Finding(
            "Replacing a file waits for its data.",
            Severity.INFO,
            Confidence.POSSIBLE,
            (Citation("option in force", "auto_da_alloc", "/proc/fs/ext4/sda/options"),),
            (Remedy("Ask for noauto_da_alloc.", Disruption.REMOUNT),),
        )


@rule("CAP001", "inode-exhaustion", severity=Severity.HIGH, since="0.1")
def inodes(fs: Filesystem, _host: Host) -> RuleOutput:
    """Need the superblock."""
    yield Citation("inodes", str(need(fs.superblock).inode_count), "dumpe2fs -h")


@rule("HLT009", "rule-with-a-bug", severity=Severity.HIGH, since="0.1")
def buggy(fs: Filesystem, _host: Host) -> RuleOutput:
    """Raise."""
    no_names: dict[str, str] = {}
    yield Citation("nothing", no_names[fs.name], "nowhere")


@host_rule("KRN003", "fast-commit-corruption", severity=Severity.HIGH, since="0.1")
def old_kernel(_host: Host) -> RuleOutput:
    """Find any kernel."""
    yield Finding(
        "This kernel can lose files.",
        Severity.LOW,
        Confidence.CONFIRMED,
        (Citation("kernel", need(_host.kernel).release, "uname"),),
    )


def md127(mount_point: str = "/mnt/a\x1b[b") -> Filesystem:
    """Build the filesystem on a RAID0 of two disks, with nobarrier hidden in its superblock."""
    members = [disk("vdb", DeviceNumber(253, 16)), disk("vdc", DeviceNumber(253, 32))]
    return filesystem(
        number=DeviceNumber(9, 127),
        name="md127",
        device="/dev/md127",
        uuid="u-md127",
        mounts=(mount(mount_point), mount("/srv", root="/srv", mount_id=44)),
        options=known(options(hidden=["nobarrier"])),
        stack=known(raid(members)),
        layout=known(layout([200, 0])),
    )


def root() -> Filesystem:
    """Build the filesystem on /, an LVM volume on a partition."""
    partition = disk("nvme0n1p2", DeviceNumber(259, 2), kind="partition", below=known((disk(),)))
    volume = disk(
        "dm-0",
        DeviceNumber(253, 0),
        kind="dm-linear",
        path="/dev/mapper/vg0-root",
        below=known((partition,)),
        dm=DmDevice("vg0-root", "LVM-abc", UNREAD),
    )
    return filesystem(
        uuid="u-root", device="/dev/mapper/vg0-root", mounts=(mount("/"),), stack=known(volume)
    )


def boot(label: str | None = None) -> Filesystem:
    """Build the filesystem on /boot, a read-only partition of nvme0n1."""
    nvme = disk("nvme0n1", DeviceNumber(259, 0))
    partition = disk("nvme0n1p1", DeviceNumber(259, 1), kind="partition", below=known((nvme,)))
    return filesystem(
        uuid="u-boot",
        device="/dev/nvme0n1p1",
        label=label,
        mounts=(mount("/boot"),),
        stack=known(partition),
        read_only=known(value=True),
    )


def report(host_: Host, *rules: Rule) -> Report:
    """Return the report of an audit of a live host."""
    return audit(LIVE, host_, rules)


def critical_report() -> Report:
    """Return a report of two clean filesystems, and a critical finding on a hostile mount point."""
    return report(host(root(), boot(), md127()), barriers, hotspot, renames)


def repeated_report(number: int, *rules: Rule) -> Report:
    """Return a report of `number` filesystems with the same defect."""
    made = [
        filesystem(uuid=f"u{n}", device=f"/dev/d{n}", mounts=(mount(f"/srv/{n}"),), name=f"d{n}")
        for n in range(number)
    ]
    return report(host(*made), slow, *rules)


def unread_report(number: int) -> Report:
    """Return a report of `number` filesystems whose superblocks only root can read."""
    named = [
        fs._replace(superblock=replace(UNREAD, what=f"superblock of {fs.device}"))
        for fs in repeated_report(number).host.filesystems
    ]
    return report(host(*named), inodes)


def incomplete_report() -> Report:
    """Return an incomplete report, with unread superblocks, a broken rule, and a gap."""
    unseen = [
        filesystem(uuid=f"u-sd{letter}", device=f"/dev/sd{letter}", superblock=UNREAD, name="sd")
        for letter in "ab"
    ]
    gap = Unknown("the mount table of PID 1", Why.TIMED_OUT, "after 10 s", "")
    return report(host(*unseen, gaps=(gap,)), inodes, buggy)


def hostile_report(name: str) -> Report:
    """Return a report with one name in every place where a host or a rule can put a name."""
    unread = Unknown(f"the superblock of {name}", Why.FAILED, name, f"look at {name}")

    @rule("DUR009", "all-names", severity=Severity.HIGH, since="0.1")
    def shout(fs: Filesystem, _host: Host) -> RuleOutput:
        """Say the name everywhere, then meet a gap."""
        yield Citation(f"mount point of {name}", name, name)
        edit = LineEdit(name, 7, f"{name} before", f"{name} after")
        step = Step(Phase.IMMEDIATE, f"umount -- {name}", change=edit)
        remedy = Remedy(f"Unmount {name}.", Disruption.UNMOUNT, (step,), trade_off=f"No {name}.")
        cited = (Citation(f"mount point of {name}", name, name),)
        found = (f"The mount point {name} is odd.", Severity.HIGH, Confidence.LIKELY)
        yield Finding(*found, cited, (remedy,))
        need(fs.superblock)

    @rule("DUR008", "all-names-apart", severity=Severity.HIGH, since="0.1")
    def skip(_fs: Filesystem, _host: Host) -> RuleOutput:
        """Say why it does not apply."""
        raise NotApplicable(f"not for {name}")
        yield  # a check is a generator

    @rule("DUR007", "all-names-broken", severity=Severity.HIGH, since="0.1")
    def stop(_fs: Filesystem, _host: Host) -> RuleOutput:
        """Raise with the name."""
        raise ValueError(name)
        yield  # a check is a generator

    odd = filesystem(
        uuid=name,
        label=name,
        name=name,
        device=name,
        mounts=(mount(name, super_options=("rw", name)), mount("/srv")),
        superblock=unread,
        options=known(options(hidden=[name]), name),
        fstab=known((fstab_entry("defaults", name, mount_point=name),)),
        stack=known(disk(name, path=name, model=name)),
    )
    system = OperatingSystem(name, name, name)
    gap = Unknown(name, Why.DENIED, name, name)
    return report(
        host(odd, name=name, os=known(system), virtualization=name, container=name, gaps=(gap,)),
        *(shout, skip, stop, old_kernel),
    )


def as_text(
    of: Report,
    *,
    verbosity: int = 0,
    color: bool = False,
    width: int | None = None,
    ascii_only: bool = False,
    asked: frozenset[str] = frozenset(),
) -> str:
    """Render a report as text, by default as for a pipe."""
    page = Page("0.1.0", "", verbosity=verbosity, color=color, width=width, ascii_only=ascii_only)
    return text.render_report(of, page._replace(asked=asked))


PAGE = Page("0.1.0", "2026-01-02T03:04:05Z", seconds=1.25)
CRITICAL = Audited("fleet/night", critical_report())
CLEAN_HOST = Audited("fleet/clean", report(host(root(), name="web1"), barriers))
INCOMPLETE = Audited(
    "fleet/murky", incomplete_report()._replace(host=incomplete_report().host._replace(name="m"))
)
UNREADABLE_HOST = Audited("fleet/bad.tar.gz", None, "fleet/bad.tar.gz: not a snapshot")
SUPPRESSION = Suppression("replaced in May", "storage team", "2026-05-31")
FIXED_FINDING = FixedFinding("CAP001", "/dev/sdz on /old", "", "Only 1 inode is left.", "u-sdz")
NOTICE = "the suppression of DUR004 for '/x' expired on 2026-01-01"


def changed(of: Report, change: Callable[[Verdict, Finding], Finding]) -> Report:
    """Return the report with each finding changed."""
    verdicts = [
        v._replace(findings=tuple(change(v, finding) for finding in v.findings))
        for v in of.verdicts
    ]
    return of._replace(verdicts=tuple(verdicts))


def processed_report() -> Report:
    """Return a report with suppressed, known and new findings, and one that was fixed."""
    subjects = host(md127("/srv/a"), boot("renames"), name="db9", kernel=known(kernel()))

    def process(verdict: Verdict, finding: Finding) -> Finding:
        if verdict.rule.code == "DUR001":
            return finding._replace(suppression=SUPPRESSION)
        return finding._replace(known=verdict.rule.code == "LAY001")

    judged = report(subjects, barriers, hotspot, renames, old_kernel)
    return changed(judged, process)._replace(fixed=(FIXED_FINDING,), notices=(NOTICE,))


def rated_report(severity: Severity) -> Report:
    """Return a report of a host whose only finding has this severity."""
    judged = report(host(name="r1"), old_kernel)
    return changed(judged, lambda _, finding: finding._replace(severity=severity))


PROCESSED_REPORT = Audited("fleet/treated", processed_report())
FLEET = (CRITICAL, CLEAN_HOST, INCOMPLETE, UNREADABLE_HOST, PROCESSED_REPORT)
