"""A source that remembers what another one answered."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import overload

from ext4audit.evidence import Evidence
from ext4audit.sources.ask import Answer, Ask, BytesAsk, Source, TextAsk


class RecordingSource:
    """Passes asks through and keeps every answer, the holes included: a snapshot in the making."""

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self._answers: dict[Ask, Answer] = {}

    @property
    def answers(self) -> Mapping[Ask, Answer]:
        """What was asked so far, and what was answered."""
        return MappingProxyType(self._answers)

    @overload
    def fetch(self, ask: TextAsk) -> Evidence[str]: ...
    @overload
    def fetch(self, ask: BytesAsk) -> Evidence[bytes]: ...
    def fetch(self, ask: Ask) -> Answer:
        """Answer as the inner source answers."""
        answer: Answer = self._inner.fetch(ask)
        self._answers[ask] = answer
        return answer
