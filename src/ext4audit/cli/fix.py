"""`ext4audit fix`: print a script that applies, verifies and rolls back remedies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ext4audit import __version__, lazily
from ext4audit.api import DEFAULT_TIMEOUT_SECONDS
from ext4audit.assemble.host import assemble_host
from ext4audit.cli import Choice, completer, path_option, print_diagnostic
from ext4audit.cli.options import (
    Command,
    ReportOptions,
    deadline_option,
    findings_of,
    probe_option,
    rule_options,
    timeout_option,
    with_options,
)
from ext4audit.cli.output import (
    MACHINE_ENCODING,
    format_option,
    output_option,
    progress,
    write,
)
from ext4audit.engine import audit
from ext4audit.evidence import for_wording
from ext4audit.finding import Disruption
from ext4audit.fixing import NoSuchRemedy, choose_remedies
from ext4audit.fixing.script import AuditedHost, Script, build_script
from ext4audit.report import Report, ReportSource
from ext4audit.rule import Rule
from ext4audit.rules import all_rules
from ext4audit.sources import ReadFile, utc_now
from ext4audit.sources.live import LiveSource

MACHINE_ID = "/etc/machine-id"
ALLOWED = tuple(each.value for each in Disruption if each is not Disruption.RECREATE)
LIVE = "live"
SCRIPT, PLAYBOOK = "sh", "ansible"
EXECUTABLE = 0o700
INCOMPLETE = "the audit is incomplete, so remedies may be missing: `ext4audit scan` shows why"
_REMEDY_OPTIONS = (
    click.option(
        "--disruption",
        type=Choice(ALLOWED),
        default=Disruption.ONLINE.value,
        show_default=True,
        help="Most disruptive kind of remedy to include.",
    ),
    click.option(
        "--choose",
        "choices",
        multiple=True,
        metavar="RULE=WORDS",
        shell_complete=completer("choice_of_rule"),
        help="Instead of the safest remedy of RULE, use the one whose name contains WORDS; "
        "repeatable.",
    ),
)


def remedy_options(command: Command) -> Command:
    """Add the options that decide which remedies are chosen; see `choices_of`."""
    return with_options(command, _REMEDY_OPTIONS)


@click.command("fix")
@click.argument("targets", nargs=-1, metavar="[TARGET]...", shell_complete=completer("files"))
@path_option(
    "--from",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help="Captured evidence of another host: a snapshot or an archive.",
)
@format_option(
    (SCRIPT, PLAYBOOK),
    "Format: sh (a script) or ansible (a playbook with the same remedies).",
    metavar="FORMAT",
)
@output_option("Write FILE atomically; a script is executable for its owner.")
@remedy_options
@probe_option
@rule_options
@timeout_option(DEFAULT_TIMEOUT_SECONDS)
@deadline_option
def command(
    *,
    targets: tuple[str, ...],
    sources: tuple[str, ...],
    fmt: str,
    output: str | None,
    disruption: str,
    choices: tuple[str, ...],
    timeout_seconds: float,
    deadline_seconds: float,
    **given: Any,  # noqa: ANN401 - every type that an option can have
) -> int:
    """Print a POSIX sh script that applies the safest remedy of each finding.

    The script covers findings at or above --fail-on that are not suppressed. It includes no
    remedy that is more disruptive than --disruption or that destroys data. Its head and standard
    error list the omitted findings with the reason.

    Run the script on the audited host: without arguments it checks all preconditions and shows the
    changes, --apply makes them, --verify checks them, and --undo restores the previous state.

    Exit codes: 0 printed (also an empty script), 2 usage error or unreadable host, 70 internal
    error.

    \b
    Examples:
      ext4audit fix -o fix.sh && sh fix.sh
      ext4audit fix --select DUR --disruption remount /srv > fix.sh
      ext4audit fix --choose PRF001=dioread-lock --disruption remount > fix.sh
      ext4audit fix --from host.tar.gz -f ansible > fix.yml
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    asked = findings_of(given)
    chosen_words = choices_of(choices, asked.rules)
    source = LiveSource(timeout_seconds, deadline_seconds=deadline_seconds)
    report = _report(targets, sources, asked, source)
    machine_id = _machine_id(source) if report.source.kind == LIVE else None
    script = script_of(report, asked, Disruption(disruption), chosen_words, machine_id=machine_id)
    if not script.chosen:
        why = "no remedy is left" if script.left else "nothing to fix"
        print_diagnostic(f"{why}: the script is empty")
    if fmt == PLAYBOOK:
        playbook = lazily("fixing.playbook", "playbook")(script)
        write(playbook, output, encoding=MACHINE_ENCODING)
    else:
        _write_script(script.text, output)
    return 0


def choices_of(words: Sequence[str], judging: Sequence[Rule] = ()) -> dict[str, str]:
    """Return WORDS by rule code for the values RULE=WORDS of --choose; raises UsageError."""
    rules = (*all_rules(), *judging) if words else ()
    codes = {name: rule.code for rule in rules for name in (rule.code, rule.name)}
    found = {}
    for word in words:
        rule, equals, wanted = word.partition("=")
        code = codes.get(rule.upper()) or codes.get(rule.lower())
        if code is None or not equals or not wanted:
            raise click.UsageError(f"--choose {word}: not RULE=WORDS, such as PRF001=dioread-lock")
        found[code] = wanted
    return found


def _report(
    targets: tuple[str, ...], sources: tuple[str, ...], asked: ReportOptions, source: LiveSource
) -> Report:
    """Audit captured evidence, the targets or this host; raises UsageError."""
    report: Report
    if sources:
        report = lazily("cli.captured", "audit_one")(sources, targets, asked)
    elif targets:
        report = lazily("cli.targets", "scan_targets")(targets, asked, source)
    else:
        with progress(quiet=False) as show:
            host = assemble_host(source, utc_now(), progress=show)
        report = audit(ReportSource(LIVE, host.name), host, asked.rules, asked.profiles)
    if report.source.kind == "image":
        raise click.UsageError(
            "an image file cannot be fixed: run `fix` on the host that mounts it"
        )
    report = asked.post_processing.one(report, asked.rules, whole=not targets)
    for notice in report.notices:
        print_diagnostic(notice)
    if not report.complete_for(asked.threshold):
        print_diagnostic(INCOMPLETE)
    return report


def _machine_id(source: LiveSource) -> str | None:
    return for_wording(source.fetch(ReadFile(MACHINE_ID)), "").strip() or None


def script_of(
    report: Report,
    asked: ReportOptions,
    most: Disruption,
    choices: Mapping[str, str],
    *,
    machine_id: str | None = None,
    host: str = "",
) -> Script:
    """Return the script for a report; print omitted findings to standard error.

    In a fleet, `host` is the prefix of these lines. Raises UsageError for an unknown remedy.
    """
    try:
        chosen, left = choose_remedies(report, asked.threshold, most, choices)
    except NoSuchRemedy as error:
        raise click.UsageError(f"--choose {error}") from None
    audited = AuditedHost(report.host.name, machine_id, report.host.taken_at, __version__)
    script = build_script(audited, chosen, left)
    for each in script.left:
        print_diagnostic(f"{f'{host}: ' if host else ''}omitted: {each}")
    return script


def _write_script(text: str, path: str | None) -> None:
    write(text, path)
    if path is not None and Path(path).is_file():
        Path(path).chmod(EXECUTABLE)
