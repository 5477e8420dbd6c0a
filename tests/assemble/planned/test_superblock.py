"""predict_superblock: the result of mke2fs, simulated and computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.assemble.planned import simulation as planned_simulation
from ext4audit.assemble.planned.simulation import Prediction
from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.plan import Plan
from ext4audit.facts.superblock import GroupTable, Superblock
from support.examples import examples
from support.hosts.plans import disk_plan, plan, predict
from support.images.mke2fs import needs_e2fsprogs

GIB, TIB = 1 << 30, 1 << 40
LARGE_CLUSTERS = (
    "bigalloc file systems with a cluster size greater than 16 times the block size is considered "
    "experimental"  # on two lines
)
UUID = "c0ffee00-1111-2222-3333-444455556666"
PLACED = (
    "size_blocks block_bytes first_block blocks_per_group inodes_per_group inode_bytes "
    "inode_count flex_bg_groups cluster_blocks stride_blocks stripe_width_blocks features "
    "default_mount_options errors label groups journal_bytes "
    "reserved_blocks"
).split()


def computed(of: Plan) -> Prediction:
    """Predict as on a machine that has no memory for a simulation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned_simulation, "MOST_BYTES", 0)
        return predict(of)


def superblock_of(prediction: Prediction) -> Superblock:
    """Return the superblock, which must be known."""
    assert isinstance(prediction.superblock, Known), prediction.superblock
    return prediction.superblock.value


def columns(prediction: Prediction) -> list[list[int]]:
    """Return the positions of the metadata of all groups."""
    assert isinstance(prediction.table, Known), prediction.table
    table: GroupTable = prediction.table.value
    return [list(each) for each in (table.block_bitmaps, table.inode_bitmaps, table.inode_tables)]


@needs_e2fsprogs
def test_the_real_mke2fs_makes_the_predicted_superblock() -> None:
    """mke2fs gets stride and stripe width as options, since it runs on a file and not the array."""
    made = predict(plan())
    superblock = superblock_of(made)
    assert (made.basis, made.doubts) == ("simulated", ())
    assert (superblock.groups, superblock.blocks_per_group) == (9594, 32768)
    assert (superblock.stride_blocks, superblock.stripe_width_blocks) == (128, 1536)
    assert [len(each) for each in columns(made)] == [9594, 9594, 9594]
    assert made.assumed[0].startswith("simulated in memory by mke2fs 1.")


@needs_e2fsprogs
def test_the_uuid_is_known_only_if_it_is_given() -> None:
    """The simulation draws a random UUID, which the real filesystem will not have."""
    assert superblock_of(predict(disk_plan())).uuid is None
    assert superblock_of(predict(disk_plan("-U random"))).uuid is None
    assert superblock_of(predict(disk_plan(f"-U {UUID} -L data"))).uuid == UUID
    assert superblock_of(predict(disk_plan("-L data"))).label == "data"


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("words", "size_bytes", "reported"),
    [
        ("-g 100", GIB, "blocks per group must be multiple of 8"),
        ("-O foo", GIB, "Invalid filesystem option set: foo"),
        ("-O ^64bit", 64 * TIB, "too big to be expressed in 32 bits"),
        ("-N 5000000000", GIB, "too many inodes"),
    ],
)
def test_mke2fs_refuses_by_the_real_size(words: str, size_bytes: int, reported: str) -> None:
    """The message is mke2fs's own, even if the size cannot be simulated."""
    found = predict(disk_plan(words, size_bytes=size_bytes)).superblock
    assert isinstance(found, Unknown)
    assert found.why is Why.FAILED
    assert reported in found.detail


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("words", "warned"),
    [
        ("-L 12345678901234567", "label too long; will be truncated to '1234567890123456'"),
        ("-T bogus", "the fs_type bogus is not defined in mke2fs.conf"),
        ("-O bigalloc -C 128k", LARGE_CLUSTERS),
    ],
)
def test_a_warning_of_mke2fs_is_shown(words: str, warned: str) -> None:
    """The real mke2fs would print the same warning."""
    assert predict(disk_plan(words)).assumed[1:] == (f"mke2fs warns: {warned}",)
    assert predict(disk_plan()).assumed[1:] == ()


@needs_e2fsprogs
def test_a_silently_lowered_group_size_is_found() -> None:
    """Very many inodes make groups smaller than the option -g (mke2fs 1.47.0)."""
    made = superblock_of(predict(disk_plan("-N 5300000 -g 32744", size_bytes=20 * GIB)))
    assert made.blocks_per_group == 32544


@needs_e2fsprogs
@pytest.mark.parametrize(
    "of",
    [
        plan(),
        plan("-g 32744 -G 16"),
        plan("-O ^metadata_csum -m 0", size_bytes=TIB),
        plan("-T largefile -L x", size_bytes=TIB, level="raid5", members=4),
        plan("-O meta_bg,^resize_inode", size_bytes=TIB),
        plan("-O sparse_super2 -E num_backup_sb=1", size_bytes=TIB),
        plan("-O sparse_super2 -E num_backup_sb=2,num_backup_sb=1", size_bytes=TIB),
        plan("-O bigalloc -C 65536", size_bytes=2 * TIB),
        plan("-G 1 -E stride=0", size_bytes=500 * GIB),
        disk_plan("-b 1024", size_bytes=3 * GIB),
        disk_plan(size_bytes=700 << 20),
        disk_plan("-i 4096 -I 128", size_bytes=40 * GIB),
        disk_plan(size_bytes=5 * TIB),
        disk_plan("-t ext3", size_bytes=9 * GIB),
        disk_plan("-N 50000000 -J size=4096", size_bytes=2 * TIB),
        disk_plan("-O ^has_journal -J size=64", size_bytes=2 * TIB),
        disk_plan("-O ^has_journal -J fast_commit_size=8", size_bytes=2 * TIB),
        disk_plan("-i 67108864 -J size=4 -E orphan_file_size=1M", size_bytes=3 * TIB),
        disk_plan("-E resize=2000000000", size_bytes=3 * TIB),
        disk_plan("-O ^resize_inode -E resize=1000000000", size_bytes=2 * TIB),
        disk_plan("-b 1024 -g 400 -E resize=1600000", size_bytes=1500 << 20),
        disk_plan("-E desc-size=128", size_bytes=2 * TIB),
        disk_plan("-O fast_commit", size_bytes=2 * TIB),
        disk_plan("-O fast_commit -J size=64", size_bytes=2 * TIB),
        disk_plan("-O fast_commit -J size=8,fast_commit_size=100", size_bytes=2 * TIB),
        disk_plan("-i 3000000 -I 4096 -T news", size_bytes=100 * GIB),
        disk_plan("-N 50000 -I 4096 -T news", size_bytes=100 * GIB),
        # Blocks beyond 32 bits: mke2fs clears resize_inode, and only -E resize sets it again.
        disk_plan("-O bigalloc,meta_bg -C 64k", size_bytes=17 * TIB),
        disk_plan("-O bigalloc,^sparse_super -C 4M", size_bytes=17 * TIB),
        disk_plan("-O bigalloc -C 64k -E resize=5000000000", size_bytes=17 * TIB),
    ],
    ids=lambda of: f"{' '.join(of.mkfs.arguments())} {of.size_bytes >> 30}G",
)
def test_simulation_and_closed_form_agree(of: Plan) -> None:
    """The closed form gives every position and parameter that mke2fs chooses."""
    one, other = predict(of), computed(of)
    assert (one.basis, other.basis) == ("simulated", "computed")
    assert other.doubts == ()
    assert columns(one) == columns(other)
    for name in PLACED:
        assert getattr(superblock_of(one), name) == getattr(superblock_of(other), name), name


@needs_e2fsprogs
@examples(15)
@given(
    gib=st.integers(1, 3000),
    group=st.sampled_from([None, 32744, 32760, 16384, 8192]),
    flex=st.sampled_from([None, 1, 4, 16, 32]),
    ratio=st.sampled_from([None, 8192, 65536]),
)
def test_simulation_and_closed_form_agree_on_any_size(
    gib: int, group: int | None, flex: int | None, ratio: int | None
) -> None:
    """This holds whenever both run and the closed form has no doubt."""
    reported = {"-g": group, "-G": flex, "-i": ratio}
    words = " ".join(f"{flag} {value}" for flag, value in reported.items() if value is not None)
    of = disk_plan(words, size_bytes=gib * GIB + 12345 * 4096)
    one, other = predict(of), computed(of)
    if not other.doubts:
        assert columns(one) == columns(other)


@needs_e2fsprogs
def test_a_superblock_beyond_the_memory_is_computed_and_marked() -> None:
    """100 TiB would take 1.6 GB; the usage type still follows from the real size."""
    made = predict(plan(size_bytes=100 * TIB))
    assert made.basis == "computed"
    assert superblock_of(made).inodes_per_group == 2048
    assert superblock_of(made).groups == 819200
    assert "a simulation would take too much memory" in made.assumed[0]


@needs_e2fsprogs
def test_options_that_the_closed_form_lacks_are_doubts() -> None:
    """Packed bitmaps have other positions, which the closed form does not compute."""
    made = computed(plan("-E packed_meta_blocks=1"))
    assert [each.what for each in made.doubts] == ["planned block groups"]
    assert "-E packed_meta_blocks=1" in made.doubts[0].detail
    assert isinstance(made.table, Unknown)
    assert computed(plan("-E packed_meta_blocks=0")).doubts == ()


CONFIGURATION = """
[defaults]
 base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
 blocksize = 4096
 inode_size = 256
 inode_ratio = 16384
[fs_types]
 ext4 = {{
  features = has_journal,extent,flex_bg,metadata_csum,64bit
  {line}
 }}
"""


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("line", "is_moved"),
    [
        ("flex_bg_size = 8", False),
        ("options = stride=7,lazy_itable_init=0", False),
        ("packed_meta_blocks = 1", True),
        ("options = resize=1000000000", False),
    ],
)
def test_a_configuration_that_moves_metadata_is_a_doubt(
    tmp_path: Path, line: str, *, is_moved: bool
) -> None:
    """The arguments do not show such a setting, but a small filesystem does."""
    file = tmp_path / "mke2fs.conf"
    file.write_text(CONFIGURATION.format(line=line))
    of = plan(size_bytes=TIB)
    made = computed(replace(of, host=replace(of.host, configuration=str(file))))
    assert isinstance(made.table, Unknown) is is_moved
    details = [each.detail for each in made.doubts]
    assert all(each.startswith("mke2fs.conf moves") for each in details)
    assert bool(details) is is_moved


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("num_backup_sb = 1", "-O sparse_super2"),
        ("num_backup_sb = 0", "-O sparse_super2 -b 65536"),
        ("reserved_ratio = 0.05", "-b 65536"),
        ("options = resize=1000000000", ""),
    ],
)
def test_a_configuration_applies_to_the_real_size(tmp_path: Path, line: str, words: str) -> None:
    """With 64 KiB blocks a trial of a GiB has one group, without backups or such a reserve."""
    file = tmp_path / "mke2fs.conf"
    file.write_text(CONFIGURATION.format(line=line))
    of = plan(words, size_bytes=TIB)
    of = replace(of, host=replace(of.host, configuration=str(file)))
    one, other = predict(of), computed(of)
    assert columns(one) == columns(other)
    for name in ("backup_bgs", "reserved_blocks", "reserved_gdt_blocks"):
        assert getattr(superblock_of(one), name) == getattr(superblock_of(other), name), name


@needs_e2fsprogs
def test_another_version_sets_other_features() -> None:
    """1.42 sets neither 64bit nor metadata_csum; 1.47 sets two that move nothing."""
    old = superblock_of(predict(disk_plan(e2fsprogs="1.42.13")))
    assert {"64bit", "metadata_csum"}.isdisjoint(old.features)
    assert "uninit_bg" in old.features
    assert old.descriptor_bytes in {None, 32}
    between = superblock_of(predict(disk_plan(e2fsprogs="1.43.9")))
    assert {"64bit", "uninit_bg"} <= between.features
    assert "metadata_csum" not in between.features
    middle = superblock_of(predict(disk_plan(e2fsprogs="1.46.5")))
    assert {"64bit", "metadata_csum"} <= middle.features
    assert {"metadata_csum_seed", "orphan_file"}.isdisjoint(middle.features)


@needs_e2fsprogs
def test_the_assumption_names_the_version_of_e2fsprogs() -> None:
    """The assumption names the version; one older than all known versions is a doubt."""
    made = predict(disk_plan(e2fsprogs="1.43.4"))
    assert made.assumed[1:] == ("features as upstream e2fsprogs 1.43.4 sets them by default",)
    assert made.doubts == ()
    ancient = predict(disk_plan(e2fsprogs="1.41.12"))
    assert [each.why for each in ancient.doubts] == [Why.UNSUPPORTED]


@needs_e2fsprogs
def test_a_configuration_file_overrides_the_defaults_of_the_version(tmp_path: Path) -> None:
    """Features come from the file, not from the version's defaults."""
    file = tmp_path / "mke2fs.conf"
    file.write_text(
        "[defaults]\n\tbase_features = filetype\n\tdefault_mntopts = nobarrier\n"
        "\tblocksize = 4096\n\tinode_size = 256\n[fs_types]\n\text4 = {\n"
        "\t\tfeatures = extent,flex_bg\n\t}\n"
    )
    made = predict(disk_plan(e2fsprogs="1.42.13", configuration=str(file)))
    assert superblock_of(made).features == {"filetype", "extent", "flex_bg"}
    assert superblock_of(made).default_mount_options == ("nobarrier",)
    assert str(file) in made.assumed[0]


@needs_e2fsprogs
def test_the_configuration_can_turn_on_64bit_for_large_filesystems(tmp_path: Path) -> None:
    """mke2fs.conf of e2fsprogs 1.42 turns 64bit on if the number of blocks needs it."""
    file = tmp_path / "mke2fs.conf"
    file.write_text(
        "[defaults]\n base_features = sparse_super,filetype,resize_inode\n"
        "[fs_types]\n ext4 = {\n features = has_journal,extent\n auto_64-bit_support = 1\n }\n"
    )
    made = [
        superblock_of(predict(disk_plan(configuration=str(file), size_bytes=size * TIB)))
        for size in (1, 28)
    ]
    assert ["64bit" in each.features for each in made] == [False, True]
    assert [each.descriptor_bytes for each in made] == [32, 64]


@needs_e2fsprogs
def test_a_configuration_that_mke2fs_cannot_parse_is_refused(tmp_path: Path) -> None:
    """mke2fs on the host would fail as well."""
    file = tmp_path / "mke2fs.conf"
    file.write_text("[fs_types]\n ext4 = { features = has_journal\n }\n")
    found = predict(disk_plan(configuration=str(file))).superblock
    assert isinstance(found, Unknown)
    assert found.why is Why.FAILED
    assert "Syntax error" in found.detail


def test_without_mke2fs_everything_is_computed_with_a_doubt(tmp_path: Path) -> None:
    """The rules are those of upstream's mke2fs 1.47."""
    made = predict(plan("-g 32744 -O ^has_journal"), search_path=(str(tmp_path),))
    superblock = superblock_of(made)
    assert made.basis == "computed"
    assert [each.hint for each in made.doubts] == ["install e2fsprogs"]
    assert (superblock.blocks_per_group, superblock.stride_blocks) == (32744, 128)
    assert "has_journal" not in superblock.features
    assert len(columns(made)[0]) == superblock.groups


def test_without_mke2fs_a_wrong_option_is_refused(tmp_path: Path) -> None:
    """The option is refused if the rules know it."""
    found = predict(plan("-g 100"), search_path=(str(tmp_path),)).superblock
    assert isinstance(found, Unknown)
    assert found.why is Why.UNPARSABLE


@needs_e2fsprogs
def test_a_simulation_over_the_memory_limit_is_computed_instead() -> None:
    """`-O ^sparse_super` copies the descriptors into every group, so the source ends the run."""
    of = disk_plan("-O ^sparse_super,^resize_inode", size_bytes=2 * TIB)
    made = predict(of)
    assert made.basis == "computed"
    assert superblock_of(made).groups == 16384
