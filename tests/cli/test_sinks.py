"""`-f` and `-o` in pairs: one audit feeds several consumers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest

from ext4audit.cli.guard import guarded
from ext4audit.cli.sinks import FORMATS, Sink, sinks_of
from fleets import HOSTS
from program import run

NOBARRIER = str(HOSTS / "lvm-linear-nobarrier" / "snapshot")
HEALTHY = str(HOSTS / "healthy-debian-12" / "snapshot")


@pytest.mark.parametrize(
    ("formats", "outputs", "sinks"),
    [
        ((), (), [("text", None)]),
        ((), ("a",), [("text", "a")]),
        ((), ("-",), [("text", None)]),
        (("json",), (), [("json", None)]),
        (("json",), ("a",), [("json", "a")]),
        (("json", "text"), ("a", "-"), [("json", "a"), ("text", None)]),
        (("text", "json"), ("-", "a"), [("text", None), ("json", "a")]),
        (("json", "json"), ("a", "b"), [("json", "a"), ("json", "b")]),
    ],
)
def test_each_format_goes_to_the_output_of_its_number(
    formats: tuple[str, ...], outputs: tuple[str, ...], sinks: list[tuple[str, str | None]]
) -> None:
    """One format goes to standard output without a word; of several each needs a place."""
    assert sinks_of(formats, outputs) == tuple(Sink(*each) for each in sinks)


@pytest.mark.parametrize(
    ("formats", "outputs", "words"),
    [
        ((), ("a", "b"), "--format is given never and --output twice"),
        (("json",), ("a", "b"), "--format is given once and --output twice"),
        (("json", "text"), (), "--format is given twice and --output never"),
        (("text", "json"), ("a",), "an --output each, - for standard output"),
        (("text", "json", "csv"), ("a", "b"), "--format is given 3 times and --output twice"),
        (("text", "json"), ("-", "-"), "two formats cannot go to the same place"),
        (("text", "json"), ("a", "a"), "two formats cannot go to the same place"),
        (("text", "json"), ("a", "./a"), "two formats cannot go to the same place"),
        (("text", "json"), ("-", "/dev/stdout"), "two formats cannot go to the same place"),
        (("text", "json"), ("/dev/fd/1", "-"), "two formats cannot go to the same place"),
    ],
)
def test_what_would_be_guessed_is_refused(
    formats: tuple[str, ...], outputs: tuple[str, ...], words: str
) -> None:
    """In "-f text -f json -o FILE" a reader takes FILE for JSON, and a counter for text."""
    with pytest.raises(click.UsageError) as raised:
        sinks_of(formats, outputs)
    assert words in raised.value.message


@pytest.mark.parametrize("sources", [[NOBARRIER], [NOBARRIER, HEALTHY]])
def test_one_audit_fills_every_file(
    sources: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one host and of many, each format in its own file, and standard output for the last."""
    formats = [fmt for fmt in FORMATS if fmt not in {"json", "text"}]
    words = [f"--from={source}" for source in sources]
    for fmt in formats:
        words += ["-f", fmt, "-o", str(tmp_path / fmt)]
    assert guarded(["scan", *words, "-f", "text", "-o", "-"]) == 1
    assert "host" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == set(formats)
    lines = (tmp_path / "ndjson").read_text().splitlines()
    assert len(lines) == len(sources)
    for fmt in formats:
        assert "DUR001" in (tmp_path / fmt).read_text(), fmt


def test_every_file_tells_of_the_same_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The host is read once, so that two files cannot differ."""
    one, two = tmp_path / "one", tmp_path / "two"
    words = ["-f", "json", "-o", str(one), "-f", "ndjson", "-o", str(two)]
    assert guarded(["scan", "--from", NOBARRIER, *words]) == 1
    assert json.loads(one.read_text()) == json.loads(two.read_text())
    assert capsys.readouterr().out == ""


def test_a_place_that_cannot_be_written_is_told_before_the_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other file is not written either."""
    words = ["-f", "json", "-o", str(tmp_path / "a"), "-f", "csv", "-o", str(tmp_path / "b" / "c")]
    assert guarded(["scan", "--from", NOBARRIER, *words]) == 2
    assert "no such directory" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("first", ["nagios", "csv"])
def test_the_first_format_decides_whose_codes_are_used(first: str, tmp_path: Path) -> None:
    """A plugin of Nagios is what Nagios runs: it names that format first."""
    second = "csv" if first == "nagios" else "nagios"
    words = ["-f", first, "-o", "-", "-f", second, "-o", str(tmp_path / "other")]
    assert guarded(["scan", "--from", NOBARRIER, *words]) == (2 if first == "nagios" else 1)


def test_many_hosts_are_no_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON of a fleet is NDJSON, also where JSON is one format of several."""
    words = ["-f", "json", "-o", "/dev/null", "-f", "text", "-o", "-"]
    assert guarded(["scan", f"--from={NOBARRIER}", f"--from={HEALTHY}", *words]) == 2
    assert "use -f ndjson" in capsys.readouterr().err


@pytest.mark.parametrize("sources", [[NOBARRIER], [NOBARRIER, HEALTHY]])
def test_a_consumer_that_fails_takes_no_report_from_the_others(
    sources: list[str], tmp_path: Path
) -> None:
    """The full disk of one is told, and ends the program as a failure, after all were written."""
    words = [f"--from={source}" for source in sources]
    words += ["-f", "csv", "-o", "/dev/full", "-f", "sarif", "-o", str(tmp_path / "sarif")]
    done = run("scan", *words)
    assert done.returncode == 70
    assert "cannot write to /dev/full" in done.stderr
    assert "DUR001" in (tmp_path / "sarif").read_text()


@pytest.mark.parametrize("sources", [[NOBARRIER], [NOBARRIER, HEALTHY]])
@pytest.mark.parametrize(("place", "code"), [("/dev/full", 70), ("closed pipe", 141)])
def test_standard_output_that_fails_takes_no_file_with_it(
    sources: list[str], place: str, code: int, tmp_path: Path
) -> None:
    """`-f text -o - -f json -o FILE | head` leaves FILE whole, of one host and of many."""
    words = [f"--from={source}" for source in sources]
    words += ["-f", "text", "-o", "-", "-f", "ndjson", "-o", str(tmp_path / "ndjson")]
    words += ["-f", "csv", "-o", str(tmp_path / "csv")]
    if place == "/dev/full":
        stream = os.open(place, os.O_WRONLY)
    else:
        reader, stream = os.pipe()
        os.close(reader)
    done = run("scan", *words, stdout=stream)
    os.close(stream)
    assert done.returncode == code
    assert len((tmp_path / "ndjson").read_text().splitlines()) == len(sources)
    assert "DUR001" in (tmp_path / "csv").read_text()
