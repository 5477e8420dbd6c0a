"""`ext4audit schema`: print the JSON Schema of JSON reports."""

from __future__ import annotations

import click

from ext4audit.cli.output import write
from ext4audit.renderers.json_v1 import schema_text


@click.command("schema")
@click.option(
    "--unread",
    is_flag=True,
    help="Print the schema of an ndjson line for a host that could not be read.",
)
def command(*, unread: bool) -> int:
    """Print the JSON Schema (2020-12) of `ext4audit scan --format json`.

    The lines of `--format ndjson` have the same schema, except for lines with `error`.

    \b
    Examples:
      ext4audit schema > ext4audit.schema.json
      ext4audit schema --unread
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    write(schema_text("schema-unread-1.0.json") if unread else schema_text(), None)
    return 0
