"""Who set an option, as evidence and as a sentence: every place that says something of it."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Known, value_or
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import FstabLine
from ext4audit.facts.option_table import recognize
from ext4audit.facts.options import EffectiveOption, EffectiveOptions, Setter
from ext4audit.finding import Citation

PLACES = {
    Setter.KERNEL_DEFAULT: "kernel default",
    Setter.SUPERBLOCK_BITS: "superblock, default mount options",
    Setter.SUPERBLOCK_STRING: "superblock, mount options string",
    Setter.SUPERBLOCK_FIELD: "superblock field",
    Setter.SUPERBLOCK: "superblock (bits or string)",
    Setter.MOUNT: "mount table",
    Setter.IMPLIED: "implied by another option",
    Setter.UNKNOWN: "setter not known",
}
"""The words for each setter in evidence."""
IN_SUPERBLOCK = frozenset(
    {
        Setter.SUPERBLOCK,
        Setter.SUPERBLOCK_BITS,
        Setter.SUPERBLOCK_STRING,
        Setter.SUPERBLOCK_FIELD,
    }
)


def cite_option(fs: Filesystem, name: str) -> Iterator[Citation]:
    """Yield what every place says of an option: in force, layers, mount table, fstab."""
    options = fs.options.value if isinstance(fs.options, Known) else None
    option = options.find(name) if options else None
    if options is None or option is None:
        return
    yield Citation(f"option in force: {name}", option.token, option.origin)
    below = (layer for layer in option.layers if layer.setter is not Setter.MOUNT)
    for layer in below:
        yield Citation(PLACES[layer.setter], layer.token, layer.origin)
    if option.hidden:
        yield Citation("set by", PLACES[option.set_by], option.origin)
    yield cite_mount_table(options)
    for line in fstab_lines(fs, name):
        yield Citation(f"fstab line {line.line_number}", line.raw_options, "/etc/fstab")


def cite_mount_table(options: EffectiveOptions) -> Citation:
    """Return the superblock's options as the mount table prints them."""
    if options.mount_table is None:
        return Citation("mount table", "not in this mount namespace", "/proc/self/mountinfo")
    return Citation("mount table", ",".join(options.mount_table), "/proc/self/mountinfo")


def fstab_lines(fs: Filesystem, name: str) -> tuple[FstabLine, ...]:
    """Return the fstab lines of the device that spell some state of an option."""
    entries = fs.fstab.value if isinstance(fs.fstab, Known) else ()
    return tuple(e.line for e in entries if any(_names(w, name) for w in e.line.options))


def in_rootflags(fs: Filesystem, host: Host, name: str) -> bool:
    """Whether the kernel's rootflags= spell some state of an option of the root filesystem."""
    return "/" in fs.mount_points and any(_names(word, name) for word in rootflags(host))


def rootflags(host: Host) -> tuple[str, ...]:
    """Return the options that the kernel mounts the root with; the last rootflags= wins."""
    arguments = value_or(host.kernel_arguments, ())
    flags = [a.removeprefix("rootflags=") for a in arguments if a.startswith("rootflags=")]
    return tuple(flags[-1].split(",")) if flags else ()


def what_else_sets_it(fs: Filesystem, host: Host, name: str) -> str:
    """Return the sentence on what no command of a remedy can correct; empty if nothing."""
    if in_rootflags(fs, host, name):
        return " Correct rootflags= in the boot loader's configuration as well."
    options = fs.options.value if isinstance(fs.options, Known) else None
    option = options.find(name) if options else None
    if option is None or _is_stored(option) or fstab_lines(fs, name):
        return ""
    return " Neither fstab nor the superblock has it: correct the unit or script that mounts it."


def _is_stored(option: EffectiveOption) -> bool:
    """Whether nobody but the kernel or the superblock sets the option."""
    setters = {option.set_by, *(layer.setter for layer in option.layers)}
    return bool(setters & IN_SUPERBLOCK) or option.set_by is Setter.KERNEL_DEFAULT


def _names(word: str, name: str) -> bool:
    """Whether a word spells some state of an option."""
    known = recognize(word)
    return known is not None and known[0].name == name
