"""Debian's promtool and node_exporter, from the PATH or the folder EXT4AUDIT_PROMETHEUS."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from support.timing import PATIENCE_SECONDS

FOLDER = os.environ.get("EXT4AUDIT_PROMETHEUS")
"""The folder that .ci/prometheus creates."""
REQUIRED = os.environ.get("EXT4AUDIT_REQUIRE_PROMETHEUS") == "1"
"""Whether tests that need these programs must run, as in CI: a skip would read as a pass."""
_LISTENING = re.compile(r'msg="Listening on" address=(127\.0\.0\.1:[0-9]+)')


def executable(*names: str) -> str | None:
    """Return the path of the first installed program of these names, None if there is none."""
    path = os.pathsep.join(filter(None, (FOLDER, os.environ.get("PATH"))))
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


PROMTOOL = executable("promtool")
NODE_EXPORTER = executable("prometheus-node-exporter", "node_exporter")


def promtool(*arguments: str, text: str | None = None) -> str:
    """Run promtool and return its output; fail if it finds a mistake."""
    assert PROMTOOL is not None, "needs promtool"
    done = subprocess.run(
        [PROMTOOL, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def running_exporter(folder: Path) -> Iterator[str]:
    """Run node_exporter on a folder of text files, and yield the address of its metrics."""
    assert NODE_EXPORTER is not None, "needs node_exporter"
    command = [
        NODE_EXPORTER,
        *("--collector.disable-defaults", "--collector.textfile"),
        f"--collector.textfile.directory={folder}",
        "--web.listen-address=127.0.0.1:0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as exporter:
        try:
            assert exporter.stderr is not None
            lines = map(_LISTENING.search, exporter.stderr)
            address = next((found[1] for found in lines if found), None)
            assert address, "node_exporter does not listen"
            yield f"http://{address}/metrics"
        finally:
            exporter.terminate()


def scrape(address: str) -> str:
    """Return the metrics that an exporter exposes at an address."""
    with urlopen(address, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own exporter
        return str(answer.read().decode())
