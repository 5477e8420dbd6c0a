"""How changes are made: each module knows one kind of change, its checks and its rollback.

A rule imports this package and calls, for example, `remedies.options.change_option(fs, …)`. A
module is imported when the first finding needs it (PEP 562): a healthy host loads none.

Here, the commands of steps, with what is decided about them, and what the engine adds to remedies,
such as that a device cannot be opened on this machine. The device rules of a cgroup refuse devices
in containers, and in some virtual machines: every program of e2fsprogs then ends with "Operation
not permitted".
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, ParamSpec

from ext4audit import lazily
from ext4audit.evidence import Known, Unknown, for_wording
from ext4audit.facts import cached_by_identity
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import FstabEntry, below, propagates_anew
from ext4audit.facts.options import canonical, spec_named
from ext4audit.finding import (
    Assignment,
    Check,
    Disruption,
    LineEdit,
    MountCommand,
    Phase,
    Programs,
    Remedy,
    Step,
    Unmount,
)

if TYPE_CHECKING:
    from ext4audit.finding import Change
    from ext4audit.remedies import checking as checking
    from ext4audit.remedies import configuration as configuration
    from ext4audit.remedies import features as features
    from ext4audit.remedies import flags as flags
    from ext4audit.remedies import mkfs as mkfs
    from ext4audit.remedies import mounting as mounting
    from ext4audit.remedies import obstacles as obstacles
    from ext4audit.remedies import options as options
    from ext4audit.remedies import remount as remount
    from ext4audit.remedies import superblock_fields as superblock_fields
    from ext4audit.remedies import unmounting as unmounting


def __getattr__(name: str) -> ModuleType:
    """Import a module of this package when it is first used."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error


PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")
"""Bytes that `printf` prints as themselves when they are part of its format. They are spelled out:
importing `string` compiles the expressions of its templates."""


P = ParamSpec("P")


class Unquotable(ValueError):  # noqa: N818 - it says what is wrong with the name
    """Raised for a name that no shell word stands for."""

    def __init__(self) -> None:
        super().__init__("it contains a name that a shell script cannot contain")


def quote(name: str) -> str:
    r"""Return one shell word that expands to exactly the bytes of `name`; raises Unquotable.

    The word itself is printable ASCII only, whatever the name holds: a raw newline or escape
    character in a command would be run, or shown, as something else than the reader sees. What
    is not printable is spelled `"$(printf '\NNN')"`, which dash, bash and busybox ash expand
    alike. That is impossible for a NUL byte, a character that no bytes stand for, and a newline at
    the end, which `$()` strips.
    """
    if name.isascii() and name.isprintable():
        return shlex.quote(name)
    if "\0" in name or name.endswith("\n"):
        raise Unquotable
    try:
        encoded = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Unquotable from None
    return f"\"$(printf '{_format(encoded)}')\""


def quotable(*names: str) -> Iterator[str]:
    """Yield the words of the names that have one."""
    for name in names:
        with suppress(Unquotable):
            yield quote(name)


def if_quotable(build: Callable[P, tuple[Step, ...]]) -> Callable[P, tuple[Step, ...]]:
    """Return a builder whose result is empty if a name cannot be quoted for a shell."""

    @wraps(build)
    def steps(*args: P.args, **words: P.kwargs) -> tuple[Step, ...]:
        try:
            return build(*args, **words)
        except Unquotable:
            return ()

    return steps


class Command(NamedTuple):
    """A command of a step, with what is decided about it: nothing searches its text.

    `programs` are those that it runs, except those that every script needs. `forced` is the command
    for a mounted filesystem with the feature mmp, if it is another. `not_on_bigalloc` marks one
    that e2fsprogs cannot run with the feature bigalloc. `mounts` are the mount commands in it, and
    `sets` what it leaves set in the superblock.
    """

    text: str
    programs: tuple[str, ...]
    forced: str = ""
    not_on_bigalloc: bool = False
    mounts: tuple[MountCommand, ...] = ()
    sets: tuple[Assignment, ...] = ()


class Work(NamedTuple):
    """A command for an unmounted filesystem; `check` is set if it is a forced check by e2fsck.

    `replays` is set if it replays the journal before it does anything else.
    """

    command: Command
    check: Check | None = None
    replays: bool = False


NOTHING = Command("", ())
TUNE2FS, DUMPE2FS, E2FSCK = ("tune2fs",), ("dumpe2fs",), ("e2fsck",)
FINDMNT, MOUNTING, UNMOUNTING = ("findmnt",), ("mount",), ("umount",)


def plain(text: str) -> Command:
    """Return a command that runs only utilities that every script needs, such as grep."""
    return Command(text, ())


def containing(text: str, *parts: Command) -> Command:
    """Return a command whose text contains those of `parts`, and no other program.

    `forced` is not kept: what tune2fs is composed with decides whether the filesystem is mounted.
    """
    programs = tuple(name for each in parts for name in each.programs)
    mounts = tuple(mount for each in parts for mount in each.mounts)
    last = {(one.device, one.name): one for each in parts for one in each.sets}
    never = any(each.not_on_bigalloc for each in parts)
    return Command(text, programs, "", never, mounts, tuple(last.values()))


def joined(*commands: Command) -> Command:
    """Return the AND list of commands; empty ones are left out."""
    return containing(" && ".join(each.text for each in commands if each.text), *commands)


def step(
    phase: Phase,
    command: Command,
    undo: Command = NOTHING,
    done: Command = NOTHING,
    *,
    change: Change = None,
    by_unmount: Command = NOTHING,
) -> Step:
    """Return a step with what is decided about its commands."""
    return Step(
        phase,
        command.text,
        undo.text,
        done.text,
        change,
        by_unmount.text,
        Programs(command.programs, undo.programs, done.programs, by_unmount.programs),
        command.sets,
        (),
        (*command.mounts, *undo.mounts, *by_unmount.mounts),
        command.forced,
        undo.forced,
        command.not_on_bigalloc,
        undo.not_on_bigalloc or by_unmount.not_on_bigalloc,
    )


def verify_steps(commands: Iterable[Command]) -> tuple[Step, ...]:
    """Return checks as steps that verify a remedy."""
    return tuple(step(Phase.VERIFY, command) for command in commands)


def verified(change: Step, *checks: Command) -> tuple[Step, ...]:
    """Return a step, the check that it is done, and others."""
    return (change, *verify_steps((done_of(change), *checks)))


def done_of(change: Step) -> Command:
    """Return the check that a step is done."""
    return Command(change.done, change.programs.done)


def tuned(
    fs: Filesystem, form: str, sets: tuple[Assignment, ...] = (), **words: str | int
) -> Command:
    """Return a command that writes by tune2fs to a filesystem that may be mounted.

    `form` has `{tune2fs}`, `{device}` and the names of `words` in their places. With mmp, tune2fs
    refuses a mounted filesystem without -f (1.42 to 1.47), which leaves the check of
    another host's mount out as well: the forced command tests that it is mounted here.
    """
    held = f"test -e {quote(f'/sys/fs/ext4/{fs.name}')} && tune2fs -f"
    device = quote(fs.device)
    text, forced = (form.format(tune2fs=t, device=device, **words) for t in ("tune2fs", held))
    return Command(text, TUNE2FS, forced, sets=sets)


def toggled(fs: Filesystem, option: str, words: Iterable[str]) -> tuple[Assignment, ...]:
    """Return what the words of an option of tune2fs, -O or -o, set; ^ before a word clears it."""
    return tuple(
        Assignment(fs.device, f"tune2fs {option} {word.removeprefix('^')}", word) for word in words
    )


def mount_command(
    fstype: str, options: tuple[str, ...], device: str, mount_point: str
) -> MountCommand:
    """Return the command that mounts a device by these options alone."""
    words = f"-o {quote(','.join(options))} {quote(device)} {quote(mount_point)}"
    text = f"mount -t {quote(fstype)} {words}"
    return MountCommand(text, fstype, options, device, mount_point)


def mount_table(where: str, column: str) -> str:
    """Return the command that prints a column of findmnt(8) for the topmost mount on a directory.

    `where` is quoted. Without `-f -d backward` it prints the mounts that are hidden as well.
    """
    return f"findmnt -nfd backward -o {column} -M {where}"


LISTED_WHEN_SET = frozenset({"noauto_da_alloc"})
"""Negative options that have a separate bit, which every kernel's option listing shows."""


def in_force(fs: Filesystem, tokens: Mapping[str, str]) -> Iterator[Command]:
    """Yield the commands that fail while a token, by option name, is not in force.

    Before 4.17 the option listing shows only the bits that are set. A state that is a cleared bit
    is therefore verified by the absence of its opposite, on every kernel.
    """
    path = quote(f"/proc/fs/ext4/{fs.name}/options")
    for name, written in tokens.items():
        token, spec = canonical(written), spec_named(name)
        opposite = spec.opposite(token)
        if opposite and (
            opposite in LISTED_WHEN_SET or (token == spec.off and token not in LISTED_WHEN_SET)
        ):
            yield plain(f"grep -q . {path} && ! grep -qx {opposite} {path}")
        else:
            yield plain(f"grep -qx {quote(token)} {path}")


def _format(name: bytes) -> str:
    """Spell bytes as a format of printf(1), which takes a leading dash for an option."""
    return "".join(
        chr(byte) if byte in PLAIN and not (index == 0 and byte == ord("-")) else f"\\{byte:03o}"
        for index, byte in enumerate(name)
    )


_noted: Callable[..., Remedy] = lazily("remedies.remount", "with_other_mounts")


def with_losses(found: tuple[Remedy, ...], fs: Filesystem, host: Host) -> tuple[Remedy, ...]:
    """Return remedies as `unmounting.with_loss` does, which a healthy host never imports."""
    steps = [step for each in found for step in each.steps]
    unmounts = any(isinstance(step.change, Unmount) for step in steps)
    undoes = any(step.undo_by_unmount for step in steps)
    of_root = "/" in fs.mount_points and (unmounts or undoes)
    loses = of_root or (unmounts and (len(fs.mounts) > 1 or _is_unseen(fs)))
    if not loses and not _may_lose(fs, host):
        return tuple(_noted(each, fs) for each in found) if undoes else found
    with_loss: Callable[[Remedy, Filesystem, Host], Remedy]
    with_loss = lazily("remedies.unmounting", "with_loss")
    return tuple(with_loss(each, fs, host) for each in found)


def _may_lose(fs: Filesystem, host: Host) -> bool:
    """Whether an unmount may lose something that was seen: a cheap question."""
    stack = for_wording(fs.stack, None)
    on_loop = stack is not None and any(device.loop for device in stack.walk())
    if on_loop or has_errors(fs):
        return True
    table = for_wording(host.mounts, ())
    return any(
        "idmapped" in mount.mount_options or mount.propagates != propagates_anew(mount, table)
        for mount in fs.mounts
    )


def _is_unseen(fs: Filesystem) -> bool:
    """Whether something that an unmount takes away is not known."""
    return isinstance(fs.settings, Unknown) or any(m.user_options is None for m in fs.mounts)


def has_errors(fs: Filesystem) -> bool:
    """Whether the kernel, or the superblock, has errors on record."""
    superblock = for_wording(fs.superblock, None)
    if superblock is not None and superblock.is_marked:
        return True
    return isinstance(fs.errors, Known) and fs.errors.value.errors > 0


def is_writable(fs: Filesystem) -> bool:
    """Whether e2fsprogs can write to what was audited.

    An e2image file holds a copy, and what follows a "?" in the name of an image means options.
    """
    return not any(image.kind == "e2image" or "?" in image.path for image in images(fs))


def images(fs: Filesystem) -> list[BlockDevice]:
    """Return the image file that holds a filesystem, also one in a partition; else nothing."""
    stack = for_wording(fs.stack, None)
    return [stack.image] if stack and stack.image else []


def with_users(remedy: Remedy, fs: Filesystem, host: Host) -> Remedy:
    """Return a remedy with sentences on the users of the filesystem and its quotas, if it unmounts.

    Advice is left as it is, and so are remedies for the root, which run from another system.
    """
    unmounts = remedy.disruption is Disruption.UNMOUNT and remedy.steps
    if not unmounts or not fs.alive or "/" in fs.mount_points:
        return remedy
    sentences: Callable[[Filesystem, Host], str] = lazily("remedies.unmounting", "first_and_then")
    return remedy._replace(summary=f"{remedy.summary}{sentences(fs, host)}")


VOLUMES = ("/var/lib/kubelet/pods", "/var/lib/kubelet/plugins", "/var/lib/nomad")
"""The directories where orchestrators mount volumes of workloads."""


def holds_volume(fs: Filesystem) -> bool:
    """Whether an orchestrator mounted it for a workload."""
    return any(below(point, VOLUMES) for point in fs.mount_points)


def mounted_by(fs: Filesystem) -> str:
    """Return what gives a filesystem its options where fstab does not have it."""
    if holds_volume(fs):
        return "the specification of its volume (mountOptions in Kubernetes)"
    return "the unit or script that mounts it"


def with_generator(remedy: Remedy, host: Host) -> Remedy:
    """Return a remedy with the sentence that a program writes the line of fstab it edits, if so."""
    made = _generators(for_wording(host.fstab, ()))
    edits = (step.change for step in remedy.steps if isinstance(step.change, LineEdit))
    by = next((made[edit.line_number] for edit in edits if edit.line_number in made), None)
    if by is None:
        return remedy
    note = f"Change it in the configuration of {by} too, which writes this line of fstab again."
    return remedy._replace(summary=f"{remedy.summary} {note}")


@cached_by_identity
def _generators(entries: tuple[FstabEntry, ...]) -> Mapping[int, str]:
    """Return the programs that write lines of fstab, by the number of the line."""
    lines = (entry.line for entry in entries)
    return {line.line_number: line.generator for line in lines if line.generator}


def with_features(found: tuple[Remedy, ...], fs: Filesystem) -> tuple[Remedy, ...]:
    """Return remedies as `obstacles` adapts them to features, which few filesystems have."""
    superblock = for_wording(fs.superblock, None)
    if superblock is None or superblock.features.isdisjoint({"bigalloc", "mmp"}):
        return found
    adapted: Callable[[Remedy, Filesystem], Remedy] = lazily("remedies.obstacles", "adapted")
    return tuple(adapted(each, fs) for each in found)
