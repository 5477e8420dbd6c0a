from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.facts.host import ActiveProfile, Filesystem, Kernel, all_profiles
from ext4audit.facts.mount import Layer, Provenance
from ext4audit.facts.options import words_of_string
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.durability.dur002_hidden_superblock_default import (
    OnDiskDefault,
    check,
    on_disk_defaults,
)
from support.builders import (
    filesystem,
    fstab_entry,
    host,
    kernel,
    known,
    mount,
    options,
    superblock,
    unknown,
)
from support.judging import only_finding, verdict_on
from support.remedies.shell import RemedyShell
from support.remedies.steps_as_text import step_lines

NO_SUPERBLOCK = unknown("the superblock of /dev/sda")


verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def with_hidden_options(*tokens: str, **changes: object) -> Filesystem:
    """Build a filesystem whose superblock hides these options."""
    return filesystem(options=known(options(hidden=tokens)), **changes)


@pytest.mark.parametrize(
    ("tokens", "severity", "named"),
    [
        (["data=writeback"], Severity.LOW, "data=writeback"),
        (["data=journal"], Severity.LOW, "data=journal"),
        (["nodelalloc"], Severity.LOW, "nodelalloc"),
        (["discard"], Severity.LOW, "discard"),
        (["noblock_validity"], Severity.LOW, "noblock_validity"),
        (["noauto_da_alloc"], Severity.LOW, "noauto_da_alloc"),
        (["nodioread_nolock"], Severity.LOW, "nodioread_nolock"),
        (["nobarrier"], Severity.LOW, "nobarrier"),
        (["nodelalloc", "nobarrier"], Severity.LOW, "nobarrier, nodelalloc"),
        (
            ["nodelalloc", "nobarrier", "data=writeback"],
            Severity.LOW,
            "data=writeback, nobarrier and 1 more",
        ),
    ],
)
def test_one_finding_with_the_worst_severity_of_all_hidden_options(
    tokens: list[str], severity: Severity, named: str
) -> None:
    """Hidden nobarrier and data=writeback are named here; DUR001 and DUR003 rate their effects."""
    finding = finding_of(with_hidden_options(*tokens))
    assert (finding.severity, finding.confidence) == (severity, Confidence.CONFIRMED)
    assert all(token in finding.message for token in tokens)
    assert finding.summary == f"the superblock sets hidden options: {named}"
    assert finding.fact == ",".join(sorted(tokens))
    hidden = [c.value.partition(",")[0] for c in finding.citations if c.label.startswith("hidden")]
    assert hidden == tokens


def test_option_cleared_by_tune2fs_while_mounted_needs_only_a_remount() -> None:
    """The mount keeps what the superblock had set at mount time: only a remount is missing."""
    cleared = options(hidden=["nobarrier", "discard"], set_by=Provenance.UNKNOWN)
    finding = finding_of(filesystem(options=known(cleared)))
    assert finding.message == (
        "discard and nobarrier are in force, although neither the mount table nor the superblock "
        "shows them: the superblock set them when it was mounted, and no longer does."
    )
    assert finding.summary == (
        "in force, although the superblock no longer sets them: discard, nobarrier"
    )
    assert finding.remedies[0].summary == (
        "Remount with the kernel's defaults; the superblock no longer overrides them."
    )


@pytest.mark.parametrize(
    "fs",
    [
        filesystem(),
        filesystem(options=known(options("nobarrier", "data=writeback"))),
        with_hidden_options("errors=remount-ro"),
        with_hidden_options("acl", "user_xattr", "grpid"),
        filesystem(
            options=known(options(hidden=["nodelalloc"], set_by=Provenance.IMPLIED)),
        ),
        filesystem(superblock=NO_SUPERBLOCK),
        filesystem(options=known(options(complete=False))),
    ],
    ids=["nothing", "shown", "errors", "good", "implied", "no root", "superblock only"],
)
def test_visible_safe_and_implied_options_pass(fs: Filesystem) -> None:
    """Only dangerous options that nothing shows are found; the evidence is the mount table."""
    verdict = verdict_of(fs)
    assert verdict.outcome is Outcome.PASS
    assert [each.label for each in verdict.evidence] == ["mount table"]


@pytest.mark.parametrize(
    ("tokens", "outcome"), [((), Outcome.UNDETERMINED), (("barrier",), Outcome.PASS)]
)
def test_superblock_option_is_active_unless_the_mount_shows_its_opposite(
    tokens: tuple[str, ...], outcome: Outcome
) -> None:
    """If neither the options file nor the mount table could be read, nothing shows the option."""
    gap = unknown("/proc/fs/ext4/sda/options")
    found = options(*tokens, complete=False, gap=gap)
    found = found if tokens else found._replace(mount_table=None)
    stored = superblock(default_mount_options=("nobarrier",))
    verdict = verdict_of(filesystem(options=known(found), superblock=known(stored)))
    assert verdict.outcome is outcome


def test_without_root_hidden_options_are_found_by_comparing_two_files() -> None:
    """Comparing the two files shows that the superblock sets it; bits or string are left open."""
    fs = filesystem(
        options=known(options(hidden=["nobarrier"], set_by=Provenance.SUPERBLOCK)),
        superblock=NO_SUPERBLOCK,
    )
    finding = finding_of(fs)
    assert finding.confidence is Confidence.LIKELY
    persistent = [s.command for s in finding.remedies[0].lines if s.phase is Phase.PERSISTENT]
    assert persistent == [
        "tune2fs -o ^nobarrier /dev/sda",
        (
            "if tune2fs -l /dev/sda | grep -qxE 'Mount options: +(nobarrier|barrier=0)'; "
            "then tune2fs -E mount_opts= /dev/sda; fi"
        ),
    ]


@pytest.mark.parametrize(
    "fs",
    [
        filesystem(options=unknown("the options"), superblock=NO_SUPERBLOCK),
        filesystem(options=known(options(complete=False)), superblock=NO_SUPERBLOCK),
        filesystem(
            options=known(options("nobarrier", mount_table=())), mounts=(), superblock=NO_SUPERBLOCK
        ),
    ],
    ids=["nothing", "mount table only", "no mount table to compare with"],
)
def test_mount_table_or_options_file_alone_is_undetermined(fs: Filesystem) -> None:
    """The mount table alone proves nothing, and neither does the options file without it."""
    verdict = verdict_of(fs)
    assert verdict.outcome is Outcome.UNDETERMINED
    assert verdict.unknowns[0].hint == "run as root"


@pytest.mark.parametrize(
    ("layers", "outcome"),
    [
        ((), Outcome.UNDETERMINED),
        ((Layer(Provenance.MOUNT, "nobarrier", "mountinfo"),), Outcome.PASS),
    ],
)
def test_possible_default_of_an_unknown_kernel_is_undetermined(
    layers: tuple[Layer, ...], outcome: Outcome
) -> None:
    """Whether it differs from the default is unknown, unless the mount table lists it."""
    found = options("nobarrier")
    changed = tuple(option._replace(layers=layers) for option in found.options)
    fs = filesystem(options=known(found._replace(options=changed)))
    assert judge(check, fs, host(fs, kernel=unknown("kernel release"))).outcome is outcome


def unmounted(*bits: str, string: str = "", **changes: object) -> Filesystem:
    """Build a filesystem that is not mounted, with these options in its superblock."""
    held = superblock(default_mount_options=("acl", *bits), mount_option_string=string)
    values: dict[str, object] = {"superblock": known(held, "dumpe2fs -h /dev/sda"), **changes}
    return filesystem(alive=False, mounts=(), options=unknown("options"), **values)


@pytest.mark.parametrize(
    ("bits", "string", "severity", "words"),
    [
        (["nobarrier"], "", Severity.MEDIUM, "nobarrier"),
        (["nodelalloc", "discard"], "", Severity.LOW, "discard, nodelalloc"),
        (["journal_data_writeback"], "", Severity.MEDIUM, "data=writeback"),
        ([], "barrier=0,noauto_da_alloc", Severity.MEDIUM, "nobarrier, noauto_da_alloc"),
        (["journal_data_writeback"], "data=journal", Severity.LOW, "data=journal"),
    ],
)
def test_unmounted_superblock_with_dangerous_options(
    bits: list[str], string: str, severity: Severity, words: str
) -> None:
    """The string overrides the bits; options that other rules judge when mounted are medium."""
    finding = finding_of(unmounted(*bits, string=string))
    assert (finding.severity, finding.confidence) == (severity, Confidence.CONFIRMED)
    assert finding.message.startswith("The superblock sets ")
    assert finding.message.startswith(f"The superblock sets {words}, which no mount table shows")
    assert finding.message.endswith("in force from the next mount on.")


def test_unmounted_superblock_with_safe_options_passes() -> None:
    """The evidence lists what the superblock sets."""
    verdict = verdict_of(unmounted("user_xattr"))
    assert verdict.outcome is Outcome.PASS
    assert [each.value for each in verdict.evidence] == ["acl, user_xattr"]


def test_data_mode_without_a_journal_passes() -> None:
    """The bits remain in the superblock when tune2fs removes the journal."""
    held = superblock(
        default_mount_options=("journal_data_writeback",), features=frozenset({"extent"})
    )
    assert verdict_of(unmounted(superblock=known(held))).outcome is Outcome.PASS


def test_unmounted_unread_superblock_is_undetermined() -> None:
    """Nothing but the superblock could show it."""
    verdict = verdict_of(unmounted(superblock=NO_SUPERBLOCK))
    assert verdict.outcome is Outcome.UNDETERMINED


def test_harmless_string_of_an_unmounted_superblock_is_reported() -> None:
    """The finding has no command, because nothing has to be removed."""
    finding = finding_of(unmounted(string="commit=30"))
    assert finding.severity is Severity.LOW
    assert "commit=30" in finding.message
    assert [remedy.steps for remedy in finding.remedies] == [()]


def test_fstab_entry_of_an_unmounted_filesystem_is_cited() -> None:
    """An fstab entry of the device decides what is finally in force."""
    fs = unmounted("nodelalloc", fstab=known((fstab_entry("noatime", "delalloc"),)))
    finding = finding_of(fs)
    assert "fstab also sets nodelalloc" in finding.message
    assert "noatime,delalloc" in [each.value for each in finding.citations]


def test_harmless_string_in_the_superblock_is_reported() -> None:
    """Few people know that the string exists; it sets options for every mount."""
    fs = filesystem(superblock=known(superblock(mount_option_string="commit=30"), "dumpe2fs -h"))
    finding = finding_of(fs)
    assert finding.severity is Severity.LOW
    assert "commit=30" in finding.message
    assert ("superblock, mount options string", "commit=30", "dumpe2fs -h") in [
        (each.label, each.value, each.origin) for each in finding.citations
    ]


def test_option_that_fstab_sets_too_is_reported_so() -> None:
    """In that case the administrator knows of it, although the mount table does not show it."""
    finding = finding_of(
        with_hidden_options("nodelalloc", fstab=known((fstab_entry("noatime", "nodelalloc"),)))
    )
    assert "fstab also sets nodelalloc" in finding.message
    assert "noatime,nodelalloc" in [each.value for each in finding.citations]


def test_remedy_clears_all_bits_with_one_command() -> None:
    """One command clears the bits, and one new mount suffices: a remount cannot change data=."""
    fs = with_hidden_options(
        "nobarrier",
        "nodelalloc",
        "data=writeback",
        superblock=known(
            superblock(
                default_mount_options=("nobarrier", "nodelalloc", "journal_data_writeback", "acl")
            )
        ),
    )
    remedy = finding_of(fs).remedies[0]
    forward = [s.command for s in remedy.lines if s.phase in (Phase.IMMEDIATE, Phase.PERSISTENT)]
    assert forward == [
        "umount /data",
        "tune2fs -o ^nodelalloc,^nobarrier,^journal_data_writeback /dev/sda",
        "mount -t ext4 -o rw,relatime /dev/sda /data",
    ]
    assert remedy.disruption is Disruption.UNMOUNT
    assert "A remount cannot change data=" in remedy.summary


def finding_with_tidb_profile(fs: Filesystem) -> Finding:
    """Return the only finding of a filesystem on which a product demands nodelalloc."""
    profiles = (ActiveProfile(all_profiles()["tidb"]),)
    (finding,) = judge(check, fs, host(fs, profiles=profiles)).findings
    return finding


def test_remedy_sets_nodelalloc_that_data_journal_implied() -> None:
    """data=journal implies nodelalloc, so the new mount without it has to set it."""
    found = options("nodelalloc", hidden=["data=journal"])
    implied = tuple(
        option._replace(set_by=Provenance.IMPLIED) if option.name == "delalloc" else option
        for option in found.options
    )
    fs = filesystem(
        options=known(found._replace(options=implied)),
        superblock=known(superblock(default_mount_options=("journal_data",))),
    )
    remedy = finding_with_tidb_profile(fs).remedies[0]
    assert "nodelalloc is set: required by " in remedy.summary
    assert "persistent: mount -t ext4 -o rw,relatime,data=ordered,nodelalloc" in " ".join(
        step_lines(remedy.steps)
    )


@pytest.mark.parametrize("mounted", [True, False])
def test_remedy_keeps_demanded_options(mounted: bool) -> None:
    """The other options are removed; the demanded one is reported as hidden, but kept."""
    words = ("nodelalloc", "nobarrier")
    finding = finding_with_tidb_profile(
        with_hidden_options(*words) if mounted else unmounted(*words)
    )
    remedy = finding.remedies[0]
    assert "nodelalloc" in finding.message
    assert "nodelalloc is kept: required by TiDB and TiKV (profile tidb)." in remedy.summary
    assert any("nobarrier" in step.command for step in remedy.lines)
    assert not any("delalloc" in step.command for step in remedy.lines)


@pytest.mark.parametrize("mounted", [True, False])
def test_demanded_options_are_only_moved(mounted: bool) -> None:
    """Removing it would only bring back the kernel's default."""
    finding = finding_with_tidb_profile(
        with_hidden_options("nodelalloc") if mounted else unmounted("nodelalloc")
    )
    assert [remedy.steps for remedy in finding.remedies] == [()]
    assert finding.remedies[0].summary.startswith("If the options are wanted: set them in fstab")


@pytest.mark.parametrize(
    ("place", "token", "running", "where"),
    [
        ("/data", "data=writeback", known(kernel()), "fstab"),
        ("/", "data=writeback", known(kernel()), "rootflags="),
        ("/", "nobarrier", known(kernel()), "fstab"),
        ("/", "nodelalloc", known(kernel("6.12.95", "")), "fstab"),
        ("/", "nodelalloc", known(kernel("6.18.0", "")), "rootflags="),
        ("/", "nodelalloc", unknown("kernel"), "rootflags="),
    ],
)
def test_wanted_options_are_moved_to_where_the_boot_accepts_them(
    place: str, token: str, running: Evidence[Kernel], where: str
) -> None:
    """The boot remounts the root with the options of fstab, which DRF004 would then report."""
    fs = with_hidden_options(token, mounts=(mount(place),))
    finding = judge(check, fs, host(fs, kernel=running)).findings[0]
    assert finding.remedies[-1].summary.startswith(
        f"If the options are wanted: set them in {where}"
    )


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[RemedyShell]:
    """Return a shell on a real filesystem whose superblock hides options of both kinds."""
    shell = RemedyShell(tmp_path)
    try:
        shell.check(f"tune2fs -o nobarrier,journal_data_writeback {shell.device}")
        shell.check(f"tune2fs -E mount_opts=noauto_da_alloc {shell.device}")
        shell.write_fstab("noatime")
        shell.mount()
        yield shell
    finally:
        shell.close()


@pytest.mark.kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_remedy_on_a_real_filesystem(shell: RemedyShell) -> None:
    """From the next mount on nothing is hidden; the rollback restores everything."""
    bits = Provenance.SUPERBLOCK_BITS
    provenances = {"barrier": bits, "data": bits, "auto_da_alloc": Provenance.SUPERBLOCK_STRING}
    fs = shell.filesystem(provenances)
    assert fs.mounts[0].super_options == ("rw",)
    before = shell.state()
    remedy = finding_of(fs).remedies[0]
    steps = {phase: [s.command for s in remedy.lines if s.phase is phase] for phase in Phase}
    for step in remedy.steps:
        if step.phase is not Phase.VERIFY:
            shell.check(step.command)
    shell.unmount()
    shell.mount()
    for command in steps[Phase.VERIFY]:
        shell.check(command)
    assert verdict_of(shell.filesystem()).outcome is Outcome.PASS
    for command in steps[Phase.ROLLBACK]:
        shell.check(command)
    shell.unmount()
    shell.mount()
    assert shell.state() == before


@pytest.mark.parametrize(
    ("string", "release", "what"),
    [
        ("nodelalloc,nouid32", "6.18.44", "which every mount applies"),
        (
            "nodelalloc,noatime",
            "6.18.44",
            "of which this kernel applies nothing, because it refuses noatime",
        ),
        (
            "nouid32,noatime,nodelalloc",
            "5.10.0-30-amd64",
            "of which this kernel applies only nouid32, because it refuses noatime",
        ),
    ],
)
def test_a_string_that_the_kernel_refuses_sets_nothing(
    string: str, release: str, what: str
) -> None:
    """The finding on the string says so, mounted or not, and names no option of it as hidden."""
    fs = filesystem(superblock=known(superblock(mount_option_string=string)))
    on = host(fs, kernel=known(kernel(release)))
    (mounted,) = judge(check, fs, on).findings
    assert mounted.message == f"The superblock has a string of mount options, {what}: {string}."
    idle = fs._replace(alive=False, mounts=(), fstype=unknown("fstype"), options=unknown("options"))
    (unmounted,) = judge(check, idle, on).findings
    if "applies nothing" in what or "only" in what:
        assert unmounted.message == mounted.message
    else:
        assert unmounted.message.startswith("The superblock sets nodelalloc, which no mount table")


def test_string_overrides_bits() -> None:
    """An option that ext4 does not have is omitted, and an empty string sets nothing."""
    held = superblock(
        default_mount_options=("acl", "nobarrier", "journal_data"),
        mount_option_string="data=writeback,commit=30,bogus",
    )
    bits, string = Provenance.SUPERBLOCK_BITS, Provenance.SUPERBLOCK_STRING
    assert set(on_disk_defaults(held, words_of_string(held, None).applied)) == {
        OnDiskDefault("acl", "acl", bits),
        OnDiskDefault("barrier", "nobarrier", bits),
        OnDiskDefault("data", "data=writeback", string),
        OnDiskDefault("commit", "commit=30", string),
    }
    assert on_disk_defaults(superblock(default_mount_options=()), ()) == ()
