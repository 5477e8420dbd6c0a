from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ext4audit.assemble.options import kernel_default, option_layers, resolve_options
from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.mount import Layer, Provenance
from ext4audit.facts.options import spec_named
from support.builders import kernel, known, superblock, unknown
from support.options.display_model import OFF_WITH_DATA_JOURNAL, Mounted, settings_of
from support.options.evidence import (
    BOOTED_KERNELS,
    DUMPE2FS,
    FILE,
    NO_FILE,
    NO_MOUNT,
    NO_SUPERBLOCK,
    TABLE,
    BootedKernel,
    option,
    options_file,
    resolve,
    sources,
    unlisted,
)

NO_KERNEL = unknown("kernel")
TUNED = superblock(
    default_mount_options=("journal_data_writeback", "user_xattr", "acl", "nobarrier", "nodelalloc")
)


@pytest.mark.parametrize("era", BOOTED_KERNELS, ids=str)
@pytest.mark.parametrize("on_disk", [None, NO_SUPERBLOCK], ids=["read", "unread"])
def test_default_host_has_no_hidden_options(era: BootedKernel, on_disk: Unknown | None) -> None:
    """No kernel's default display makes an option look hidden, with or without root."""
    assert resolve(era.release[: era.release.rindex(".")], on_disk=on_disk).hidden == ()


@pytest.mark.parametrize("era", BOOTED_KERNELS, ids=str)
@pytest.mark.parametrize("on_disk", [None, NO_SUPERBLOCK], ids=["read", "unread"])
def test_on_a_default_host_nothing_was_given_to_mount(
    era: BootedKernel, on_disk: Unknown | None
) -> None:
    """The default that a kernel lists (data=ordered until 4.16) is no mount option."""
    options = resolve(era.release[: era.release.rindex(".")], on_disk=on_disk)
    assert [each.token for each in options.options if each.set_by is Provenance.MOUNT] == []


@pytest.mark.parametrize(
    ("release", "name", "token"),
    [
        ("4.14", "barrier", "barrier"),
        ("4.14", "delalloc", "delalloc"),
        ("4.14", "dioread_nolock", "nodioread_nolock"),
        ("4.14", "discard", "nodiscard"),
        ("4.14", "minixdf", "bsddf"),
        ("4.14", "auto_da_alloc", "auto_da_alloc"),
        ("4.19", "dioread_nolock", "nodioread_nolock"),
        ("5.4", "dioread_nolock", "nodioread_nolock"),
        ("5.10", "dioread_nolock", "dioread_nolock"),
        ("7.2", "dioread_nolock", "dioread_nolock"),
        ("7.2", "prefetch_block_bitmaps", "prefetch_block_bitmaps"),
        ("7.2", "data", "data=ordered"),
    ],
)
def test_the_options_file_says_what_is_in_force(release: str, name: str, token: str) -> None:
    """Each state has one canonical token, whatever the kernel prints for it."""
    found = option(resolve(release), name)
    assert (found.token, found.origin) == (token, FILE)


@pytest.mark.parametrize(
    ("removed", "name", "token"),
    [
        ("barrier", "barrier", "nobarrier"),
        ("delalloc", "delalloc", "nodelalloc"),
        ("journal_checksum", "journal_checksum", "nojournal_checksum"),
        ("acl", "acl", "noacl"),
        ("block_validity", "block_validity", "noblock_validity"),
    ],
)
def test_an_old_options_file_lists_only_what_is_on(removed: str, name: str, token: str) -> None:
    """Until 4.16 a switch that is missing from the file is off."""
    options = resolve("4.14", file=options_file("4.14", {removed: ""}))
    assert option(options, name).token == token


def test_an_old_options_file_does_list_noauto_da_alloc() -> None:
    """noauto_da_alloc is a bit that is set, so even an old file lists it."""
    options = resolve("4.14", file=options_file("4.14", {"barrier": "barrier noauto_da_alloc"}))
    assert options.token("auto_da_alloc") == Known("noauto_da_alloc", FILE)


def test_a_full_options_file_is_not_completed() -> None:
    """An option that a full file omits is not in force: a 6.1 kernel without ACLs has no noacl."""
    options = resolve("6.1", file=options_file("6.1", {"acl": ""}))
    assert options.token("acl") == Unknown("option acl", Why.ABSENT, f"{FILE} does not list it")


@pytest.mark.parametrize(
    ("name", "token", "provenance"),
    [
        ("barrier", "nobarrier", Provenance.SUPERBLOCK_BITS),
        ("delalloc", "nodelalloc", Provenance.SUPERBLOCK_BITS),
        ("data", "data=writeback", Provenance.SUPERBLOCK_BITS),
    ],
)
@pytest.mark.parametrize("release", ["4.19", "5.4", "5.10", "6.1", "6.12", "6.18", "7.2"])
def test_superblock_bits_hide_options(
    release: str, name: str, token: str, provenance: Provenance
) -> None:
    """After `tune2fs -o` the mount table lists only "rw", but three options are in force."""
    file = options_file(
        release,
        {"barrier": "nobarrier", "delalloc": "nodelalloc", "data=ordered": "data=writeback"},
    )
    options = resolve(release, file=file, table="rw", on_disk=TUNED)
    found = option(options, name)
    assert (found.token, found.set_by, found.hidden, found.baseline) == (
        token,
        provenance,
        True,
        token,
    )
    assert len(options.hidden) == 3


def test_superblock_bits_hide_options_on_an_old_kernel_too() -> None:
    """On 4.14 the options are missing from both the file and the mount table."""
    file = options_file("4.14", {"barrier": "", "delalloc": "", "data=ordered": "data=writeback"})
    options = resolve("4.14", file=file, table="rw", on_disk=TUNED)
    assert {each.token for each in options.hidden} == {"nobarrier", "nodelalloc", "data=writeback"}


@pytest.mark.parametrize(
    ("string", "before", "token"),
    [
        ("nobarrier", "barrier", "nobarrier"),
        ("barrier=0", "barrier", "nobarrier"),
        ("noauto_da_alloc", "auto_da_alloc", "noauto_da_alloc"),
        ("commit=30,dioread_lock", "dioread_nolock", "nodioread_nolock"),
        ("data=writeback", "data=ordered", "data=writeback"),
    ],
)
def test_the_superblock_string_hides_options(string: str, before: str, token: str) -> None:
    """Options set with `tune2fs -E mount_opts=` are distinguished from the bit field."""
    options = resolve(
        file=options_file("6.1", {before: token}), on_disk=superblock(mount_option_string=string)
    )
    assert [(o.token, o.set_by) for o in options.hidden] == [(token, Provenance.SUPERBLOCK_STRING)]


def test_the_errors_field_hides_its_policy() -> None:
    """`tune2fs -e remount-ro` does not show in the mount table."""
    options = resolve(
        file=options_file("6.1", {"errors=continue": "errors=remount-ro"}),
        on_disk=superblock(errors="remount-ro"),
    )
    assert [(o.token, o.set_by) for o in options.hidden] == [
        ("errors=remount-ro", Provenance.SUPERBLOCK_FIELD)
    ]


def test_what_only_the_superblock_can_have_set_is_inferred_without_reading_it() -> None:
    """The file lists nobarrier and the mount table does not: the superblock sets it."""
    options = resolve(file=options_file("6.1", {"barrier": "nobarrier"}), on_disk=NO_SUPERBLOCK)
    (hidden,) = options.hidden
    assert (hidden.token, hidden.set_by, hidden.baseline) == (
        "nobarrier",
        Provenance.SUPERBLOCK,
        "nobarrier",
    )


def test_nothing_is_inferred_where_no_mount_table_shows_the_superblock() -> None:
    """Without a line in the mount table an unlisted option proves nothing."""
    options = resolve(
        file=options_file("6.1", {"barrier": "nobarrier"}), table=NO_MOUNT, on_disk=NO_SUPERBLOCK
    )
    found = option(options, "barrier")
    assert (found.token, found.set_by, found.hidden, found.baseline) == (
        "nobarrier",
        Provenance.UNKNOWN,
        False,
        None,
    )


def test_a_superblock_hides_even_where_no_mount_table_can_be_read() -> None:
    """Bits that were read are hidden: a mount table of another namespace omits them as well."""
    options = resolve(
        file=options_file("6.1", {"barrier": "nobarrier"}), table=NO_MOUNT, on_disk=TUNED
    )
    assert [each.token for each in options.hidden] == ["nobarrier"]


@pytest.mark.parametrize(
    ("shown", "before", "baseline"),
    [
        ("nobarrier", "barrier", "barrier"),
        ("noauto_da_alloc", "auto_da_alloc", "auto_da_alloc"),
        ("discard", "nodiscard", "nodiscard"),
        ("nodioread_nolock", "dioread_nolock", "dioread_nolock"),
    ],
)
@pytest.mark.parametrize("on_disk", [None, NO_SUPERBLOCK], ids=["read", "unread"])
def test_what_the_mount_table_shows_was_given_to_mount(
    shown: str, before: str, baseline: str, on_disk: Unknown | None
) -> None:
    """A switch is listed if it differs from what the superblock and the kernel had set."""
    options = resolve(
        file=options_file("6.1", {before: shown}), table=f"rw,{shown}", on_disk=on_disk
    )
    found = next(each for each in options.options if each.token == shown)
    assert (found.set_by, found.hidden, found.baseline) == (Provenance.MOUNT, False, baseline)


@pytest.mark.parametrize(
    ("table", "name", "baseline"),
    [("rw,barrier", "barrier", "nobarrier"), ("rw,delalloc", "delalloc", "nodelalloc")],
)
@pytest.mark.parametrize("on_disk", [TUNED, NO_SUPERBLOCK], ids=["read", "unread"])
@pytest.mark.parametrize("release", ["4.14", "4.19", "6.1", "7.2"])
def test_explicit_opposite_reveals_the_superblock_default(
    release: str, table: str, name: str, baseline: str, on_disk: object
) -> None:
    """`barrier` in a mount table proves that the superblock's default is nobarrier."""
    found = option(resolve(release, table=table, on_disk=on_disk), name)
    assert (found.token, found.set_by, found.hidden, found.baseline) == (
        name,
        Provenance.MOUNT,
        False,
        baseline,
    )


def test_every_source_of_an_option_is_a_layer() -> None:
    """The layers are in the order in which the kernel applies them."""
    on_disk = superblock(default_mount_options=("nobarrier",), mount_option_string="barrier")
    options = resolve(
        file=options_file("6.1", {"barrier": "nobarrier"}), table="rw,nobarrier", on_disk=on_disk
    )
    found = option(options, "barrier")
    assert found.layers == (
        Layer(Provenance.KERNEL_DEFAULT, "barrier", "Linux 6.1.192"),
        Layer(Provenance.SUPERBLOCK_BITS, "nobarrier", DUMPE2FS),
        Layer(Provenance.SUPERBLOCK_STRING, "barrier", DUMPE2FS),
        Layer(Provenance.MOUNT, "nobarrier", TABLE),
    )
    assert (found.set_by, found.baseline) == (Provenance.MOUNT, "barrier")


@pytest.mark.parametrize(
    ("release", "changes", "table", "implied"),
    [
        (
            "6.1",
            {
                "data=ordered": "data=journal",
                "delalloc": "nodelalloc",
                "dioread_nolock": "nodioread_nolock",
            },
            "rw,nodioread_nolock,nodelalloc,data=journal",
            {"nodelalloc", "nodioread_nolock"},
        ),
        (
            "4.19",
            {"data=ordered": "data=journal", "delalloc": "nodelalloc"},
            "rw,nodelalloc,data=journal",
            {"nodelalloc", "nodioread_nolock"},
        ),
    ],
)
def test_what_data_journal_turns_off_is_implied(
    release: str, changes: dict[str, str], table: str, implied: set[str]
) -> None:
    """data=journal disables delayed allocation and dioread_nolock: both are reported as implied."""
    options = resolve(release, file=options_file(release, changes), table=table)
    assert {o.token for o in options.options if o.set_by is Provenance.IMPLIED} == implied
    assert options.hidden == ()


@pytest.mark.parametrize("file", [None, NO_FILE], ids=["listed", "unlisted"])
def test_a_hidden_data_journal_is_found_by_its_bits_and_its_side_effects_are_implied(
    file: Unknown | None,
) -> None:
    """The table shows nodioread_nolock,nodelalloc but no data=: the superblock journals data."""
    changes = {
        "data=ordered": "data=journal",
        "delalloc": "nodelalloc",
        "dioread_nolock": "nodioread_nolock",
    }
    options = resolve(
        file=file or options_file("6.1", changes),
        table="rw,nodioread_nolock,nodelalloc",
        on_disk=superblock(default_mount_options=("journal_data",)),
    )
    assert [(o.token, o.set_by) for o in options.hidden] == [
        ("data=journal", Provenance.SUPERBLOCK_BITS)
    ]
    assert option(options, "delalloc").set_by is Provenance.IMPLIED
    assert option(options, "dioread_nolock").set_by is Provenance.IMPLIED


@pytest.mark.parametrize("fstype", ["ext3", "ext2"])
@pytest.mark.parametrize("on_disk", [None, NO_SUPERBLOCK], ids=["read", "unread"])
def test_ext3_without_delayed_allocation_is_not_hidden(
    fstype: str, on_disk: Unknown | None
) -> None:
    """The ext4 driver leaves delalloc off for ext2 and ext3."""
    options = resolve(
        file=options_file("6.1", {"delalloc": "nodelalloc"}), fstype=fstype, on_disk=on_disk
    )
    found = option(options, "delalloc")
    assert (found.token, found.set_by, found.hidden) == (
        "nodelalloc",
        Provenance.KERNEL_DEFAULT,
        False,
    )


@pytest.mark.parametrize(
    ("release", "table", "token"),
    [
        ("4.19", "rw", None),
        ("5.4", "rw", None),
        ("4.19", "rw,dax", "dax=always"),
        ("5.4", "rw,dax", "dax=always"),
    ],
)
def test_the_word_dax_is_believed_only_where_the_mount_table_has_it(
    release: str, table: str, token: str | None
) -> None:
    """Kernels from 4.17 to 5.7 without CONFIG_FS_DAX always list `dax`."""
    found = resolve(release, table=table).find("dax")
    assert (found.token if found else None) == token


@pytest.mark.parametrize(
    ("release", "table", "listed"),
    [
        ("5.10", "rw", False),
        ("5.10", "rw,fc_debug_force", True),
        # From 6.3 on the listing is correct.
        ("6.12", "rw", True),
    ],
)
def test_the_word_fc_debug_force_is_believed_from_6_3_on(
    release: str, table: str, *, listed: bool
) -> None:
    """From 5.10 to 6.2 it shared its bit with errors=continue."""
    word = "" if release == "5.10" else "noquota fc_debug_force"
    file = None if release == "5.10" else options_file(release, {"noquota": word})
    found = resolve(release, file=file, table=table).find("fc_debug_force")
    assert (found is not None) is listed


@pytest.mark.parametrize("release", ["4.14", "4.19"])
@pytest.mark.parametrize("on_disk", ["read", "unread"])
def test_old_mount_table_without_a_journal_is_ignored(release: str, on_disk: str) -> None:
    """The table prints defaults that are on and omits nobarrier: none was given to mount."""
    changes = {"data=ordered": "", "barrier": "nobarrier"}
    changes |= {"journal_checksum": "nojournal_checksum"}
    if release == "4.14":
        changes = {"data=ordered": "", "barrier": "", "journal_checksum": ""}
    options = resolve(
        release,
        file=options_file(release, changes),
        table="rw,block_validity,delalloc,nojournal_checksum,user_xattr,acl",
        on_disk=superblock(features=frozenset()) if on_disk == "read" else NO_SUPERBLOCK,
    )
    barrier, delalloc = option(options, "barrier"), option(options, "delalloc")
    assert (barrier.token, barrier.set_by, barrier.hidden) == (
        "nobarrier",
        Provenance.UNKNOWN,
        False,
    )
    assert (delalloc.token, delalloc.set_by) == ("delalloc", Provenance.KERNEL_DEFAULT)
    assert barrier.baseline == ("barrier" if on_disk == "read" else None)


def test_superblock_options_count_if_the_mount_table_is_unreliable() -> None:
    """The bits are read from the superblock itself and are still reported as hidden."""
    options = resolve(
        "4.14",
        file=options_file("4.14", {"data=ordered": "", "barrier": "", "journal_checksum": ""}),
        table="rw,block_validity,delalloc,nojournal_checksum,user_xattr,acl",
        on_disk=superblock(features=frozenset(), default_mount_options=("nobarrier",)),
    )
    assert [(o.token, o.set_by) for o in options.hidden] == [
        ("nobarrier", Provenance.SUPERBLOCK_BITS)
    ]


def test_fixed_stable_kernel_is_reliable_without_a_journal() -> None:
    """4.19.222 is fixed: an option that its table does not list is evidence."""
    options = resolve(
        "4.19",
        file=options_file("4.19", {"data=ordered": "", "barrier": "nobarrier"}),
        table="rw",
        on_disk=NO_SUPERBLOCK,
    )
    assert [(o.token, o.set_by) for o in options.hidden] == [("nobarrier", Provenance.SUPERBLOCK)]


def test_without_a_journal_no_data_mode_is_in_force_whatever_the_bits_say() -> None:
    """ext4_fill_super() clears the data mode if there is no journal."""
    on_disk = superblock(features=frozenset(), default_mount_options=("journal_data_writeback",))
    assert (
        resolve(file=options_file("6.1", {"data=ordered": ""}), on_disk=on_disk).find("data")
        is None
    )
    assert resolve(file=NO_FILE, on_disk=on_disk).find("data") is None


@pytest.mark.parametrize("file", [True, False])
def test_without_a_journal_journal_data_still_turns_off_what_it_implies(*, file: bool) -> None:
    """The kernel forgets the mode after it has obeyed it (5.10, 6.1 and 6.18 mounted)."""
    on_disk = superblock(features=frozenset(), default_mount_options=("journal_data",))
    states = {"data=ordered": "", "delalloc": "nodelalloc", "dioread_nolock": "nodioread_nolock"}
    options = resolve(
        file=options_file("6.1", states) if file else NO_FILE,
        table="rw,nodelalloc,nodioread_nolock",
        on_disk=on_disk,
    )
    for name, token in (("delalloc", "nodelalloc"), ("dioread_nolock", "nodioread_nolock")):
        found = option(options, name)
        assert (found.token, found.set_by) == (token, Provenance.IMPLIED)
        assert (found.hidden, found.baseline) == (False, token)


def test_only_a_remount_turns_on_what_journal_data_turns_off_without_a_journal() -> None:
    """The kernel's default is then in force, but the next mount loses it (6.18 mounted)."""
    on_disk = superblock(features=frozenset(), default_mount_options=("journal_data",))
    options = resolve(file=options_file("6.1", {"data=ordered": ""}), table="rw", on_disk=on_disk)
    found = option(options, "delalloc")
    assert (found.token, found.set_by, found.baseline) == (
        "delalloc",
        Provenance.MOUNT,
        "nodelalloc",
    )


@pytest.mark.parametrize(
    ("uid", "gid", "table", "baseline"),
    [
        (0, 0, "rw,resuid=1000", "resuid=0"),
        (1000, 0, "rw,resuid=1000", None),
        (0, 7, "rw,resuid=1000", None),
        (None, None, "rw,resuid=1000", None),
        (None, None, "rw", "resuid=0"),
    ],
)
def test_an_owner_of_the_reserve_in_the_superblock_leaves_the_baseline_open(
    uid: int | None, gid: int | None, table: str, baseline: str | None
) -> None:
    """The table lists resuid= whether a field or a mount sets it."""
    token = "resuid=1000" if "resuid" in table else "resuid=0"
    options = resolve(
        file=options_file("6.1", {"resuid=0": token}),
        table=table,
        on_disk=superblock(reserved_uid=uid, reserved_gid=gid),
    )
    assert option(options, "resuid").baseline == baseline


def test_quota_words_are_options_of_their_own() -> None:
    """The last line of the file joins them with commas; the parser returns separate tokens."""
    options = resolve(
        file=options_file("6.1", {"max_dir_size_kb=0": "jqfmt=vfsv1 usrjquota=aquota.user"}),
        table="rw,jqfmt=vfsv1,usrjquota=aquota.user",
    )
    assert options.token("jqfmt") == Known("jqfmt=vfsv1", FILE)
    assert options.token("usrjquota") == Known("usrjquota=aquota.user", FILE)


@pytest.mark.parametrize("word", ["resv_strict", "synoacl", "(null)", "x\x1b[31m=1", "\udcff"])
def test_a_word_that_no_table_knows_is_kept(word: str) -> None:
    """Options that only vendor kernels have are shown unchanged and are not reported as hidden."""
    options = resolve(file=options_file("6.1", {"acl": word}), table=f"rw,{word}")
    found = option(options, word)
    assert (found.token, found.set_by, found.hidden, found.baseline) == (
        word,
        Provenance.MOUNT,
        False,
        None,
    )


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"stripe_width_blocks": 32768}, ["stripe=32768"]),
        ({"stripe_width_blocks": 32769, "stride_blocks": 16}, ["stripe=16"]),
        ({"stripe_width_blocks": 32769, "blocks_per_group": None}, ["stripe=32769"]),
        ({"stripe_width_blocks": 2}, ["stripe=2"]),
        ({"stripe_width_blocks": 1}, []),
        ({"stripe_width_blocks": 1, "stride_blocks": 16}, []),
        ({"stripe_width_blocks": 16, "stride_blocks": 1}, ["stripe=16"]),
        ({"stripe_width_blocks": 0, "stride_blocks": 1}, []),
    ],
)
def test_the_kernel_takes_a_stripe_of_2_blocks_up_to_a_group(
    fields: dict[str, object], tokens: list[str]
) -> None:
    """The stripe width is used if it fits, otherwise the stride if that fits."""
    layers = option_layers(spec_named("stripe"), unlisted(NO_KERNEL, known(superblock(**fields))))
    assert [layer.token for layer in layers] == tokens


@pytest.mark.parametrize(
    ("upstream", "block_bytes", "certain"),
    [
        ((5, 6, 19), 1024, True),
        ((5, 7, 0), 1024, False),
        ((5, 7, 0), 4096, True),
        ((6, 7, 12), 1024, False),
        ((6, 8, 0), 1024, True),
    ],
)
def test_the_default_of_dioread_nolock_depended_on_the_block_size(
    upstream: tuple[int, int, int], block_bytes: int, *, certain: bool
) -> None:
    """From 5.7 to 6.7 the default is certain only if a block is as large as a page on x86."""
    by = known(kernel("6.1.0")._replace(upstream=upstream))
    on_disk = known(superblock(block_bytes=block_bytes))
    default = kernel_default(spec_named("dioread_nolock"), by, on_disk, "ext4")
    assert (default is not None) is certain


@pytest.mark.parametrize(
    ("fields", "token", "provenance"),
    [
        ({"stripe_width_blocks": 1536, "stride_blocks": 128}, "stripe=1536", "field"),
        ({"stripe_width_blocks": 0, "stride_blocks": 128}, "stripe=128", "field"),
        ({"mount_option_string": "stripe=64"}, "stripe=64", "string"),
        ({}, "stripe=64", "mount"),
    ],
)
def test_a_stripe_is_shown_whoever_set_it(
    fields: dict[str, object], token: str, provenance: str
) -> None:
    """The mount table lists every stripe; only the superblock shows its provenance."""
    options = resolve(
        file=options_file("6.1", {"stripe=0": token}),
        table=f"rw,{token}",
        on_disk=superblock(**fields),
    )
    found = option(options, "stripe")
    provenances = {
        "field": Provenance.SUPERBLOCK_FIELD,
        "string": Provenance.SUPERBLOCK_STRING,
        "mount": Provenance.MOUNT,
    }
    assert (found.token, found.set_by, found.hidden) == (token, provenances[provenance], False)


@pytest.mark.parametrize(
    ("before", "token"),
    [("stripe=0", "stripe=1536"), ("commit=5", "commit=30"), ("errors=continue", "errors=panic")],
)
def test_a_shown_value_is_not_the_mounts_while_the_superblock_is_unread(
    before: str, token: str
) -> None:
    """Without root, stripe=1536 of a RAID must not be reported as a forgotten remount."""
    options = resolve(
        file=options_file("6.1", {before: token}), table=f"rw,{token}", on_disk=NO_SUPERBLOCK
    )
    found = next(each for each in options.options if each.token == token)
    assert (found.set_by, found.hidden) == (Provenance.UNKNOWN, False)


def test_a_reserved_user_may_come_from_a_field_that_is_not_read() -> None:
    """`tune2fs -u` shows as resuid= in the mount table, so its provenance is unknown."""
    options = resolve(file=options_file("6.1", {"resuid=0": "resuid=1000"}), table="rw,resuid=1000")
    assert option(options, "resuid").set_by is Provenance.UNKNOWN


@pytest.mark.parametrize("file", [None, NO_FILE], ids=["listed", "unlisted"])
def test_a_commit_interval_of_the_string_is_shown_and_is_the_superblocks(
    file: Unknown | None,
) -> None:
    """The mount table lists commit=30 from `mount_opts`, and each later mount sets it again."""
    options = resolve(
        file=file or options_file("6.1", {"commit=5": "commit=30"}),
        table="rw,commit=30",
        on_disk=superblock(mount_option_string="commit=30"),
    )
    found = option(options, "commit")
    assert (found.token, found.set_by, found.baseline) == (
        "commit=30",
        Provenance.SUPERBLOCK_STRING,
        "commit=30",
    )


@pytest.mark.parametrize(
    ("release", "block_bytes", "token"),
    [
        ("5.4", 4096, "nodioread_nolock"),
        ("5.10", 4096, "dioread_nolock"),
        ("7.2", 4096, "dioread_nolock"),
        # From 5.7 to 6.7 it was off for blocks smaller than a page: nothing is concluded there.
        ("5.4", 1024, "nodioread_nolock"),
        ("5.10", 1024, None),
        ("6.1", 1024, None),
        ("6.12", 1024, "dioread_nolock"),
    ],
)
def test_the_default_of_dioread_nolock_by_kernel_and_block_size(
    release: str, block_bytes: int, token: str | None
) -> None:
    """Without the options file, the default is used if it is certain."""
    options = resolve(release, file=NO_FILE, on_disk=superblock(block_bytes=block_bytes))
    found = options.find("dioread_nolock")
    assert (found.token if found else None) == token


def test_a_64_kib_page_makes_the_default_of_dioread_nolock_uncertain() -> None:
    """An arm64 kernel may have pages larger than the 4 KiB blocks."""
    given = sources("6.1", file=NO_FILE)
    arm = Known(kernel("6.1.0-18-arm64"), "uname")
    resolved = resolve_options(type(given)(given.file, given.mount, given.superblock, arm))
    assert isinstance(resolved, Known)
    assert resolved.value.find("dioread_nolock") is None


@pytest.mark.parametrize(
    ("release", "machine", "hidden"),
    [
        ("6.6.20+rpt-rpi-2712", "aarch64", False),
        ("5.15.0-91-generic-64k", "aarch64", False),
        ("6.1.0-18-powerpc64le", "ppc64le", False),
        ("6.6.20", "x86_64", True),
        ("6.12.20+rpt-rpi-2712", "aarch64", True),
    ],
)
def test_the_machine_tells_whether_pages_may_be_large(
    release: str, machine: str, hidden: bool
) -> None:
    """The machine type shows whether pages may be large: then this default is not hidden."""
    given = sources("6.1", file="rw\nnodioread_nolock\ninode_readahead_blks=32\n")
    of = Known(kernel(release)._replace(machine=machine), "uname")
    resolved = resolve_options(type(given)(given.file, given.mount, given.superblock, of))
    assert isinstance(resolved, Known)
    option = resolved.value.find("dioread_nolock")
    assert option is not None
    assert option.hidden is hidden


@pytest.mark.parametrize(
    ("name", "token"),
    [("barrier", "barrier"), ("delalloc", "delalloc"), ("data", "data=ordered")],
)
def test_options_from_mount_table_and_superblock(name: str, token: str) -> None:
    """The kernel's default is in force if neither the mount table nor the superblock sets one."""
    options = resolve(file=NO_FILE)
    assert options.token(name) == Known(token, "Linux 6.1.192")
    assert (options.complete, options.source) == (False, f"{TABLE}, {DUMPE2FS}")


@pytest.mark.parametrize(
    ("name", "token"),
    [("barrier", "nobarrier"), ("delalloc", "nodelalloc"), ("data", "data=writeback")],
)
def test_unlisted_option_without_options_file_is_from_the_superblock(name: str, token: str) -> None:
    """An option that is not listed has the superblock's value, and the superblock is cited."""
    options = resolve(file=NO_FILE, on_disk=TUNED)
    found = option(options, name)
    assert (found.token, found.origin, found.hidden) == (token, DUMPE2FS, True)


@pytest.mark.parametrize("name", ["barrier", "delalloc", "data", "auto_da_alloc", "errors"])
def test_unlisted_option_without_file_and_superblock_is_unknown(name: str) -> None:
    """A mount table without nobarrier does not prove barriers: the superblock may turn them off."""
    options = resolve(file=NO_FILE, on_disk=NO_SUPERBLOCK)
    assert options.find(name) is None
    assert options.token(name) == Unknown(
        f"option {name}", Why.ABSENT, "No such file or directory", "run as root"
    )


def test_listed_options_count_without_file_and_superblock() -> None:
    """Options that the mount table lists are in force."""
    options = resolve(file=NO_FILE, table="rw,nobarrier", on_disk=NO_SUPERBLOCK)
    assert options.token("barrier") == Known("nobarrier", TABLE)


def test_what_the_mount_table_shows_beside_ext4s_options_is_none_of_them() -> None:
    """Options of the VFS and of security modules, such as seclabel, are not ext4 options."""
    table = "rw,sync,lazytime,seclabel,context=a_t:s0,smackfsdef=_,nobarrier,new_one"
    options = resolve(file=NO_FILE, table=table, on_disk=NO_SUPERBLOCK)
    assert [each.token for each in options.options] == ["nobarrier", "new_one"]


@pytest.mark.parametrize(
    ("release", "hint"),
    [
        ("6.1.76", "run on the host, outside containers"),
        ("3.4.113", "run on the host, outside containers"),
        ("3.3.8", "Linux lists all options since 3.4"),
        ("2.6.32-754.el6.x86_64", "Linux lists all options since 3.4"),
    ],
)
def test_every_gap_has_a_hint(release: str, hint: str) -> None:
    """The superblock is known; options that it does not contain need the options file."""
    found = resolve_options(sources(file=NO_FILE)._replace(kernel=known(kernel(release))))
    assert isinstance(found, Known)
    gap = found.value.token("journal_checksum")
    assert isinstance(gap, Unknown)
    assert gap.hint == hint


def test_no_source_gives_unknown_options() -> None:
    """Without the file, the mount table and the superblock, all options are unknown."""
    found = resolve_options(sources(file=NO_FILE, table=NO_MOUNT, on_disk=NO_SUPERBLOCK))
    assert found == Unknown(FILE, Why.ABSENT, "No such file or directory", "run as root")


def test_a_superblock_alone_establishes_no_option() -> None:
    """Without the file and the mount table, the options given at mount time are unknown."""
    options = resolve(file=NO_FILE, table=NO_MOUNT, on_disk=TUNED)
    assert (options.options, options.mount_table) == ((), None)


@pytest.mark.parametrize(
    ("string", "table", "name", "token"),
    [
        # `-o commit=5` over the string is not listed, since 5 is the compiled default.
        ("commit=30", "rw", "commit", "commit=5"),
        # `-o errors=continue` over the string, equal to the field.
        ("errors=panic", "rw", "errors", "errors=continue"),
        # `-o init_itable=10` over the string is not listed; neither is the string alone.
        ("noinit_itable", "rw", "init_itable", None),
    ],
)
def test_meaning_of_an_unlisted_value(
    string: str, table: str, name: str, token: str | None
) -> None:
    """The kernel compares switches with the superblock's string, but not values."""
    options = resolve(file=NO_FILE, table=table, on_disk=superblock(mount_option_string=string))
    found = options.find(name)
    assert (found.token if found else None) == token


@pytest.mark.parametrize(
    ("string", "errors", "before", "token", "baseline"),
    [
        ("commit=30", "continue", "commit=5", "commit=5", "commit=30"),
        ("errors=panic", "remount-ro", "errors=continue", "errors=remount-ro", "errors=panic"),
    ],
)
def test_what_a_mount_brings_back_over_the_string_is_the_mounts(
    string: str, errors: str, before: str, token: str, baseline: str
) -> None:
    """The table does not list it, but without mount(2) the string would be in force."""
    options = resolve(
        file=options_file("6.1", {before: token}),
        on_disk=superblock(mount_option_string=string, errors=errors),
    )
    found = next(each for each in options.options if each.token == token)
    assert (found.set_by, found.baseline) == (Provenance.MOUNT, baseline)


def test_an_unknown_kernel_leaves_its_defaults_open_and_the_superblocks_not() -> None:
    """Without uname the default is unknown, but the superblock's bits are still used."""
    options = resolve(None, file=NO_FILE, on_disk=TUNED)
    assert options.find("auto_da_alloc") is None
    assert options.token("barrier") == Known("nobarrier", DUMPE2FS)


MOUNTED = st.builds(Mounted, **settings_of())


BY_CONFIGURATION = {"acl", "user_xattr"}
"""Options whose default depends on the kernel's configuration, not on its version."""


@given(mounted=MOUNTED, root=st.booleans())
def test_with_the_options_file_the_true_token_is_found(mounted: Mounted, *, root: bool) -> None:
    """The file overrides the superblock and the mount table; the provenance may stay unknown."""
    options = mounted.resolve(file=True, superblock_read=root)
    found = {name: option(options, name).token for name in mounted.in_force}
    assert found == mounted.in_force


@given(mounted=MOUNTED)
def test_without_file_and_superblock_what_is_known_is_true(mounted: Mounted) -> None:
    """With the mount table alone a token may be unknown, but is never wrong."""
    options = mounted.resolve(file=False, superblock_read=False)
    shown = {name for name in mounted.in_force if options.find(name)}
    assert {name: option(options, name).token for name in shown} == {
        name: mounted.in_force[name] for name in shown
    }


@given(mounted=MOUNTED)
def test_table_and_superblock_together_find_every_true_token(mounted: Mounted) -> None:
    """A token is unknown only if the table is unreliable, and is never wrong."""
    options = mounted.resolve(file=False, superblock_read=True)
    shown = {name for name in mounted.in_force if options.find(name)}
    assert {name: option(options, name).token for name in shown} == {
        name: mounted.in_force[name] for name in shown
    }
    assert mounted.may_omit_comparison or shown | BY_CONFIGURATION >= set(mounted.in_force)


RESTORED_BY_MOUNT = Mounted(
    release="4.19",
    bits=frozenset(),
    string={"errors": "errors=continue"},
    given={"errors": "errors=remount-ro"},
    errors_field="remount-ro",
    stripe_field=0,
    journal=False,
)
"""The table compares with the field, whatever the string sets, and so does not list it."""


@given(mounted=MOUNTED)
@example(mounted=RESTORED_BY_MOUNT)
def test_hidden_is_what_is_no_default_and_not_in_the_mount_table(mounted: Mounted) -> None:
    """A hidden option is in force, is not listed, and is not implied by another one.

    An unreliable table is unreliable for switches only.
    """
    options = mounted.resolve(file=True, superblock_read=True)
    implied = mounted.implied_by(mounted.in_force)
    expected = {
        token
        for name, token in mounted.in_force.items()
        if token not in {mounted.defaults[name], implied.get(name)}
        and not mounted.is_listed(name)
        and name not in BY_CONFIGURATION
    }
    hidden = {each.token for each in options.hidden}
    if mounted.omits_comparison:
        hidden, expected = ({each for each in some if "=" in each} for some in (hidden, expected))
    assert hidden == expected


@given(mounted=MOUNTED)
def test_without_the_superblock_hidden_is_never_what_mount_was_given(mounted: Mounted) -> None:
    """Options attributed to a superblock that was not read do come from the superblock."""
    options = mounted.resolve(file=True, superblock_read=False)
    blamed = {o.name: o.token for o in options.options if o.set_by is Provenance.SUPERBLOCK}
    assert [name for name in blamed if blamed[name] not in mounted.superblock_tokens(name)] == []


@given(mounted=MOUNTED, root=st.booleans())
def test_a_mount_without_options_would_have_the_baseline(mounted: Mounted, *, root: bool) -> None:
    """If the baseline is known, it is what the superblock and the kernel set together."""
    options = mounted.resolve(file=True, superblock_read=root)
    known = {o.name: o.baseline for o in options.options if o.name in mounted.snapshot}
    known = {name: token for name, token in known.items() if token is not None}
    if not root and mounted.snapshot.get("data") == "data=journal":
        # A data=journal that the mount overrides is invisible without the superblock.
        known = {name: token for name, token in known.items() if name not in OFF_WITH_DATA_JOURNAL}
    assert known == {name: mounted.snapshot[name] for name in known}
    assert not root or set(known) | BY_CONFIGURATION >= set(mounted.snapshot)
