"""CMP007: settings that a selected profile's vendor demands and the filesystem does not have."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import ActiveProfile, Filesystem, Host, Profile, all_profiles
from ext4audit.finding import Disruption, Finding, Phase, Remedy, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.compatibility.cmp007_vendor_demand import OPPOSITE, check
from support.builders import (
    filesystem,
    fstab_entry,
    host,
    kernel,
    known,
    mount,
    options,
    superblock,
)
from support.builders import unknown as gap
from support.remedies.case import AlterHost, RemedyCase
from support.remedies.steps_as_text import step_lines

OLD, NEW = "5.4.286", "6.18.5"
BIGALLOC = superblock().features | {"bigalloc"}
NOATIME_MOUNT = (mount(flags=("rw", "noatime")),)


def verdict_of(
    fs: Filesystem, *names: str, release: str = OLD, place: str | None = None
) -> Verdict:
    """Judge a filesystem with some profiles selected."""
    profiles = tuple(ActiveProfile(all_profiles()[name], place) for name in names)
    return judge(check, fs, host(fs, kernel=known(kernel(release)), profiles=profiles))


def mounted_with(*tokens: str, hidden: tuple[str, ...] = (), **changes: Any) -> Filesystem:
    """Build a filesystem with these options, mounted with noatime."""
    values: dict[str, Any] = {
        "options": known(options(*tokens, hidden=hidden, release=OLD)),
        "mounts": NOATIME_MOUNT,
        "fstab": known((fstab_entry("noatime", *tokens),)),
    }
    return filesystem(**{**values, **changes})


def with_superblock(**changes: Any) -> Filesystem:
    """Build a filesystem with changes to its superblock."""
    return filesystem(superblock=known(superblock(**changes)))


@pytest.mark.parametrize(
    ("fs", "names", "outcome", "facts"),
    [
        pytest.param(mounted_with(), (), "not_applicable", [], id="no profile"),
        pytest.param(mounted_with(), ("kafka",), "not_applicable", [], id="nothing is demanded"),
        pytest.param(mounted_with("nodelalloc"), ("tidb",), "pass", [], id="all there"),
        pytest.param(mounted_with(), ("tidb",), "fail", ["missing nodelalloc"], id="no option"),
        pytest.param(
            filesystem(), ("tidb",), "fail", ["missing noatime,nodelalloc"], id="neither of two"
        ),
        pytest.param(
            mounted_with(hidden=("nodelalloc",)),
            ("tidb",),
            "fail",
            ["hidden nodelalloc"],
            id="hidden",
        ),
        pytest.param(
            mounted_with(hidden=("nodelalloc",)), ("daos",), "pass", [], id="hidden from nobody"
        ),
        pytest.param(filesystem(), ("neo4j",), "fail", ["missing noatime"], id="relatime"),
        pytest.param(
            filesystem(mounts=(*NOATIME_MOUNT, mount("/srv", mount_id=31))),
            ("neo4j",),
            "fail",
            ["missing noatime"],
            id="one mount of two",
        ),
        pytest.param(filesystem(mounts=()), ("neo4j",), "undetermined", [], id="mounted elsewhere"),
        pytest.param(mounted_with(), ("postgres", "etcd"), "pass", [], id="barriers are on"),
        pytest.param(
            mounted_with("nobarrier"),
            ("postgres", "etcd"),
            "fail",
            ["missing barrier"],
            id="said once",
        ),
        pytest.param(
            filesystem(options=gap("options")), ("daos",), "undetermined", [], id="options unread"
        ),
        pytest.param(mounted_with("errors=remount-ro"), ("lustre",), "pass", [], id="remount-ro"),
        pytest.param(
            filesystem(
                options=known(options(complete=False)),
                superblock=known(superblock(errors="remount-ro")),
            ),
            ("lustre",),
            "pass",
            [],
            id="of the superblock",
        ),
        pytest.param(
            mounted_with("errors=continue"),
            ("lustre",),
            "fail",
            ["missing errors=remount-ro"],
            id="errors",
        ),
        pytest.param(
            filesystem(superblock=gap("superblock"), options=known(options(complete=False))),
            ("lustre",),
            "undetermined",
            [],
            id="errors unseen",
        ),
        pytest.param(
            filesystem(alive=False, mounts=()), ("tidb",), "not_applicable", [], id="not mounted"
        ),
        pytest.param(
            with_superblock(),
            ("mysql-aws-twp",),
            "fail",
            ["mysql-aws-twp bigalloc"],
            id="no feature",
        ),
        pytest.param(
            with_superblock(features=BIGALLOC, cluster_blocks=4),
            ("mysql-aws-twp",),
            "pass",
            [],
            id="16 KiB",
        ),
        pytest.param(
            with_superblock(features=BIGALLOC, cluster_blocks=16),
            ("mysql-aws-twp",),
            "fail",
            ["mysql-aws-twp clusters"],
            id="64 KiB",
        ),
        pytest.param(
            with_superblock(features=BIGALLOC, cluster_blocks=None),
            ("mysql-aws-twp",),
            "undetermined",
            [],
            id="clusters unseen",
        ),
        pytest.param(
            with_superblock(reserved_blocks=1310720),
            ("k8s-csi",),
            "fail",
            ["k8s-csi reserve"],
            id="5 %",
        ),
        pytest.param(with_superblock(reserved_blocks=262144), ("k8s-csi",), "pass", [], id="1 %"),
        pytest.param(
            with_superblock(reserved_blocks=262145),
            ("k8s-csi",),
            "fail",
            ["k8s-csi reserve"],
            id="a block more",
        ),
        pytest.param(
            with_superblock(reserved_blocks=None), ("k8s-csi",), "undetermined", [], id="unseen"
        ),
        pytest.param(
            with_superblock(reserved_blocks=9, size_blocks=0), ("k8s-csi",), "pass", [], id="odd"
        ),
        pytest.param(filesystem(), ("mongodb",), "fail", ["mongodb filesystem"], id="another"),
        pytest.param(
            filesystem(
                options=gap("options"), superblock=known(superblock(reserved_blocks=1310720))
            ),
            ("daos", "k8s-csi"),
            "fail",
            ["k8s-csi reserve"],
            id="a gap hides nothing else",
        ),
    ],
)
def test_outcomes(fs: Filesystem, names: tuple[str, ...], outcome: str, facts: list[str]) -> None:
    """A missing demand is a finding, and missing evidence leaves the rule undetermined."""
    verdict = verdict_of(fs, *names)
    assert (verdict.outcome.value, [f.fact for f in verdict.findings]) == (outcome, facts)


def test_verdict_has_the_gap_and_the_findings() -> None:
    """An audit with two profiles is incomplete if one of them could not be judged."""
    fs = filesystem(options=gap("options"), superblock=known(superblock(reserved_blocks=1310720)))
    assert [each.what for each in verdict_of(fs, "daos", "k8s-csi").unknowns] == ["options"]


def test_profile_applies_only_to_its_mount_points() -> None:
    """A product on another mount point demands nothing here."""
    assert verdict_of(filesystem(), "tidb", place="/var/*").outcome is Outcome.NOT_APPLICABLE
    assert verdict_of(filesystem(), "tidb", place="/da*").outcome is Outcome.FAIL


def test_remedy_sets_access_times_only_on_mount_points_of_the_profile() -> None:
    """The root shares the superblock: it gets the ext4 options, but no flags of another mount."""
    there = (mount("/"), mount("/data1", mount_id=31))
    lines = (
        fstab_entry(mount_point="/"),
        fstab_entry("nodelalloc", "noatime", mount_point="/data1", line_number=8),
    )
    fs = filesystem(mounts=there, fstab=known(lines), options=known(options()))
    remedy = remedy_of(verdict_of(fs, "tidb", place="/data1"))
    steps = step_lines(remedy.lines)
    to_root = [line for line in steps if line.endswith(" /")]
    assert to_root
    assert not any("noatime" in line for line in to_root)
    assert "immediate: mount -o remount,rw,noatime /dev/sda /data1" in steps
    assert "persistent: fstab 7: defaults -> defaults,nodelalloc,dioread_lock" in steps
    assert "nodelalloc applies to the whole filesystem: it is then in force on / too" in (
        remedy.summary
    )


def test_flags_of_mounts_outside_the_profile_are_ignored() -> None:
    """/data1 meets the profile, so the root may keep its access times."""
    there = (mount("/"), mount("/data1", mount_id=31, flags=("rw", "noatime")))
    fs = filesystem(mounts=there, options=known(options("nodelalloc")))
    assert verdict_of(fs, "tidb", place="/data1").outcome is Outcome.PASS
    assert verdict_of(fs, "tidb", place="/").outcome is Outcome.FAIL


def test_demand_on_a_filesystem_in_another_namespace_is_found() -> None:
    """The options in force are known without a mount in this namespace."""
    fs = filesystem(mounts=(), options=known(options()))
    assert [f.fact for f in verdict_of(fs, "daos").findings] == ["missing nodelalloc"]


def only(verdict: Verdict) -> Finding:
    """Return the only finding."""
    (finding,) = verdict.findings
    return finding


def remedy_of(verdict: Verdict) -> Remedy:
    """Return the only remedy of the only finding."""
    (remedy,) = only(verdict).remedies
    return remedy


def commands(remedy: Remedy, phase: Phase) -> list[str]:
    """Return the commands of a phase."""
    return [step.command for step in remedy.lines if step.phase is phase]


@pytest.mark.parametrize(
    ("fs", "names", "severity"),
    [
        (mounted_with(), ("tidb",), Severity.MEDIUM),
        (mounted_with(hidden=("nodelalloc",)), ("tidb",), Severity.LOW),
        (with_superblock(), ("mysql-aws-twp",), Severity.MEDIUM),
        (filesystem(), ("mongodb",), Severity.INFO),
    ],
)
def test_severity_of_hidden_and_advised_options(
    fs: Filesystem, names: tuple[str, ...], severity: Severity
) -> None:
    """A missing demand is medium, one hidden from the vendor's check low, and advice a note."""
    assert only(verdict_of(fs, *names)).severity is severity


@pytest.mark.parametrize(
    ("fs", "name", "words"),
    [
        (
            with_superblock(reserved_blocks=1310720),
            "k8s-csi",
            "5.0 % is reserved for root; the limit is 1 %",
        ),
        (
            with_superblock(features=BIGALLOC, cluster_blocks=16),
            "mysql-aws-twp",
            "its clusters have 64 KiB instead of 16 KiB.",
        ),
        (
            with_superblock(features=BIGALLOC, cluster_blocks=512),
            "mysql-aws-twp",
            "its clusters have 2048 KiB instead of 16 KiB.",
        ),
    ],
)
def test_message_has_actual_and_demanded_value(fs: Filesystem, name: str, words: str) -> None:
    """The message states both as a share of all blocks, or as a size."""
    assert words in only(verdict_of(fs, name)).message


@pytest.mark.parametrize(
    ("fs", "said"),
    [
        (mounted_with(), "nodelalloc is required but not in force."),
        (filesystem(), "nodelalloc, noatime are required but not in force."),
        (mounted_with(hidden=("nodelalloc",)), "nodelalloc is required and in force, but hidden"),
    ],
)
def test_message_names_product_and_requirement(fs: Filesystem, said: str) -> None:
    """The verb agrees with the number of options."""
    product = all_profiles()["tidb"].product
    assert only(verdict_of(fs, "tidb")).message.startswith(f"{product}: {said}")


def test_pass_cites_the_cluster_size() -> None:
    """Their size is the number of blocks times the block size."""
    fs = with_superblock(features=BIGALLOC, cluster_blocks=4)
    assert [c.value for c in verdict_of(fs, "mysql-aws-twp").evidence] == ["bigalloc", "16 KiB"]


@pytest.mark.parametrize("flags", [(), ("rootflags=nodelalloc",)])
def test_remedy_names_rootflags_for_the_root(flags: tuple[str, ...]) -> None:
    """For the root, rootflags= is applied before fstab."""
    fs = mounted_with(
        hidden=("nodelalloc",),
        mounts=(mount("/", flags=("rw", "noatime")),),
        fstab=known((fstab_entry("noatime", mount_point="/"),)),
    )
    profiles = (ActiveProfile(all_profiles()["tidb"]),)
    on = host(fs, profiles=profiles, kernel_arguments=known(("quiet", *flags)))
    summary = remedy_of(judge(check, fs, on)).summary
    assert ("Also set it in rootflags=" in summary) is bool(flags)


def test_cites_the_vendors_statement_and_source() -> None:
    """The vendor's statement is cited with its source, so that it can be verified."""
    (cited,) = only(verdict_of(mounted_with(), "tidb")).citations
    profile = all_profiles()["tidb"]
    assert (cited.label, cited.value, cited.origin) == (
        "profile tidb",
        profile.says,
        profile.source,
    )


@pytest.mark.parametrize(
    ("tokens", "names", "facts"),
    [
        ((), ("clickhouse",), []),
        (("nobarrier",), ("clickhouse",), ["forbidden nobarrier"]),
        (("nobarrier",), ("postgres",), ["missing barrier"]),
        (("nobarrier",), ("clickhouse", "postgres"), ["missing barrier"]),
        (("noauto_da_alloc",), ("etcd",), ["forbidden noauto_da_alloc"]),
        (("noauto_da_alloc",), ("tidb",), ["missing nodelalloc"]),
    ],
)
def test_forbidden_option_is_reported_once(
    tokens: tuple[str, ...], names: tuple[str, ...], facts: list[str]
) -> None:
    """This also holds if a profile requires the opposite."""
    assert [finding.fact for finding in verdict_of(mounted_with(*tokens), *names).findings] == facts


def test_remedy_replaces_a_forbidden_option_by_its_opposite() -> None:
    """The finding refers to the rule that explains the option."""
    (finding,) = verdict_of(mounted_with("noauto_da_alloc"), "etcd").findings
    assert finding.severity is Severity.MEDIUM
    assert finding.message == (
        "etcd and bbolt: noauto_da_alloc is forbidden but in force (see DUR008)."
    )
    (remount,) = [s.command for s in finding.remedies[0].steps if "remount" in s.command]
    assert ",auto_da_alloc" in remount


def test_forbidden_option_with_unknown_state_is_undetermined() -> None:
    """A gap is not a pass."""
    verdict = verdict_of(mounted_with(options=gap("the options")), "etcd")
    assert verdict.outcome is Outcome.UNDETERMINED


def test_every_forbidden_option_has_an_opposite_option() -> None:
    """The remedy sets the opposite."""
    forbidden = {token for profile in all_profiles().values() for token, _ in profile.forbid}
    assert forbidden <= OPPOSITE.keys()


def test_pass_cites_demands_with_their_profiles() -> None:
    """The evidence of a pass lists each demand with its profiles."""
    verdict = verdict_of(mounted_with(), "postgres", "etcd", "neo4j")
    assert [(c.value, c.origin) for c in verdict.evidence] == [
        ("barrier", "profile postgres, etcd"),
        ("noatime", "profile neo4j"),
        ("noauto_da_alloc", "profile etcd"),
    ]


def test_remedy_remounts_before_linux_6_13() -> None:
    """One command makes the change, and an edit of fstab makes it permanent."""
    remedy = remedy_of(verdict_of(mounted_with(), "tidb"))
    assert remedy.disruption is Disruption.REMOUNT
    assert commands(remedy, Phase.IMMEDIATE) == [
        "mount -o remount,rw,noatime,nodelalloc /dev/sda /data"
    ]
    assert "persistent: fstab 7: noatime -> noatime,nodelalloc" in step_lines(remedy.steps)


@pytest.mark.parametrize("release", ["6.13.0", NEW])
def test_remedy_unmounts_from_linux_6_13(release: str) -> None:
    """The kernel refuses to change the option by a remount."""
    remedy = remedy_of(verdict_of(mounted_with(), "tidb", release=release))
    assert remedy.disruption is Disruption.UNMOUNT
    assert commands(remedy, Phase.IMMEDIATE) == [
        "umount /data",
        "mount -t ext4 -o rw,noatime,nodelalloc /dev/sda /data",
    ]


def with_root(**changes: Any) -> Filesystem:
    """Build the root filesystem, with noatime in force and in fstab."""
    return mounted_with(
        **{
            "mounts": (mount("/", flags=("rw", "noatime")),),
            "fstab": known((fstab_entry("noatime", mount_point="/"),)),
            **changes,
        }
    )


def test_root_remedy_requires_a_restart() -> None:
    """The root cannot be unmounted, and the boot remounts it with the options of fstab.

    That remount would fail with nodelalloc on this kernel: rootflags= must set it (DRF004).
    """
    remedy = remedy_of(verdict_of(with_root(), "tidb", release=NEW))
    assert remedy.disruption is Disruption.REBOOT
    assert "Set nodelalloc in rootflags= of the boot loader" in remedy.summary
    assert "the root cannot be unmounted" in remedy.summary
    assert remedy.steps == ()
    hidden = remedy_of(verdict_of(with_root(hidden=("nodelalloc",)), "tidb", release=NEW))
    assert "Clear nodelalloc in the superblock. Set nodelalloc in rootflags=" in hidden.summary
    old = remedy_of(verdict_of(with_root(), "tidb", release="6.12.95"))
    assert "persistent: fstab 7: noatime -> noatime,nodelalloc" in step_lines(old.steps)


def test_root_remedy_sets_the_other_options_by_commands() -> None:
    """A remount can change access times; fstab has noatime already."""
    fs = with_root(mounts=(mount("/"),))
    remedy = remedy_of(verdict_of(fs, "tidb", release=NEW))
    assert remedy.summary.startswith("Set noatime in fstab and put it in force. Set nodelalloc in")
    assert commands(remedy, Phase.IMMEDIATE) == ["mount -o remount,rw,noatime /dev/sda /"]
    assert not any("nodelalloc" in line for line in step_lines(remedy.steps))


@pytest.mark.parametrize(
    ("release", "tokens", "with_lock"),
    [
        (OLD, ("dioread_nolock",), True),
        ("5.6.12", ("dioread_nolock",), True),
        (OLD, (), False),
        (NEW, ("dioread_nolock",), False),
    ],
)
def test_commands_avoid_the_combination_of_prf001(
    release: str, tokens: tuple[str, ...], with_lock: bool
) -> None:
    """If dioread_nolock is in force on an affected kernel, nodelalloc is set with dioread_lock."""
    remedy = remedy_of(verdict_of(mounted_with(*tokens), "daos", release=release))
    assert ("because of PRF001" in remedy.summary) is with_lock
    assert any("dioread_lock" in each for each in commands(remedy, Phase.IMMEDIATE)) is with_lock


def test_flags_and_options_are_set_by_one_series_of_commands() -> None:
    """A single edit of fstab adds both."""
    fs = filesystem(options=known(options(release=OLD)), fstab=known((fstab_entry("nosuid"),)))
    remedy = remedy_of(verdict_of(fs, "tidb"))
    assert [
        line for line in step_lines(remedy.lines) if "fstab" in line and "verify" not in line
    ] == [
        "persistent: fstab 7: nosuid -> nosuid,noatime,nodelalloc",
        (
            r"rollback: sed -i '7s/ \/data ext4 nosuid,noatime,nodelalloc/ \/data ext4 nosuid/' "
            "/etc/fstab"
        ),
    ]


def test_no_commands_if_a_mount_cannot_be_remounted() -> None:
    """Running only part of the commands would not be a remedy."""
    fs = filesystem(mounts=(mount(root="/sub"),))
    assert remedy_of(verdict_of(fs, "neo4j")).steps == ()


def test_remedy_reports_that_the_change_is_not_persistent() -> None:
    """Without an fstab entry, the unit that mounts it must be corrected."""
    fs = filesystem(fstab=known(()))
    assert "It has no fstab entry" in remedy_of(verdict_of(fs, "neo4j")).summary


def test_remedy_moves_a_hidden_option_to_fstab() -> None:
    """It is cleared in the superblock, because the mount table omits superblock defaults."""
    fs = mounted_with(
        hidden=("nodelalloc",),
        superblock=known(superblock(default_mount_options=("user_xattr", "nodelalloc"))),
    )
    remedy = remedy_of(verdict_of(fs, "tidb"))
    lasting = commands(remedy, Phase.PERSISTENT)
    assert lasting[-3:-1] == ["umount /data", "tune2fs -o ^nodelalloc /dev/sda"]
    assert "tune2fs -o nodelalloc /dev/sda" in commands(remedy, Phase.ROLLBACK)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fstab": known(())}, "It has no fstab entry"),
        ({"mounts": (mount("/", flags=("rw", "noatime")),)}, "the root cannot be unmounted"),
        (
            {"mounts": (*NOATIME_MOUNT, *(mount("/b", flags=("rw", "noatime"), mount_id=31),))},
            "from all",
        ),
    ],
)
def test_moving_a_hidden_option_is_advice_without_a_single_fstab_mount(
    changes: dict[str, Any], words: str
) -> None:
    """The advice states what has to be done by hand."""
    remedy = remedy_of(verdict_of(mounted_with(hidden=("nodelalloc",), **changes), "tidb"))
    assert not remedy.steps
    assert words in remedy.summary


def test_demands_on_mkfs_parameters_have_no_commands() -> None:
    """Running mkfs destroys the data: the advice explains it, and nothing can be pasted."""
    remedy = remedy_of(verdict_of(with_superblock(), "mysql-aws-twp"))
    assert (remedy.disruption, remedy.destructive) == (Disruption.RECREATE, True)
    assert "mkfs.ext4 -O bigalloc -C 16384 DESTROYS" in remedy.summary
    assert not remedy.steps


# The demanded options come into force, now and permanently, and are removed again.
#
# The kernel that runs the tests may be 6.13 or later, where nodelalloc needs a new mount.
def profiles_everywhere(*names: str) -> AlterHost:
    """Return a function that selects profiles for every filesystem."""
    profiles = tuple(ActiveProfile(all_profiles()[name]) for name in names)

    def chosen(host: Host) -> Host:
        return host._replace(profiles=profiles)

    return chosen


def site_profile_everywhere(**demands: Any) -> AlterHost:
    """Return a function that selects a site profile for every filesystem."""
    profile = Profile("data", "profile data", "so", "/etc/ext4audit.toml", **demands)

    def chosen(host: Host) -> Host:
        return host._replace(profiles=(ActiveProfile(profile),))

    return chosen


REMEDY_SUMMARY = "in fstab and put "
REMEDY_CASES = (
    RemedyCase(
        "a forbidden option",
        REMEDY_SUMMARY,
        mount="noauto_da_alloc",
        fstab="noauto_da_alloc",
        alter=profiles_everywhere("etcd"),
    ),
    RemedyCase(
        "noatime by fstab", REMEDY_SUMMARY, fstab="defaults", alter=profiles_everywhere("neo4j")
    ),
    RemedyCase(
        "noatime by hand", REMEDY_SUMMARY, mount="nosuid", alter=profiles_everywhere("neo4j")
    ),
    RemedyCase(
        "noatime for strictatime",
        REMEDY_SUMMARY,
        mount="strictatime,nodev",
        fstab="strictatime,nodev",
        alter=profiles_everywhere("clickhouse"),
    ),
    RemedyCase(
        "nodelalloc by a new mount",
        REMEDY_SUMMARY,
        fstab="defaults",
        alter=profiles_everywhere("daos"),
    ),
    RemedyCase(
        "both, where fstab says nothing",
        REMEDY_SUMMARY,
        fstab="nosuid",
        alter=profiles_everywhere("tidb"),
    ),
    RemedyCase(
        "both, where fstab says the opposite",
        REMEDY_SUMMARY,
        fstab="relatime,delalloc",
        alter=profiles_everywhere("tidb"),
    ),
    RemedyCase(
        "both, by hand",
        REMEDY_SUMMARY,
        mount="nodev,commit=7",
        alter=profiles_everywhere("gbase8a"),
    ),
    RemedyCase(
        "the flag alone",
        REMEDY_SUMMARY,
        mount="nodelalloc",
        fstab="nodelalloc",
        alter=profiles_everywhere("tidb"),
    ),
    RemedyCase(
        "the option alone",
        REMEDY_SUMMARY,
        mount="noatime",
        fstab="noatime",
        alter=profiles_everywhere("tidb"),
    ),
    RemedyCase(
        "barriers",
        REMEDY_SUMMARY,
        mount="nobarrier",
        fstab="nobarrier,noatime",
        alter=profiles_everywhere("postgres"),
    ),
    RemedyCase(
        "barriers off in the superblock",
        REMEDY_SUMMARY,
        tune=("-o", "nobarrier"),
        fstab="defaults",
        alter=profiles_everywhere("etcd"),
    ),
    RemedyCase(
        "errors", REMEDY_SUMMARY, fstab="errors=continue", alter=profiles_everywhere("lustre")
    ),
    RemedyCase(
        "several products",
        REMEDY_SUMMARY,
        mount="nobarrier",
        fstab="defaults",
        alter=profiles_everywhere("postgres", "clickhouse"),
    ),
    RemedyCase(
        "hidden in the bits",
        "in fstab, clear it",
        tune=("-o", "nodelalloc"),
        mount="noatime",
        fstab="noatime",
        alter=profiles_everywhere("tidb"),
    ),
    RemedyCase(
        "hidden in the string",
        "in fstab, clear it",
        tune=("-E", "mount_opts=nodelalloc"),
        mount="noatime",
        fstab="nodelalloc,noatime",
        alter=profiles_everywhere("tidb"),
    ),
    RemedyCase(
        "the reserve", "Reserve nothing", mke2fs=("-m", "5"), alter=profiles_everywhere("k8s-csi")
    ),
    RemedyCase(
        "the reserve, to the limit of a site",
        "Reserve 2.5 %",
        mke2fs=("-m", "5"),
        alter=site_profile_everywhere(reserved_percent=2.5),
    ),
    RemedyCase(
        "a data mode that a site forbids",
        REMEDY_SUMMARY,
        mount="data=writeback",
        fstab="data=writeback,nodev",
        alter=site_profile_everywhere(forbid=(("data=writeback", ""),)),
    ),
    RemedyCase(
        "a data mode that a site requires",
        REMEDY_SUMMARY,
        fstab="defaults",
        alter=site_profile_everywhere(options=("data=journal",)),
    ),
    RemedyCase(
        "discard, which a site forbids",
        REMEDY_SUMMARY,
        mount="discard",
        fstab="discard",
        alter=site_profile_everywhere(forbid=(("discard", ""),)),
    ),
    RemedyCase(
        "a value that a site forbids",
        REMEDY_SUMMARY,
        mount="commit=600",
        fstab="commit=600",
        alter=site_profile_everywhere(forbid=(("commit=600", ""),)),
    ),
    RemedyCase(
        "an option without an opposite",
        "Remove journal_async_commit",
        mount="journal_async_commit,data=writeback",
        fstab="journal_async_commit,data=writeback",
        alter=site_profile_everywhere(forbid=(("journal_async_commit", ""),)),
    ),
    RemedyCase(
        "an access time that a site forbids",
        REMEDY_SUMMARY,
        mount="noatime",
        fstab="noatime",
        alter=site_profile_everywhere(forbid=(("noatime", ""),)),
    ),
)
REMEDIES_NOT_RUN = (
    "A feature and a cluster size are decided by mkfs: it takes a backup and a restore. A product "
    "that recommends another filesystem has none. On kernels before 6.13 nodelalloc goes by "
    "remount; what the commands are is tested with the rule."
)
