"""`ext4audit completion`: the script with which a shell completes commands, options and names."""

from __future__ import annotations

import click

from ext4audit.cli.app import PROGRAM, app
from ext4audit.cli.output import write

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_EXT4AUDIT_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print the completion script for bash, zsh or fish.

    \b
    Examples:
      ext4audit completion bash > /etc/bash_completion.d/ext4audit
      ext4audit completion zsh > "${fpath[1]}/_ext4audit"
      ext4audit completion fish > ~/.config/fish/completions/ext4audit.fish
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    write(f"{script(shell)}\n", None)
    return 0


def script(shell: str) -> str:
    """Return the script of a shell, which asks the program itself for what fits."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - for this only

    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"click completes nothing for {shell}")
    return completion(app, {}, PROGRAM, VARIABLE).source()
