"""LAY001: bitmaps concentrated on a few members of a stripe."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import ActiveProfile, Filesystem, all_profiles
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Remedy, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.layout.lay001_striped_metadata_hotspot import check
from support.builders import disk, filesystem, host, known, queue, raid, superblock, unknown
from support.builders import layout as metadata_layout
from support.images.mke2fs import (
    TWELVE_DISKS_BLOCKS,
    measure_image,
    needs_e2fsprogs,
    read_superblock,
    run,
    sparse_image,
)

UNEVEN_LOADS = [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0]
EVEN_LOADS = [1600] * 12


def layout(loads: list[int], **changes: Any) -> MetadataLayout:
    """Build a layout on sdb, sdc, …, because virtual disks do not show whether they rotate."""
    return with_disk_prefix("sd", metadata_layout(loads, **changes))


def with_disk_prefix(prefix: str, built: MetadataLayout) -> MetadataLayout:
    """Return a layout on disks whose names have this prefix."""
    members = tuple(each._replace(name=f"{prefix}{each.name[2:]}") for each in built.members)
    names = tuple(each.name for each in members)
    assert built.geometry is not None
    return built._replace(members=members, geometry=built.geometry._replace(members=names))


def array(rotational: list[Evidence[bool] | bool], prefix: str = "sd") -> BlockDevice:
    """Build a RAID0 of sdb, sdc, … with these kinds of member."""
    return raid(
        [
            disk(
                f"{prefix}{chr(ord('b') + slot)}",
                DeviceNumber(8, 16 * (slot + 1)),
                queue(rotational=each),
            )
            for slot, each in enumerate(rotational)
        ]
    )


def striped_filesystem(
    measured: Evidence[MetadataLayout] | MetadataLayout,
    rotational: list[Evidence[bool] | bool] | None = None,
    **changes: Any,
) -> Filesystem:
    """Build a filesystem on a RAID0."""
    width = len(measured.members) if isinstance(measured, MetadataLayout) else 12
    values: dict[str, Any] = {
        "device": "/dev/md127",
        "layout": known(measured) if isinstance(measured, MetadataLayout) else measured,
        "stack": known(array(rotational or [True] * width)),
    }
    return filesystem(**{**values, **changes})


def verdict_of(fs: Filesystem) -> Verdict:
    """Judge a filesystem."""
    return judge(check, fs, host(fs))


def finding_of(fs: Filesystem) -> Finding:
    """Return the only finding about a filesystem."""
    (finding,) = verdict_of(fs).findings
    return finding


def mkfs_of(fs: Filesystem) -> Remedy:
    """Return the destructive remedy."""
    (remedy,) = [each for each in finding_of(fs).remedies if each.destructive]
    return remedy


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        pytest.param(filesystem(), Outcome.NOT_APPLICABLE, id="one disk"),
        pytest.param(
            filesystem(superblock=unknown("superblock")),
            Outcome.NOT_APPLICABLE,
            id="one disk, blind",
        ),
        pytest.param(striped_filesystem(unknown("layout")), Outcome.UNDETERMINED, id="not root"),
        pytest.param(
            striped_filesystem(layout(EVEN_LOADS), superblock=unknown("superblock")),
            Outcome.UNDETERMINED,
            id="no superblock",
        ),
        pytest.param(striped_filesystem(layout(EVEN_LOADS)), Outcome.PASS, id="even"),
        pytest.param(striped_filesystem(layout(UNEVEN_LOADS)), Outcome.FAIL, id="three of twelve"),
        pytest.param(striped_filesystem(layout([100, 100, 100, 30])), Outcome.FAIL, id="a note"),
        pytest.param(
            striped_filesystem(layout([126, 0], groups=63, flex_bg_groups=1)),
            Outcome.NOT_APPLICABLE,
            id="too few groups",
        ),
        pytest.param(
            striped_filesystem(layout([128, 0], groups=64, flex_bg_groups=1)),
            Outcome.FAIL,
            id="enough groups",
            marks=pytest.mark.judged_once("its mkfs line is looked for during 0.7 s"),
        ),
        pytest.param(
            striped_filesystem(layout(UNEVEN_LOADS, groups=47 * 16)),
            Outcome.NOT_APPLICABLE,
            id="too few flex groups",
        ),
        pytest.param(
            striped_filesystem(layout(UNEVEN_LOADS, groups=48 * 16)),
            Outcome.FAIL,
            id="enough flex groups",
        ),
    ],
)
def test_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """The rule applies to stripes with enough groups, and needs their actual layout."""
    assert verdict_of(fs).outcome is outcome


@pytest.mark.parametrize(
    ("loads", "rotational", "severity", "confidence"),
    [
        pytest.param(
            UNEVEN_LOADS, [True] * 12, Severity.HIGH, Confidence.CONFIRMED, id="disks, skew 4.0"
        ),
        pytest.param(
            UNEVEN_LOADS,
            [*[False] * 11, True],
            Severity.HIGH,
            Confidence.CONFIRMED,
            id="one disk rotates",
        ),
        pytest.param(
            [399, 1, 0, 0], [True] * 4, Severity.HIGH, Confidence.CONFIRMED, id="skew 3.99"
        ),
        pytest.param(
            [394, 2, 2, 2], [True] * 4, Severity.MEDIUM, Confidence.CONFIRMED, id="skew 3.94"
        ),
        pytest.param([99, 1], [True] * 2, Severity.MEDIUM, Confidence.CONFIRMED, id="skew 1.98"),
        pytest.param(
            UNEVEN_LOADS, [False] * 12, Severity.LOW, Confidence.CONFIRMED, id="no disk rotates"
        ),
        pytest.param(
            UNEVEN_LOADS,
            [*[False] * 11, unknown("rotational")],
            Severity.MEDIUM,
            Confidence.LIKELY,
            id="one is not known",
        ),
        pytest.param(
            UNEVEN_LOADS,
            [*[unknown("rotational")] * 11, True],
            Severity.HIGH,
            Confidence.CONFIRMED,
            id="one that rotates decides",
        ),
        pytest.param(
            [100, 100, 100, 30], [True] * 4, Severity.INFO, Confidence.CONFIRMED, id="0.75 to 0.95"
        ),
    ],
)
def test_severity_by_skew_and_kind_of_disk(
    loads: list[int],
    rotational: list[Evidence[bool] | bool],
    severity: Severity,
    confidence: Confidence,
) -> None:
    """A hotspot on rotating disks is worse; 3.99 is printed as 4 and counts as 4."""
    finding = finding_of(striped_filesystem(layout(loads, groups=9594), rotational))
    assert (finding.severity, finding.confidence) == (severity, confidence)
    how = "spread unevenly over the" if severity is Severity.INFO else "concentrated on a few"
    assert finding.summary == f"bitmaps are {how} members of the stripe"


def test_message_has_effective_disks_and_skew() -> None:
    """The message is one sentence with the effective number of disks and the skew."""
    assert finding_of(striped_filesystem(layout(UNEVEN_LOADS))).message == (
        "Effectively 3 of 12 disks serve the bitmaps: "
        "the busiest disk gets 4 times the average number of bitmap writes."
    )


def test_cites_the_layout() -> None:
    """The finding cites the stripe, the groups, the load of each member, and the kinds of disk."""
    citations = {
        c.label: c.value for c in finding_of(striped_filesystem(layout(UNEVEN_LOADS))).citations
    }
    assert citations == {
        "stripe": "raid0 md127, 12 members, chunk 512 KiB, filesystem starts at byte 0",
        "block groups": "9594 groups of 32768 blocks of 4096 bytes, flex_bg size 16",
        "bitmaps per member": "sdb: 6368, sdc to sde: 0, sdf: 6400, sdg to sdi: 0, sdj: 6388, "
        "sdk: 32, sdl to sdm: 0",
        "spread of bitmaps": "skew 4.00, effective members 3.01 of 12, evenness 0.25",
        "spread of the descriptor table": "skew 1.00, effective members 12.00 of 12, evenness 1.00",
        "busiest member under small-file churn, modelled": "33% of the writes (even: 8%)",
        "rotational members": "yes: 12",
    }


def test_pass_cites_the_loads() -> None:
    """An even layout passes, and the evidence is its histogram."""
    verdict = verdict_of(striped_filesystem(layout(EVEN_LOADS)))
    assert verdict.evidence[2].value == "sdb to sdm: 1600"


def test_members_out_of_order_are_listed_individually() -> None:
    """Members whose order in the array differs from that of their names are listed individually."""
    even = layout([1600] * 4)
    slots = [even.members[index] for index in (1, 0, 2, 3)]
    verdict = verdict_of(striped_filesystem(even._replace(members=tuple(slots))))
    assert verdict.evidence[2].value == "sdc: 1600, sdb: 1600, sdd to sde: 1600"


@pytest.mark.parametrize(
    ("changes", "gaps"),
    [
        pytest.param({"rotational": [unknown("rotational")] * 12}, 1, id="no queue is read"),
        pytest.param({"stack": unknown("stack")}, 1, id="no stack is read"),
        pytest.param(
            {"stack": known(disk(below=unknown("slaves")))},
            1,
            id="the members are not in the stack",
        ),
    ],
)
def test_finding_with_unknown_disks_reports_the_gap(changes: dict[str, Any], gaps: int) -> None:
    """The layout alone is a finding; the gap shows that its severity is a guess."""
    verdict = verdict_of(striped_filesystem(layout(UNEVEN_LOADS), **changes))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.findings[0].severity is Severity.MEDIUM
    assert len(verdict.unknowns) == gaps


@pytest.mark.parametrize(
    ("rotational", "cited", "gaps"),
    [
        pytest.param([True] * 3, "yes: 4", [], id="all rotate"),
        pytest.param([False] * 3, "no: 4", [], id="none rotates"),
        pytest.param([True, True, False], "yes: 2, no: 1", [], id="some rotate"),
        pytest.param(
            [unknown("rotational")] * 3, "unknown: 3", ["rotational"], id="no queue is read"
        ),
    ],
)
def test_medium_of_columns_without_names(
    rotational: list[Evidence[bool] | bool], cited: str, gaps: list[str]
) -> None:
    """A degraded or reshaping array shows the number of its columns, but not their disks."""
    hot = layout([100, 0, 100, 0], groups=9594)
    names = tuple(f"column {slot}" for slot in range(4))
    assert hot.geometry is not None
    hot = hot._replace(
        geometry=hot.geometry._replace(members=names),
        members=tuple(e._replace(name=n) for e, n in zip(hot.members, names, strict=True)),
    )
    verdict = verdict_of(striped_filesystem(hot, rotational))
    citations = {c.label: c.value for c in verdict.findings[0].citations}
    assert citations["rotational members"] == cited
    assert [gap.what for gap in verdict.unknowns] == gaps


@pytest.mark.parametrize(
    ("fs", "command"),
    [
        pytest.param(
            striped_filesystem(layout(UNEVEN_LOADS)),
            "mkfs.ext4 -b 4096 -g 32744 -G 16 -i 16384 -E stride=128,stripe_width=1536 /dev/md127",
            id="512 KiB",
        ),
        pytest.param(
            striped_filesystem(layout(UNEVEN_LOADS, chunk_bytes=256 << 10)),
            "mkfs.ext4 -b 4096 -g 32744 -G 8 -i 16384 -E stride=64,stripe_width=768 /dev/md127",
            id="256 KiB",
        ),
        pytest.param(
            striped_filesystem(
                layout(UNEVEN_LOADS)._replace(cluster_blocks=16, blocks_per_group=524288),
                superblock=known(superblock(inode_count=600 * 8192)),
            ),
            "mkfs.ext4 -b 4096 -g 32744 -G 1 -O bigalloc -C 65536 -i 262144 "
            "-E stride=0,stripe_width=1536 /dev/md127",
            id="bigalloc; without packing a stride would move the bitmaps",
        ),
        pytest.param(
            striped_filesystem(
                layout(UNEVEN_LOADS),
                superblock=known(
                    superblock(features=superblock().features - {"resize_inode"} | {"meta_bg"})
                ),
            ),
            "mkfs.ext4 -b 4096 -g 32744 -G 16 -O meta_bg,^resize_inode -i 16384 "
            "-E stride=128,stripe_width=1536 /dev/md127",
            id="meta_bg",
        ),
    ],
)
def test_mkfs_command_for_this_array(fs: Filesystem, command: str) -> None:
    """Block size, clusters, inode ratio and meta_bg stay; groups and flex groups change."""
    assert mkfs_of(fs).steps[0].command == command


def test_mkfs_remedy_is_marked_destructive() -> None:
    """The remedy is destructive and persistent, and its summary has the word DESTROYS."""
    remedy = mkfs_of(striped_filesystem(layout(UNEVEN_LOADS)))
    assert "DESTROYS all data on /dev/md127" in remedy.summary
    assert remedy.disruption is Disruption.RECREATE
    assert [step.phase for step in remedy.lines] == [Phase.PERSISTENT, Phase.VERIFY]


def test_no_mkfs_command_that_omits_a_demanded_feature() -> None:
    """The printed mkfs line would omit the feature, so a plan is suggested instead."""
    fs = striped_filesystem(layout(UNEVEN_LOADS))
    profiles = (ActiveProfile(all_profiles()["mysql-aws-twp"]),)
    (finding,) = judge(check, fs, host(fs, profiles=profiles)).findings
    recreate = [r for r in finding.remedies if r.disruption is Disruption.RECREATE]
    assert [(remedy.steps, remedy.destructive) for remedy in recreate] == [((), True)]
    assert "bigalloc, required by MySQL" in recreate[0].summary


def test_hostile_device_name_is_quoted_or_omitted() -> None:
    """A name from a snapshot is quoted as one shell word, or else nothing is printed."""
    named = mkfs_of(striped_filesystem(layout(UNEVEN_LOADS))._replace(device="/dev/x; rm -rf $(y)"))
    assert named.steps[0].command.endswith(" '/dev/x; rm -rf $(y)'")
    assert mkfs_of(striped_filesystem(layout(UNEVEN_LOADS))._replace(device="/dev/x\n")).steps == ()


def with_level(level: str, loads: list[int], **changes: Any) -> MetadataLayout:
    """Build a layout on another RAID level."""
    built = layout(loads, **changes)
    assert built.geometry is not None
    return built._replace(geometry=built.geometry._replace(level=level))


def _grow_remedies(fs: Filesystem) -> list[str]:
    return [r.summary for r in finding_of(fs).remedies if "Grow the array" in r.summary]


@pytest.mark.parametrize(
    ("measured", "says"),
    [
        pytest.param(layout(UNEVEN_LOADS), "from 12 to 13 members", id="defaults on 12"),
        pytest.param(
            layout([9000, 0, 0], blocks_per_group=32760), "from 3 to 4 members", id="3 is bad"
        ),
    ],
)
def test_growing_is_suggested_if_it_balances_the_layout(
    measured: MetadataLayout, says: str
) -> None:
    """The suggested number of members is the next one that suits the present group size."""
    (summary,) = _grow_remedies(striped_filesystem(measured))
    assert says in summary


@pytest.mark.parametrize(
    "measured",
    [
        pytest.param(layout(UNEVEN_LOADS, chunk_bytes=2048), id="no shape"),
        pytest.param(
            with_level("dm-striped", UNEVEN_LOADS),
            id="striped LVM does not grow in width",
        ),
    ],
)
def test_growing_is_not_suggested_without_a_known_benefit(measured: MetadataLayout) -> None:
    """Only md can grow in width, and only computed remedies are offered."""
    assert _grow_remedies(striped_filesystem(measured)) == []


def test_recreating_with_the_same_groups_is_suggested_for_packed_bitmaps() -> None:
    """The groups are already as advised; mke2fs places the bitmaps elsewhere in them, evenly."""
    as_advised = layout(UNEVEN_LOADS, blocks_per_group=32744)
    assert "-g 32744 -G 16 " in mkfs_of(striped_filesystem(as_advised)).steps[0].command


@pytest.mark.parametrize("stride", [8, 0])
def test_recreating_without_the_stride_is_suggested_without_packing(stride: int) -> None:
    """With -G 1, a stride moves the bitmaps even though the groups are as advised."""
    as_advised = layout([4000, 0, 4000, 0], chunk_bytes=32768, blocks_per_group=32760)
    fs = striped_filesystem(
        as_advised._replace(flex_bg_groups=1), superblock=known(superblock(stride_blocks=stride))
    )
    command = mkfs_of(fs).steps[0].command
    assert "-g 32760 -G 1 " in command
    assert "stride=0," in command


@pytest.mark.parametrize("level", ["raid0", "raid10", "raid4", "raid5", "raid6", "dm-striped"])
def test_every_striping_level_is_judged(level: str) -> None:
    """All writes are counted, including those to mirrors and parity."""
    assert verdict_of(striped_filesystem(with_level(level, UNEVEN_LOADS))).outcome is Outcome.FAIL
    assert verdict_of(striped_filesystem(with_level(level, EVEN_LOADS))).outcome is Outcome.PASS


@pytest.mark.parametrize(
    "measured",
    [
        pytest.param(layout(UNEVEN_LOADS)._replace(geometry=None), id="one disk after the other"),
        pytest.param(with_level("raid1", UNEVEN_LOADS), id="a mirror"),
        pytest.param(with_level("linear", UNEVEN_LOADS), id="a concatenation that was described"),
        pytest.param(layout([9000]), id="one member"),
    ],
)
def test_not_applicable_without_striping(measured: MetadataLayout) -> None:
    """The layout of such a stack may be known, but does not show a hotspot."""
    assert verdict_of(striped_filesystem(measured)).outcome is Outcome.NOT_APPLICABLE


def test_parity_can_balance_the_bitmaps() -> None:
    """The bitmaps are on one of three disks, their parity on the other two."""
    measured = with_level("raid5", [200, 0, 0])
    members = tuple(
        each._replace(bitmap_parity=parity)
        for each, parity in zip(measured.members, (0, 190, 180), strict=True)
    )
    assert (
        verdict_of(striped_filesystem(measured._replace(members=members))).outcome is Outcome.PASS
    )


def test_descriptor_table_is_cited_but_not_judged() -> None:
    """Even bitmaps pass whatever the table's layout is: no option of mke2fs moves it."""
    measured = layout(EVEN_LOADS)
    members = (measured.members[0]._replace(described_groups=9594), *measured.members[1:])
    verdict = verdict_of(striped_filesystem(measured._replace(members=members)))
    assert verdict.outcome is Outcome.PASS
    assert {each.label: each.value for each in verdict.evidence}[
        "spread of the descriptor table"
    ] == "skew 12.00, effective members 1.00 of 12, evenness 0.08"


@pytest.mark.parametrize(
    ("loads", "outcome"),
    [
        pytest.param(UNEVEN_LOADS, Outcome.FAIL, id="hot"),
        pytest.param(EVEN_LOADS, Outcome.UNDETERMINED, id="even"),
    ],
)
def test_guessed_stripe_is_likely_or_undetermined(loads: list[int], outcome: Outcome) -> None:
    """A hotspot on a guessed stripe is likely; an even layout on one does not pass."""
    gap = unknown("dmsetup table")
    verdict = verdict_of(striped_filesystem(layout(loads)._replace(doubts=(gap,))))
    assert verdict.outcome is outcome
    assert verdict.unknowns == (gap,)
    assert {each.confidence for each in verdict.findings} <= {Confidence.LIKELY}


@pytest.mark.parametrize(
    ("prefix", "model"),
    [("vd", None), ("xvd", None), ("sd", "QEMU HARDDISK"), ("sd", "Virtual disk")],
)
def test_rotational_virtual_disk_is_likely(prefix: str, model: str | None) -> None:
    """A virtio disk always claims to rotate: the finding is likely, without a gap."""
    hot = with_disk_prefix(prefix, layout(UNEVEN_LOADS))
    stack = array([True] * 12, prefix)
    disks = tuple(replace(each, model=model) for each in stack.known_below)
    fs = striped_filesystem(hot, stack=known(replace(stack, below=known(disks))))
    verdict = verdict_of(fs)
    (finding,) = verdict.findings
    assert (finding.severity, finding.confidence) == (Severity.MEDIUM, Confidence.LIKELY)
    assert verdict.unknowns == ()


def test_non_rotational_virtual_disk_is_confirmed() -> None:
    """QEMU reports rotational=0 only if somebody set it."""
    hot = metadata_layout(UNEVEN_LOADS)
    finding = finding_of(striped_filesystem(hot, stack=known(array([False] * 12, "vd"))))
    assert (finding.severity, finding.confidence) == (Severity.LOW, Confidence.CONFIRMED)


@pytest.mark.parametrize(
    ("level", "md_layout", "stripe_width"),
    [
        ("raid0", None, 12 * 128),
        ("raid10", None, 6 * 128),
        ("raid10", 0x103, 4 * 128),
        ("raid10", 0x105, 12 * 128),
        ("raid10", 0x201, 12 * 128),
        ("raid5", 2, 11 * 128),
        ("raid6", 2, 10 * 128),
    ],
)
def test_stripe_width_by_level_and_md_layout(
    level: str, md_layout: int | None, stripe_width: int
) -> None:
    """Parity and near copies are not counted: the stripe width is for the allocator (mke2fs(8))."""
    hot = with_level(level, UNEVEN_LOADS, blocks_per_group=32736)
    assert hot.geometry is not None
    hot = hot._replace(geometry=hot.geometry._replace(layout=md_layout))
    command = mkfs_of(striped_filesystem(hot)).steps[0].command
    assert f"stripe_width={stripe_width} " in command


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("members", "chunk_kib", "options", "effective_before", "kept"),
    [
        pytest.param(12, 512, "", 3.0, "-g 32744 -G 16", id="defaults on 12 x 512 KiB"),
        pytest.param(8, 512, "", 1.0, "-g 32760 -G 16", id="defaults on 8"),
        pytest.param(12, 256, "-g 32744", 6.0, "-g 32744 -G 8", id="half a cure: 256 KiB"),
        pytest.param(8, 64, "-g 32744", 2.0, "-g 32760 -G 2", id="half a cure: 64 KiB"),
        pytest.param(3, 512, "-g 32760", 1.0, "-g 32768 -G 16", id="worse than the defaults"),
        pytest.param(
            12,
            512,
            "-O bigalloc -C 16384",
            3.0,
            "-g 32744 -G 4 -O bigalloc -C 16384",
            id="bigalloc",
        ),
        pytest.param(
            12,
            512,
            "-O meta_bg,^resize_inode",
            3.0,
            "-g 32744 -G 16 -O meta_bg,^resize_inode",
            id="meta_bg",
        ),
        pytest.param(
            4, 32, "-G 1 -g 32760 -E stride=8", 2.7, "-g 32760 -G 1", id="moved by a stride"
        ),
    ],
)
def test_printed_mkfs_command_on_a_real_filesystem(
    members: int, chunk_kib: int, options: str, effective_before: float, kept: str
) -> None:
    """The rule fails on a filesystem with mke2fs's defaults, and passes after the printed line."""
    with sparse_image(TWELVE_DISKS_BLOCKS * 4096) as image:
        run(f"mkfs.ext4 -q {options} {image}")
        before = measure_image(image, members, chunk_kib)
        fs = striped_filesystem(before, device=str(image), superblock=known(read_superblock(image)))
        assert round(before.effective_members, 1) == effective_before
        remedy = mkfs_of(fs)
        assert kept in remedy.steps[0].command
        for step in remedy.lines:
            run(step.command)
        after = measure_image(image, members, chunk_kib)
        fs = striped_filesystem(after, device=str(image), superblock=known(read_superblock(image)))
        assert verdict_of(fs).outcome is Outcome.PASS


@needs_e2fsprogs
def test_verify_step_fails_if_mke2fs_chose_other_groups() -> None:
    """With very many inodes mke2fs silently lowers the group size, and the step detects it."""
    with sparse_image(20 << 30) as image:
        remedy = mkfs_of(striped_filesystem(layout(UNEVEN_LOADS), device=str(image)))
        made = re.sub("-i [0-9]+", "-N 5300000", remedy.steps[0].command)
        run(made)
        assert read_superblock(image).blocks_per_group == 32544
        with pytest.raises(AssertionError):
            run(remedy.steps[1].command)
