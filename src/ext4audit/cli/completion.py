"""`ext4audit completion`: the script with which a shell completes commands, options and names."""

from __future__ import annotations

from importlib import resources

import click

from ext4audit.cli.options import Choice
from ext4audit.cli.output import write

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=Choice(SHELLS))
def command(shell: str) -> int:
    """Print the completion script for bash, zsh or fish.

    Packages bring it along. It asks the program itself, so that it fits every version, and
    completes options, formats, rules with what they find, profiles, and files.

    \b
    Examples:
      ext4audit completion bash > /etc/bash_completion.d/ext4audit
      ext4audit completion zsh > "${fpath[1]}/_ext4audit"
      ext4audit completion fish > ~/.config/fish/completions/ext4audit.fish
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    write(script(shell), None)
    return 0


def script(shell: str) -> str:
    """Return the script of a shell, which asks the program itself for what fits."""
    return resources.files(__package__).joinpath(f"completion.{shell}").read_text(encoding="utf-8")
