"""DRF002: fstab options that are not in force."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.facts.host import ActiveProfile, ErrorCounters, Filesystem, Kernel, all_profiles
from ext4audit.finding import Finding, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drift.drf002_fstab_not_active import check
from support.builders import filesystem, fstab_entry, host, kernel, known, mount, options, unknown
from support.options.evidence import resolve
from support.remedies.steps_as_text import step_lines

TIDB = ActiveProfile(all_profiles()["tidb"])


def verdict(fs: Filesystem) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs))


def mounted_with(*fstab: str, live: tuple[str, ...] = (), **changes: Any) -> Filesystem:
    """Build a filesystem whose fstab entry has `fstab`, while `live` is in force."""
    return filesystem(options=known(options(*live)), fstab=known((fstab_entry(*fstab),)), **changes)


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (mounted_with("defaults"), Outcome.PASS),
        (mounted_with("noatime", mounts=(mount(flags=("rw", "noatime")),)), Outcome.PASS),
        (mounted_with("barrier=1", "data=ordered", "delalloc"), Outcome.PASS),
        (mounted_with("nobarrier", live=("nobarrier",)), Outcome.PASS),
        (mounted_with("noload", live=("norecovery",)), Outcome.PASS),
        (mounted_with("nofail", "_netdev", "x-systemd.device-timeout=30s"), Outcome.PASS),
        (mounted_with("usrquota", "stripe=1536"), Outcome.PASS),
        (mounted_with("errors=remount-ro", live=("errors=remount-ro",)), Outcome.PASS),
        (mounted_with("errors=remount-ro", live=("errors=continue",)), Outcome.FAIL),
        (mounted_with("defaults", mounts=(mount(flags=("rw", "noatime")),)), Outcome.PASS),
        (mounted_with("relatime", mounts=(mount(flags=("rw", "noatime")),)), Outcome.FAIL),
        (mounted_with("strictatime", mounts=(mount(flags=("rw",)),)), Outcome.PASS),
        (mounted_with("sync"), Outcome.FAIL),
        (mounted_with("nobarrier"), Outcome.FAIL),
        (mounted_with("data=writeback"), Outcome.FAIL),
        (mounted_with("nodelalloc"), Outcome.FAIL),
        (mounted_with("noload"), Outcome.FAIL),
        (mounted_with("data_err=abort"), Outcome.FAIL),
        (mounted_with("data_err=ignore"), Outcome.PASS),
        (mounted_with("data_err=abort", live=("data_err=abort",)), Outcome.PASS),
        (mounted_with("noatime"), Outcome.FAIL),
        (mounted_with("nosuid"), Outcome.PASS),
        (mounted_with("nosymfollow"), Outcome.FAIL),
        (mounted_with("nousers", "nogroup", "noowner"), Outcome.PASS),
        (mounted_with("nobh"), Outcome.FAIL),
        (mounted_with("nobarrier", mounts=()), Outcome.NOT_APPLICABLE),
        (mounted_with("nobarrier", mounts=(mount(root="/sub"),)), Outcome.NOT_APPLICABLE),
        (filesystem(fstab=known(())), Outcome.NOT_APPLICABLE),
        (filesystem(fstab=unknown("/etc/fstab")), Outcome.UNDETERMINED),
    ],
)
def test_drf002_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """An fstab option that is in force, in any spelling, is no drift."""
    assert verdict(fs).outcome is outcome


def test_drf002_without_options_file_is_undetermined() -> None:
    """Without the options file it is unknown whether an option in fstab is in force."""
    fs = filesystem(
        options=known(options(complete=False)), fstab=known((fstab_entry("nobarrier"),))
    )
    found = verdict(fs)
    assert found.outcome is Outcome.UNDETERMINED
    assert found.unknowns


@pytest.mark.parametrize("word", ["debug", "nouid32"])
def test_drf002_what_no_remount_takes_back_is_not_remounted(word: str) -> None:
    """The rollback was a remount with "no debug", which mount(8) refuses: there is no opposite."""
    (finding,) = verdict(mounted_with(word, "commit=30")).findings
    lines = [line.command for remedy in finding.remedies for line in remedy.lines]
    assert lines
    assert not [line for line in lines if "remount" in line or f"no {word}" in line]
    (finding,) = verdict(mounted_with("commit=30")).findings
    assert "remount" in finding.remedies[0].lines[0].command


@pytest.mark.parametrize(
    ("word", "severity"),
    [
        ("nobarrier", Severity.MEDIUM),
        ("ro", Severity.MEDIUM),
        ("commit=60", Severity.LOW),
        ("noatime", Severity.LOW),
        ("nobh", Severity.INFO),
    ],
)
def test_drf002_severity(word: str, severity: Severity) -> None:
    """Options that other rules judge are medium, options that ext4 ignores info, the rest low."""
    (finding,) = verdict(mounted_with(word)).findings
    assert finding.severity is severity
    assert finding.fact == f"/data {word}"


def test_drf002_remedy_never_activates_a_dangerous_option() -> None:
    """If fstab has nobarrier and barriers are on, only fstab is to be corrected."""
    (finding,) = verdict(mounted_with("nobarrier")).findings
    (remedy,) = finding.remedies
    assert "Change fstab to match" in remedy.summary


def test_drf002_offers_no_remount_for_a_data_mode() -> None:
    """No kernel can change data= by a remount, so only fstab can be corrected."""
    (finding,) = verdict(mounted_with("data=writeback")).findings
    commands = [step.command for remedy in finding.remedies for step in remedy.lines]
    assert commands
    assert not any("remount" in command for command in commands)


@pytest.mark.parametrize(
    ("evidence", "offered"),
    [
        (known(kernel("4.18.0-553.el8_10.x86_64")), True),
        (known(kernel("6.12.95+deb12-amd64")), True),
        (known(kernel("6.13.0")), False),
        (known(kernel("7.2.13+deb14-amd64")), False),
        (unknown("kernel release"), False),
    ],
)
def test_drf002_offers_a_remount_to_nodelalloc_only_on_kernels_that_accept_it(
    evidence: Evidence[Kernel], offered: bool
) -> None:
    """7.2 answers such a remount with EINVAL, 6.12 accepts it (both booted)."""
    fs = mounted_with("nodelalloc")
    (finding,) = judge(check, fs, host(fs, kernel=evidence, profiles=(TIDB,))).findings
    remount = "mount -o remount,rw,relatime,nodelalloc /dev/sda /data"
    assert (remount in commands(finding)) is offered
    assert ("Unmount it" in finding.remedies[0].summary) is not offered


def test_drf002_refers_to_the_rule_that_warns_of_the_option() -> None:
    """PRF003 reports nodelalloc without a profile, and the remedy of fstab refers to it."""
    (finding,) = verdict(mounted_with("nodelalloc")).findings
    (remedy,) = finding.remedies
    assert remedy.summary == (
        "Change fstab to match the options in force: remove nodelalloc. PRF003 reports nodelalloc."
    )


def test_drf002_remedy_keeps_options_that_a_profile_demands() -> None:
    """The entry in fstab is right, and the options in force are wrong."""
    fs = mounted_with("noatime", "commit=20", mounts=(mount(flags=("rw", "relatime")),))
    (finding,) = judge(check, fs, host(fs, profiles=(TIDB,))).findings
    remount, correct = finding.remedies
    assert [step.command for step in remount.lines] == [
        "mount -o remount,rw,noatime,commit=20 /dev/sda /data",
        "grep -qx commit=20 /proc/fs/ext4/sda/options",
        "findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qx noatime",
        "mount -o remount,rw,relatime,commit=5 /dev/sda /data",
    ]
    assert correct.summary.endswith("remove commit=20.")


def test_drf002_offers_only_the_remount_if_the_active_option_is_worse() -> None:
    """DUR006 warns about the option in force: fstab is kept, and only the remount is offered."""
    (finding,) = verdict(mounted_with("errors=remount-ro")).findings
    (remedy,) = finding.remedies
    assert remedy.steps[0].command == (
        "mount -o remount,rw,relatime,errors=remount-ro /dev/sda /data"
    )


def test_drf002_remedy_adds_the_active_option_to_fstab() -> None:
    """Without the option in fstab, the next mount would use the superblock's third value."""
    fs = mounted_with("commit=20", live=("commit=10",))
    (finding,) = verdict(fs).findings
    summary = finding.remedies[-1].summary
    assert summary.endswith("remove commit=20 and add commit=10.")
    assert (
        step_lines(finding.remedies[-1].steps)[0] == "persistent: fstab 7: commit=20 -> commit=10"
    )


def test_drf002_remount_keeps_flags_missing_from_fstab() -> None:
    """DRF001 wants nosuid to be kept, and a remount without it would drop it."""
    there = mount(flags=("rw", "nosuid", "relatime"))
    (finding,) = verdict(mounted_with("commit=20", mounts=(there,))).findings
    assert "mount -o remount,rw,nosuid,relatime,commit=20 /dev/sda /data" in commands(finding)


def test_drf002_prints_no_remount_after_an_error() -> None:
    """An error made it read-only, which a remount with rw does not cure (HLT002)."""
    fs = mounted_with("commit=20", errors=known(ErrorCounters(errors=3)), journal_errno=known(-5))
    (finding,) = verdict(fs).findings
    assert not any("remount" in command for command in commands(finding))


def test_drf002_ignores_options_implied_by_the_data_mode() -> None:
    """data=journal turns delalloc off: PRF007 reports it, and no edit of fstab can change it."""
    live = resolve("6.1", file="rw data=journal nodelalloc", table="rw,data=journal")
    fs = filesystem(options=known(live), fstab=known((fstab_entry("data=journal", "delalloc"),)))
    assert "delalloc is in force" not in str([each.message for each in verdict(fs).findings])


def commands(finding: Finding) -> list[str]:
    """Return the commands of all remedies."""
    return [step.command for remedy in finding.remedies for step in remedy.lines]


@pytest.mark.parametrize(
    ("word", "flags", "named"),
    [
        ("atime", ("rw", "noatime"), "relatime"),
        ("relatime", ("rw", "noatime"), "relatime"),
        ("noatime", ("rw", "relatime"), "noatime"),
    ],
)
def test_drf002_remount_names_the_atime_option(
    word: str, flags: tuple[str, ...], named: str
) -> None:
    """The kernel keeps atime on a plain remount, and mount(8) passes no flag for `atime`."""
    (finding,) = verdict(mounted_with(word, mounts=(mount(flags=flags),))).findings
    assert f"mount -o remount,rw,{named} /dev/sda /data" in commands(finding)


def test_drf002_remedy_never_activates_strictatime() -> None:
    """PRF008 reports strictatime."""
    (finding,) = verdict(mounted_with("strictatime")).findings
    (remedy,) = finding.remedies
    assert remedy.summary.endswith("remove strictatime. PRF008 reports strictatime.")


def test_drf002_edits_only_options_written_in_fstab() -> None:
    """Flags implied by `user` belong to SEC002, and an option overridden by a later one stays."""
    there = mount(flags=("rw", "relatime"))
    words = ("user", "noatime", "atime", "nosymfollow")
    (finding,) = verdict(mounted_with(*words, mounts=(there,))).findings
    assert "sets nosymfollow, but it is not in force" in finding.message
    assert finding.remedies[-1].summary.endswith("remove nosymfollow.")


def test_drf002_removes_only_options_that_are_not_active() -> None:
    """A literal option that is not in force is removed; `user` stays if its flags are in force."""
    there = mount(flags=("rw", "nosuid", "nodev", "noexec", "relatime"))
    (finding,) = verdict(mounted_with("user", "noatime", mounts=(there,))).findings
    assert finding.remedies[-1].summary.endswith("remove noatime.")


LATER_MOUNT_NOTE = ": line 7 mounts it first, and a later mount changes no ext4 option."


def mounted_twice(
    *later: str, first: tuple[str, ...] = (), live: tuple[str, ...] = ()
) -> Filesystem:
    """Build a filesystem that lines 7 and 8 of fstab mount on /data and on /again."""
    entries = (fstab_entry(*first), fstab_entry(*later, mount_point="/again", line_number=8))
    there = (mount("/data"), mount("/again", mount_id=31))
    return filesystem(mounts=there, fstab=known(entries), options=known(options(*live)))


def test_drf002_judges_every_mount_of_fstab() -> None:
    """A flag belongs to one mount; superblock options of a later entry have no effect."""
    fs = mounted_twice("nosymfollow", "sync", "commit=30", first=("commit=30",))
    assert [finding.message for finding in verdict(fs).findings] == [
        "/etc/fstab line 7 sets commit=30, but commit=5 is in force.",
        (
            "/etc/fstab line 8 sets commit=30, nosymfollow, sync, but commit=5 is in force, "
            f"and nosymfollow, sync are not{LATER_MOUNT_NOTE}"
        ),
    ]


@pytest.mark.parametrize(
    ("fs", "message"),
    [
        (
            mounted_twice("nodelalloc"),
            f"sets nodelalloc, but delalloc is in force{LATER_MOUNT_NOTE}",
        ),
        (mounted_twice("sync"), f"sets sync, but it is not in force{LATER_MOUNT_NOTE}"),
        (mounted_twice("noatime"), "sets noatime, but it is not in force."),
        (mounted_twice("nodelalloc", live=("nodelalloc",)), None),
    ],
)
def test_drf002_message_for_a_second_entry_of_one_superblock(
    fs: Filesystem, message: str | None
) -> None:
    """An option is in force or not, whichever line mounts the superblock."""
    found = [finding.message.partition(" line 8 ")[2] for finding in verdict(fs).findings]
    assert found == ([] if message is None else [message])


def test_drf002_removes_ineffective_options_from_a_second_entry() -> None:
    """A remount would set it only until the next boot; it belongs in the first line."""
    (finding,) = verdict(mounted_twice("commit=10", "noatime")).findings
    correct, advice = finding.remedies
    assert correct.summary.endswith("remove commit=10, noatime.")
    assert step_lines(correct.steps)[0] == "persistent: fstab 8: commit=10,noatime -> defaults"
    assert advice.summary.startswith("If commit=10 is needed, set it in line 7 of fstab")
    assert not any("remount" in command for command in commands(finding))


def test_drf002_message_for_several_needed_options() -> None:
    """A needed option is set in the line that mounts the filesystem first."""
    (finding,) = verdict(mounted_twice("commit=10", "max_dir_size_kb=64")).findings
    assert finding.remedies[-1].summary.startswith(
        "If commit=10 and max_dir_size_kb=64 are needed, set them in line 7 of fstab"
    )


def test_drf002_treats_the_entry_of_the_root_as_the_first() -> None:
    """The root is mounted before fstab is read, whichever line of fstab names it."""
    there = (mount("/"), mount("/again", mount_id=31))
    entries = (
        fstab_entry("commit=30", mount_point="/again"),
        fstab_entry(mount_point="/", line_number=8),
    )
    (finding,) = verdict(
        filesystem(mounts=there, fstab=known(entries), options=known(options()))
    ).findings
    assert "line 7 sets commit=30" in finding.message
    assert "line 8 mounts it first" in finding.message


@pytest.mark.parametrize("word", ["noauto", "x-systemd.automount"])
def test_drf002_takes_a_line_that_is_mounted_on_demand_for_a_later_one(word: str) -> None:
    """The boot mounts the other line first, whichever comes first in fstab."""
    (finding,) = verdict(
        mounted_twice("commit=30", first=(word, "commit=10"), live=("commit=30",))
    ).findings
    assert "line 7 sets commit=10, but commit=30 is in force" in finding.message
    assert "line 8 mounts it first" in finding.message


@pytest.mark.parametrize("word", ["nobarrier", "norecovery", "data=writeback"])
def test_drf002_prints_no_remount_of_an_entry_with_a_dangerous_or_refused_option(word: str) -> None:
    """A remount for a flag applies the whole line, including nobarrier."""
    there = (mount("/data"), mount("/again", mount_id=31))
    entries = (fstab_entry(), fstab_entry("noatime", word, mount_point="/again", line_number=8))
    fs = filesystem(mounts=there, fstab=known(entries), options=known(options()))
    (finding,) = verdict(fs).findings
    assert commands(finding)
    assert not any("remount" in command for command in commands(finding))


def test_drf002_rootflags_have_their_own_origin_and_no_fstab_edit() -> None:
    """Options on the kernel command line are not in fstab, and no edit of it can correct them."""
    fs = filesystem(mounts=(mount("/"),), fstab=known((fstab_entry("relatime", mount_point="/"),)))
    booted = host(fs, kernel_arguments=known(("rootflags=commit=30,bogus",)))
    drift, dead = judge(check, fs, booted).findings
    assert drift.message == ("/proc/cmdline rootflags= sets commit=30, but commit=5 is in force.")
    assert ("commit=30,bogus", "/proc/cmdline") in {(c.value, c.origin) for c in drift.citations}
    assert dead.message.startswith("/proc/cmdline rootflags= sets bogus")
    assert (drift.remedies, dead.remedies) == ((), ())


REPEATED_LINE_NOTE = ": of two lines for one mount point only the first counts, line 7."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nodelalloc",), f"sets nodelalloc, but delalloc is in force{REPEATED_LINE_NOTE}"),
        (("noatime",), f"sets noatime, but it is not in force{REPEATED_LINE_NOTE}"),
        (("nosuid",), f"sets nosuid, but it is not in force{REPEATED_LINE_NOTE}"),
        (("delalloc",), None),
        (("noauto", "nodelalloc"), None),
    ],
)
def test_drf002_message_for_a_second_entry_of_one_mount_point(
    words: tuple[str, ...], message: str | None
) -> None:
    """Mount(8) uses the first line, and skips the second because it is already mounted."""
    entries = (fstab_entry(), fstab_entry(*words, line_number=8))
    findings = verdict(filesystem(fstab=known(entries), options=known(options()))).findings
    found = [finding.message.partition(" line 8 ")[2] for finding in findings]
    assert found == ([] if message is None else [message])
    assert not any("remount" in command for each in findings for command in commands(each))
