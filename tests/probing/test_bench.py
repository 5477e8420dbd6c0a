from __future__ import annotations

import pytest

from ext4audit.probing.bench import Budget, BudgetExceeded, Limits


class Clock:
    """A clock that advances only while sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Advance the time."""
        self.now += seconds


def budget(clock: Clock, size: int = 1000, seconds: float = 10, rate: int = 100) -> Budget:
    """Return a budget of small numbers."""
    return Budget(Limits(size, seconds, rate, 0), clock, clock.sleep)


def test_more_bytes_than_the_size_are_refused() -> None:
    """A write that would exceed the size is not started."""
    one = budget(Clock(), size=100, rate=1000)
    one.spend(60)
    with pytest.raises(BudgetExceeded, match="--size"):
        one.spend(41)
    assert one.written_bytes == 60
    one.spend(40)


def test_nothing_is_written_after_the_time() -> None:
    """A write that would start after the end is refused."""
    clock = Clock()
    one = budget(clock, seconds=5)
    clock.now += 5.1
    with pytest.raises(BudgetExceeded, match="--time 5"):
        one.spend(1)


@pytest.mark.parametrize(
    ("writes", "waits"),
    [
        ([100], 0.0),  # one second's bytes at once
        ([100, 100], 1.0),
        ([50, 50, 50], 0.5),
        ([300], 2.0),
    ],
)
def test_the_rate_is_kept(writes: list[int], waits: float) -> None:
    """After the first second's bytes, a writer is slowed down to the rate."""
    clock = Clock()
    one = budget(clock)
    clock.now += 1
    started = clock.now
    for count in writes:
        one.spend(count)
    assert clock.now - started == pytest.approx(waits)


def test_a_slow_rate_waits_for_no_write_after_the_time() -> None:
    """A write that would start at 30 s of 5 s is refused at once; later ones may succeed."""
    clock = Clock()
    one = budget(clock, size=10_000, seconds=5)
    with pytest.raises(BudgetExceeded, match="--time 5"):
        one.spend(3100)
    assert (clock.now, one.written_bytes) == (100.0, 0)
    one.spend(100)
    assert one.written_bytes == 100


def test_the_turns_divide_what_is_left() -> None:
    """If a probe ends early, its time is left to the others."""
    clock = Clock()
    one = budget(clock, seconds=12)
    one.give_turn(4)
    assert one.seconds_left() == pytest.approx(3)
    clock.now += 1
    one.give_turn(2)
    assert one.seconds_left() == pytest.approx(5.5)
