"""Change the answers of real hosts at random, and audit the result.

Hypothesis drives this in tests/end_to_end/test_fuzzing.py. With atheris installed,
`PYTHONPATH=tests uv run python -m support.hosts.fuzzing` is guided by coverage; its arguments are
those of libFuzzer, such as `-max_total_time=60`.
"""

from __future__ import annotations

import sys
from functools import cache
from itertools import cycle

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.evidence import Known, Unknown, Why
from ext4audit.report import Outcome, Report, ReportSource
from ext4audit.rule import Scope
from ext4audit.rules import all_rules
from ext4audit.sources import Answer, Ask
from ext4audit.sources.captured import MapSource
from support.hosts.fixture_hosts import FIXTURE_HOSTS, captured

WHYS = tuple(Why)


@cache
def hosts() -> tuple[tuple[tuple[Ask, Answer], ...], ...]:
    """Return the answers of every fixture host."""
    return tuple(tuple(captured(fixture)[0]._answers.items()) for fixture in FIXTURE_HOSTS)


def audit_changed(data: bytes) -> Report:
    """Return the report of a host with some answers changed; `data` encodes the changes."""
    host = hosts()[data[0] % len(hosts())] if data else hosts()[0]
    answers = dict(host)
    changes = data[1:]
    while len(changes) > 3:
        (place, how, length), changes = changes[:3], changes[3:]
        text, changes = changes[:length], changes[length:]
        ask, answer = host[(place * 7 + how) % len(host)]
        answers[ask] = changed(answer, how, text)
    assembled = assemble_host(MapSource(answers), "2026-01-01T00:00:00Z")
    return audit(ReportSource("snapshot", "fuzz"), assembled, all_rules())


def changed(answer: Answer, how: int, text: bytes) -> Answer:
    """Return a changed answer: an unknown, or a known value with spliced bytes."""
    if isinstance(answer, Unknown) or how % 8 == 0:
        return Unknown("changed", WHYS[how % len(WHYS)], text.hex())
    if isinstance(answer.value, bytes):
        return Known(spliced(answer.value, how, text), answer.origin)
    raw = spliced(answer.value.encode("utf-8", "surrogateescape"), how, text)
    return Known(raw.decode("utf-8", "surrogateescape"), answer.origin)


def spliced(value: bytes, how: int, text: bytes) -> bytes:
    """Replace bytes by `text`, insert it, overwrite with it, or insert 5000 bytes of it."""
    place = how * len(value) // 256
    match how % 4:
        case 0:
            return text
        case 1:
            return value[:place] + text + value[place:]
        case 2:
            return value[:place] + text + value[place + len(text) :]
        case _:
            digits = bytes(c for c, _ in zip(cycle(text or b"9"), range(5000), strict=False))
            return value[:place] + digits + value[place:]


def check(data: bytes) -> None:
    """Raise AssertionError if a verdict is missing or a rule raised an exception."""
    report = audit_changed(data)
    per_host = sum(rule.scope is Scope.HOST for rule in all_rules())
    per_filesystem = len(all_rules()) - per_host
    filesystems = len(report.host.filesystems)
    assert len(report.verdicts) == per_host + per_filesystem * filesystems
    assert Outcome.ERROR not in {verdict.outcome for verdict in report.verdicts}


def main() -> None:
    """Run the coverage-guided fuzzer."""
    import atheris  # noqa: PLC0415 - not on every platform

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
