"""The generated files of share/, and functions to write and read a folder of generated files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ext4audit.cli import PROGRAM
from ext4audit.cli.completion import script
from ext4audit.sources import ansible
from support.docs.man_pages import pages

SHARE = Path(__file__).parents[3] / "share"
"""The folder share/, which the wheel installs below the prefix."""
COLLECTIONS = "ansible_collections/"
ACTION = f"{COLLECTIONS}{PROGRAM}/audit/plugins/action/snapshot.py"
"""The one generated file of Ansible's collection; the others are written by hand."""


def generated() -> Mapping[str, str]:
    """Return the text of every generated file by its path relative to share/."""
    return {
        f"bash-completion/completions/{PROGRAM}": script("bash"),
        f"zsh/site-functions/_{PROGRAM}": script("zsh"),
        f"fish/vendor_completions.d/{PROGRAM}.fish": script("fish"),
        ACTION: snapshot_action().read_text(encoding="utf-8"),
        **{f"man/man{name[-1]}/{name}": text for name, text in pages().items()},
    }


def snapshot_action() -> Path:
    """Return the path of the action that `ext4audit fleet` and the Ansible collection share."""
    folder = Path(ansible.__file__).parent
    return folder / "snapshot_action.py"


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write only the files that differ, because other tests read them, and remove obsolete ones."""
    for name in _names(folder):
        if name not in texts:
            (folder / name).unlink()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def written(folder: Path) -> Mapping[str, str]:
    """Return the text of every generated file in a folder by its relative path."""
    return {name: (folder / name).read_text(encoding="utf-8") for name in _names(folder)}


def _names(folder: Path) -> list[str]:
    """Return the relative paths of the generated files in a folder."""
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    names = [str(path) for path in paths if "__pycache__" not in path.parts]
    return [name for name in names if name == ACTION or not name.startswith(COLLECTIONS)]


if __name__ == "__main__":
    write(SHARE, generated())
