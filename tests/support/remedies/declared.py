"""What steps declare of their commands, compared with the texts of the commands.

The program decides by what is declared and searches no text. Here, the texts are searched, so that
a builder that omits something is found on each host that a test judges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ext4audit.finding import Inspection, Phase, Remedy, Step
from ext4audit.fixing.script import ALWAYS

BUILT_IN = frozenset("echo exit printf test type".split())
RESERVED = frozenset("! { if then elif else fi while until do done for case esac }".split())
UTILITIES = ALWAYS | BUILT_IN | RESERVED | {"sleep"}
"""Words at the start of a command that no step declares; no step runs without coreutils."""
_BEFORE = r"(?:^|[|&;(!{])\s*(?:(?:!|\{|if|then|elif|else|while|until|do)\s+|[A-Z_]+=\S*\s+)*"
_CALL = re.compile(rf"{_BEFORE}([a-z][a-z0-9_.]*)(?=[\s;)]|$)")
_QUOTED = re.compile(r"'[^']*'")
_WRITE = re.compile(r"\btune2fs (?=-[^lf])")
_FIELD = re.compile(r"\btune2fs (?:-f )?(-[eEcirmugULoOIJ]) (\S+) ")
_STRING = re.compile(r"\bmount_opts[= ]")
_AWKWARD = re.compile(
    r"\btune2fs (?:-f )?-O \S*\^has_journal\b|/sys/fs/ext4/\S+ && .*\bresize2fs\b"
)
UNMOUNTED = "test ! -e "
UNREAD = "if tune2fs "
"""How commands begin that test that nothing is mounted, and those for an unread superblock."""


_CHANGING = re.compile(
    r"\btune2fs (?!-l)|\be2fsck (?!-fn)|\bdebugfs -w|\bresize2fs\b|\bmkfs\b|\bmke2fs\b|\bsysctl -w"
    r"|\bsed -i|\bu?mount |> ?/(?!dev/null)|\bsystemctl\b|\budevadm\b|\btouch\b"
)
"""What commands of remedies contain that change something."""


def called(command: str) -> set[str]:
    """Return the programs that a command calls, without those that need no declaration."""
    return set(_CALL.findall(_QUOTED.sub("''", command))) - UTILITIES


def undeclared(remedy: Remedy) -> Iterator[str]:
    """Yield a sentence for each thing that a step does and does not declare, or the reverse."""
    for step in remedy.steps:
        yield from (f"{what}: {step.command}" for what in _of_step(step))


def _of_step(step: Step) -> Iterator[str]:
    texts: tuple[str, ...] = (step.command, step.undo, step.done, step.undo_by_unmount)
    for text, programs in zip(texts, step.programs, strict=True):
        if text and called(text) != set(programs):
            yield f"declares {sorted(set(programs))}, calls {sorted(called(text))}"
    for mount in step.mounts:
        texts = tuple(text.replace(mount.text, "") for text in texts)
    if any("mount -t " in text for text in texts):
        yield "a mount command is not declared"
    is_action = step.phase not in {Phase.VERIFY, Phase.ROLLBACK}
    is_inspection = isinstance(step.change, Inspection)
    if is_action and is_inspection == bool(_CHANGING.search(step.command)):
        yield "whether it changes anything"
    checks = step.done, "" if is_action else step.command
    if any(_CHANGING.search(_QUOTED.sub("''", each)) for each in checks):
        yield "a check that changes something"
    yield from _of_e2fsprogs(step)


def _of_e2fsprogs(step: Step) -> Iterator[str]:
    back = step.undo, step.undo_by_unmount
    if step.not_on_bigalloc != bool(_AWKWARD.search(step.command)):
        yield "what e2fsprogs cannot do with bigalloc"
    if step.undo_not_on_bigalloc != any(map(_AWKWARD.search, back)):
        yield "what e2fsprogs cannot take back with bigalloc"
    for text, forced in ((step.command, step.forced), (step.undo, step.forced_undo)):
        needed = _WRITE.search(text) and UNMOUNTED not in text and UNREAD not in step.command
        if bool(forced) != bool(needed) or "-f" in forced.replace("tune2fs -f ", "", 1).split():
            yield "what tune2fs does to a mounted filesystem with mmp"
    if (_FIELD.search(step.command) or _STRING.search(step.command)) and not step.sets:
        yield "a field of the superblock"
