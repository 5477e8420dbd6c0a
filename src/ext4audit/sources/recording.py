"""A source that remembers what another one answered, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from types import MappingProxyType
from typing import overload

from ext4audit.evidence import Evidence
from ext4audit.sources.ask import Answer, Ask, BytesAsk, Source, TextAsk


def utc_now() -> str:
    """Return the time in RFC 3339, UTC, to the second."""
    return datetime.now(tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class RecordingSource:
    """Passes asks through and keeps every answer, the holes included: a snapshot in the making."""

    def __init__(self, inner: Source, clock: Callable[[], str] = utc_now) -> None:
        self._inner = inner
        self._clock = clock
        self._answers: dict[Ask, Answer] = {}
        self._times: dict[Ask, str] = {}

    @property
    def answers(self) -> Mapping[Ask, Answer]:
        """What was asked so far, and what was answered."""
        return MappingProxyType(self._answers)

    @property
    def times(self) -> Mapping[Ask, str]:
        """When each answer was first given, in RFC 3339, UTC."""
        return MappingProxyType(self._times)

    @overload
    def fetch(self, ask: TextAsk) -> Evidence[str]: ...
    @overload
    def fetch(self, ask: BytesAsk) -> Evidence[bytes]: ...
    def fetch(self, ask: Ask) -> Answer:
        """Answer as the inner source answers."""
        answer: Answer = self._inner.fetch(ask)
        self._answers[ask] = answer
        if ask not in self._times:
            self._times[ask] = self._clock()
        return answer
