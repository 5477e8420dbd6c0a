r"""Shell completion: `ext4audit completion`, and the completion functions of option values.

click provides the scripts of the shells and finds the option or argument at the cursor. The
subclasses of its shells handle five cases that click 8.1 to 8.5 does not complete:

- bash: a value with `=` or `:`, because bash passes `--fail-on=hi` as three words.
- zsh and fish: a value after `=`, because click replaces the whole word with the value.
- zsh: the second tab, if the script is autoloaded, as packages install it.
- fish: a value with a comma, because click's script cuts the answer at each comma.
- all: a value after clustered short options, such as `-vf j`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

import click
from click.core import ParameterSource
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    shell_complete,
)

from ext4audit import lazily
from ext4audit.cli import ASKED_BY_A_SHELL, BELOW_FLEET, PROGRAM, Choice, app
from ext4audit.cli.output import write

Item: TypeAlias = "CompletionItem[str]"  # generic from click 8.5 on, not at run time before
SAFE = re.compile(r"[A-Za-z0-9_.,=+/-]*")
"""Text that needs no quotes in any shell; only such text can precede a completion in a word."""
BREAKS = "=:"
"""Characters at which only bash splits words for completion (COMP_WORDBREAKS)."""
CLUSTER = re.compile(r"-([a-z]{2,})")


def files(_context: click.Context, _parameter: click.Parameter, _typed: str) -> list[Item]:
    """Leave the value to the shell's own completion of file names."""
    return [_file()]


def rules(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete the code or name of a rule."""
    return _rules(typed)


def rule_list(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete the last rule code or name in a comma-separated list."""
    return _last_of_list(typed, _rules)


def choice_of_rule(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete RULE of RULE=WORDS; WORDS depends on the report and is not completed."""
    return [] if "=" in typed else _rules(typed)


def releases(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete the release of a distribution.

    The items have no help text: with one, click before 8.2 does not escape the colon for zsh.
    """
    known: tuple[str, ...] = lazily("facts.plan", "known_releases")()
    return [CompletionItem(each) for each in known if each.startswith(typed.lower())]


def profile_list(context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete the last profile in a comma-separated list of NAME or NAME=MOUNT."""
    own = _site_profiles(context.params.get("config"))
    return _last_of_list(typed, lambda word: _profiles(word, own))


def probe_list(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete the last probe in a comma-separated list."""
    return _last_of_list(typed, _probes)


def fleet_commands(context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete `fleet fix`, unless other arguments follow `fleet`."""
    given = (context.get_parameter_source(f"{each.name}") for each in context.command.params)
    alone = ParameterSource.COMMANDLINE not in given
    return starting(typed, BELOW_FLEET) if alone else []


def starting(typed: str, words: Mapping[str, str]) -> list[Item]:
    """Return the words that begin with the typed text, ignoring case, with their help."""
    start = typed.lower()
    return [
        CompletionItem(word, help=_first_sentence(text))
        for word, text in words.items()
        if word.lower().startswith(start)
    ]


def _first_sentence(text: str) -> str:
    """Return the first sentence on one line, without its full stop; shells show one line."""
    return " ".join(text.split()).partition(". ")[0].removesuffix(".")


def _file(before: str = "") -> Item:
    """Return the item that requests file names; `before` precedes the name in the word."""
    return CompletionItem(before, type="file")


def _rules(typed: str) -> list[Item]:
    """Return rule codes and names, but only codes if nothing is typed, for a short list."""
    from ext4audit.rules import all_rules  # noqa: PLC0415 - takes 60 ms, needed for rules only

    known = all_rules()
    by_code = {rule.code: f"{rule.name}: {rule.summary}" for rule in known}
    by_name = {rule.name: f"{rule.code}: {rule.summary}" for rule in known}
    return starting(typed, {**by_code, **by_name} if typed else by_code)


def _site_profiles(config: str | None) -> Mapping[str, str]:
    """Return the reasons of the policy file's profiles by name; empty if it is not valid."""
    try:
        profiles = lazily("cli.policy", "read_profiles")(config)
    except click.UsageError:
        return {}
    return {each.profile.name: each.profile.says for each in profiles}


def _profiles(typed: str, own: Mapping[str, str]) -> list[Item]:
    """Return profile names, or the request for file names after `NAME=`."""
    from ext4audit.facts.host import all_profiles  # noqa: PLC0415 - reads a table

    known = {**{name: each.product for name, each in all_profiles().items()}, **own}
    name, equals, _ = typed.partition("=")
    if equals:
        return [_file(f"{name}=")] if name in known else []
    return starting(typed, known)


def _last_of_list(typed: str, find: Callable[[str], list[Item]]) -> list[Item]:
    """Return completions of the text after the last comma, without items already listed."""
    if SAFE.fullmatch(typed) is None:
        return []
    before, comma, last = typed.rpartition(",")
    given = before.lower().split(",")
    return _prefix(before + comma, [item for item in find(last) if item.value.lower() not in given])


def _probes(typed: str) -> list[Item]:
    from ext4audit.probing import PROBES  # noqa: PLC0415 - needed for probes only

    return starting(typed, {name: f"{each.rule}: {each.healthy}" for name, each in PROBES.items()})


def _prefix(head: str, items: list[Item]) -> list[Item]:
    """Return the items with `head` prepended to their values."""
    return [CompletionItem(head + item.value, item.type, item.help) for item in items]


class _Words(ShellComplete):
    """A shell whose completions replace the whole word, including `--option=`."""

    def get_completions(self, args: list[str], incomplete: str) -> list[Item]:
        name, equals, _ = incomplete.partition("=")
        is_option = name.startswith("--") and "--" not in args
        head = name + equals if is_option and equals else ""
        if SAFE.fullmatch(head) is None:
            return []
        try:
            return _prefix(head, super().get_completions(_without_cluster(args), incomplete))
        except click.UsageError:  # there is no such command
            return []


def _without_cluster(args: list[str]) -> list[str]:
    """Return the words with a final `-vf` split into `-v -f`, where click finds the option."""
    letters = CLUSTER.fullmatch(args[-1]) if args else None
    return [*args[:-1], *(f"-{letter}" for letter in letters[1])] if letters else args


class _Bash(_Words, BashComplete):
    """bash, where readline replaces only what follows the last "=" or ":" (COMP_WORDBREAKS)."""

    _kept = ""
    """The part of the word at the cursor that readline does not replace."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words, after joining those that bash has split at `=` and `:`."""
        args, incomplete = super().get_completion_args()
        words: list[str] = []
        joins = False
        for word in [*args, incomplete]:
            is_separator = word != "" and not word.strip(BREAKS)
            if words and (joins or is_separator):
                words[-1] += word
            else:
                words.append(word)
            joins = is_separator
        self._kept = words[-1].removesuffix(incomplete.lstrip(BREAKS))
        return words[:-1], words[-1]

    def format_completion(self, item: Item) -> str:
        value = item.value.removeprefix(self._kept)
        return super().format_completion(CompletionItem(value, item.type))


class _Zsh(_Words, ZshComplete):
    """zsh, with file name completion after a prefix in the word, such as `--option=`."""

    # zsh drops an empty value, which shifts the columns: `descr` is then empty.
    source_template = ZshComplete.source_template.replace(
        "_path_files -f", '[[ -n "$descr" ]] && compset -P "${(b)key}"; _path_files -f'
    )

    @property
    def func_name(self) -> str:
        """Return the name of the autoloaded file; with another, every second tab does nothing."""
        return f"_{PROGRAM}"


class _Fish(_Words, FishComplete):
    """fish, where values keep their commas, and file names keep their prefix in the word."""

    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    ).replace(
        "__fish_complete_path $metadata[2];",
        r"string join \n -- $metadata[2](__fish_complete_path (string sub "
        "--start (math 1 + (string length -- $metadata[2])) -- (commandline -ct)));",
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words after the program name; fish also passes a preceding sudo command."""
        args, incomplete = super().get_completion_args()
        first = os.environ["COMP_WORDS"].split(maxsplit=1)[:1]
        names = [word.rpartition("/")[2] for word in (*first, *args)]
        return args[names.index(PROGRAM) :] if PROGRAM in names else args, incomplete


SHELLS: Mapping[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
for _shell in SHELLS.values():
    add_completion_class(_shell)  # not a decorator: it returns None in click 8.1.0


@click.command("completion")
@click.argument("shell", type=Choice(tuple(SHELLS)))
def command(shell: str) -> int:
    """Print the completion script for bash, zsh or fish.

    Packages install this script. It completes the options, formats, rules, profiles and files
    of the installed version.

    \b
    Examples:
      ext4audit completion bash > /etc/bash_completion.d/ext4audit
      ext4audit completion zsh > "${fpath[1]}/_ext4audit"
      ext4audit completion fish > ~/.config/fish/completions/ext4audit.fish
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    write(script(shell), None)
    return 0


def script(shell: str) -> str:
    """Return the completion script of a shell."""
    # BashComplete.source() would start bash, and warn if it is older than 4.4.
    return ShellComplete.source(SHELLS[shell](app, {}, PROGRAM, ASKED_BY_A_SHELL))


def answer(instruction: str) -> bool:
    """Print the completions at the cursor; return False if the variables are not valid."""
    try:
        return shell_complete(app, {}, PROGRAM, ASKED_BY_A_SHELL, instruction) == 0
    except (KeyError, ValueError):  # no COMP_WORDS, or COMP_CWORD is not a number
        return False
