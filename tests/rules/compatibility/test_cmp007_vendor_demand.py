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
GENTLE = (mount(flags=("rw", "noatime")),)


def verdict_of(
    fs: Filesystem, *names: str, release: str = OLD, place: str | None = None
) -> Verdict:
    """Judge a filesystem with some profiles selected."""
    profiles = tuple(ActiveProfile(all_profiles()[name], place) for name in names)
    return judge(check, fs, host(fs, kernel=known(kernel(release)), profiles=profiles))


def mounted(*tokens: str, hidden: tuple[str, ...] = (), **changes: Any) -> Filesystem:
    """Build a filesystem with these options, mounted with noatime."""
    values: dict[str, Any] = {
        "options": known(options(*tokens, hidden=hidden, release=OLD)),
        "mounts": GENTLE,
        "fstab": known((fstab_entry("noatime", *tokens),)),
    }
    return filesystem(**{**values, **changes})


def made(**changes: Any) -> Filesystem:
    """Build a filesystem with changes to its superblock."""
    return filesystem(superblock=known(superblock(**changes)))


@pytest.mark.parametrize(
    ("fs", "names", "outcome", "facts"),
    [
        pytest.param(mounted(), (), "not_applicable", [], id="no profile"),
        pytest.param(mounted(), ("kafka",), "not_applicable", [], id="nothing is demanded"),
        pytest.param(mounted("nodelalloc"), ("tidb",), "pass", [], id="all there"),
        pytest.param(mounted(), ("tidb",), "fail", ["missing nodelalloc"], id="no option"),
        pytest.param(
            filesystem(), ("tidb",), "fail", ["missing noatime,nodelalloc"], id="neither of two"
        ),
        pytest.param(
            mounted(hidden=("nodelalloc",)), ("tidb",), "fail", ["hidden nodelalloc"], id="hidden"
        ),
        pytest.param(
            mounted(hidden=("nodelalloc",)), ("daos",), "pass", [], id="hidden from nobody"
        ),
        pytest.param(filesystem(), ("neo4j",), "fail", ["missing noatime"], id="relatime"),
        pytest.param(
            filesystem(mounts=(*GENTLE, mount("/srv", mount_id=31))),
            ("neo4j",),
            "fail",
            ["missing noatime"],
            id="one mount of two",
        ),
        pytest.param(filesystem(mounts=()), ("neo4j",), "undetermined", [], id="mounted elsewhere"),
        pytest.param(mounted(), ("postgres", "etcd"), "pass", [], id="barriers are on"),
        pytest.param(
            mounted("nobarrier"), ("postgres", "etcd"), "fail", ["missing barrier"], id="said once"
        ),
        pytest.param(
            filesystem(options=gap("options")), ("daos",), "undetermined", [], id="options unread"
        ),
        pytest.param(mounted("errors=remount-ro"), ("lustre",), "pass", [], id="remount-ro"),
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
            mounted("errors=continue"),
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
            made(), ("mysql-aws-twp",), "fail", ["mysql-aws-twp bigalloc"], id="no feature"
        ),
        pytest.param(
            made(features=BIGALLOC, cluster_blocks=4), ("mysql-aws-twp",), "pass", [], id="16 KiB"
        ),
        pytest.param(
            made(features=BIGALLOC, cluster_blocks=16),
            ("mysql-aws-twp",),
            "fail",
            ["mysql-aws-twp clusters"],
            id="64 KiB",
        ),
        pytest.param(
            made(features=BIGALLOC, cluster_blocks=None),
            ("mysql-aws-twp",),
            "undetermined",
            [],
            id="clusters unseen",
        ),
        pytest.param(
            made(reserved_blocks=1310720), ("k8s-csi",), "fail", ["k8s-csi reserve"], id="5 %"
        ),
        pytest.param(made(reserved_blocks=262144), ("k8s-csi",), "pass", [], id="1 %"),
        pytest.param(
            made(reserved_blocks=262145),
            ("k8s-csi",),
            "fail",
            ["k8s-csi reserve"],
            id="a block more",
        ),
        pytest.param(made(reserved_blocks=None), ("k8s-csi",), "undetermined", [], id="unseen"),
        pytest.param(made(reserved_blocks=9, size_blocks=0), ("k8s-csi",), "pass", [], id="odd"),
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


def test_a_gap_stands_beside_what_was_found() -> None:
    """An audit with two profiles is incomplete if one of them could not be judged."""
    fs = filesystem(options=gap("options"), superblock=known(superblock(reserved_blocks=1310720)))
    assert [each.what for each in verdict_of(fs, "daos", "k8s-csi").unknowns] == ["options"]


def test_a_profile_is_for_its_mount_points() -> None:
    """A product on another mount point demands nothing here."""
    assert verdict_of(filesystem(), "tidb", place="/var/*").outcome is Outcome.NOT_APPLICABLE
    assert verdict_of(filesystem(), "tidb", place="/da*").outcome is Outcome.FAIL


def test_access_times_are_set_on_the_mount_points_of_the_profile_only() -> None:
    """The root shares the superblock: it gets the ext4 options, but no flags of another mount."""
    there = (mount("/"), mount("/data1", mount_id=31))
    lines = (
        fstab_entry(mount_point="/"),
        fstab_entry("nodelalloc", "noatime", mount_point="/data1", line_number=8),
    )
    fs = filesystem(mounts=there, fstab=known(lines), options=known(options()))
    remedy = remedy_of(verdict_of(fs, "tidb", place="/data1"))
    told = step_lines(remedy.lines)
    to_root = [line for line in told if line.endswith(" /")]
    assert to_root
    assert not any("noatime" in line for line in to_root)
    assert "immediate: mount -o remount,rw,noatime /dev/sda /data1" in told
    assert "persistent: fstab 7: defaults -> defaults,nodelalloc,dioread_lock" in told
    assert "nodelalloc applies to the whole filesystem: it is then in force on / too" in (
        remedy.summary
    )


def test_flags_of_other_mounts_are_not_judged() -> None:
    """/data1 meets the profile, so the root may keep its access times."""
    there = (mount("/"), mount("/data1", mount_id=31, flags=("rw", "noatime")))
    fs = filesystem(mounts=there, options=known(options("nodelalloc")))
    assert verdict_of(fs, "tidb", place="/data1").outcome is Outcome.PASS
    assert verdict_of(fs, "tidb", place="/").outcome is Outcome.FAIL


def test_a_demand_on_what_only_others_have_mounted_is_found() -> None:
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
        (mounted(), ("tidb",), Severity.MEDIUM),
        (mounted(hidden=("nodelalloc",)), ("tidb",), Severity.LOW),
        (made(), ("mysql-aws-twp",), Severity.MEDIUM),
        (filesystem(), ("mongodb",), Severity.INFO),
    ],
)
def test_what_is_only_hidden_or_advised_weighs_less(
    fs: Filesystem, names: tuple[str, ...], severity: Severity
) -> None:
    """A missing demand is medium, one hidden from the vendor's check low, and advice a note."""
    assert only(verdict_of(fs, *names)).severity is severity


@pytest.mark.parametrize(
    ("fs", "name", "words"),
    [
        (
            made(reserved_blocks=1310720),
            "k8s-csi",
            "5.0 % is reserved for root; the limit is 1 %",
        ),
        (
            made(features=BIGALLOC, cluster_blocks=16),
            "mysql-aws-twp",
            "its clusters have 64 KiB instead of 16 KiB.",
        ),
        (
            made(features=BIGALLOC, cluster_blocks=512),
            "mysql-aws-twp",
            "its clusters have 2048 KiB instead of 16 KiB.",
        ),
    ],
)
def test_the_message_has_the_number_that_is_and_the_one_that_should_be(
    fs: Filesystem, name: str, words: str
) -> None:
    """The message states both as a share of all blocks, or as a size."""
    assert words in only(verdict_of(fs, name)).message


@pytest.mark.parametrize(
    ("fs", "said"),
    [
        (mounted(), "nodelalloc is required but not in force."),
        (filesystem(), "nodelalloc, noatime are required but not in force."),
        (mounted(hidden=("nodelalloc",)), "nodelalloc is required and in force, but hidden"),
    ],
)
def test_the_message_names_the_product_and_what_it_requires(fs: Filesystem, said: str) -> None:
    """The verb agrees with the number of options."""
    product = all_profiles()["tidb"].product
    assert only(verdict_of(fs, "tidb")).message.startswith(f"{product}: {said}")


def test_clusters_as_they_should_be_are_cited() -> None:
    """Their size is the number of blocks times the block size."""
    fs = made(features=BIGALLOC, cluster_blocks=4)
    assert [c.value for c in verdict_of(fs, "mysql-aws-twp").evidence] == ["bigalloc", "16 KiB"]


@pytest.mark.parametrize("flags", [(), ("rootflags=nodelalloc",)])
def test_what_a_boot_sets_is_named_where_there_is_any(flags: tuple[str, ...]) -> None:
    """For the root, rootflags= is applied before fstab."""
    fs = mounted(
        hidden=("nodelalloc",),
        mounts=(mount("/", flags=("rw", "noatime")),),
        fstab=known((fstab_entry("noatime", mount_point="/"),)),
    )
    profiles = (ActiveProfile(all_profiles()["tidb"]),)
    on = host(fs, profiles=profiles, kernel_arguments=known(("quiet", *flags)))
    summary = remedy_of(judge(check, fs, on)).summary
    assert ("Also set it in rootflags=" in summary) is bool(flags)


def test_the_vendors_words_and_page_are_the_evidence() -> None:
    """The vendor's statement is cited with its source, so that it can be verified."""
    (cited,) = only(verdict_of(mounted(), "tidb")).citations
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
def test_an_option_that_a_profile_forbids_is_reported_once(
    tokens: tuple[str, ...], names: tuple[str, ...], facts: list[str]
) -> None:
    """This also holds if a profile requires the opposite."""
    assert [finding.fact for finding in verdict_of(mounted(*tokens), *names).findings] == facts


def test_a_forbidden_option_is_replaced_by_its_opposite() -> None:
    """The finding refers to the rule that explains the option."""
    (finding,) = verdict_of(mounted("noauto_da_alloc"), "etcd").findings
    assert finding.severity is Severity.MEDIUM
    assert finding.message == (
        "etcd and bbolt: noauto_da_alloc is forbidden but in force (see DUR008)."
    )
    (remount,) = [s.command for s in finding.remedies[0].steps if "remount" in s.command]
    assert ",auto_da_alloc" in remount


def test_whether_a_forbidden_option_is_in_force_may_be_unknown() -> None:
    """A gap is not a pass."""
    verdict = verdict_of(mounted(options=gap("the options")), "etcd")
    assert verdict.outcome is Outcome.UNDETERMINED


def test_every_forbidden_option_has_an_opposite() -> None:
    """The remedy sets the opposite."""
    forbidden = {token for profile in all_profiles().values() for token, _ in profile.forbid}
    assert forbidden <= OPPOSITE.keys()


def test_a_pass_names_who_demands_what_is_there() -> None:
    """The evidence of a pass lists each demand with its profiles."""
    verdict = verdict_of(mounted(), "postgres", "etcd", "neo4j")
    assert [(c.value, c.origin) for c in verdict.evidence] == [
        ("barrier", "profile postgres, etcd"),
        ("noatime", "profile neo4j"),
        ("noauto_da_alloc", "profile etcd"),
    ]


def test_before_6_13_the_option_goes_by_remount() -> None:
    """One command makes the change, and an edit of fstab makes it permanent."""
    remedy = remedy_of(verdict_of(mounted(), "tidb"))
    assert remedy.disruption is Disruption.REMOUNT
    assert commands(remedy, Phase.IMMEDIATE) == [
        "mount -o remount,rw,noatime,nodelalloc /dev/sda /data"
    ]
    assert "persistent: fstab 7: noatime -> noatime,nodelalloc" in step_lines(remedy.steps)


@pytest.mark.parametrize("release", ["6.13.0", NEW])
def test_from_6_13_on_it_needs_an_unmount(release: str) -> None:
    """The kernel refuses to change the option by a remount."""
    remedy = remedy_of(verdict_of(mounted(), "tidb", release=release))
    assert remedy.disruption is Disruption.UNMOUNT
    assert commands(remedy, Phase.IMMEDIATE) == [
        "umount /data",
        "mount -t ext4 -o rw,noatime,nodelalloc /dev/sda /data",
    ]


def test_the_root_needs_a_restart() -> None:
    """The root cannot be unmounted: fstab is corrected, and the restart is mentioned."""
    fs = mounted(
        mounts=(mount("/", flags=("rw", "noatime")),),
        fstab=known((fstab_entry("noatime", mount_point="/"),)),
    )
    remedy = remedy_of(verdict_of(fs, "tidb", release=NEW))
    assert remedy.disruption is Disruption.REBOOT
    assert "the root cannot be unmounted" in remedy.summary
    assert not commands(remedy, Phase.IMMEDIATE)


@pytest.mark.parametrize(
    ("release", "tokens", "with_lock"),
    [
        (OLD, ("dioread_nolock",), True),
        ("5.6.12", ("dioread_nolock",), True),
        (OLD, (), False),
        (NEW, ("dioread_nolock",), False),
    ],
)
def test_the_commands_do_not_run_into_prf001(
    release: str, tokens: tuple[str, ...], with_lock: bool
) -> None:
    """If dioread_nolock is in force on an affected kernel, nodelalloc is set with dioread_lock."""
    remedy = remedy_of(verdict_of(mounted(*tokens), "daos", release=release))
    assert ("because of PRF001" in remedy.summary) is with_lock
    assert any("dioread_lock" in each for each in commands(remedy, Phase.IMMEDIATE)) is with_lock


def test_flags_and_options_are_one_series_of_commands() -> None:
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


def test_a_mount_that_no_remount_reaches_has_no_commands() -> None:
    """Running only part of the commands would not be a remedy."""
    fs = filesystem(mounts=(mount(root="/sub"),))
    assert remedy_of(verdict_of(fs, "neo4j")).steps == ()


def test_what_nothing_makes_last_is_reported() -> None:
    """Without an fstab entry, the unit that mounts it must be corrected."""
    fs = filesystem(fstab=known(()))
    assert "It has no fstab entry" in remedy_of(verdict_of(fs, "neo4j")).summary


def test_a_hidden_option_moves_to_fstab() -> None:
    """It is cleared in the superblock, because the mount table omits superblock defaults."""
    fs = mounted(
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
        ({"mounts": (*GENTLE, *(mount("/b", flags=("rw", "noatime"), mount_id=31),))}, "from all"),
    ],
)
def test_without_one_mount_that_fstab_makes_the_move_is_advice(
    changes: dict[str, Any], words: str
) -> None:
    """The advice states what has to be done by hand."""
    remedy = remedy_of(verdict_of(mounted(hidden=("nodelalloc",), **changes), "tidb"))
    assert not remedy.steps
    assert words in remedy.summary


def test_what_mkfs_decides_is_no_command() -> None:
    """Running mkfs destroys the data: the advice explains it, and nothing can be pasted."""
    remedy = remedy_of(verdict_of(made(), "mysql-aws-twp"))
    assert (remedy.disruption, remedy.destructive) == (Disruption.RECREATE, True)
    assert "mkfs.ext4 -O bigalloc -C 16384 DESTROYS" in remedy.summary
    assert not remedy.steps


# The demanded options come into force, now and permanently, and are removed again.
#
# The kernel that runs the tests may be 6.13 or later, where nodelalloc needs a new mount.
def below(*names: str) -> AlterHost:
    """Return a function that selects profiles for every filesystem."""
    profiles = tuple(ActiveProfile(all_profiles()[name]) for name in names)

    def chosen(host: Host) -> Host:
        return host._replace(profiles=profiles)

    return chosen


def of_site(**demands: Any) -> AlterHost:
    """Return a function that selects a site profile for every filesystem."""
    profile = Profile("data", "profile data", "so", "/etc/ext4audit.toml", **demands)

    def chosen(host: Host) -> Host:
        return host._replace(profiles=(ActiveProfile(profile),))

    return chosen


PUT = "in fstab and put "
REMEDY_CASES = (
    RemedyCase(
        "a forbidden option",
        PUT,
        mount="noauto_da_alloc",
        fstab="noauto_da_alloc",
        alter=below("etcd"),
    ),
    RemedyCase("noatime by fstab", PUT, fstab="defaults", alter=below("neo4j")),
    RemedyCase("noatime by hand", PUT, mount="nosuid", alter=below("neo4j")),
    RemedyCase(
        "noatime for strictatime",
        PUT,
        mount="strictatime,nodev",
        fstab="strictatime,nodev",
        alter=below("clickhouse"),
    ),
    RemedyCase("nodelalloc by a new mount", PUT, fstab="defaults", alter=below("daos")),
    RemedyCase("both, where fstab says nothing", PUT, fstab="nosuid", alter=below("tidb")),
    RemedyCase(
        "both, where fstab says the opposite", PUT, fstab="relatime,delalloc", alter=below("tidb")
    ),
    RemedyCase("both, by hand", PUT, mount="nodev,commit=7", alter=below("gbase8a")),
    RemedyCase("the flag alone", PUT, mount="nodelalloc", fstab="nodelalloc", alter=below("tidb")),
    RemedyCase("the option alone", PUT, mount="noatime", fstab="noatime", alter=below("tidb")),
    RemedyCase(
        "barriers", PUT, mount="nobarrier", fstab="nobarrier,noatime", alter=below("postgres")
    ),
    RemedyCase(
        "barriers off in the superblock",
        PUT,
        tune=("-o", "nobarrier"),
        fstab="defaults",
        alter=below("etcd"),
    ),
    RemedyCase("errors", PUT, fstab="errors=continue", alter=below("lustre")),
    RemedyCase(
        "several products",
        PUT,
        mount="nobarrier",
        fstab="defaults",
        alter=below("postgres", "clickhouse"),
    ),
    RemedyCase(
        "hidden in the bits",
        "in fstab, clear it",
        tune=("-o", "nodelalloc"),
        mount="noatime",
        fstab="noatime",
        alter=below("tidb"),
    ),
    RemedyCase(
        "hidden in the string",
        "in fstab, clear it",
        tune=("-E", "mount_opts=nodelalloc"),
        mount="noatime",
        fstab="nodelalloc,noatime",
        alter=below("tidb"),
    ),
    RemedyCase("the reserve", "Reserve nothing", mke2fs=("-m", "5"), alter=below("k8s-csi")),
    RemedyCase(
        "the reserve, to the limit of a site",
        "Reserve 2.5 %",
        mke2fs=("-m", "5"),
        alter=of_site(reserved_percent=2.5),
    ),
    RemedyCase(
        "a data mode that a site forbids",
        PUT,
        mount="data=writeback",
        fstab="data=writeback,nodev",
        alter=of_site(forbid=(("data=writeback", ""),)),
    ),
    RemedyCase(
        "a data mode that a site requires",
        PUT,
        fstab="defaults",
        alter=of_site(options=("data=journal",)),
    ),
    RemedyCase(
        "discard, which a site forbids",
        PUT,
        mount="discard",
        fstab="discard",
        alter=of_site(forbid=(("discard", ""),)),
    ),
    RemedyCase(
        "a value that a site forbids",
        PUT,
        mount="commit=600",
        fstab="commit=600",
        alter=of_site(forbid=(("commit=600", ""),)),
    ),
    RemedyCase(
        "an option without an opposite",
        "Remove journal_async_commit",
        mount="journal_async_commit,data=writeback",
        fstab="journal_async_commit,data=writeback",
        alter=of_site(forbid=(("journal_async_commit", ""),)),
    ),
    RemedyCase(
        "an access time that a site forbids",
        PUT,
        mount="noatime",
        fstab="noatime",
        alter=of_site(forbid=(("noatime", ""),)),
    ),
)
REMEDIES_NOT_RUN = (
    "A feature and a cluster size are decided by mkfs: it takes a backup and a restore. A product "
    "that recommends another filesystem has none. On kernels before 6.13 nodelalloc goes by "
    "remount; what the commands are is tested with the rule."
)
