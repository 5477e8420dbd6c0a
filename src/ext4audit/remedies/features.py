"""Change features and the metadata behind them: the journal, directory indexes, inode tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit import remedies
from ext4audit.evidence import Known, need
from ext4audit.facts import MIB
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import FstabLine
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Assignment, Disruption, Inspection, Phase, Remedy, Step
from ext4audit.remedies import (
    DUMPE2FS,
    E2FSCK,
    FINDMNT,
    NOTHING,
    TUNE2FS,
    Command,
    Work,
    containing,
    if_quotable,
    joined,
    mount_table,
    plain,
    quote,
    step,
    toggled,
    tuned,
    verified,
)
from ext4audit.remedies.remount import (
    by_hand,
    checked,
    remount_step,
    unmounted_steps,
    usable_mount,
    why_by_hand,
)

SIZE_IN_MIB = "/ournal size:/ { n = $NF + 0; if ($NF ~ /k$/) n /= 1024 }"
"""awk on what dumpe2fs prints: "Total journal size:       128M", in KiB ("4096k") below 8 MiB."""
FREE_SHARE = 2
"""tune2fs 1.47.0 creates no journal larger than half of the free space."""


def enlarge_journal(fs: Filesystem, present_bytes: int, wanted_bytes: int) -> Remedy:
    """Return the remedy that replaces an internal journal by a larger one.

    tune2fs removes the old one first. If the new one then does not fit, the old size is created
    again, so that the filesystem is not left without a journal.
    """
    new, old = (max(1, each // MIB) for each in (wanted_bytes, present_bytes))
    needed_mib = FREE_SHARE * new
    free = free_bytes(fs)
    is_enough = free is not None and free >= needed_mib * MIB
    steps = _replacement(fs, new, old) if is_enough else ()
    missing = f"as soon as {needed_mib} MiB are free: tune2fs requires twice its size"
    where = "" if steps else f", {why_by_hand(fs) if is_enough else missing}"
    return Remedy(
        f"Replace the journal with one of the usual size, {new} MiB{where}.",
        Disruption.UNMOUNT,
        steps,
        trade_off=f"The journal takes {new - old} MiB more space, and its replay after a crash can "
        "take longer.",
    )


def free_bytes(fs: Filesystem) -> int | None:
    """Return the free space, None if it is unknown.

    The superblock's own counter is out of date while the filesystem is mounted.
    """
    if fs.alive:
        usage = fs.usage.value if isinstance(fs.usage, Known) else None
        return usage.free_blocks * usage.block_bytes if usage else None
    superblock = fs.superblock.value if isinstance(fs.superblock, Known) else None
    if superblock is None or superblock.free_blocks is None or superblock.block_bytes is None:
        return None
    return superblock.free_blocks * superblock.block_bytes


@if_quotable
def _replacement(fs: Filesystem, new_mib: int, old_mib: int) -> tuple[Step, ...]:
    found = f"awk '{SIZE_IN_MIB} END {{ exit !(n >= {new_mib}) }}'"
    verify = Command(f"dumpe2fs -h {quote(fs.device)} 2>/dev/null | {found}", DUMPE2FS)
    # What dumpe2fs calls the size holds the area of fast commits too, whose own is not known.
    exact = "fast_commit" not in need(fs.superblock).features
    undo = (_replace(fs, old_mib, new_mib),) if exact else ()
    return unmounted_steps(fs, (checked(fs), _replace(fs, new_mib, old_mib)), (verify,), undo)


def _replace(fs: Filesystem, new_mib: int, old_mib: int) -> Work:
    device = quote(fs.device)
    make = f"{{ tune2fs -J size={new_mib} {device} || tune2fs -J size={old_mib} {device}; }}"
    return Work(_new_journal(fs, make, f"size={new_mib}"))


def _new_journal(fs: Filesystem, make: str, words: str) -> Command:
    """Return the command that removes the journal and makes another by the command `make`."""
    made = Assignment(fs.device, "tune2fs -J", words)
    found = made, *toggled(fs, "-O", ["has_journal"])
    return joined(_set(fs, "^has_journal").command, Command(make, TUNE2FS, sets=found))


@if_quotable
def move_journal_inside(fs: Filesystem, superblock: Superblock) -> tuple[Step, ...]:
    """Return the steps that put an external journal into the filesystem, and out again.

    There is no rollback where the superblock does not name the journal's UUID.
    """
    device, uuid = quote(fs.device), quote(superblock.journal_uuid or "")
    make = f"tune2fs -O has_journal {device}"
    outside = f"tune2fs -J device=UUID={uuid} {device}"
    # Where the new journal does not fit, the old one comes back.
    new = f"{{ {make} || {outside}; }}" if superblock.journal_uuid else make
    inside = f"tune2fs -l {device} | grep -qE '^Journal inode:[[:blank:]]+[1-9]'"
    back = Work(_new_journal(fs, outside, f"device=UUID={uuid}"))
    return unmounted_steps(
        fs,
        (checked(fs), Work(_new_journal(fs, new, "inside"))),
        (Command(inside, TUNE2FS),),
        (back,) if superblock.journal_uuid else (),
    )


@if_quotable
def add_journal(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that make an internal journal of the usual size."""
    return unmounted_steps(
        fs,
        (checked(fs), _set(fs, "has_journal")),
        (_has(fs, "has_journal"),),
        (_set(fs, "^has_journal"),),
    )


@if_quotable
def enable_dir_index(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that set dir_index while mounted: directories that grow get an index.

    The rollback needs an unmount; empty where it would not be known.
    """
    # tune2fs clears it only behind a check that is younger than the last mount (1.47.0).
    undo = checked(fs), Work(joined(_set(fs, "^dir_index").command, checked(fs).command))
    taken_back = unmounted_steps(fs, undo, ())
    if not taken_back:
        return ()
    back = joined(*(Command(s.command, s.programs.command, mounts=s.mounts) for s in taken_back))
    make = tuned(fs, "{tune2fs} -O dir_index {device}", toggled(fs, "-O", ["dir_index"]))
    done = _has(fs, "dir_index")
    return verified(step(Phase.PERSISTENT, make, NOTHING, done, by_unmount=back))


@if_quotable
def index_directories(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that set dir_index and index all directories, unmounted."""
    return unmounted_steps(
        fs,
        (Work(joined(_set(fs, "dir_index").command, _rebuilt(fs))),),
        (_has(fs, "dir_index"),),
        verify_is_complete=False,
    )


def _rebuilt(fs: Filesystem) -> Command:
    """Return the command that checks a filesystem and rebuilds its directories.

    It exits with 1 when it has corrected something, which is no failure (e2fsck(8)).
    """
    return Command(f"{{ e2fsck -f -p -D {quote(fs.device)} || test $? -eq 1; }}", E2FSCK)


@if_quotable
def zero_inode_tables(fs: Filesystem, most_left: int) -> tuple[Step, ...]:
    """Return the steps that zero inode tables without pauses and wait for the end.

    At the end at most `most_left` groups may have one that is not zeroed. Empty where no usable
    mount is here.
    """
    mount = usable_mount(fs)
    if mount is None:
        return ()
    device = quote(fs.device)
    groups = (
        f"dumpe2fs {device} 2>/dev/null | awk '/^Group / {{ n++; left += !/ITABLE_ZEROED/ }} END "
    )
    some_left, done = (
        Command(f"{groups}{{ exit !({condition}) }}'", DUMPE2FS)
        for condition in (f"left > {most_left}", f"n && left <= {most_left}")
    )
    fast = plain(f"grep -qx init_itable=0 {quote(f'/proc/fs/ext4/{fs.name}/options')}")
    wait = containing(f"while {some_left.text}; do sleep 2; done", some_left)
    return (
        remount_step(mount, ("init_itable=0",), (), (fast,)),
        *verified(step(Phase.IMMEDIATE, wait, done=done, change=Inspection())),
    )


REMOVABLE = frozenset({"metadata_csum_seed", "orphan_file", "fast_commit"})
"""Features that tune2fs (1.47) can clear and set on an unmounted filesystem."""


def without_features(fs: Filesystem, features: Sequence[str], *, planned: bool) -> Remedy:
    """Return the remedy that removes features: with mke2fs in a plan, else with tune2fs."""
    cleared = ",".join(f"^{feature}" for feature in features)
    if planned:
        return Remedy(f"Create it with -O {cleared}.", Disruption.ONLINE)
    if not REMOVABLE.issuperset(features):
        return Remedy(
            f"Recreate it with -O {cleared}: tune2fs cannot remove all of these features.",
            Disruption.RECREATE,
            destructive=True,
        )
    steps = _without(fs, features, cleared)
    summary = f"Remove {', '.join(features)}{by_hand(fs, steps)}."
    return Remedy(summary, Disruption.UNMOUNT, steps)


@if_quotable
def _without(fs: Filesystem, features: Sequence[str], cleared: str) -> tuple[Step, ...]:
    return unmounted_steps(
        fs,
        (checked(fs), _set(fs, cleared)),
        tuple(_lacks(fs, feature) for feature in features),
        (checked(fs), _set(fs, ",".join(features))),
    )


@if_quotable
def clear_fast_commit(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that clear fast_commit; nothing else of the filesystem changes."""
    return unmounted_steps(
        fs,
        (_set(fs, "^fast_commit"),),
        (_lacks(fs, "fast_commit"),),
        (_set(fs, "fast_commit"),),
    )


def without_fast_commit(fs: Filesystem) -> Remedy:
    """Return the remedy that clears fast_commit."""
    steps = clear_fast_commit(fs)
    where = "" if steps else f", {why_by_hand(fs)}: tune2fs -O ^fast_commit"
    return Remedy(
        f"Unmount it and remove the feature fast_commit{where}.",
        Disruption.UNMOUNT,
        steps,
        trade_off="Every fsync() commits the whole running transaction, as ext4 does by default.",
    )


@if_quotable
def set_feature(fs: Filesystem, feature: str) -> tuple[Step, ...]:
    """Return the steps that set a feature which tune2fs can also clear, and clear it again."""
    return unmounted_steps(
        fs,
        (checked(fs), _set(fs, feature)),
        (_has(fs, feature),),
        (checked(fs), _set(fs, f"^{feature}")),
    )


@if_quotable
def enable_metadata_csum(fs: Filesystem, superblock: Superblock) -> tuple[Step, ...]:
    """Return the steps that turn metadata checksums on, and off again.

    Directories are rebuilt: a block whose names leave no room for a checksum has none behind
    tune2fs, and the kernel refuses to read it ("Bad message"; 1.47.0 on 6.18).
    """
    # tune2fs puts uninit_bg in its place when it turns metadata_csum off (1.47.0).
    also = "" if "uninit_bg" in superblock.features else ",^uninit_bg"
    return unmounted_steps(
        fs,
        (checked(fs), Work(joined(_set(fs, "metadata_csum").command, _rebuilt(fs)))),
        (_has(fs, "metadata_csum"),),
        (checked(fs), _set(fs, f"^metadata_csum{also}")),
    )


@if_quotable
def enable_large_dir(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that give directory indexes a third level; tune2fs cannot undo it."""
    work = _set(fs, "large_dir"), checked(fs)
    return unmounted_steps(fs, work, (_has(fs, "large_dir"),))


def resized(words: str) -> Work:
    """Return the resize2fs command, which refuses an unmounted filesystem with bigalloc."""
    return Work(Command(f"resize2fs {words}", ("resize2fs",), not_on_bigalloc=True))


@if_quotable
def convert_to_64bit(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that make block numbers 64 bits wide, and 32 again."""
    device, sets = quote(fs.device), toggled(fs, "-O", ["64bit"])
    return unmounted_steps(
        fs,
        (checked(fs), Work(resized(f"-b {device}").command._replace(sets=sets))),
        (_has(fs, "64bit"),),
        (checked(fs), resized(f"-s {device}")),
    )


@if_quotable
def convert_to_ext4(
    fs: Filesystem, lines: Sequence[FstabLine], features: Sequence[str]
) -> tuple[Step, ...]:
    """Return the steps that convert an ext3 filesystem to ext4, without a rollback.

    `lines` of fstab change their type first: the ext4 driver mounts it before and after. Empty
    where one of them cannot be edited.
    """
    edits = [remedies.configuration.edit_type(line, "ext4") for line in lines]
    work = Work(joined(_set(fs, ",".join(features)).command, checked(fs).command))
    mounts = tuple(mount._replace(fstype="ext4") for mount in fs.mounts)
    mounted = fs._replace(mounts=mounts)
    steps = unmounted_steps(mounted, (work,), tuple(_is_ext4(fs)), verify_is_complete=False)
    if not steps or any(edit is None for edit in edits):
        return ()
    return (*(edit._replace(undo="") for edit in edits if edit), *steps)


def _is_ext4(fs: Filesystem) -> Iterator[Command]:
    """Yield the commands that fail where extents are not set or a mount is not of ext4."""
    yield _has(fs, "extent")
    for mount in fs.mounts:
        fstype = mount_table(quote(mount.mount_point), "FSTYPE")
        yield Command(f"{fstype} | grep -qx ext4", FINDMNT)


def _set(fs: Filesystem, features: str) -> Work:
    """Return the command that sets the comma-separated features; ^ before a name clears it.

    With bigalloc, tune2fs leaves wrong counts of free blocks where it removes the journal.
    """
    text = f"tune2fs -O {features} {quote(fs.device)}"
    removes_journal = "^has_journal" in features.split(",")
    sets = toggled(fs, "-O", features.split(","))
    return Work(Command(text, TUNE2FS, not_on_bigalloc=removes_journal, sets=sets))


def _has(fs: Filesystem, feature: str) -> Command:
    """Return the command that fails where the superblock does not list the feature."""
    return Command(f"{_feature_line(fs)} | grep -qw {feature}", TUNE2FS)


def _lacks(fs: Filesystem, feature: str) -> Command:
    """Return the command that fails where the superblock lists the feature, or was not read."""
    return Command(f"{_feature_line(fs)} | grep -qvw {feature}", TUNE2FS)


def _feature_line(fs: Filesystem) -> str:
    return f"tune2fs -l {quote(fs.device)} | grep '^Filesystem features:'"


@if_quotable
def add_journal_while_mounted(fs: Filesystem) -> tuple[Step, ...]:
    """Return the steps that make a journal for the next mount; the running one goes on without.

    A file is opened first: at the first open after a mount the kernel writes the mount point into
    the superblock, and tune2fs, which opens one, would write a wrong checksum (seen on 6.18 with
    1.47.0). There is no rollback, because tune2fs takes a journal out of an unmounted filesystem
    only. Empty where no mount of the whole filesystem is here: tune2fs takes it for unmounted.
    """
    mount = usable_mount(fs)
    if mount is None or any(each.root != "/" for each in fs.mounts):
        return ()
    where = quote(mount.mount_point)
    touch = 'file=$(mktemp -p {where} .ext4audit.XXXXXX) && rm "$file"'
    sets = toggled(fs, "-O", ["has_journal"])
    make = tuned(fs, f"{touch} && {{tune2fs}} -O has_journal {{device}}", sets, where=where)
    make = make._replace(programs=("mktemp", *make.programs))
    return step(Phase.PERSISTENT, make), step(Phase.VERIFY, _has(fs, "has_journal"))
