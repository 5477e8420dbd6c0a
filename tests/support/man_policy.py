"""The manual page of the policy file, ext4audit.toml(5)."""

from __future__ import annotations

from ext4audit import __version__
from ext4audit.cli.app import PROGRAM
from ext4audit.cli.policy import NAME, OF_THE_HOST
from ext4audit.finding import Severity
from ext4audit.policy.file import NEVER, REQUIRED
from support.roff import bold, escaped, example, italic, item, prose, section, title

WORDS = "a list of texts, or one"
TEXT = "a text"
_SELECT = """Only these rules judge: codes, prefixes of codes such as DUR, or names. What the
option `--select` says replaces this key and `ignore`."""
_SEVERITIES = ", ".join(severity.value for severity in Severity)
_PROFILE = """Products whose vendor's demands are judged, each with a glob of mount points behind
`=` where it is not for every filesystem: "postgres=/srv/pg*"."""
KEYS = {
    "select": (WORDS, _SELECT),
    "ignore": (WORDS, "All but these rules; the option `--ignore` adds to them."),
    "pedantic": ("true or false", "Also the rules that are off where nobody chooses."),
    "fail_on": (TEXT, f"As the option `--fail-on`: {_SEVERITIES}, or {NEVER}."),
    "profile": (WORDS, _PROFILE),
    "suppress": ("tables", "Findings that are accepted; each is a `[[suppress]]` of its own."),
}
_SUBJECT = """A glob of what the finding is about: a filesystem's UUID, mount point, device or
label; for a rule about the host what the finding names, or the host's name."""
SUPPRESS_KEYS = {
    "rule": (TEXT, "One rule, by its code or name."),
    "subject": (TEXT, _SUBJECT),
    "reason": (TEXT, "Why it is accepted; every report prints it."),
    "owner": (TEXT, "Who accepted it."),
    "expires": ("a date", "The last day on which it is accepted, such as 2027-01-31."),
}
DESCRIPTION = f"""What an audit judges by, and which findings are accepted, in a file in TOML.
`{PROGRAM}` takes the file that the option `--config` names; else the one in the working
directory, or in the nearest directory above it; else `{OF_THE_HOST}`. One file counts alone:
nothing of another is mixed in. Options of the command line beat it.

The keys stand at the top of the file, or in its table `[tool.ext4audit]`. A key, rule or profile
that does not exist is a usage error, so that a typing error never audits less. A file of another
user in a directory that anybody may write to is refused."""
OF_SUPPRESSIONS = f"""A suppressed finding stays in every report, marked, and does not count for
`--fail-on`. What has expired accepts nothing, and what matches nothing is told. A suppression must
say {", ".join(REQUIRED[:-1])} and {REQUIRED[-1]}."""
POLICY = """\
fail_on = "high"
ignore = ["LAY006"]
profile = ["postgres=/var/lib/postgresql*"]

[[suppress]]
rule = "PRF004"
subject = "/scratch"
reason = "discards are fast on these disks: measured in May"
owner = "storage"
expires = 2027-06-30
"""
"""A policy that is one: the tests parse it."""


def policy_page() -> str:
    """Return ext4audit.toml(5)."""
    commands = ", ".join(f"{bold(f'{PROGRAM}-{name}')}(1)" for name in ("scan", "plan"))
    parts = [
        '.\\" Made by tests/generated_files.py of tests/man_policy.py.',
        title(NAME, 5, f"{PROGRAM} {__version__}", "File Formats"),
        section("NAME", f"{escaped(NAME)} \\- policy of an audit by {PROGRAM}"),
        section("DESCRIPTION", *(prose(text) for text in DESCRIPTION.split("\n\n"))),
        section("KEYS", *_keys(KEYS)),
        section("SUPPRESSIONS", prose(OF_SUPPRESSIONS), *_keys(SUPPRESS_KEYS)),
        section("EXAMPLES", example(POLICY.splitlines())),
        section("SEE ALSO", f"{commands}, {bold(f'{PROGRAM}-rules')}(1)"),
    ]
    return "\n".join([*parts, ""])


def _keys(keys: dict[str, tuple[str, str]]) -> list[str]:
    return [item(f"{bold(key)} ({italic(kind)})", says) for key, (kind, says) in keys.items()]
