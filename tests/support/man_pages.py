"""The manual pages of the commands, made of what the commands say about themselves.

Nothing of it depends on the terminal, the locale, or the version of Python or click.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from ext4audit import __version__
from ext4audit.cli.app import COMMANDS, PROGRAM, app
from ext4audit.cli.output import NAGIOS
from ext4audit.cli.policy import NAME, OF_THE_HOST
from support.roff import bold, escaped, example, italic, item, prose, section, title

KEPT = "\b"
"""click's mark for a paragraph that keeps its lines."""
EXIT_CODES, EXAMPLES = "Exit codes: ", "Examples:"
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
HELP = item(f"{bold('-h')}, {bold('--help')}", "Print a page of help.")
VERSION = item(bold("--version"), "Print the version.")
GENERATED = '.\\" Made by tests/generated_files.py of what the program says of itself.'


def page_name(command: str) -> str:
    """Return what a command's page is called, as git's are."""
    return f"{PROGRAM}-{command}"


def program_page() -> str:
    """Return ext4audit(1)."""
    says = _Help(app)
    commands = [item(bold(page_name(name)) + "(1)", text) for name, text in COMMANDS.items()]
    return _page(
        PROGRAM,
        _short(app),
        section("SYNOPSIS", f"{bold(PROGRAM)} {italic('COMMAND')} [{italic('ARGUMENTS')}]"),
        section("DESCRIPTION", *says.paragraphs),
        section("COMMANDS", *commands),
        section("OPTIONS", VERSION, HELP),
        section("EXIT STATUS", *_codes(OF_AUDITS), prose("The pages of the commands say more.")),
        section("EXAMPLES", example(says.examples)),
        _see_also([page_name(name) for name in COMMANDS]),
    )


def command_page(name: str) -> str:
    """Return the page of one command."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    says = _Help(command)
    options = [each for each in command.params if isinstance(each, click.Option)]
    names = {opt for each in options for opt in each.opts}
    plugin = [prose(OF_A_PLUGIN)] if name == PLUGIN else []
    return _page(
        page_name(name),
        COMMANDS[name],
        section("SYNOPSIS", _synopsis(name, command)),
        section("DESCRIPTION", *says.paragraphs),
        section("OPTIONS", *(_option(each) for each in options), HELP),
        section("EXIT STATUS", *_codes(says.codes), *plugin),
        *([_files()] if "--config" in names else []),
        section("EXAMPLES", example(says.examples)),
        _see_also([PROGRAM]),
    )


class _Help:
    """What a command says: paragraphs in roff, and what is a section of its own on a page."""

    def __init__(self, command: click.Command) -> None:
        self.paragraphs: list[str] = []
        self.codes: dict[str, str] = {}
        self.examples: list[str] = []
        # Python 3.13 strips the indentation of docstrings, and those before it do not.
        for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
            self._add(paragraph)

    def _add(self, paragraph: str) -> None:
        if paragraph.startswith(EXIT_CODES):
            self.codes = dict(CODE.findall(" ".join(paragraph.split())))
        elif paragraph.startswith(KEPT):
            first, *rest = inspect.cleandoc(paragraph.removeprefix(f"{KEPT}\n")).split("\n")
            if first == EXAMPLES:
                self.examples = [line.removeprefix("  ") for line in rest]
            else:
                self.paragraphs.append(example([first, *rest]))
        else:
            self.paragraphs.append(prose(paragraph))


def _page(name: str, summary: str, *sections: str) -> str:
    short = escaped(summary[:1].lower() + summary[1:].removesuffix("."))
    head = title(name, 1, f"{PROGRAM} {__version__}", "User Commands")
    named = section("NAME", f"{escaped(name)} \\- {short}")
    return "\n".join([GENERATED, head, named, *sections, ""])


def _short(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "").partition("\n\n")[0]


def _synopsis(name: str, command: click.Command) -> str:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    words = [italic(_value(each)) for each in arguments]
    return " ".join([bold(f"{PROGRAM} {name}"), f"[{italic('OPTIONS')}]", *words])


def _option(option: click.Option) -> str:
    names = ", ".join(bold(opt) for opt in (*option.opts, *option.secondary_opts))
    term = names if option.is_flag else f"{names} {italic(_value(option))}"
    default = f"  [default: {option.default}]" if option.show_default else ""
    return item(term, f"{option.help or ''}{default}")


def _value(parameter: click.Parameter) -> str:
    """Return what stands for the value in the help."""
    if parameter.metavar:
        return parameter.metavar
    if isinstance(parameter.type, click.Choice):
        return "|".join(parameter.type.choices)
    return f"{parameter.name}".upper()


def _codes(said: dict[str, str]) -> Iterator[str]:
    """Yield every exit code: those that a command explains, and those that all have."""
    known = {**OF_ALL, **said}
    for code in sorted(known, key=int):
        yield item(bold(code), f"{known[code]}.")


def _files() -> str:
    nearest = f"The policy of the working directory, or of the nearest above it: see `{NAME}`(5)."
    return section(
        "FILES",
        item(italic(NAME), nearest),
        item(italic(OF_THE_HOST), "The policy of the host, where there is no nearer one."),
    )


def _see_also(pages: list[str]) -> str:
    ours = [f"{bold(name)}(1)" for name in pages]
    return section("SEE ALSO", ", ".join([*ours, f"{bold(NAME)}(5)", f"{bold('ext4')}(5)"]))
