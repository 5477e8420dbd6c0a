"""`ext4audit schema`: the JSON Schema of the machine format."""

from __future__ import annotations

import click

from ext4audit.cli.output import write
from ext4audit.renderers.json_v1 import schema_text
from ext4audit.renderers.ndjson import unread_schema_text


@click.command("schema")
@click.option("--unread", is_flag=True, help="Of the ndjson line of a source without a report.")
def command(*, unread: bool) -> int:
    """Print the JSON Schema (2020-12) that `ext4audit scan --format json` conforms to.

    Each line of `--format ndjson` conforms to it too, but for the lines with an `error`.

    \b
    Examples:
      ext4audit schema > ext4audit.schema.json
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    write(unread_schema_text() if unread else schema_text(), None)
    return 0
