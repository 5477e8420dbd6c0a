"""What fits at the cursor of a shell: commands, options and their values."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import click

from ext4audit.cli.app import COMMANDS, PROGRAM, app
from ext4audit.cli.complete_values import Fit, starting, values
from ext4audit.cli.output import write


def answer(line: str) -> int:
    """Print what fits at the end of a command line as it was typed, one a line.

    Either "word", the word, and what it says, or "files" and what stands before the file's
    name in the same word; between tabs.
    """
    words, typed = split(line)
    fitting = fits(words, typed)
    write("".join(f"{fit.kind}\t{fit.text}\t{fit.says}\n" for fit in fitting), None)
    return 0


def split(line: str) -> tuple[list[str], str]:
    """Return the words behind the program's name, and the one that is typed, without quotes."""
    lexer = shlex.shlex(f"{line}\0", posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:  # a quote is still open
        words.append(lexer.token)
    # What stands before the name is sudo and its like (fish), and an alias is a name too.
    names = (index for index, word in enumerate(words) if word.rpartition("/")[2] == PROGRAM)
    return words[next(names, 0) + 1 : -1], words[-1].removesuffix("\0")


def fits(words: Sequence[str], typed: str) -> list[Fit]:
    """Return what fits after the words that follow the program's name."""
    at = next((index for index, word in enumerate(words) if not word.startswith("-")), None)
    if at is not None:
        command = app.get_command(click.Context(app), words[at])
        return _in_command(command, words[at + 1 :], typed) if command else []
    if typed.startswith("-"):
        return _options(_Place(app), typed)
    return starting(typed, COMMANDS)


class _Place:
    """How far a command has been typed: `waiting` is the option that lacks its value."""

    def __init__(self, command: click.Command) -> None:
        context = click.Context(command, help_option_names=["-h", "--help"])
        parameters = command.get_params(context)
        self._arguments = [each for each in parameters if isinstance(each, click.Argument)]
        self._typed = 0
        self.options: Mapping[str, click.Option] = {
            name: each
            for each in parameters
            if isinstance(each, click.Option)
            for name in (*each.opts, *each.secondary_opts)
        }
        self.used: set[str | None] = set()
        self.waiting: click.Option | None = None
        self.only_arguments = False

    def after(self, word: str) -> None:
        """Go one word on."""
        if self.waiting is not None:
            self.waiting = None
        elif self.only_arguments or not word.startswith("-") or word == "-":
            self._typed += 1
        elif word == "--":
            self.only_arguments = True
        elif word.startswith("--"):
            name, equals, _ = word.partition("=")
            self._use(name, is_last=not equals)
        else:
            self._cluster(word[1:])

    def _cluster(self, letters: str) -> None:
        """Go on over -vf, and over -fjson, which holds the value."""
        for index, letter in enumerate(letters):
            if self._use(f"-{letter}", is_last=index == len(letters) - 1):
                break

    def _use(self, name: str, *, is_last: bool) -> bool:
        """Note an option, and return whether it takes a value: what follows in its word is it."""
        option = self.options.get(name)
        if option is None:
            return False
        self.used.add(option.name)
        if takes_value(option) and is_last:
            self.waiting = option
        return takes_value(option)

    def argument(self) -> click.Argument | None:
        """Return the argument that comes next; the last of a command may take any number."""
        left = self._arguments[self._typed :]
        if left:
            return left[0]
        endless = [each for each in self._arguments if each.nargs < 0]
        return endless[0] if endless else None


def takes_value(option: click.Option) -> bool:
    """Whether a word follows the option."""
    return not (option.is_flag or option.count)


def _in_command(command: click.Command, words: Sequence[str], typed: str) -> list[Fit]:
    place = _Place(command)
    for word in words:
        place.after(word)
    if place.waiting is not None:
        return values(place.waiting, typed)
    if typed.startswith("-") and not place.only_arguments:
        return _value_in_word(place, typed) if "=" in typed else _options(place, typed)
    argument = place.argument()
    return values(argument, typed) if argument else []


def _value_in_word(place: _Place, typed: str) -> list[Fit]:
    """Return what fits behind --option=."""
    name, equals, value = typed.partition("=")
    option = place.options.get(name)
    if option is None or not takes_value(option):
        return []
    return [fit.behind(name + equals) for fit in values(option, value)]


def _options(place: _Place, typed: str) -> list[Fit]:
    """Return the options that begin so, without those that are given and not repeatable."""
    return starting(
        typed,
        {
            name: option.help or ""
            for name, option in place.options.items()
            if option.multiple or option.name not in place.used
        },
    )
