"""Helpers that several rule families share: citations of options, fields, bugs and trimming."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NoReturn, TypeVar

from ext4audit import remedies
from ext4audit.evidence import (
    MOUNT_TABLE,
    Evidence,
    Known,
    Undetermined,
    Unknown,
    Why,
    derive,
    for_wording,
    is_surely,
    need,
    raise_for,
)
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem, Host, fstab_lines, option_of
from ext4audit.facts.mount import (
    EffectiveOption,
    EffectiveOptions,
    FstabEntry,
    FstabLine,
    Mount,
    Provenance,
)
from ext4audit.facts.options import StringWords, recognize, sets_option, words_of_string
from ext4audit.facts.superblock import Superblock
from ext4audit.facts.versions import Exposure
from ext4audit.finding import (
    MOST_NAMED,
    Citation,
    Confidence,
    Disruption,
    Remedy,
    Severity,
    few,
)
from ext4audit.rule import NotApplicable

PLACES = {
    Provenance.KERNEL_DEFAULT: "kernel default",
    Provenance.SUPERBLOCK_BITS: "superblock, default mount options",
    Provenance.SUPERBLOCK_STRING: "superblock, mount options string",
    Provenance.SUPERBLOCK_FIELD: "superblock field",
    Provenance.SUPERBLOCK: "superblock (bits or string)",
    Provenance.MOUNT: "mount table",
    Provenance.IMPLIED: "implied by another option",
    Provenance.UNKNOWN: "origin unknown",
}
"""The name of each option provenance in citations."""
IN_SUPERBLOCK = frozenset(
    {
        Provenance.SUPERBLOCK,
        Provenance.SUPERBLOCK_BITS,
        Provenance.SUPERBLOCK_STRING,
        Provenance.SUPERBLOCK_FIELD,
    }
)
POOL_OF_LVM = "-tpool"
"""The end of the UUID of an LVM thin pool, which only its thin volumes are built on."""


def is_in_memory(device: BlockDevice) -> bool:
    """Return whether a disk is a RAM disk (zram, brd), which is empty after each boot.

    zram-generator mounts its filesystems with discard, which frees memory (zram-generator.conf(5)).
    """
    return re.fullmatch(r"z?ram[0-9]+", device.name) is not None


def verb(words: Sequence[str]) -> str:
    """Return the verb that agrees with a list of options: "is" or "are"."""
    return "is" if len(words) == 1 else "are"


def pronoun(words: Sequence[str]) -> str:
    """Return the pronoun for a list of options: "it" or "them"."""
    return "it" if len(words) == 1 else "them"


def series(words: Sequence[str]) -> str:
    """Return words as a phrase: "a", "a and b", "a, b and c"."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def cite_option(fs: Filesystem, name: str) -> Iterator[Citation]:
    """Cite the option in force, what set it, and every other place that sets it.

    The option in force, the fstab lines that set it and the superblock, if it hides the option,
    are evidence; the remaining layers and the mount table are detail.
    """
    options = for_wording(fs.options, None)
    option = options.find(name) if options else None
    if options is None or option is None:
        return
    yield Citation(f"option in force: {name}", option.token, option.origin)
    if option.hidden:
        yield Citation("set by", PLACES[option.set_by], option.origin)
    for line in fstab_lines(fs, name):
        yield cite_fstab(line, line.raw_options)
    below = (layer for layer in option.layers if layer.provenance is not Provenance.MOUNT)
    for layer in below:
        yield Citation(PLACES[layer.provenance], layer.token, layer.origin, detail=True)
    yield cite_mount_table(options)._replace(detail=True)


def milder_while_read_only(
    fs: Filesystem, severity: Severity, message: str
) -> tuple[Severity, str]:
    """Return the severity and the message of a problem that only affects writes.

    On a read-only filesystem the severity is INFO, and the message adds when it takes effect.
    """
    if is_surely(fs.read_only):
        return Severity.INFO, f"{message}, as soon as it is mounted writable"
    return severity, message


def cite_fstab(line: FstabLine, value: str, label: str = "fstab {}") -> Citation:
    """Cite a part of an fstab line; `{}` in the label is the place of the line in the file."""
    number = line.line_number if line.is_numbered else None
    return Citation(label.format(line.where), value, "/etc/fstab", fstab_line=number)


def cite_fstab_options(line: FstabLine) -> Citation:
    """Cite the options of an fstab line as what is intended."""
    cited = cite_fstab(line, line.raw_options or "defaults", "fstab options")
    return cited._replace(origin=f"/etc/fstab {line.where}")


FSTAB_OF_CONTAINER = "in a {} container, /etc/fstab is not the host's"


def refuse_container(host: Host, why: str) -> None:
    """Raise NotApplicable in a container; `{}` in `why` is replaced by the kind of container."""
    container = need(host.container)
    if container:
        raise NotApplicable(why.format(container))


def mounted_on(host: Host) -> list[Filesystem]:
    """Return the mounted filesystems of a host, at least one.

    Raises NotApplicable if there is none, Undetermined if one may have been missed.
    """
    mounted = [fs for fs in host.filesystems if fs.alive]
    return mounted or _none_of(host, "no ext4 filesystem is mounted")


def writable_of(host: Host) -> list[Filesystem]:
    """Return mounted filesystems that may be writable, at least one; raises like `mounted_on`."""
    writable = [fs for fs in mounted_on(host) if not is_surely(fs.read_only)]
    return writable or _none_of(host, "all mounted ext4 filesystems are read-only")


def _none_of(host: Host, why: str) -> NoReturn:
    raise_for(host.gaps)
    raise NotApplicable(why)


MOST_SHOWN = 4


def in_brief(citations: Iterable[Citation]) -> tuple[Citation, ...]:
    """Return citations, given in order of importance, with all after the fourth as detail."""
    return tuple(
        each if index < MOST_SHOWN else each._replace(detail=True)
        for index, each in enumerate(citations)
    )


def cite_mount_points(
    fs: Filesystem, is_decisive: Callable[[str], bool] = lambda _point: False
) -> Citation:
    """Cite a few mount points: if there are more, those that decide the severity come first."""
    points = fs.mount_points
    if len(points) > MOST_NAMED:
        points = tuple(sorted(points, key=lambda point: not is_decisive(point)))
    shown = few(points) or "none in this mount namespace"
    return Citation("mount points", shown, MOUNT_TABLE, detail=True)


def cite_mount_table(options: EffectiveOptions) -> Citation:
    """Cite the superblock options that the mount table shows."""
    if options.mount_table is None:
        return Citation("mount table", "no mount was found", MOUNT_TABLE)
    return Citation("mount table", ",".join(options.mount_table), MOUNT_TABLE)


def in_rootflags(fs: Filesystem, host: Host, name: str) -> bool:
    """Return whether this is the root filesystem and rootflags= sets the option to any value."""
    given = for_wording(rootflags(host), ())
    return "/" in fs.mount_points and any(sets_option(o, name) for o in given)


def rootflags(host: Host) -> Evidence[tuple[str, ...]]:
    """Return the options of the last rootflags=, with which the kernel mounts the root."""

    def last(arguments: Sequence[str]) -> tuple[str, ...]:
        flags = [a.removeprefix("rootflags=") for a in arguments if a.startswith("rootflags=")]
        return tuple(flags[-1].split(",")) if flags else ()

    return derive("rootflags=", last, host.kernel_arguments)


IN_BOOT_LOADER = " Correct rootflags= in the boot loader's configuration as well."


def what_else_sets_it(fs: Filesystem, host: Host, name: str) -> str:
    """Return a sentence on the source of an option that no remedy step corrects, or ""."""
    if in_rootflags(fs, host, name):
        return IN_BOOT_LOADER
    option = option_of(fs, name)
    if option is None or option.hidden or _is_stored(option) or fstab_lines(fs, name):
        return ""
    if isinstance(fs.unlisted or fs.fstab, Unknown):
        return " Its origin is unknown, because fstab or the mount table could not be read."
    return f" Neither fstab nor the superblock sets it: correct {remedies.mounted_by(fs)}."


def _is_stored(option: EffectiveOption) -> bool:
    """Return whether the superblock or the kernel's default sets the option."""
    provenances = {option.set_by, *(layer.provenance for layer in option.layers)}
    return bool(provenances & IN_SUPERBLOCK) or option.set_by is Provenance.KERNEL_DEFAULT


def is_in_force(options: EffectiveOptions, name: str) -> bool:
    """Return whether an option without a value is known to be in force."""
    option = options.find(name)
    return option is not None and option.token == name


def need_in_force(fs: Filesystem, name: str) -> bool:
    """Return whether the option is in force; raises Undetermined if its absence proves nothing."""
    options = need(fs.options)
    if is_in_force(options, name):
        return True
    if options.gap is not None and not _table_would_show(fs, options, name):
        raise Undetermined((options.gap,))
    return False


def cite_not_in_force(fs: Filesystem, name: str) -> Citation:
    """Cite that the option is not in force."""
    return Citation(f"option in force: {name}", "not listed", need(fs.options).source)


def _table_would_show(fs: Filesystem, options: EffectiveOptions, name: str) -> bool:
    """Return whether the mount table would list it; it omits what the superblock's string sets."""
    if options.mount_table is None or not isinstance(fs.superblock, Known):
        return False
    words = fs.superblock.value.mount_option_string.split(",")
    return all(spec.name != name for spec, _ in filter(None, map(recognize, words)))


def stored_words(fs: Filesystem, host: Host) -> StringWords:
    """Return the words of a known superblock's option string that this kernel applies."""
    superblock, kernel = need(fs.superblock), for_wording(host.kernel, None)
    options = for_wording(fs.options, None)
    listed = [each.token for each in options.options] if options and options.complete else None
    upstream, fstype = kernel.upstream if kernel else None, for_wording(fs.fstype, None)
    return words_of_string(superblock, upstream, fstype, listed)


T = TypeVar("T")


def superblock_field(
    fs: Filesystem, what: str, read: Callable[[Superblock], T | None]
) -> Evidence[T]:
    """Return the value that `read` takes from the superblock; None becomes an Unknown for `what`.

    The ioctl that works without root omits sizes, and the raw superblock can lack the journal
    size, which dumpe2fs prints. The hint comes from the attempt to read the device, so it is also
    right for root and in a container.
    """
    if isinstance(fs.superblock, Unknown):
        return fs.superblock
    value = read(fs.superblock.value)
    if value is None:
        detail = f"{fs.superblock.origin} does not show it"
        return Unknown(what, Why.NOT_CAPTURED, detail, _device_hint(fs))
    return Known(value, fs.superblock.origin)


def place_of_journal(superblock: Superblock) -> str | None:
    """Return where the journal is, None if unknown: the ioctl that works without root omits it."""
    if not superblock.has_journal:
        return "none"
    if superblock.journal_inode:
        return f"inode {superblock.journal_inode}"
    if superblock.journal_bytes:
        return "inside the filesystem"
    return "on another device" if superblock.journal_device else None


def _device_hint(fs: Filesystem) -> str:
    """Return how to read the rest of the superblock; empty if dumpe2fs was used already.

    If the superblock on the device is damaged, no program can show the rest.
    """
    if isinstance(fs.primary, Unknown):
        return fs.primary.hint
    if fs.primary.value.damage:
        return "repair the superblock on the device (HLT007)"
    if fs.primary.value.failed:
        return fs.primary.value.failed.hint
    return "" if fs.primary.value.is_printed else "install e2fsprogs"


def cite_features(fs: Filesystem) -> tuple[Citation, ...]:
    """Cite the features in the superblock, if it is known."""
    if isinstance(fs.superblock, Unknown):
        return ()
    words = " ".join(sorted(fs.superblock.value.features))
    return (Citation("features", words, fs.superblock.origin, detail=True),)


def gaps_below(stack: BlockDevice) -> tuple[Unknown, ...]:
    """Return the reasons why parts of a stack are not visible: there may be more leaf devices."""
    return tuple(device.below for device in stack.walk() if isinstance(device.below, Unknown))


TIMER = "fstrim.timer"
NEVER_TRIMMED = "X-fstrim.notrim"
"""The fstab option that makes fstrim skip a filesystem (fstrim(8), util-linux 2.38)."""
NO_DISCARD = "its device does not support discards"


def cite_discard(device: BlockDevice) -> tuple[Citation, ...]:
    """Cite the size of the largest discard that the device accepts, if it is known."""
    most = device.queue.discard_max_bytes
    if not isinstance(most, Known):
        return ()
    label = f"discard_max_bytes of {device.name}"
    return (Citation(label, str(most.value), most.origin, detail=True),)


def trimmed(fs: Filesystem, host: Host) -> Evidence[bool]:
    """Return whether fstrim runs regularly and trims this filesystem.

    `fstrim --fstab` and `--listed-in` trim the root and the mount points in fstab (fstrim(8)).
    fstrim.service does not see a filesystem that is not mounted in our mount namespace.
    """
    if isinstance(host.fstrim, Unknown) or not host.fstrim.value:
        return host.fstrim
    named = derive("fstab", partial(_names, fs.mount_points), fs.mounted_here, fs.fstab)
    if isinstance(named, Unknown):
        return named
    return host.trims_all if named.value is None else Known(named.value, host.fstrim.origin)


def _names(
    mount_points: tuple[str, ...], _: tuple[Mount, ...], entries: tuple[FstabEntry, ...]
) -> bool | None:
    """Return whether fstab includes a filesystem in trimming, None if it has no entry for it."""
    lines = [each.line for each in entries if each.place in mount_points]
    if any(NEVER_TRIMMED in line.options for line in lines):
        return False
    return True if lines or "/" in mount_points else None


def cite_fstrim(host: Host) -> Citation:
    """Cite whether a timer or cron job runs fstrim."""
    if not isinstance(host.fstrim, Known):
        return Citation("regular fstrim", f"not known: {host.fstrim.detail}", host.fstrim.what)
    return Citation("regular fstrim", "yes" if host.fstrim.value else "no", host.fstrim.origin)


def cite_kernel(host: Host, exposed: Exposure) -> Citation:
    """Cite the running kernel and the reason why it is or is not exposed to a bug."""
    if not isinstance(host.kernel, Known):
        return Citation("kernel", exposed.note, exposed.source)
    return Citation("kernel", f"{host.kernel.value.release} ({exposed.note})", host.kernel.origin)


def grade(exposed: Exposure) -> tuple[Severity, Confidence]:
    """Return the severity and the confidence of a finding on an exposure."""
    return Severity(exposed.severity), Confidence(exposed.confidence)


def update(exposed: Exposure) -> Remedy:
    """Return advice to update the kernel, without steps: they depend on the distribution."""
    return Remedy(
        f"Update the kernel to {exposed.fix} or later, and restart.",
        Disruption.REBOOT,
        trade_off="The new kernel may change other behavior.",
    )
