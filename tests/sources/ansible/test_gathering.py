"""The reasons given for hosts that returned no snapshot."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ext4audit.sources.ansible import Play, gathering
from ext4audit.sources.ansible.gathering import Event, reason_of, why_no_host

BEFORE_2_19 = "The x action failed to execute in the expected time frame (20) and was terminated"


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("failed", "Task failed: Timed out after 20 second(s).", "timed out: Task failed: Timed"),
        ("failed", BEFORE_2_19, "timed out: The x action"),
        ("failed", "sudo: a password is required", "failed: sudo"),
        ("unreachable", "Connection refused", "unreachable: Connection refused"),
        ("failed", "", "failed: no reason given"),
    ],
)
def test_time_limit_is_distinguished_from_other_failures(kind: str, text: str, reason: str) -> None:
    """The wording depends on the version of ansible-core."""
    assert reason_of(Event(kind, "db1", text)).startswith(reason)


NO_LIMIT = "[ERROR]: Specified inventory, host pattern and/or --limit leaves us with no hosts"
UNKNOWN_OPTION = "ansible-playbook: error: unrecognized arguments: --nonsense"


@pytest.mark.parametrize(
    ("code", "notes", "reason"),
    [
        ("0", ("[WARNING]: No inventory was parsed",), "--inventory names no host, or --limit"),
        ("1", ("[WARNING]: Could not match", NO_LIMIT), NO_LIMIT),
        ("2", ("usage: ansible-playbook [-h]", UNKNOWN_OPTION, "prompting)"), UNKNOWN_OPTION),
        ("250", ("it is gone",), "it is gone"),
        ("", (), "ansible-playbook ended with status unknown"),
    ],
)
def test_a_run_without_hosts_has_one_reason(code: str, notes: tuple[str, ...], reason: str) -> None:
    """It is what the user can change, or Ansible's own error, and not the end of its help."""
    assert why_no_host(code, notes).startswith(reason)


@pytest.mark.parametrize(("rc", "code"), [(0, 0), (4, 4), (None, gathering.STOPPED)])
def test_run_stopped_early_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, rc: int | None, code: int
) -> None:
    """In this case ansible-runner has no status."""
    play_without_ansible(monkeypatch, rc, code)


@pytest.mark.parametrize("own", ["", "/srv/tmp"])
def test_temporary_files_of_ansible_are_in_the_folder_of_the_run(
    monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    """Ctrl-C once left a directory in ~/.ansible/tmp; a directory set by the user is kept."""
    monkeypatch.delenv(gathering.LOCAL_TEMP, raising=False)
    if own:
        monkeypatch.setenv(gathering.LOCAL_TEMP, own)
    env = play_without_ansible(monkeypatch, 0, 0)
    assert env[gathering.LOCAL_TEMP] == (own or "/proc/nonexistent/local")


def play_without_ansible(
    monkeypatch: pytest.MonkeyPatch, rc: int | None, code: int
) -> dict[str, str]:
    """Run a play that ends with a status at once; return the environment that it got."""
    ansible_runner = pytest.importorskip("ansible_runner")
    made = SimpleNamespace(prepare=lambda: None, env={}, command=["ansible-playbook"])

    def runner(*_given: object, **_more: object) -> SimpleNamespace:
        return SimpleNamespace(run=lambda: None, rc=rc)

    monkeypatch.setattr(ansible_runner, "RunnerConfig", lambda **_given: made)
    monkeypatch.setattr(ansible_runner, "Runner", runner)
    play = Play("/proc/nonexistent", "play.yml", (), {}, shown=False)
    assert gathering._play(play, "ansible-playbook", None, lambda: False) == code  # type: ignore[arg-type]
    env: dict[str, str] = made.env
    return env
