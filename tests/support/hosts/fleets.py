"""Fleets of any size, cloned from the fixture hosts; each host has a different name."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from support.hosts.fixture_hosts import HOSTS


def write_fleet(directory: Path, count: int) -> None:
    """Write snapshots host00000.tgz, host00001.json, …: alternately a tar.gz and a single file."""
    directory.mkdir()
    originals = [Original(fixture / "snapshot") for fixture in sorted(HOSTS.iterdir())]
    for number, original in enumerate(islice(cycle(originals), count)):
        name = f"host{number:05}"
        if number % 2:
            (directory / f"{name}.json").write_bytes(original.single(name))
        else:
            (directory / f"{name}.tgz").write_bytes(original.tar(name))


class Original:
    """The snapshot of a fixture, to be written under other host names."""

    def __init__(self, snapshot: Path) -> None:
        self._manifest: dict[str, Any] = json.loads((snapshot / "manifest.json").read_bytes())
        folder = snapshot / "answers"
        files = folder.iterdir() if folder.exists() else ()
        self._files = {f"answers/{path.name}": path.read_bytes() for path in files}

    def tar(self, name: str) -> bytes:
        """Return the snapshot as a tar.gz, for a host with this name."""
        manifest = json.dumps(self._renamed(name)).encode()
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as tar:
            for path, raw in {**self._files, "manifest.json": manifest}.items():
                info = tarfile.TarInfo(f"{name}/{path}")
                info.size = len(raw)
                tar.addfile(info, io.BytesIO(raw))
        return content.getvalue()

    def single(self, name: str) -> bytes:
        """Return the snapshot as one manifest with inline answers, for a host with this name."""
        manifest = self._renamed(name)
        for entry in manifest["answers"]:
            if "text_file" in entry:
                raw = self._files[entry.pop("text_file")]
                entry["text"] = raw.decode("utf-8", "surrogateescape")
            if "bytes_file" in entry:
                raw = self._files[entry.pop("bytes_file")]
                entry["base64"] = base64.b64encode(raw).decode("ascii")
        return json.dumps(manifest).encode()

    def _renamed(self, name: str) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads(json.dumps(self._manifest))
        (uname,) = (entry for entry in manifest["answers"] if entry["ask"] == "uname")
        release, version, machine, _ = uname["text"].split("\n", 3)
        uname["text"] = f"{release}\n{version}\n{machine}\n{name}"
        return manifest
