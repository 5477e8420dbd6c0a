from __future__ import annotations

from types import SimpleNamespace

import pytest

from ext4audit.sources.ansible import Play, running


@pytest.mark.parametrize(("rc", "code"), [(0, 0), (4, 4), (None, running.STOPPED)])
def test_a_run_that_is_stopped_before_it_has_a_status_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, rc: int | None, code: int
) -> None:
    """ansible-runner then has none."""
    ansible_runner = pytest.importorskip("ansible_runner")

    def config(**_given: object) -> SimpleNamespace:
        return SimpleNamespace(prepare=lambda: None, env={}, command=["ansible-playbook"])

    def runner(*_given: object, **_more: object) -> SimpleNamespace:
        return SimpleNamespace(run=lambda: None, rc=rc)

    monkeypatch.setattr(ansible_runner, "RunnerConfig", config)
    monkeypatch.setattr(ansible_runner, "Runner", runner)
    play = Play("/nonexistent", "play.yml", (), {}, shown=False)
    assert running._play(play, "ansible-playbook", None, lambda: False) == code  # type: ignore[arg-type]
