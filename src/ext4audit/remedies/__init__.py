"""How changes are made: each module knows one kind of change, its checks and its rollback.

A rule imports this package and calls, for example, `remedies.options.change_option(fs, …)`. A
module is imported when the first finding needs it (PEP 562): a healthy host loads none.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ext4audit.remedies import default_options as default_options
    from ext4audit.remedies import features as features
    from ext4audit.remedies import flags as flags
    from ext4audit.remedies import fstab as fstab
    from ext4audit.remedies import kernel_settings as kernel_settings
    from ext4audit.remedies import mkfs as mkfs
    from ext4audit.remedies import mounting as mounting
    from ext4audit.remedies import offline as offline
    from ext4audit.remedies import options as options
    from ext4audit.remedies import remount as remount
    from ext4audit.remedies import superblock_fields as superblock_fields


def __getattr__(name: str) -> ModuleType:
    """Import a module of this package when it is first used."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
