"""DRF001: options in force that the next mount will lose."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import Layer, Provenance
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drift.drf001_live_not_in_fstab import check
from support.builders import (
    filesystem,
    fstab_entry,
    host,
    known,
    mount,
    options,
    superblock,
    unknown,
)


def verdict(fs: Filesystem, on: Host | None = None) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, on or host(fs))


def mounted_with(
    *tokens: str, fstab: tuple[str, ...] = ("defaults",), **changes: Any
) -> Filesystem:
    """Build a filesystem mounted with `tokens`, while fstab has the options `fstab`."""
    return filesystem(
        options=known(options(*tokens)), fstab=known((fstab_entry(*fstab),)), **changes
    )


@pytest.mark.parametrize(
    ("fstab", "is_read", "is_listed", "outcome"),
    [
        ("defaults", False, True, Outcome.UNDETERMINED),
        ("commit=30", False, True, Outcome.PASS),
        ("defaults", True, True, Outcome.PASS),
        ("defaults", False, False, Outcome.PASS),
    ],
    ids=["not read", "in fstab", "not stored there", "not listed"],
)
def test_drf001_without_superblock_persistence_is_undetermined(
    fstab: str, *, is_read: bool, is_listed: bool, outcome: Outcome
) -> None:
    """Without root, the origin of a value in the mount table is unknown."""
    (option,) = options("commit=30", set_by=Provenance.UNKNOWN, complete=False).options
    shown = Layer(Provenance.MOUNT, "commit=30", "/proc/self/mountinfo")
    listed = option._replace(baseline=None, layers=(shown,) if is_listed else ())
    fs = mounted_with(fstab=(fstab,))._replace(options=known(options()._replace(options=(listed,))))
    changed = fs if is_read else fs._replace(superblock=unknown("superblock"))
    assert verdict(changed).outcome is outcome


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (mounted_with(), Outcome.PASS),
        (mounted_with("nobarrier", fstab=("nobarrier",)), Outcome.PASS),
        (mounted_with("nobarrier", fstab=("barrier=0",)), Outcome.PASS),
        (mounted_with("commit=30", fstab=("noatime", "commit=30")), Outcome.PASS),
        (mounted_with("stripe=1536"), Outcome.PASS),
        (mounted_with("errors=remount-ro"), Outcome.FAIL),
        (mounted_with("errors=remount-ro", fstab=("errors=remount-ro",)), Outcome.PASS),
        (
            filesystem(
                options=known(options("errors=remount-ro", set_by=Provenance.SUPERBLOCK_FIELD)),
                fstab=known((fstab_entry("defaults"),)),
            ),
            Outcome.PASS,
        ),
        (mounted_with("resuid=65534"), Outcome.PASS),
        (mounted_with("nobarrier"), Outcome.FAIL),
        (mounted_with("commit=30"), Outcome.FAIL),
        (mounted_with("norecovery"), Outcome.FAIL),
        (mounted_with("vendor_word"), Outcome.FAIL),
        (
            mounted_with(fstab=("defaults",), mounts=(mount(flags=("rw", "nosuid", "relatime")),)),
            Outcome.FAIL,
        ),
        (
            mounted_with(
                fstab=("user",),
                mounts=(mount(flags=("rw", "nosuid", "nodev", "noexec", "relatime")),),
            ),
            Outcome.PASS,
        ),
        (mounted_with("nobarrier", mounts=()), Outcome.NOT_APPLICABLE),
        (filesystem(fstab=known(())), Outcome.NOT_APPLICABLE),
        (filesystem(fstab=unknown("/etc/fstab")), Outcome.UNDETERMINED),
        (filesystem(options=unknown("effective options")), Outcome.UNDETERMINED),
    ],
)
def test_drf001_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """Only options that come from a past mount call alone are drift."""
    assert verdict(fs).outcome is outcome


@pytest.mark.parametrize(
    ("tokens", "flags", "severity"),
    [
        (("nobarrier",), (), Severity.MEDIUM),
        (("nodelalloc",), (), Severity.MEDIUM),
        (("commit=30",), (), Severity.LOW),
        ((), ("nodev",), Severity.MEDIUM),
        ((), ("nodiratime",), Severity.LOW),
    ],
)
def test_drf001_severity_by_kind_of_option(
    tokens: tuple[str, ...], flags: tuple[str, ...], severity: Severity
) -> None:
    """Hardening, and options that other rules judge, are medium; the rest is low."""
    fs = mounted_with(*tokens, mounts=(mount(flags=("rw", *flags, "relatime")),))
    (finding,) = verdict(fs).findings
    assert finding.severity is severity
    assert finding.fact == f"/data {','.join((*tokens, *flags))}"


def test_drf001_accepts_options_of_rootflags() -> None:
    """For the root, rootflags= on the kernel command line also sets options."""
    fs = mounted_with("nobarrier", mounts=(mount("/"),))
    fs = fs._replace(fstab=known((fstab_entry("defaults", mount_point="/"),)))
    assert verdict(fs).outcome is Outcome.FAIL
    booted = host(fs, kernel_arguments=known(("rootflags=nobarrier", "quiet")))
    assert verdict(fs, booted).outcome is Outcome.PASS


def test_drf001_does_not_apply_in_a_container() -> None:
    """In a container /etc/fstab belongs to the image."""
    fs = mounted_with("nobarrier")
    found = verdict(fs, host(fs, container="docker"))
    assert found.outcome is Outcome.NOT_APPLICABLE
    assert "container" in str(found.note)


def test_drf001_leaves_hidden_superblock_options_to_dur002() -> None:
    """A superblock default survives a reboot, so it is not drift."""
    fs = filesystem(options=known(options(hidden=("nobarrier",))))
    assert verdict(fs).outcome is Outcome.PASS


def test_drf001_is_likely_if_the_superblock_may_set_the_value() -> None:
    """`commit=30` in the mount table may come from the superblock's string, so it is likely."""
    one = options("commit=30", set_by=Provenance.MOUNT)
    fs = filesystem(
        options=known(one._replace(options=tuple(o._replace(baseline=None) for o in one.options)))
    )
    (finding,) = verdict(fs).findings
    assert finding.confidence is Confidence.LIKELY


def test_drf001_remedy_never_adds_a_dangerous_option_to_fstab() -> None:
    """The remedy for nobarrier set by a remount is to undo it, not to keep it."""
    (finding,) = verdict(mounted_with("nobarrier")).findings
    commands = [step.command for remedy in finding.remedies for step in remedy.lines]
    assert commands
    assert not any("fstab" in command for command in commands)


def test_drf001_remedy_never_restores_a_dangerous_superblock_default() -> None:
    """Barriers set by a remount, over a superblock with nobarrier, are to be kept."""
    one = options("barrier")
    changed = tuple(
        o._replace(baseline="nobarrier") if o.name == "barrier" else o for o in one.options
    )
    (finding,) = verdict(filesystem(options=known(one._replace(options=changed)))).findings
    assert [remedy.summary for remedy in finding.remedies] == ["Keep it: add barrier to fstab."]


@pytest.mark.parametrize(
    ("tokens", "advice"),
    [
        (
            ("nobarrier",),
            "it to fstab, because DUR001 reports nobarrier. Apply the remedy of that rule first.",
        ),
        (("nobarrier", "data=writeback"), "of those rules first."),
        (
            ("commit=30", "max_dir_size_kb=64"),
            "Keep them: add commit=30, max_dir_size_kb=64 to fstab.",
        ),
    ],
)
def test_drf001_advice_in_singular_and_plural(tokens: tuple[str, ...], advice: str) -> None:
    """The message uses the singular or the plural as needed, for options and for rules."""
    (finding,) = verdict(mounted_with(*tokens)).findings
    assert finding.remedies[0].summary.endswith(advice)


def test_drf001_cites_fstab_and_active_options() -> None:
    """The finding cites fstab's line and the options in force, each with its origin."""
    (finding,) = verdict(mounted_with("nobarrier", fstab=("noatime",))).findings
    cited = {(citation.label, citation.value, citation.origin) for citation in finding.citations}
    assert ("in force", "nobarrier", "/proc/fs/ext4/sda/options") in cited
    assert ("fstab options", "noatime", "/etc/fstab line 7") in cited


@pytest.mark.parametrize(
    ("fstab", "flags", "shared", "lost"),
    [
        (("defaults",), ("rw", "noatime"), (), "noatime"),
        (("defaults",), ("rw",), (), "strictatime"),
        (("defaults",), ("rw", "relatime"), ("sync",), "sync"),
        (("defaults",), ("rw", "relatime"), ("dirsync",), "dirsync"),
        (("defaults",), ("rw", "relatime"), ("lazytime",), "lazytime"),
        (("defaults",), ("ro", "relatime"), (), "ro"),
        (("noatime",), ("rw", "noatime"), (), None),
        (("strictatime",), ("rw",), (), None),
        (("sync", "lazytime"), ("rw", "relatime"), ("sync", "lazytime"), None),
        # The entry sets another option of the group, which DRF002 reports.
        (("noatime",), ("rw", "relatime"), (), None),
        (("noatime",), ("rw",), (), None),
    ],
)
def test_drf001_flags_of_superblock_and_access_times(
    fstab: tuple[str, ...], flags: tuple[str, ...], shared: tuple[str, ...], lost: str | None
) -> None:
    """The mount table shows sync and lazytime among ext4's options, and strictatime not at all."""
    there = mount(flags=flags, super_options=("rw", *shared))
    findings = verdict(mounted_with(fstab=fstab, mounts=(there,))).findings
    heads = [finding.message.split(" is in force but not set")[0] for finding in findings]
    assert heads == ([lost] if lost else [])


def test_drf001_ignores_read_only_after_an_error() -> None:
    """After errors=remount-ro the superblock is read-only but the mount is not: no drift."""
    there = mount(flags=("rw", "relatime"), super_options=("ro", "errors=remount-ro"))
    assert verdict(mounted_with(mounts=(there,))).outcome is Outcome.PASS


def test_drf001_judges_every_mount_of_fstab() -> None:
    """A flag belongs to one mount; an option of the superblock is reported once."""
    there = (mount("/data"), mount("/again", flags=("rw", "nosuid", "relatime"), mount_id=31))
    entries = (fstab_entry(), fstab_entry(mount_point="/again", line_number=8))
    fs = filesystem(mounts=there, fstab=known(entries), options=known(options("commit=30")))
    messages = [finding.message.partition(":")[::2] for finding in verdict(fs).findings]
    loses = " the next mount loses it."
    assert messages == [
        ("commit=30 is in force but not set in /etc/fstab line 7", loses),
        ("nosuid is in force but not set in /etc/fstab line 8", loses),
    ]


def test_drf001_accepts_an_option_of_any_fstab_entry() -> None:
    """It is unknown which of two mounts comes first at boot and sets the superblock's options."""
    there = (mount("/data"), mount("/again", mount_id=31))
    entries = (fstab_entry(), fstab_entry("commit=30", mount_point="/again", line_number=8))
    fs = filesystem(mounts=there, fstab=known(entries), options=known(options("commit=30")))
    assert verdict(fs).outcome is Outcome.PASS


def test_drf001_ignores_the_opposite_option_in_a_later_entry() -> None:
    """Nobarrier set by hand is lost even though the second entry has barrier."""
    there = (mount("/data"), mount("/again", mount_id=31))
    entries = (fstab_entry(), fstab_entry("barrier", mount_point="/again", line_number=8))
    fs = filesystem(mounts=there, fstab=known(entries), options=known(options("nobarrier")))
    (finding,) = verdict(fs).findings
    assert finding.message.startswith("nobarrier is in force but not set")


def test_drf001_is_undetermined_if_an_entry_is_unresolved() -> None:
    """A PARTUUID that cannot be resolved may belong to another disk."""
    entry = fstab_entry(number=unknown("device PARTUUID=x"))
    assert verdict(filesystem(fstab=known((entry,)))).outcome is Outcome.UNDETERMINED


def test_drf001_prefers_the_entry_of_the_device() -> None:
    """An unresolved entry for the same mount point does not take precedence over it."""
    unsure = fstab_entry(number=unknown("device PARTUUID=x"), line_number=3)
    fs = filesystem(
        fstab=known((unsure, fstab_entry("commit=30"))), options=known(options("commit=30"))
    )
    assert verdict(fs).outcome is Outcome.PASS


def test_drf001_adds_nothing_to_fstab_that_the_next_mount_refuses() -> None:
    """With journal_data in the superblock, ext4 refuses delalloc, which a remount can set."""
    seen = options("delalloc")
    live = seen._replace(
        options=tuple(
            each._replace(baseline="nodelalloc", set_by=Provenance.MOUNT)
            if each.name == "delalloc"
            else each
            for each in seen.options
            if each.name != "data"
        )
    )
    stored = superblock(features=frozenset(), default_mount_options=("journal_data",))
    fs = filesystem(
        options=known(live),
        fstab=known((fstab_entry("defaults"),)),
        superblock=known(stored),
        mounts=(mount(super_options=("rw",)),),
    )
    (finding,) = verdict(fs).findings
    (advice,) = finding.remedies
    assert advice.steps == ()
    assert advice.summary == (
        "Do not add it to fstab, because the kernel refuses delalloc (conflicts with data=journal "
        "of the superblock) there."
    )


def test_drf001_offers_no_remount_that_the_kernel_ignores() -> None:
    """prefetch_block_bitmaps has no effect since Linux 5.13."""
    (finding,) = verdict(mounted_with("no_prefetch_block_bitmaps")).findings
    assert [each.summary.partition(":")[0] for each in finding.remedies] == ["Keep it"]
