"""`ext4audit schema`: the JSON Schema of the machine format."""

from __future__ import annotations

import click

from ext4audit.cli.output import write
from ext4audit.renderers.json_v1 import schema_text


@click.command("schema")
def command() -> int:
    """Print the JSON Schema (2020-12) that `ext4audit scan --format json` conforms to.

    \b
    Examples:
      ext4audit schema > ext4audit.schema.json
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    write(schema_text(), None)
    return 0
