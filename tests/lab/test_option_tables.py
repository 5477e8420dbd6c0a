"""The product's table of options, compared with what each booted kernel accepts and shows."""

from __future__ import annotations

import pytest

from ext4audit.assemble.options import resolve_options
from ext4audit.assemble.options.listings import OptionSources
from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.features_and_bugs import NOT_BY_REMOUNT
from ext4audit.facts.mount import EffectiveOptions, Provenance
from ext4audit.facts.options import all_options, recognize
from ext4audit.parsers.devices_and_mounts import parse_mount_table, parse_options_file
from ext4audit.parsers.dumpe2fs import parse_superblock
from lab.conftest import Guest
from lab.support.scenario import JsonObject
from support.builders import kernel

REFUSED = {
    *("emergency_ro", "shutdown", "fc_debug_force", "dax", "dax=always", "prjquota"),
    *("journal_async_commit", "test_dummy_encryption=v2", "data=journal,delalloc"),
}
"""Options that every era refuses at mount: they are only printed, or lack their condition."""
REFUSED_BY_ERA = {
    "5.10": {"no_prefetch_block_bitmaps", "mb_optimize_scan=0", "mb_optimize_scan=1"},
}
REFUSED_SINCE_5_18 = {"noacl", "nouser_xattr"}
ACCEPTED_AND_NOT_SHOWN = {
    "5.10": {"data_err=ignore", "inlinecrypt", "abort"},
    "6.1": {"data_err=ignore", "inlinecrypt", "i_version", "mb_optimize_scan=0"}
    | {"prefetch_block_bitmaps"},
    "6.12": {"data_err=ignore", "inlinecrypt", "i_version", "mb_optimize_scan=0"}
    | {"prefetch_block_bitmaps"},
    "newest": {"data_err=ignore", "inlinecrypt", "mb_optimize_scan=0"},
}
"""Options that mount accepts and the options file never lists: 0 is the default of
mb_optimize_scan on small filesystems; the virtio disk has no inline encryption."""
HIDDEN = {
    "tune2fs -o nobarrier,nodelalloc,journal_data_writeback": {
        *("nobarrier", "nodelalloc", "data=writeback"),
    },
    "tune2fs -o journal_data": {"data=journal"},
    "tune2fs -o journal_data_ordered,discard,debug": {"discard", "debug"},
    "tune2fs -o bsdgroups,uid16,block_validity": {"grpid", "nouid32"},
    "tune2fs -E mount_opts=nobarrier": {"nobarrier"},
    "debugfs -w -R 'set_super_value mount_opts "
    "nodelalloc,noauto_da_alloc,dioread_lock,data=writeback'": {
        *("nodelalloc", "noauto_da_alloc", "nodioread_nolock", "data=writeback"),
    },
}
"""What is written into a superblock, and which of it the mount table then does not show."""
REFUSED_REMOUNTS = {
    *("|data=writeback", "|data=journal", "data=writeback|data=ordered"),
    *("|journal_async_commit", "|nombcache", "|dax=always"),
    *("data=journal|delalloc", "data=journal|dioread_nolock"),
}
NO_DELALLOC_OFF = {"|nodelalloc", "delalloc|nodelalloc"}
"""Remounts that only the newest era refuses ("can't disable delalloc during remount")."""
IGNORED_REMOUNTS = {"|nojournal_checksum"}
"""Remounts that succeed and change nothing."""
NOT_READ = Unknown("the place", Why.DENIED, "left out")


def effective(
    shown: JsonObject, superblock: str, release: str, without: frozenset[str] = frozenset()
) -> EffectiveOptions:
    """Resolve the options that a guest showed, without some of the sources."""
    (mount,) = parse_mount_table(shown["mountinfo"]).mounts
    file = parse_options_file(shown["file"])
    resolved = resolve_options(
        OptionSources(
            NOT_READ if "file" in without else Known(file, "options file"),
            Known(mount, "mountinfo"),
            NOT_READ if "superblock" in without else Known(parse_superblock(superblock), "dump"),
            Known(kernel(release), "uname"),
        )
    )
    assert isinstance(resolved, Known)
    return resolved.value


def accepted(guest: Guest) -> dict[str, JsonObject]:
    """Return what the guest's kernel showed for each option that it accepted at mount."""
    given: dict[str, JsonObject] = guest["option_table"]["given"]
    return {token: shown for token, shown in given.items() if shown["errno"] == 0}


def test_each_default_is_the_one_of_the_table(any_guest: Guest) -> None:
    """A mount without options has every default of the table for the kernel's version.

    6.1 and 6.12 have prefetch_block_bitmaps in force but do not list it.
    """
    default = any_guest["option_table"]["default"]
    listed = parse_options_file(default["file"])
    upstream = kernel(any_guest.release).upstream
    verified = [token for spec in all_options() if (token := spec.default(upstream))]
    silent = {"prefetch_block_bitmaps"} if any_guest.era in {"6.1", "6.12"} else set()
    assert [token for token in verified if token not in listed] == sorted(silent)
    unset = [spec for spec in all_options() if spec.default(upstream) == ""]
    assert [spec.name for spec in unset if {spec.on, spec.off} & set(listed)] == []


def test_each_word_that_is_shown_is_in_the_table(any_guest: Guest) -> None:
    """No mainline kernel prints an option that the table lacks, whatever the mount options."""
    shown = accepted(any_guest).values()
    words = {word for each in shown for word in parse_options_file(each["file"])}
    for each in shown:
        words.update(
            *(mount.super_options for mount in parse_mount_table(each["mountinfo"]).mounts)
        )
    assert {word for word in words if recognize(word) is None} == {"rw"}


def test_each_switch_is_listed_in_both_states(any_guest: Guest) -> None:
    """Since 4.17 an options file lists one option of every pair: a missing one is not off."""
    listed = set(parse_options_file(any_guest["option_table"]["default"]["file"]))
    switches = [spec for spec in all_options() if spec.off and not spec.has_value]
    missing = {spec.name for spec in switches if not {spec.on, spec.off} & listed}
    assert missing <= {"prefetch_block_bitmaps"}


def test_what_a_mount_refuses(any_guest: Guest) -> None:
    """Each era refuses exactly these; all refusals are EINVAL except one of 6.1."""
    given = any_guest["option_table"]["given"]
    refused = {token for token, shown in given.items() if shown["errno"]}
    later = REFUSED_SINCE_5_18 if any_guest.era != "5.10" else set()
    assert refused == REFUSED | later | REFUSED_BY_ERA.get(any_guest.era, set())


def test_what_a_mount_accepts_is_in_force(any_guest: Guest) -> None:
    """Each token and each alias resolves to the state in the table."""
    seen = any_guest["option_table"]
    not_shown = set()
    for token, shown in accepted(any_guest).items():
        options = effective(shown, seen["superblock"], any_guest.release)
        known = recognize(token.rpartition(",")[2])
        assert known is not None
        found = options.find(known[0].name)
        if found is None:
            not_shown.add(token)
        else:
            assert (token, found.token) == (token, known[1])
    assert not_shown == ACCEPTED_AND_NOT_SHOWN[any_guest.era]


def test_who_set_what_a_mount_was_given(any_guest: Guest) -> None:
    """A non-default option was set by the mount, and its baseline is the default."""
    seen = any_guest["option_table"]
    plain = effective(seen["default"], seen["superblock"], any_guest.release)
    for token in ("nobarrier", "nodelalloc", "noauto_da_alloc", "nodioread_nolock", "discard"):
        options = effective(accepted(any_guest)[token], seen["superblock"], any_guest.release)
        found, before = (each.find(recognize(token)[0].name) for each in (options, plain))  # type: ignore[index]
        assert found is not None
        assert before is not None
        assert (found.set_by, found.baseline) == (Provenance.MOUNT, before.token)


def test_nothing_is_hidden_where_no_superblock_sets_anything(any_guest: Guest) -> None:
    """On a filesystem with mke2fs's defaults the mount table shows all given options."""
    seen = any_guest["option_table"]
    for token, shown in {"": seen["default"], **accepted(any_guest)}.items():
        options = effective(shown, seen["superblock"], any_guest.release)
        assert (token, [option.token for option in options.hidden]) == (token, [])


@pytest.mark.parametrize("without", [{"file"}, {"superblock"}, {"file", "superblock"}])
def test_other_places_agree_with_the_whole_evidence(any_guest: Guest, without: set[str]) -> None:
    """Results without the options file or the superblock agree with the full result."""
    seen = any_guest["option_table"]
    rows = [(seen["superblock"], shown) for shown in accepted(any_guest).values()]
    tuned = any_guest["superblock_options"].values()
    rows += [(shown["superblock"], shown) for shown in tuned]
    for superblock, shown in rows:
        whole = effective(shown, superblock, any_guest.release)
        part = effective(shown, superblock, any_guest.release, frozenset(without))
        reported = {option.name: option.token for option in part.options}
        true = {option.name: option.token for option in whole.options}
        assert {n: t for n, t in reported.items() if true.get(n, t) != t} == {}


@pytest.mark.parametrize("how", HIDDEN)
def test_what_the_superblock_sets_is_found_hidden(any_guest: Guest, how: str) -> None:
    """Every era hides what the superblock's bits and string set, and it is detected."""
    shown = any_guest["superblock_options"][how]
    options = effective(shown, shown["superblock"], any_guest.release)
    provenance = Provenance.SUPERBLOCK_BITS if " -o " in how else Provenance.SUPERBLOCK_STRING
    assert {option.token for option in options.hidden} == HIDDEN[how]
    assert {option.set_by for option in options.hidden} == {provenance}


def test_what_data_journal_implies_is_not_called_hidden(any_guest: Guest) -> None:
    """A superblock's data=journal disables two options, and the mount table does show these."""
    shown = any_guest["superblock_options"]["tune2fs -o journal_data"]
    options = effective(shown, shown["superblock"], any_guest.release)
    implied = [option.token for option in options.options if option.set_by is Provenance.IMPLIED]
    assert implied == ["nodioread_nolock", "nodelalloc"]
    assert options.mount_table == ("rw", "nodioread_nolock", "nodelalloc")


def test_what_a_remount_refuses(any_guest: Guest) -> None:
    """Each era refuses exactly these remounts; only the newest refuses to disable delalloc."""
    matrix = any_guest["remount_matrix"]
    assert {row for row, shown in matrix.items() if "first_errno" in shown} == set()
    refused = {row for row, shown in matrix.items() if shown["errno"]}
    more = NO_DELALLOC_OFF if any_guest.era == "newest" else set()
    assert refused == REFUSED_REMOUNTS | more


def test_a_remount_that_succeeds_has_done_it(any_guest: Guest) -> None:
    """The only exception is nojournal_checksum, which every era accepts and ignores."""
    for row, shown in any_guest["remount_matrix"].items():
        before, _, word = row.rpartition("|")
        expected = {known[1] for token in (before, word) if (known := recognize(token))}
        listed = set(parse_options_file(shown["file"]))
        if shown["errno"] == 0 and row not in IGNORED_REMOUNTS:
            replaced = {known[1] for known in [recognize(before)] if known} - listed
            assert (row, expected - listed) == (row, replaced)
        else:
            assert "nojournal_checksum" not in listed


def test_the_rules_know_what_no_remount_can_do(any_guest: Guest) -> None:
    """NOT_BY_REMOUNT is exactly what some kernel refuses in data=ordered or data=writeback."""
    matrix = any_guest["remount_matrix"]
    rows = [row for row in matrix if matrix[row]["errno"] and not row.startswith("data=journal")]
    refused = {known[0].name for row in rows if (known := recognize(row.rpartition("|")[2]))}
    allowed = set() if any_guest.era == "newest" else {"delalloc"}
    assert refused == NOT_BY_REMOUNT - allowed


@pytest.mark.parametrize("kind", ["small blocks", "no journal", "ext3", "ext2"])
def test_other_filesystems_hide_nothing(any_guest: Guest, kind: str) -> None:
    """Defaults that differ from ext4's with 4 KiB blocks are treated as defaults, not settings."""
    shown = any_guest["other_filesystems"][kind]
    options = effective(shown, shown["superblock"], any_guest.release)
    assert [option.token for option in options.hidden] == []
    assert [o.token for o in options.options if o.set_by is Provenance.MOUNT] == []


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [
        ("no journal", {"nojournal_checksum"}),
        ("ext3", {"nojournal_checksum", "nodelalloc", "dioread_nolock"}),
        ("ext2", {"nojournal_checksum", "nodelalloc", "dioread_nolock"}),
    ],
)
def test_what_other_filesystems_have_by_themselves(
    any_guest: Guest, kind: str, tokens: set[str]
) -> None:
    """ext3 and ext2 list nodelalloc and dioread_nolock without being given them."""
    listed = set(parse_options_file(any_guest["other_filesystems"][kind]["file"]))
    assert listed >= tokens
    assert ("data=ordered" in listed) is (kind == "ext3")


def test_small_blocks_have_dioread_nolock_by_default_since_6_8(any_guest: Guest) -> None:
    """5.10 and 6.1 disable it if blocks are smaller than pages, 6.12 and later do not."""
    listed = parse_options_file(any_guest["other_filesystems"]["small blocks"]["file"])
    off = any_guest.era in {"5.10", "6.1"}
    assert ("nodioread_nolock" in listed, "dioread_nolock" in listed) == (off, not off)


def test_the_filesystem_is_sound_after_all_mounts(any_guest: Guest) -> None:
    """No option left an error behind: `e2fsck -fn` succeeds, or the scenario would have failed."""
    assert "Checking group summary information" in any_guest["option_table"]["fsck"]
