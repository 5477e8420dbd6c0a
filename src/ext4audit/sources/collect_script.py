"""The collector for hosts without Python: one POSIX sh file, which writes a snapshot."""

from __future__ import annotations

from importlib import resources

_VERSION_MARK = "@VERSION@"
_COMMENT = "# "


def collect_script(version: str) -> str:
    """Return the script as it is sent: its first comment tells what it does and how to call it.

    Indentation and the other comments stay behind: some run-command services of clouds take 16
    KiB of base64 and no more, which is 12 KB of script.
    """
    text = resources.files(__package__).joinpath("collect.sh").read_text(encoding="utf-8")
    lines = [line.lstrip("\t") for line in text.splitlines()]
    end_of_head = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    code = [line for line in lines[end_of_head:] if line and not line.startswith(_COMMENT)]
    sent = "\n".join([*lines[:end_of_head], *code, ""])
    return sent.replace(_VERSION_MARK, version)
