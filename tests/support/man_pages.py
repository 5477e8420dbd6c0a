"""The manual pages: those of the commands from their help, and that of the policy file.

The commands' pages depend on neither the terminal, the locale, nor the version of Python or click.
click-man 0.6 writes none of the sections EXIT STATUS, EXAMPLES, FILES and SEE ALSO, cuts each
summary after 45 characters, leaves out the commands of a lazy group, prints the examples as one
paragraph with a backspace before it (mandoc: "unsupported control character"), and escapes nothing.
docutils' writer of manual pages escapes neither ~ nor ^, and mandoc warns of its pages.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping

import click

from ext4audit import __version__
from ext4audit.cli import COMMANDS, PROGRAM, app
from ext4audit.cli.output import NAGIOS
from ext4audit.cli.policy import NAME, OF_THE_HOST
from ext4audit.finding import Severity
from ext4audit.policy import NEVER, REQUIRED

GLYPHS = {
    "\\": r"\e",
    "-": r"\-",
    "'": r"\(aq",
    '"': r"\(dq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
}
"""What roff prints as something else, and what a person could not copy to a shell."""
KEPT = "\b\n"
"""click's mark for a paragraph that keeps its lines."""
EXIT_CODES, EXAMPLES = "Exit codes: ", "Examples:\n"
CODE = re.compile(r"(\d+) (.+?)(?:, (?=\d+ )|\.$)")
OF_ALL = {
    "0": "what was asked for is printed",
    "2": "usage error",
    "70": "internal error",
    "130": "interrupted",
    "141": "the reader of standard output has gone",
}
OF_AUDITS = {
    "0": "the audit is complete, and nothing is at or above `--fail-on`",
    "1": "a finding that is neither suppressed nor in the baseline is at or above `--fail-on`",
    "3": "the audit is incomplete: something that a rule needed could not be seen",
}
PLUGIN = "scan"
"""The command whose exit codes follow its first format."""
OF_A_PLUGIN = (
    f"Where the first format is `{NAGIOS}`, it is that of a monitoring plugin: 0 OK, 1 WARNING, "
    "2 CRITICAL, 3 UNKNOWN."
)
GENERATED = '.\\" Made by tests/support/generated_files.py of what the program says of itself.'

OF_TERMINALS = {
    "PAGER": "The pager for long text on a terminal; empty or `cat` for none. Default: `less`.",
    "LESS": "The options of `less`. Default: `FRX`, as in `git`(1).",
    "NO_COLOR": "If it is not empty, no text is coloured.",
    "CLICOLOR_FORCE, FORCE_COLOR": "If it is neither empty nor 0, text is coloured in a pipe, too.",
    "EXT4AUDIT_COLOR": "The option `--color` of all commands, and of help and error messages.",
    "FORCE_HYPERLINK": "0: no links; any other value: links in coloured text on a terminal.",
}

LIST, TEXT = "a list of texts, or one", "a text"
KEYS = {
    "select": (
        LIST,
        (
            "Only these rules judge: codes, prefixes of codes such as DUR, or names. What the "
            "option `--select` says replaces this key and `ignore`."
        ),
    ),
    "ignore": (LIST, "All but these rules; the option `--ignore` adds to them."),
    "pedantic": ("true or false", "Also the rules that are off where nobody chooses."),
    "fail_on": (
        TEXT,
        f"As the option `--fail-on`: {', '.join(each.value for each in Severity)}, or {NEVER}.",
    ),
    "profile": (
        LIST,
        (
            "Products whose vendor's demands are judged, each with a glob of mount points behind "
            '`=` where it is not for every filesystem: "postgres=/srv/pg*".'
        ),
    ),
    "suppress": ("tables", "Findings that are accepted; each is a `[[suppress]]` of its own."),
}
SUPPRESS_KEYS = {
    "rule": (TEXT, "One rule, by its code or name."),
    "subject": (
        TEXT,
        (
            "A glob of what the finding is about: a filesystem's UUID, mount point, device or "
            "label; for a rule about the host what the finding names, or the host's name."
        ),
    ),
    "reason": (TEXT, "Why it is accepted; every report prints it."),
    "owner": (TEXT, "Who accepted it."),
    "expires": ("a date", "The last day on which it is accepted, such as 2027-01-31."),
}
OF_POLICIES = (
    (
        "What an audit judges by, and which findings are accepted, in a file in TOML. "
        f"`{PROGRAM}` takes the file that the option `--config` names; else the one in the working "
        f"directory, or in the nearest directory above it; else `{OF_THE_HOST}`. One file counts "
        "alone: nothing of another is mixed in. Options of the command line beat it."
    ),
    (
        "The keys stand at the top of the file, or in its table `[tool.ext4audit]`. A key, rule or "
        "profile that does not exist is a usage error, so that a typing error never audits less."
    ),
    (
        "A file that is not named by `--config` must belong to root, to the caller, or to the user "
        "who became root by `sudo`(8), and so must its directory; neither may be writable by "
        "others. Any other file is a usage error. Each report names the file in force."
    ),
)
OF_SUPPRESSIONS = (
    "A suppressed finding stays in every report, marked, and does not count for `--fail-on`. What "
    "has expired accepts nothing, and what matches nothing is told. A suppression must say "
    f"{', '.join(REQUIRED[:-1])} and {REQUIRED[-1]}."
)
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
"""The example of the page: the tests parse it."""


def pages() -> Mapping[str, str]:
    """Return the text of every page by its file name."""
    of_commands = {f"{_page_name(name)}.1": _command_page(name) for name in COMMANDS}
    return {f"{PROGRAM}.1": _program_page(), **of_commands, f"{NAME}.5": _policy_page()}


def escaped(text: str) -> str:
    """Return text that roff prints as it is, also at the start of a line."""
    shown = "".join(
        GLYPHS.get(char, char) if char.isascii() else f"\\[u{ord(char):04X}]" for char in text
    )
    return f"\\&{shown}" if shown.startswith(".") else shown


def prose(text: str) -> str:
    """Return a paragraph in one line; what stands in backticks is bold."""
    parts = re.split("`([^`]+)`", " ".join(text.split()))
    return "".join(_bold(part) if odd % 2 else escaped(part) for odd, part in enumerate(parts))


def _bold(text: str) -> str:
    return f"\\fB{escaped(text)}\\fR"


def _italic(text: str) -> str:
    return f"\\fI{escaped(text)}\\fR"


def _item(term: str, text: str) -> str:
    """Return a term in roff, and below it what it is."""
    return f".TP\n{term}\n{prose(text)}"


def _example(lines: Iterable[str]) -> str:
    """Return lines that are kept as they are; not set in, so that 73 columns fit in 80."""
    return "\n".join([".nf", *(escaped(line) for line in lines), ".fi"])


def _section(name: str, *blocks: str) -> str:
    """Return a section of paragraphs, items and examples; a paragraph begins without a request."""
    lines = [f".SH {name}"]
    for index, block in enumerate(blocks):
        if index and not block.startswith((".TP", ".PP")):
            lines.append(".PP")
        lines.append(block)
    return "\n".join(lines)


def _page(name: str, number: int, manual: str, summary: str, *sections: str) -> str:
    """Return a page without a date: the same version is the same bytes."""
    source = escaped(f"{PROGRAM} {__version__}")
    head = f'.TH {escaped(name.upper())} {number} "" "{source}" "{manual}"'
    short = escaped(summary[:1].lower() + summary[1:].removesuffix("."))
    named = _section("NAME", f"{escaped(name)} \\- {short}")
    return "\n".join([GENERATED, head, named, *sections, ""])


def _page_name(command: str) -> str:
    """Return what a command's page is called, as git's are."""
    return f"{PROGRAM}-{command}"


HELP_NAMES = ["-h", "--help"]
HELP = _item(", ".join(map(_bold, HELP_NAMES)), "Print this help.")
VERSION = _item(f"{_bold('-V')}, {_bold('--version')}", "Print the version.")


def _program_page() -> str:
    paragraphs, _, examples = _help(app)
    names = [_page_name(name) for name in COMMANDS]
    return _page(
        PROGRAM,
        1,
        "User Commands",
        inspect.cleandoc(app.help or "").partition("\n\n")[0],
        _section("SYNOPSIS", f"{_bold(PROGRAM)} {_italic('COMMAND')} [{_italic('ARGUMENTS')}]"),
        _section("DESCRIPTION", *paragraphs),
        _section(
            "COMMANDS",
            *(
                _item(_bold(page) + "(1)", text)
                for page, text in zip(names, COMMANDS.values(), strict=True)
            ),
        ),
        _section(
            "OPTIONS",
            VERSION,
            *(
                _option(each)
                for each in app.params
                if isinstance(each, click.Option) and "--no-pager" in each.opts
            ),
            HELP,
        ),
        _section("EXIT STATUS", *_codes(OF_AUDITS), prose("The pages of the commands say more.")),
        _section("ENVIRONMENT", *(_item(_bold(name), text) for name, text in OF_TERMINALS.items())),
        _section("EXAMPLES", _example(examples)),
        _see_also(names),
    )


def _command_page(name: str) -> str:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    paragraphs, codes, examples = _help(command)
    options = [
        each
        for each in command.params
        if isinstance(each, click.Option) and each.opts != HELP_NAMES
    ]
    has_policy = any("--config" in each.opts for each in options)
    plugin = [prose(OF_A_PLUGIN)] if name == PLUGIN else []
    return _page(
        _page_name(name),
        1,
        "User Commands",
        COMMANDS[name],
        _section("SYNOPSIS", _synopsis(name, command)),
        _section("DESCRIPTION", *paragraphs),
        _section("OPTIONS", *(_option(each) for each in options), HELP),
        _section("EXIT STATUS", *_codes(codes), *plugin),
        _section("ENVIRONMENT", *_environment(options)),
        *([_files()] if has_policy else []),
        _section("EXAMPLES", _example(examples)),
        _see_also([PROGRAM]),
    )


def _policy_page() -> str:
    commands = ", ".join(f"{_bold(_page_name(name))}(1)" for name in ("scan", "plan", "rules"))
    return _page(
        NAME,
        5,
        "File Formats",
        f"policy of an audit by {PROGRAM}",
        _section("DESCRIPTION", *map(prose, OF_POLICIES)),
        _section("KEYS", *_keys(KEYS)),
        _section("SUPPRESSIONS", prose(OF_SUPPRESSIONS), *_keys(SUPPRESS_KEYS)),
        _section("EXAMPLES", _example(POLICY.splitlines())),
        _section("SEE ALSO", commands),
    )


def _help(command: click.Command) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the paragraphs of a command's help in roff, its exit codes, and its examples."""
    paragraphs: list[str] = []
    codes: dict[str, str] = {}
    examples: list[str] = []
    # Python 3.13 strips the indentation of docstrings, and those before it do not.
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        kept = inspect.cleandoc(paragraph.removeprefix(KEPT))
        if paragraph.startswith(EXIT_CODES):
            codes = dict(CODE.findall(" ".join(paragraph.split())))
        elif kept.startswith(EXAMPLES):
            examples = [line.removeprefix("  ") for line in kept.split("\n")[1:]]
        elif paragraph.startswith(KEPT):
            paragraphs.append(_example(kept.split("\n")))
        else:
            paragraphs.append(prose(paragraph))
    return paragraphs, codes, examples


def _synopsis(name: str, command: click.Command) -> str:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    words = [_italic(_value(each)) for each in arguments]
    return " ".join([_bold(f"{PROGRAM} {name}"), f"[{_italic('OPTIONS')}]", *words])


def _option(option: click.Option) -> str:
    names = ", ".join(_bold(opt) for opt in (*option.opts, *option.secondary_opts))
    term = names if option.is_flag else f"{names} {_italic(_value(option))}"
    default = f"  [default: {option.default}]" if option.show_default else ""
    return _item(term, f"{option.help or ''}{default}")


def _environment(options: Iterable[click.Option]) -> Iterator[str]:
    """Yield the variable of each option; a variable for several commands stands behind it."""
    for option in options:
        names = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
        several = ", for several values separated by blanks" if option.multiple else ""
        yield _item(
            ", ".join(map(_bold, names)), f"The option `{max(option.opts, key=len)}`{several}."
        )


def _value(parameter: click.Parameter) -> str:
    """Return what stands for the value in the help."""
    if parameter.metavar:
        return parameter.metavar
    if isinstance(parameter.type, click.Choice):
        return "|".join(parameter.type.choices)
    return f"{parameter.name}".upper()


def _codes(reported: dict[str, str]) -> Iterator[str]:
    """Yield every exit code: those that a command explains, and those that all have."""
    known = {**OF_ALL, **reported}
    for code in sorted(known, key=int):
        yield _item(_bold(code), f"{known[code]}.")


def _files() -> str:
    nearest = f"The policy of the working directory, or of the nearest above it: see `{NAME}`(5)."
    return _section(
        "FILES",
        _item(_italic(NAME), nearest),
        _item(_italic(OF_THE_HOST), "The policy of the host, where there is no nearer one."),
    )


def _see_also(names: list[str]) -> str:
    ours = [f"{_bold(name)}(1)" for name in names]
    return _section("SEE ALSO", ", ".join([*ours, f"{_bold(NAME)}(5)", f"{_bold('ext4')}(5)"]))


def _keys(keys: dict[str, tuple[str, str]]) -> list[str]:
    return [_item(f"{_bold(key)} ({_italic(kind)})", text) for key, (kind, text) in keys.items()]
