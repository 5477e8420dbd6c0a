"""`ext4audit rules`: the catalogue of rules, and rule pages, as text, Markdown or JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from ext4audit import lazily
from ext4audit.cli import nearest_policy, path_option, print_diagnostic
from ext4audit.cli.output import color_option, format_option, is_drawn, wants_color, write
from ext4audit.facts.features_and_bugs import all_ranges
from ext4audit.facts.versions import KernelRange
from ext4audit.renderers import json_text
from ext4audit.rule import Rule
from ext4audit.rules import all_rules

HEAD = "| rule | name | worst | default | what it finds |\n|---|---|---|---|---|"


def text_of(rules: Sequence[Rule]) -> str:
    """Return one line per rule, in columns and without wrapping, so that it can be grepped."""
    width = max(len(rule.name) for rule in rules)
    return "".join(
        f"{rule.code}  {rule.name:<{width}}  {rule.severity.value:<8}  "
        f"{_state(rule):<3}  {rule.summary}\n"
        for rule in rules
    )


def markdown_of(rules: Sequence[Rule]) -> str:
    """Return the rules as a Markdown table."""
    rows = (
        f"| {rule.code} | {rule.name} | {rule.severity.value} | {_state(rule)} | {rule.summary} |"
        for rule in rules
    )
    return "\n".join([HEAD, *rows, ""])


def json_of(rules: Sequence[Rule]) -> str:
    """Return the rules as a JSON array of objects."""
    return json_text([_object(rule) for rule in rules])


def page_of(rule: Rule) -> str:
    """Return a rule's page as Markdown."""
    head = f"# {rule.title}\n\n{rule.summary}\n\nWorst severity: {rule.severity.value}"
    references = "\n".join(f"- {reference}" for reference in rule.references)
    tail = f"\n\n## References\n\n{references}" if references else ""
    return f"{head}. Since: {rule.since}.\n\n{rule.page}{_kernels(rule.code)}{tail}\n"


def _kernels(code: str) -> str:
    """Return the section about kernels with a known bug, or "" if the rule has no such table."""
    ranges = all_ranges().get(code, ())
    lines = "\n".join(map(_range, ranges))
    return f"\n\n## Known kernels\n\nThe first that holds decides.\n\n{lines}" if ranges else ""


def _range(of: KernelRange) -> str:
    found = of.exposure
    what = f"{found.confidence}, {found.severity}" if found.affected else "not affected"
    source = f" Source: <{found.source}>." if found.source else ""
    confirmed = f" Checked: {found.confirmed}." if found.confirmed else ""
    return f"- {of.tree}, {_bounds(of)}: {what}. {found.note}.{source}{confirmed}"


def _bounds(of: KernelRange) -> str:
    """Return the bounds in words, such as "6.1.64 to before 6.1.66"."""
    low = of.since or (of.after and f"after {of.after}")
    high = (of.before and f"before {of.before}") or of.until
    if low and high:
        return f"{low} to {high}"
    if high:
        return high if of.before else f"up to {high}"
    return f"{low} and later" if low else "all"


def json_page_of(rule: Rule) -> str:
    """Return a rule as a JSON object that includes its Markdown page and the known kernels."""
    kernels = [_range_object(each) for each in all_ranges().get(rule.code, ())]
    return json_text({**_object(rule), "page": rule.page, "kernels": kernels})


def _range_object(of: KernelRange) -> dict[str, Any]:
    bounds = {name: getattr(of, name) or None for name in ("since", "after", "before", "until")}
    return {"tree": of.tree, **bounds, **of.exposure._asdict()}


def _state(rule: Rule) -> str:
    return "on" if rule.default else "off"


def _object(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "family": rule.family,
        "severity": rule.severity.value,
        "default": rule.default,
        "in_plans": rule.in_plans,
        "since": rule.since,
        "summary": rule.summary,
        "references": list(rule.references),
    }


config_option = path_option(
    "--config", help="Policy file, whose rules are shown too.  [default: as for `scan`]"
)
RENDERERS = {"text": text_of, "json": json_of, "markdown": markdown_of}


def catalogue(config: str | None) -> tuple[Rule, ...]:
    """Return all rules, sorted by code; raises UsageError if the policy of --config is invalid.

    An invalid policy file that is only found is reported; correcting it may need the list.
    """
    if config is None and nearest_policy() is None:
        return all_rules()
    try:
        policy = lazily("cli.policy", "read_policy")(config)
    except click.UsageError as error:
        if config is not None:
            raise
        print_diagnostic(f"only the built-in rules are shown: {error.message}")
        return all_rules()
    return (*all_rules(), *sorted(policy.site_rules, key=lambda rule: rule.code))


@click.command("rules")
@format_option(RENDERERS, "Format of the list.")
@config_option
@color_option
def command(fmt: str, config: str | None, color: str) -> int:
    """List all rules: code, name, worst severity, on or off by default, and a summary.

    A rule that is off by default runs only if --select, --pedantic, a profile or a plan selects
    it. Rules of the site, which the policy file names, have codes that begin with X. In a pipe,
    each rule is one line.

    \b
    Examples:
      ext4audit rules
      ext4audit rules | grep ^DUR
      ext4audit rules -f json | jq -r '.[].code'
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    print_rules(catalogue(config), fmt, color)
    return 0


def print_rules(rules: Sequence[Rule], fmt: str, color: str) -> None:
    """Print rules in a format; on a terminal, text is wrapped to its width."""
    colored = fmt == "text" and wants_color(color, sys.stdout)
    if fmt == "text" and is_drawn(color):
        text = lazily("cli.terminal.screen", "draw_rules")(rules, color=colored)
    else:
        text = RENDERERS[fmt](rules)
    write(text, None, linked=colored)
