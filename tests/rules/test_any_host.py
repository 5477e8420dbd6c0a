"""The engine with all rules: any host, with any gaps, gets its verdicts and no error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from ext4audit.engine import audit, judge
from ext4audit.evidence import Evidence, Known
from ext4audit.facts.host import (
    BootLoader,
    ErrorCounters,
    Filesystem,
    Host,
    Loader,
    OperatingSystem,
)
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.superblock import PrimarySuperblock, RecordedError
from ext4audit.report import Outcome, Report, ReportSource
from ext4audit.rule import Rule, Scope
from ext4audit.rules import all_rules
from support.builders import (
    disk,
    filesystem,
    fstab_entry,
    host,
    kernel,
    known,
    layout,
    loop,
    lsblk_row,
    memory,
    mount,
    options,
    queue,
    raid,
    superblock,
    unknown,
    usage,
)
from support.examples import examples
from support.hosts.strategies import HOSTS, RELEASES, device_numbers

LIVE = ReportSource("live", "db1")
RULES = all_rules()


def expected_verdicts(judged: Host) -> int:
    """Return the number of subjects of all rules together."""
    return sum(len(judged.filesystems) if rule.scope is Scope.FILESYSTEM else 1 for rule in RULES)


def error_tracebacks(report: Report) -> str:
    """Return the tracebacks of the report's errors."""
    return "\n".join(v.note or "" for v in report.verdicts if v.outcome is Outcome.ERROR)


@examples(50)
@given(drawn=HOSTS)
def test_generated_hosts_have_unique_device_numbers(drawn: Host) -> None:
    """Device numbers are unique, as on a real host, because rules and pages use them as keys."""
    numbers = device_numbers(drawn)
    assert len(set(numbers)) == len(numbers)


@examples(150)
@given(judged=HOSTS)
def test_every_rule_judges_any_host_without_error(judged: Host) -> None:
    """Every rule gives every subject a verdict, and none of them is an error."""
    report = audit(LIVE, judged, RULES)
    assert error_tracebacks(report) == ""
    assert len(report.verdicts) == expected_verdicts(judged)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_judges_a_host_with_only_unknowns(rule: Rule) -> None:
    """A host with nothing but gaps is judged too, and passes no filesystem rule."""
    unseen_host = with_unknown_evidence(host())
    unseen_filesystem = with_unknown_evidence(filesystem(layout=known(layout([1, 1]))))
    subject = unseen_filesystem if rule.scope is Scope.FILESYSTEM else None
    verdict = judge(rule, subject, unseen_host._replace(filesystems=(unseen_filesystem,)))
    assert verdict.outcome in {Outcome.UNDETERMINED, Outcome.NOT_APPLICABLE}, verdict.note


def with_unknown_evidence(subject: Any) -> Any:
    """Return a host or filesystem with all its evidence replaced by gaps."""
    gaps = {
        name: unknown(name) for name in subject._fields if isinstance(getattr(subject, name), Known)
    }
    return subject._replace(**gaps)


ERROR = RecordedError(1767323000, "ext4_lookup", 1805, 12, 0)
FILESYSTEM_VALUES: dict[str, list[Any]] = {
    "fstype": ["ext2", "ext3", "ext4"],
    "read_only": [True, False],
    "superblock": [
        superblock(),
        superblock(default_mount_options=("nobarrier",), mount_option_string="data=writeback"),
        superblock(state="not clean with errors", features=frozenset(), errors="panic"),
        superblock(inode_bytes=128, block_bytes=1024, stride_blocks=128, journal_bytes=1 << 20),
    ],
    "options": [
        options(),
        options("nobarrier", "data=writeback", "noauto_da_alloc"),
        options("nodelalloc", "dioread_nolock", release="4.19.91-26.al7.x86_64"),
        options(hidden=["nobarrier", "nodelalloc", "journal_checksum"]),
        options("data=journal", "commit=300", "discard", "stripe=3"),
    ],
    "fstab": [(), (fstab_entry("nobarrier"),), (fstab_entry("data=writeback", "noauto"),)],
    "stack": [
        disk(),
        disk(limits=queue(write_cache="write through", rotational=False)),
        raid([disk("vdb", DeviceNumber(253, 16)), disk("vdc", DeviceNumber(253, 32))]),
        loop(known((disk(),))),
    ],
    "layout": [layout([100, 100]), layout([4797, 0]), layout([4797, 0, 0, 0, 4797, 0, 0, 0])],
    "usage": [usage(), usage(free_inodes=0), usage(free_blocks=9, available_blocks=0)],
    "errors": [
        ErrorCounters(errors=0, warnings=Known(0, "")),
        ErrorCounters(3, Known(2, ""), ERROR, ERROR, 5),
        ErrorCounters(1, Known(0, ""), None, RecordedError(None, "", 0, 0, 0), 0),
    ],
    "journal_errno": [0, -5],
    "primary": [
        PrimarySuperblock(),
        PrimarySuperblock("it is zeroed"),
        PrimarySuperblock(failed=unknown("superblock")),
    ],
    "unzeroed_groups": [0, 500],
    "settings": [(), (("mb_stats", 1), ("unheard_of", -1))],
}
HOST_VALUES: dict[str, list[Any]] = {
    "kernel": [kernel(release) for release in RELEASES],
    "os": [OperatingSystem("debian", "12", ""), OperatingSystem("alinux", "2.1903", "")],
    "kernel_arguments": [(), ("rootflags=nobarrier",)],
    "memory": [memory(), memory(total_bytes=1 << 40, available_bytes=1 << 40)],
    "mounts": [(), (mount(),)],
    "fstab": [(), (fstab_entry("nobarrier"),), (fstab_entry(mount_point="/gone"),)],
    "devices": [(), (lsblk_row(), lsblk_row("sdb", DeviceNumber(8, 16)))],
    "unmounted": [
        (),
        (filesystem(alive=False, mounts=(), superblock=known(superblock(state="not clean"))),),
    ],
    "boot_loader": [BootLoader(Loader.GRUB, "2.02"), BootLoader(Loader.NONE_FOUND)],
    "md_arrays": [(), ("/dev/md0",)],
    "fstrim": [True, False],
    "trims_all": [True, False],
    "raid0_default_layout": [0, 2],
    "virtualization": [None, "kvm"],
    "container": [None, "docker"],
}
BASE_FILESYSTEMS = {
    "healthy": filesystem(),
    "barriers off": filesystem(options=known(options("nobarrier"))),
    "hidden options": filesystem(
        options=known(options(hidden=["nobarrier"])), fstab=known((fstab_entry("barrier"),))
    ),
    "page by page": filesystem(options=known(options("nodelalloc", "dioread_nolock"))),
    "stripe": filesystem(
        stack=known(raid([disk("vdb", DeviceNumber(253, 16)), disk("vdc", DeviceNumber(253, 32))])),
        layout=known(layout([4797, 0])),
    ),
    "nothing mounted": filesystem(alive=False, mounts=()),
}


EVIDENCE_VALUES = [
    *((f"fs.{name}", values) for name, values in FILESYSTEM_VALUES.items()),
    *((f"host.{name}", values) for name, values in HOST_VALUES.items()),
]


EXCUSED_EVIDENCE = {
    # The options in force show everything dangerous; the gap can only hide a superblock string
    # that changes nothing, which root gets as a low finding.
    ("DUR002", "fs.superblock"),
}


def outcome_with(rule: Rule, fs: Filesystem, fact: str, value: Evidence[Any]) -> Outcome:
    """Return the outcome for a subject with one piece of its evidence replaced."""
    place, _, name = fact.partition(".")
    here: dict[str, Any] = {name: value}
    changed = fs._replace(**here) if place == "fs" else fs
    around = host(changed, **(here if place == "host" else {}))
    verdict = judge(rule, changed if rule.scope is Scope.FILESYSTEM else None, around)
    assert verdict.outcome is not Outcome.ERROR, verdict.note
    return verdict.outcome


@pytest.mark.parametrize(
    ("fact", "values"), EVIDENCE_VALUES, ids=[name for name, _ in EVIDENCE_VALUES]
)
def test_no_value_of_an_unknown_fact_turns_a_pass_into_a_failure(
    fact: str, values: list[Any]
) -> None:
    """If a rule passes without knowing a fact, no value of that fact makes it fail."""
    for rule in RULES:
        if (rule.code, fact) in EXCUSED_EVIDENCE:
            continue
        for name, suspect in BASE_FILESYSTEMS.items():
            if outcome_with(rule, suspect, fact, unknown(fact)) is not Outcome.PASS:
                continue
            for value in values:
                outcome = outcome_with(rule, suspect, fact, known(value))
                unseen = f"{rule.code} passes {name} without {fact}, and fails with {value}"
                assert outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, unseen


def test_values_cover_every_fact() -> None:
    """A new fact of a filesystem or a host must be tried here too."""
    subjects: dict[str, Any] = {"fs": filesystem(layout=known(layout([1, 1]))), "host": host()}
    pieces = {
        f"{place}.{name}"
        for place, subject in subjects.items()
        for name in subject._fields
        if isinstance(getattr(subject, name), Known)
    }
    assert pieces == {fact for fact, _ in EVIDENCE_VALUES}
