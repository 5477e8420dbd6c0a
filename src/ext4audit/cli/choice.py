"""One word of a few, and the nearest of them where none was typed."""

from __future__ import annotations

import click

from ext4audit.cli.app import did_you_mean

_ALIKE = 0.6
"""Fewer letters in common, and "xml" is taken for "html"; then all the words are listed."""


class Choice(click.Choice):  # type: ignore[type-arg] # generic from click 8.2 on, at run time too
    """click's, which lists the words and names none as the nearest."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the word; raises BadParameter."""
        words = [str(each) for each in self.choices]
        if value in words:
            return str(value)
        near = did_you_mean(str(value).lower(), words, _ALIKE) or f" (there are {', '.join(words)})"
        raise click.BadParameter(f"there is no {str(value)!r}{near}", ctx, param)
