"""A real sshd on loopback with its own keys, whose aliases are the hosts of a fleet.

It runs in a mount namespace with its own users, one of whom needs a password for sudo. The key of
an alias decides its behaviour: some print, wait or hang before they run a command.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from support.examples import share_of
from support.timing import PATIENCE_SECONDS, wait_until

TOOLS = ("sshd", "ssh", "ssh-keygen", "sudo", "openssl", "unshare")
PLAIN_HOSTS = tuple(f"h{each:02}" for each in range(1, 1 + share_of(15)))
ODD_HOSTS = PLAIN_HOSTS[::2]
UNREACHABLE, NEEDS_PASSWORD, NOISY, SLOW, HUNG = "dark", "secret", "noisy", "slow", "hung"
STUCK, STUBBORN = "stuck", "stubborn"
ALIASES = (HUNG, *PLAIN_HOSTS, UNREACHABLE, NEEDS_PASSWORD, NOISY, SLOW)
"""The hosts of the inventory, twenty in CI: the first hangs while the others answer, and there are
more than Ansible contacts in parallel."""
USER, UID, PASSWORD = "auditee", 61234, "correct horse"
BEHAVIOURS = {
    "plain": 'exec sh -c "$SSH_ORIGINAL_COMMAND"',
    NOISY: 'echo "Last login: never"; echo "*** {{ 7 * 7 }} ***" >&2; '
    'exec sh -c "$SSH_ORIGINAL_COMMAND"',
    SLOW: 'sleep 2; exec sh -c "$SSH_ORIGINAL_COMMAND"',
    HUNG: "exec sleep 600",
    STUCK: 'exec unshare -m sh -c "mount --bind $FOLDER/hang /usr/bin/lsblk; '
    'exec sh -c \\"\\$SSH_ORIGINAL_COMMAND\\""',
    STUBBORN: 'exec unshare -m sh -c "mount --bind /bin/true /bin/mount; '
    'exec sh -c \\"\\$SSH_ORIGINAL_COMMAND\\""',
}
"""The command of each key. On "stuck" a command of the collector hangs; on "stubborn" mount(8)
does nothing.
"""
HANGING = "hanging"
"""The file that the hanging command of "stuck" creates in the folder of the fleet."""
IN_NAMESPACE = """
mount --make-rprivate /
mount --bind "$1/etc" /etc
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
exec "$2" -D -e -f "$1/sshd_config"
"""


def missing() -> str | None:
    """Return why sshd cannot run here, None if it can."""
    if os.geteuid() != 0:
        return "needs root for users of its own"
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"needs {', '.join(lacking)}" if lacking else None


class Fleet(NamedTuple):
    """The running sshd: its folder, with ansible.cfg and hosts.ini, and the hosts' TMPDIR."""

    folder: Path
    temporary: Path
    server: int = 0

    def inside(self, *command: object) -> str:
        """Run a command in the mount namespace of the hosts, and return what it prints."""
        entered = ["nsenter", "-t", str(self.server), "-m", *map(str, command)]
        return subprocess.run(entered, check=True, capture_output=True, text=True).stdout

    def left_on_hosts(self) -> list[str]:
        """Return the paths in the temporary directory of the hosts.

        os.walk skips files that are removed meanwhile; Path.rglob raises an error (Python 3.11).
        """
        walked = os.walk(self.temporary)
        return sorted(f"{top}/{name}" for top, folders, files in walked for name in folders + files)


@contextmanager
def running() -> Iterator[Fleet]:
    """Start sshd, and stop it and all its sessions by their process IDs."""
    folder = Path(tempfile.mkdtemp(prefix="sshd-"))
    folder.chmod(0o711)
    fleet = Fleet(folder, folder / "hosts-tmp")
    fleet.temporary.mkdir()
    fleet.temporary.chmod(0o1777)
    _write_users(folder)
    _write_keys(folder)
    with _reserved_port() as port, _reserved_port() as silent_port:
        _write_configuration(fleet, port, silent_port)
        server = _start(folder)
        try:
            _wait(server, port, folder)
            yield fleet._replace(server=server.pid)
        finally:
            _stop(server, folder)
            shutil.rmtree(folder)


def _start(folder: Path) -> subprocess.Popen[bytes]:
    program = str(shutil.which("sshd"))
    command = ["unshare", "-m", "sh", "-euc", IN_NAMESPACE, "sshd", str(folder), program]
    with (folder / "sshd.log").open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, stdout=log)


@contextmanager
def _reserved_port() -> Iterator[int]:
    """Reserve a port that the kernel assigns to no other program, and that refuses connections.

    A program that binds it by its number with SO_REUSEADDR, as sshd does, can listen on it.
    """
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])


def _write_users(folder: Path) -> None:
    etc = folder / "etc"
    subprocess.run(["cp", "-a", "/etc", etc], check=True)
    home = folder / "home"
    home.mkdir()
    os.chown(home, UID, UID)
    hashed = subprocess.check_output(["openssl", "passwd", "-6", PASSWORD], text=True).strip()
    added = {
        "passwd": f"{USER}:x:{UID}:{UID}::{home}:/bin/sh\n",
        "group": f"{USER}:x:{UID}:\n",
        "shadow": f"{USER}:{hashed}:19000:0:99999:7:::\n",
    }
    for name, line in added.items():
        (etc / name).write_text((etc / name).read_text() + line)
    (etc / "fstab").write_text("")
    (etc / "sudoers").unlink(missing_ok=True)
    rules = f"root ALL=(ALL:ALL) NOPASSWD: ALL\n{USER} ALL=(ALL:ALL) ALL\n"
    (etc / "sudoers").write_text(f"Defaults lecture=never, env_keep+=TMPDIR\n{rules}")
    (etc / "sudoers").chmod(0o440)


def _write_keys(folder: Path) -> None:
    (folder / "hang").write_text(f"#!/bin/sh\n: >{folder / HANGING}\nexec sleep 600\n")
    (folder / "hang").chmod(0o755)
    for name in ("host", *BEHAVIOURS):
        key = folder / f"{name}.key"
        quiet = ("-q", "-N", "", "-C", name)
        subprocess.run(["ssh-keygen", *quiet, "-t", "ed25519", "-f", key], check=True)
    lines = []
    for name, shell in BEHAVIOURS.items():
        script = folder / f"{name}.sh"
        script.write_text(f"#!/bin/sh\nFOLDER={folder}\n{shell}\n")
        script.chmod(0o755)
        lines.append(f'command="{script}" {(folder / f"{name}.key.pub").read_text()}')
    (folder / "authorized_keys").write_text("".join(lines))


def _write_configuration(fleet: Fleet, port: int, silent_port: int) -> None:
    folder = fleet.folder
    server = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": folder / "host.key",
        "AuthorizedKeysFile": folder / "authorized_keys",
        "PidFile": "none",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "yes",
        "MaxStartups": "100",
        "SetEnv": f"TMPDIR={fleet.temporary}",
    }
    (folder / "sshd_config").write_text(_lines(server))
    public = (folder / "host.key.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}")
    aliases = {name: name for name in BEHAVIOURS if name != "plain"}
    hosts = [
        f"Host {name}\nIdentityFile {folder / aliases.get(name, 'plain')}.key\n"
        for name in (*ALIASES, STUCK, STUBBORN)
    ]
    usual = {
        "HostName": "127.0.0.1",
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": folder / "known_hosts",
    }
    dark = f"Host {UNREACHABLE}\nPort {silent_port}\n"
    every = f"Host *\n{_lines({'Port': port, **usual})}"
    (folder / "ssh_config").write_text("".join([dark, *hosts, every]))
    (folder / "ansible.cfg").write_text(
        "[defaults]\ninventory = hosts.ini\nremote_user = root\nforks = 6\n"
        f"timeout = {PATIENCE_SECONDS:.0f}\n"
        f"interpreter_python = {sys.executable}\nremote_tmp = {folder}/ansible-tmp\n"
        f"[ssh_connection]\nssh_args = -F {folder / 'ssh_config'} -o ControlMaster=auto "
        "-o ControlPersist=10s\n"
        f"control_path = {folder}/%%n\ntransfer_method = piped\n"
    )
    rows = [name if name != NEEDS_PASSWORD else f"{name} ansible_user={USER}" for name in ALIASES]
    (folder / "hosts.ini").write_text("\n".join([*rows, "[odd]", *ODD_HOSTS, ""]))


def _lines(words: Mapping[str, object]) -> str:
    return "".join(f"{key} {value}\n" for key, value in words.items())


def _wait(server: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    def answers() -> bool:
        assert server.poll() is None, (folder / "sshd.log").read_text()
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS):
            return True
        return False

    assert wait_until(answers), (folder / "sshd.log").read_text()


def _stop(server: subprocess.Popen[bytes], folder: Path) -> None:
    """Kill the server, its sessions, and the ssh control masters that use our configuration."""
    sessions = psutil.Process(server.pid).children(recursive=True)
    masters = [
        each
        for each in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in each.info["cmdline"] or ())
    ]
    for each in (*sessions, *masters):
        with suppress(psutil.NoSuchProcess):
            each.kill()
    server.kill()
    server.wait()
