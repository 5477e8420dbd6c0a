"""The HTML report: the mount options of a filesystem, who set each, and which are hidden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.facts.options import EffectiveOption, EffectiveOptions, Provenance
from ext4audit.renderers.html_markup import Html, joined, lines, tag
from ext4audit.renderers.html_parts import badge, facts, fold, hole_words, table
from ext4audit.renderers.json_v1.objects import options_object
from ext4audit.renderers.shared.words import counted

_HEADS = ("In force", "Set by", "Read from", "Without options", "In the mount table")


def options_part(fs: Filesystem) -> Html:
    """Return the options in force; the hidden ones are in the summary, and first in the table."""
    if isinstance(fs.options, Unknown):
        return lines((tag("p", hole_words(fs.options)), _places(fs)))
    options = fs.options.value
    return fold(_summary(options), *_content(fs, options), shown=bool(options.hidden))


def _summary(options: EffectiveOptions) -> Html:
    number = counted(len(options.options), "mount option")
    words = f"{number} in force" if options.complete else f"{number} known to be in force"
    if not options.hidden:
        return joined((words,))
    hidden = ", ".join(option.token for option in options.hidden)
    return joined((words, " ", badge("HIDDEN", "medium"), f" {hidden}"))


def _content(fs: Filesystem, options: EffectiveOptions) -> Iterator[Html]:
    if not options.complete:
        yield tag("p", "The source does not show every option.")
    if options.gap is not None:
        yield tag("p", hole_words(options.gap))
    usual = [option for option in options.options if _is_default(option)]
    chosen = [option for option in options.options if not _is_default(option)]
    if chosen:
        ordered = sorted(chosen, key=lambda each: not each.hidden)
        rows = [_row(option, options) for option in ordered]
        yield tag("div", table(_HEADS, rows, "Mount options that somebody set"), class_="scroll")
    if usual:
        tokens = joined(_codes(option.token for option in usual))
        yield tag("p", "By the kernel's default: ", tokens, class_="small")
    yield _places(fs)


def _is_default(option: EffectiveOption) -> bool:
    return option.set_by is Provenance.KERNEL_DEFAULT and not option.hidden


def _row(option: EffectiveOption, options: EffectiveOptions) -> tuple[str, ...]:
    baseline = tag("code", option.baseline) if option.baseline else ""
    token = tag("code", option.token)
    return (token, _set_by(option), option.origin, baseline, _shown(option, options))


def _shown(option: EffectiveOption, options: EffectiveOptions) -> Html:
    if option.hidden:
        return badge("HIDDEN", "medium")
    return joined(("yes" if option.token in (options.mount_table or ()) else "no",))


def _set_by(option: EffectiveOption) -> Html:
    """Say who set an option, and what each source said, in the kernel's order."""
    words = tag("div", _setter(option.set_by))
    layers = [
        tag(
            "div", f"{_setter(each.provenance)}: {each.token} ({each.origin})", class_="faint small"
        )
        for each in option.layers
    ]
    return joined((words, *layers))


def _setter(setter: Provenance) -> str:
    return setter.value.replace("_", " ")


def _places(fs: Filesystem) -> Html:
    """Return what the places say that a person would look at."""
    said = options_object(fs)
    names = (("Mount table", "mount_table"), ("Superblock defaults", "superblock_defaults"))
    pairs = [(name, joined(_codes(said[key] or ()))) for name, key in (*names, ("fstab", "fstab"))]
    return facts(pairs)


def _codes(tokens: Iterable[str]) -> Iterator[str]:
    """Yield the tokens with blanks between, where a line can break."""
    for token in tokens:
        yield tag("code", token)
        yield " "
