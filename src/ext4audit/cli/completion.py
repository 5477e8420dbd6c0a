r"""Shell completion: `ext4audit completion`, what completes each value, and click's engine.

click provides the scripts of the shells and finds the option or argument at the cursor. The
subclasses of its shells keep five things that click 8.1 to 8.5 does not complete:

- bash: a value with `=` or `:`, because bash passes `--fail-on=hi` as three words.
- zsh and fish: a value after `=`, because click replaces the whole word by the value.
- zsh: the second tab, where the script is autoloaded, as packages install it.
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
"""What needs no quotes in any shell: only such text is put back with a completion after it."""
BREAKS = "=:"
"""What separates words in bash's completion, and in no other shell's (COMP_WORDBREAKS)."""
CLUSTER = re.compile(r"-([a-z]{2,})")


def files(_context: click.Context, _parameter: click.Parameter, _typed: str) -> list[Item]:
    """Leave the value to the shell's own completion of file names."""
    return [_file()]


def rules(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete the code or name of a rule."""
    return _rules(typed)


def rule_list(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete the last of several codes and names, separated by commas."""
    return _last_of_list(typed, _rules)


def choice_of_rule(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete the rule of RULE=WORDS; the remedies behind it are those of the report."""
    return [] if "=" in typed else _rules(typed)


def releases(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete the release of a distribution.

    Without help: click before 8.2 does not escape the colon in what zsh shows beside one.
    """
    known: tuple[str, ...] = lazily("facts.plan", "known_releases")()
    return [CompletionItem(each) for each in known if each.startswith(typed.lower())]


def profile_list(context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete the last of several profiles, separated by commas; NAME=MOUNT for one mount."""
    own = _site_profiles(context.params.get("config"))
    return _last_of_list(typed, lambda word: _profiles(word, own))


def probe_list(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete the last of several probes, separated by commas."""
    return _last_of_list(typed, _probes)


def fleet_commands(context: click.Context, _parameter: click.Parameter, typed: str) -> list[Item]:
    """Complete `fleet fix`, as long as nothing else stands behind `fleet`."""
    given = (context.get_parameter_source(f"{each.name}") for each in context.command.params)
    alone = ParameterSource.COMMANDLINE not in given
    return starting(typed, BELOW_FLEET) if alone else []


def starting(typed: str, words: Mapping[str, str]) -> list[Item]:
    """Return the words that begin with what is typed, in any case, with their help."""
    start = typed.lower()
    return [
        CompletionItem(word, help=_first_sentence(text))
        for word, text in words.items()
        if word.lower().startswith(start)
    ]


def _first_sentence(text: str) -> str:
    """Return it on one line, without its full stop: a shell shows one line."""
    return " ".join(text.split()).partition(". ")[0].removesuffix(".")


def _file(before: str = "") -> Item:
    """Return the mark for file names, with what stands before the name in its word."""
    return CompletionItem(before, type="file")


def _rules(typed: str) -> list[Item]:
    """Return codes and names; only codes until a letter is typed, so that the list stays short."""
    from ext4audit.rules import all_rules  # noqa: PLC0415 - 60 ms that other values do not need

    known = all_rules()
    by_code = {rule.code: f"{rule.name}: {rule.summary}" for rule in known}
    by_name = {rule.name: f"{rule.code}: {rule.summary}" for rule in known}
    return starting(typed, {**by_code, **by_name} if typed else by_code)


def _site_profiles(config: str | None) -> Mapping[str, str]:
    """Return the reasons of the policy's own profiles by name; none where it is not valid."""
    try:
        profiles = lazily("cli.policy", "read_profiles")(config)
    except click.UsageError:
        return {}
    return {each.profile.name: each.profile.says for each in profiles}


def _profiles(typed: str, own: Mapping[str, str]) -> list[Item]:
    """Return names of profiles, and after `NAME=` the files of a mount point."""
    from ext4audit.facts.host import all_profiles  # noqa: PLC0415 - reads a table

    known = {**{name: each.product for name, each in all_profiles().items()}, **own}
    name, equals, _ = typed.partition("=")
    if equals:
        return [_file(f"{name}=")] if name in known else []
    return starting(typed, known)


def _last_of_list(typed: str, find: Callable[[str], list[Item]]) -> list[Item]:
    """Return what fits after the last comma, without what is already in the list."""
    if SAFE.fullmatch(typed) is None:
        return []
    before, comma, last = typed.rpartition(",")
    given = before.lower().split(",")
    return _behind(before + comma, [item for item in find(last) if item.value.lower() not in given])


def _probes(typed: str) -> list[Item]:
    from ext4audit.probing import PROBES  # noqa: PLC0415 - only a completion of probes pays for it

    return starting(typed, {name: f"{each.rule}: {each.healthy}" for name, each in PROBES.items()})


def _behind(head: str, items: list[Item]) -> list[Item]:
    """Return the items as parts of a word that begins with `head`."""
    return [CompletionItem(head + item.value, item.type, item.help) for item in items]


class _Words(ShellComplete):
    """A shell whose words are completed whole: with `--option=` before a value."""

    def get_completions(self, args: list[str], incomplete: str) -> list[Item]:
        name, equals, _ = incomplete.partition("=")
        is_option = name.startswith("--") and "--" not in args
        head = name + equals if is_option and equals else ""
        if SAFE.fullmatch(head) is None:
            return []
        try:
            return _behind(head, super().get_completions(_without_cluster(args), incomplete))
        except click.UsageError:  # there is no such command
            return []


def _without_cluster(args: list[str]) -> list[str]:
    """Return the words with `-vf` at their end as `-v -f`: click looks for an option there."""
    letters = CLUSTER.fullmatch(args[-1]) if args else None
    return [*args[:-1], *(f"-{letter}" for letter in letters[1])] if letters else args


class _Bash(_Words, BashComplete):
    """bash: what readline replaces begins after the last character that separates words.

    Those are "=" and ":" of COMP_WORDBREAKS.
    """

    _kept = ""
    """What readline keeps of the word at the cursor."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words with those joined that bash has separated at `=` and `:`."""
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
    """zsh: file names are completed after what stands before them in the word."""

    # zsh drops an empty value, and its columns move: then there is no `descr`.
    source_template = ZshComplete.source_template.replace(
        "_path_files -f", '[[ -n "$descr" ]] && compset -P "${(b)key}"; _path_files -f'
    )

    @property
    def func_name(self) -> str:
        """Return the name of the autoloaded file: with another, every second tab does nothing."""
        return f"_{PROGRAM}"


class _Fish(_Words, FishComplete):
    """fish: values keep their commas, and file names what stands before them in the word."""

    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    ).replace(
        "__fish_complete_path $metadata[2];",
        r"string join \n -- $metadata[2](__fish_complete_path (string sub "
        "--start (math 1 + (string length -- $metadata[2])) -- (commandline -ct)));",
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words after the program: fish passes those of sudo before it, too."""
        args, incomplete = super().get_completion_args()
        first = os.environ["COMP_WORDS"].split(maxsplit=1)[:1]
        names = [word.rpartition("/")[2] for word in (*first, *args)]
        return args[names.index(PROGRAM) :] if PROGRAM in names else args, incomplete


SHELLS: Mapping[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
for _shell in SHELLS.values():
    add_completion_class(_shell)  # as a decorator it returns None in click 8.1.0


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
    # BashComplete.source() would start bash and warn where it is older than 4.4.
    return ShellComplete.source(SHELLS[shell](app, {}, PROGRAM, ASKED_BY_A_SHELL))


def answer(instruction: str) -> bool:
    """Print what fits at the cursor; return whether the variables form a question."""
    try:
        return shell_complete(app, {}, PROGRAM, ASKED_BY_A_SHELL, instruction) == 0
    except (KeyError, ValueError):  # no COMP_WORDS, or a COMP_CWORD that is no number
        return False
