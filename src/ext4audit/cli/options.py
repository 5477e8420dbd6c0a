"""Options that several commands share, and the superblocks that TARGET arguments stand for."""

import os
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

import click

from ext4audit import lazily, report
from ext4audit.assemble.devices.target import (
    BadImage,
    Image,
    ImageFilesystem,
    NotExt4,
    Superblocks,
    Target,
    TargetResolver,
    Unreachable,
)
from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import Inventory, take_inventory
from ext4audit.cli import Choice, completer, knowledge_of, knowledge_option, print_diagnostic
from ext4audit.cli.output import (
    FORMATS,
    Output,
    check_destination,
    color_option,
    outputs_of,
    progress,
)
from ext4audit.cli.policy import (
    PostProcessing,
    active_profiles,
    named_one_by_one,
    on_hosts,
    post_processing_of,
    read_policy,
    selected,
)
from ext4audit.engine import audit
from ext4audit.evidence import Unknown
from ext4audit.facts.host import ActiveProfile
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Severity
from ext4audit.policy import NEVER
from ext4audit.report import Report
from ext4audit.rule import Rule, Scope
from ext4audit.sources import DEFAULT_DEADLINE_SECONDS, Source, utc_now

_LONGEST_SECONDS = 86400
Command = Callable[..., int]


def timeout_option(default_seconds: float) -> Callable[[Any], Any]:
    """Return the option --timeout, as `timeout_seconds`."""
    return click.option(
        "--timeout",
        "timeout_seconds",
        type=float,
        callback=_bounded,
        default=default_seconds,
        show_default=True,
        metavar="SECONDS",
        help="Time limit for each external command, at most one day.",
    )


def deadline_option(command: Command) -> Command:
    """Add the option --deadline, as `deadline_seconds`."""
    return click.option(
        "--deadline",
        "deadline_seconds",
        type=float,
        callback=_bounded,
        default=DEFAULT_DEADLINE_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="Time limit for reading this host; the rest is not determined; at most a day.",
    )(command)


def _bounded(_context: click.Context, _option: click.Parameter, seconds: float) -> float:
    """Refuse durations that cannot be waited for: FloatRange accepts "nan" and "inf"."""
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise click.BadParameter(f"{seconds:g} is not more than 0 and at most 86400 seconds.")
    return seconds


DEFAULT_FAIL_ON = "medium"


class ReportOptions(NamedTuple):
    """The options of a report; `threshold` None means that no finding fails.

    `site_rules` are the sources of rules that the policy names. `started` is a reading of the
    monotonic clock, in seconds. `asked` are the codes of rules that --select names one by one.
    """

    outputs: tuple[Output, ...]
    rules: tuple[Rule, ...]
    site_rules: tuple[str, ...]
    profiles: tuple[ActiveProfile, ...]
    post_processing: PostProcessing
    threshold: Severity | None
    allow_incomplete: bool
    verbosity: int
    color: str
    started: float
    group_by: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()


def chosen(given: dict[str, Any], usual: Callable[[Rule], bool] = on_hosts) -> ReportOptions:
    """Return the validated options of a report; raises UsageError.

    `usual` says which rules judge where the options choose none.
    """
    if given["verbose"] and given["quiet"]:
        raise click.UsageError("--verbose and --quiet exclude each other")
    newer = knowledge_of(given["knowledge"])
    policy = read_policy(given["config"])
    profiles = active_profiles(given["profiles"] or policy.profile, policy)
    fail_on = given["fail_on"] or policy.fail_on or DEFAULT_FAIL_ON
    outputs = outputs_of(given["formats"], given["outputs"])
    for output in outputs:
        if output.path is not None:
            check_destination(output.path)
    rules = selected(given, policy, profiles, usual)
    return ReportOptions(
        outputs=outputs,
        rules=rules,
        site_rules=policy.rules,
        profiles=profiles,
        post_processing=post_processing_of(
            policy, given["baseline"], profiles, given.get("probes", ())
        )._replace(knowledge=newer),
        threshold=None if fail_on == NEVER else Severity(fail_on),
        allow_incomplete=given["allow_incomplete"],
        verbosity=1 if given["verbose"] else -1 if given["quiet"] else 0,
        color=given["color"],
        started=monotonic(),
        group_by=given.get("group_by", ()),
        asked=named_one_by_one(given["wanted"], rules),
    )


_OF_RULES = (
    click.option(
        "--config",
        metavar="FILE",
        shell_complete=completer("files"),
        help="Policy file.  [default: the nearest ext4audit.toml, else /etc/ext4audit.toml]",
    ),
    knowledge_option,
    click.option(
        "--baseline",
        metavar="REPORT",
        shell_complete=completer("files"),
        help="Earlier report in JSON: only new findings count, and fixed ones are listed.",
    ),
    click.option(
        "--select",
        "wanted",
        multiple=True,
        metavar="RULES",
        shell_complete=completer("rule_list"),
        help="Run only these rules: codes, prefixes (DUR) or names; comma-separated, repeatable.",
    ),
    click.option(
        "--ignore",
        "ignored",
        multiple=True,
        metavar="RULES",
        shell_complete=completer("rule_list"),
        help="Do not run these rules.",
    ),
    click.option("--pedantic", is_flag=True, help="Also run the rules that are off by default."),
    click.option(
        "--profile",
        "profiles",
        multiple=True,
        metavar="NAME[=MOUNT]",
        shell_complete=completer("profile_list"),
        help="Check the requirements of a product's vendor (tidb, postgres, ...) on all "
        "filesystems, or on the mount points that match a glob; repeatable.",
    ),
    click.option(
        "--fail-on",
        type=Choice([*(severity.value for severity in Severity), "never"]),
        help="Exit 1 on a finding of this severity or worse.  [default: medium]",
    ),
)
"""What decides which findings there are, and which of them count."""
_OPTIONS = (
    click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        metavar="FILE",
        shell_complete=completer("files"),
        help="Write FILE atomically; repeatable, the first -o belongs to the first -f.",
    ),
    *_OF_RULES,
    click.option(
        "--allow-incomplete", is_flag=True, help="Exit 0 instead of 3 if evidence is missing."
    ),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Show all evidence, all remedies, what passed, and why rules do not apply.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Show the summary line only."),
    color_option,
)


def rule_options(command: Command) -> Command:
    """Add the options that decide which findings there are, and which count; see `findings_of`."""
    for option in reversed(_OF_RULES):
        command = option(command)
    return command


_NO_REPORT = {"formats": (), "outputs": (), "allow_incomplete": True, "color": "never"}


def findings_of(given: dict[str, Any], *, quiet: bool) -> ReportOptions:
    """Return the validated options of a command that audits and prints no report."""
    return chosen({**given, **_NO_REPORT, "verbose": False, "quiet": quiet})


def report_options(command: Command, formats: Sequence[str] = tuple(FORMATS)) -> Command:
    """Add the options to a command, which gets them all; see `chosen`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    choose = click.option(
        "-f",
        "--format",
        "formats",
        type=Choice(formats),
        multiple=True,
        metavar="FORMAT",
        help=f"Format of the report: {', '.join(formats)}; repeatable, each with its own -o.  "
        "[default: text]",
    )
    return choose(command)


READ_AS_IMAGE = "audited as an image; to audit the filesystem that holds it, name its directory"


ONLY_OF_HOSTS = (
    "an image file, which a snapshot cannot hold: scan it where it lies; to capture the filesystem "
    "that holds it, name its directory"
)


class Chosen(NamedTuple):
    """The superblocks and images of the targets, each once, in the order of the command line."""

    device_numbers: tuple[DeviceNumber, ...]
    images: tuple[ImageFilesystem, ...]


def resolve_targets(source: Source, targets: Sequence[str]) -> frozenset[DeviceNumber]:
    """Return the superblocks of the targets; raises UsageError when nothing is left.

    A file is what it is for `scan`: an image does not stand for the filesystem that holds it.
    """
    inventory = take_inventory(source)
    found = [_look_at(source, inventory, path) for path in map(_utf8, targets)]
    return frozenset(_sort(targets, list(map(_not_an_image, found))).device_numbers)


def _not_an_image(found: Target | Image) -> Target:
    """Refuse an image that is not mounted: a snapshot holds filesystems of a host."""
    return NotExt4(ONLY_OF_HOSTS) if isinstance(found, Image) else found


def choose_targets(source: Source, targets: Sequence[str]) -> Chosen:
    """Return the superblocks of the targets, and the filesystems of those that are image files.

    Raises UsageError when nothing is left.
    """
    inventory = take_inventory(source)
    return _sort(targets, [_look_at(source, inventory, path) for path in map(_utf8, targets)])


def _utf8(target: str) -> str:
    """Return a name as UTF-8 with surrogateescape, independent of the locale."""
    return os.fsencode(target).decode("utf-8", "surrogateescape")


def _look_at(source: Source, inventory: Inventory, path: str) -> Target | Image:
    """Return what a target stands for; few are image files, and the rest load nothing for them."""
    resolver = TargetResolver(source, inventory)
    if not resolver.is_file(path):
        return resolver.resolve(path)
    found = lazily("assemble.image.host", "image_of_target")(source, inventory, path)
    if isinstance(found, Image | Superblocks):
        return found
    if isinstance(found, BadImage):
        return NotExt4(f"{found.reason}; to audit the filesystem that holds it, name its directory")
    if found.note:
        print_diagnostic(f"{path}: not an image: {found.note}")
    return resolver.resolve(path)


def _sort(targets: Sequence[str], looked: Sequence[Target | Image]) -> Chosen:
    """Report notes, and refuse mistyped targets and a command line without any filesystem."""
    numbers: list[DeviceNumber] = []
    images: list[ImageFilesystem] = []
    reasons = []
    for path, found in zip(map(_utf8, targets), looked, strict=True):
        if isinstance(found, Superblocks):
            numbers.extend(found.device_numbers)
            if found.note:
                print_diagnostic(f"{path}: {found.note}")
        elif isinstance(found, Image):
            images.extend(found.filesystems)
            print_diagnostic(f"{path}: {'; '.join(filter(None, (READ_AS_IMAGE, found.note)))}")
        else:
            reasons.append(f"{path}: {found.reason}")
            if isinstance(found, Unreachable):
                raise click.UsageError(reasons[-1])
    if not numbers and not images:
        raise click.UsageError("; ".join(reasons))
    for reason in reasons:
        print_diagnostic(reason)
    return Chosen(tuple(dict.fromkeys(numbers)), _each_once(images))


def _each_once(images: Sequence[ImageFilesystem]) -> tuple[ImageFilesystem, ...]:
    return tuple({image.device: image for image in images}.values())


def _is_of_images(rule: Rule, asked: ReportOptions) -> bool:
    """Whether a rule of hosts judges images: by its code, or because it could not be loaded."""
    if rule.code in OF_IMAGES_TOO or not asked.site_rules:
        return rule.code in OF_IMAGES_TOO
    return bool(lazily("policy.site_rules", "is_broken")(rule))


OF_IMAGES_TOO = frozenset({"HLT003"})
"""The host rules that also judge images: an image can be left unclean."""


def scan_targets(targets: tuple[str, ...], asked: ReportOptions, source: Source) -> Report:
    """Judge the filesystems of the targets; raises UsageError when none is left."""
    chosen = choose_targets(source, targets)
    gaps: tuple[Unknown, ...] = ()
    if chosen.images:
        gaps = lazily("assemble.image.host", "image_gaps")(source, chosen.images)
    if not chosen.device_numbers:
        return _of_images(chosen.images, gaps, asked)
    with progress(quiet=asked.verbosity < 0) as show:
        host = assemble_host(source, utc_now(), only=chosen.device_numbers, progress=show)
    if chosen.images:
        host = lazily("assemble.image.host", "with_images")(host, chosen.images, gaps)
    return audit(report.Source("live", host.name), host, asked.rules, asked.profiles)


def _of_images(
    images: tuple[ImageFilesystem, ...], gaps: tuple[Unknown, ...], asked: ReportOptions
) -> Report:
    """Judge images alone: without a host, most host rules have no subject."""
    name = ", ".join(dict.fromkeys(image.path for image in images))
    rules = [r for r in asked.rules if r.scope is Scope.FILESYSTEM or _is_of_images(r, asked)]
    source = report.Source("image", name)
    host = lazily("assemble.image.host", "host_of_images")(images, utc_now(), name, gaps)
    return audit(source, host, rules, asked.profiles)
