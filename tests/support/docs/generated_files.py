"""The generated files of share/, and how a folder of generated files is written and read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ext4audit.cli import PROGRAM
from ext4audit.cli.completion import script
from ext4audit.sources import ansible
from support.docs.man_pages import pages

SHARE = Path(__file__).parents[3] / "share"
"""As it lies in an installation: the wheel copies it below the prefix."""
COLLECTIONS = "ansible_collections/"
ACTION = f"{COLLECTIONS}{PROGRAM}/audit/plugins/action/snapshot.py"
"""The one generated file of Ansible's collection; the others are written by hand."""


def generated() -> Mapping[str, str]:
    """Return the text of every file by its path below share/."""
    return {
        f"bash-completion/completions/{PROGRAM}": script("bash"),
        f"zsh/site-functions/_{PROGRAM}": script("zsh"),
        f"fish/vendor_completions.d/{PROGRAM}.fish": script("fish"),
        ACTION: snapshot_action().read_text(encoding="utf-8"),
        **{f"man/man{name[-1]}/{name}": text for name, text in pages().items()},
    }


def snapshot_action() -> Path:
    """Return the file with the action that `ext4audit fleet` and the collection share."""
    folder = Path(ansible.__file__).parent
    return folder / "snapshot_action.py"


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files of a folder that differ, since other tests read them; remove all others."""
    for name in _names(folder):
        if name not in texts:
            (folder / name).unlink()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def written(folder: Path) -> Mapping[str, str]:
    """Return the text of every file in a folder by its path below it."""
    return {name: (folder / name).read_text(encoding="utf-8") for name in _names(folder)}


def _names(folder: Path) -> list[str]:
    """Return the paths of the files in a folder that are not written by hand."""
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    names = [str(path) for path in paths if "__pycache__" not in path.parts]
    return [name for name in names if name == ACTION or not name.startswith(COLLECTIONS)]


if __name__ == "__main__":
    write(SHARE, generated())
