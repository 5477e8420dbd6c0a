"""The checks of data files: the built-in ones pass, and each mistake is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

import ext4audit.facts
from ext4audit.cli import did_you_mean
from ext4audit.facts.knowledge import TABLES, KnowledgeError, document, read_newer

FACTS = Path(ext4audit.facts.__file__).parent / "tables"
ABOUT = '[about]\ntable = "{}"\nformat = 1\ndate = 2027-01-31\n'
WHO = 'source = "https://example.org/a"\nconfirmed = "read"\n'
BUG = f'{ABOUT.format("kernel_bugs")}[KRN001]\nsymptom = "s"\ncondition = "c"\nfix = "9"\n{WHO}'
RANGE = '[[KRN001.range]]\ntree = "upstream"\nnote = "n"\nconfidence = "possible"\n'
FEATURE = ABOUT.format("features") + "[x]\n"
OPTION = ABOUT.format("option_grammar") + "[x]\n"
SPELLING = f"{ABOUT.format('option_spellings')}[x]\n{WHO}"
KERNEL = f'{ABOUT.format("os_kernels")}[["debian:12".kernel]]\n'
PLANNED = f'{ABOUT.format("planned_disks")}[ssd]\nsays = "so"\n'
VALUE = 'source = "https://example.org/a", confirmed = "read"'
PROFILE = f'{ABOUT.format("profiles")}[x]\nproduct = "X"\nsays = "so"\n{WHO}'
DISKS = f'{ABOUT.format("disk_classes")}[ssd]\ntitle = "SSD"\nnames = []\nslow = false\n{WHO}'


@pytest.mark.parametrize("name", TABLES)
def test_the_built_in_tables_are_valid(name: str) -> None:
    """Each entry has its source, and each range and line how it was confirmed."""
    file = TABLES[name].file
    found = read_newer((FACTS / file).read_text(encoding="utf-8"), file, did_you_mean)
    assert found.table == name
    assert found.entries


def test_every_data_file_is_a_table() -> None:
    """A new data file beside a module of facts is listed and checked."""
    assert {path.name for path in FACTS.glob("*.toml")} == {t.file for t in TABLES.values()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the table [about] is missing"),
        ("about = 3", "the table [about] is missing"),
        ('[about]\ntabel = "x"', "line 2: about.tabel: unknown key 'tabel' (did you mean table?)"),
        (ABOUT.format("profile"), "line 2: about.table: there is no table 'profile' (did you mean"),
        (ABOUT.format("xyz"), "(choose from kernel_bugs, features, "),
        (BUG.replace("= 1", "= 2"), "line 3: about.format: this version reads format 1, not 2"),
        (BUG.replace("2027-01-31", '"soon"'), "line 4: about.date: it is not a date"),
        (BUG.replace("2027-01-31", "2027-01-31T00:00:00Z"), "about.date: it is not a date"),
        (ABOUT.format("profiles"), "it has no entries of profiles"),
        (f"x = 3\n{ABOUT.format('profiles')}", "line 1: x: it is not a table"),
        (BUG, "line 5: KRN001: it has no ranges: write [[KRN001.range]]"),
        (BUG.replace("KRN001", "KRN1"), "line 5: KRN1: it is not the code of a rule"),
        (BUG + RANGE + RANGE.replace("possible", "maybe"), "line 18: KRN001.range[1].confidence: "),
        (BUG + RANGE + 'sinse = "6.1"', "line 15: KRN001.range[0].sinse: unknown key 'sinse' (did"),
        (BUG + RANGE + 'since = "6"', "KRN001.range[0].since: it is not a version like 6.1.64"),
        (BUG + RANGE + "since = 6.1", "KRN001.range[0].since: it is not a text"),
        (BUG + RANGE + 'since = "6.1"\nafter = "6.1"', "it has both since and after"),
        (BUG + RANGE + 'since = "6.2"\nbefore = "6.1"', "it ends at 6.1, before it begins at 6.2"),
        (BUG + RANGE + 'severity = "high"', "what is possible has severity low at most"),
        (BUG + RANGE + 'severity = "hihg"', "unknown severity 'hihg' (did you mean high?)"),
        (BUG + RANGE + "affected = 1", "affected: it is not true or false"),
        ((BUG + RANGE).replace("https", "http"), "source: it is not a URL that begins with"),
        ((BUG + RANGE).replace('confirmed = "read"', ""), "KRN001.range[0]: confirmed is missing"),
        ((BUG + RANGE).replace('"n"', '"\\u0007"'), "it is not a printable text"),
        (FEATURE, "line 5: x: it has no reader"),
        (FEATURE + "krenel = {}", "unknown key 'krenel' (did you mean kernel?)"),
        (FEATURE + "kernel = 3", "it is not a table with since"),
        (FEATURE + f"[x.kernel]\n{WHO}", "line 6: x.kernel: since is missing"),
        (FEATURE + f'[x.kernel]\nsince = "new"\n{WHO}', "line 7: x.kernel.since: it is not a ver"),
        (FEATURE + f'[x.default]\nsince = "1.43"\n{WHO}', "moves_metadata is missing"),
        (
            FEATURE + f'[x.default]\nmoves_metadata = false\nsince = "1.99"\n{WHO}',
            "x.default.since: not known here",
        ),
        (OPTION + f'value = "number"\n{WHO}', "x.value: unknown value 'number' (choose from none"),
        (OPTION + f"value = [3]\n{WHO}", "x.value: it is not a list of texts"),
        (OPTION + f'most = "3"\n{WHO}', "x.most: it is not a whole number"),
        (OPTION + f"most = true\n{WHO}", "x.most: it is not a whole number"),
        (OPTION + f'taken_from = "new"\n{WHO}', "x.taken_from: it is not a version like 5.15"),
        (OPTION + f"with_value = 3\n{WHO}", "x.with_value: it is not a table of versions"),
        (OPTION + f'with_value = {{ most = "3" }}\n{WHO}', "x.with_value.most: unknown key 'most'"),
        (
            OPTION + f'with_value = {{ taken_from = "new" }}\n{WHO}',
            "x.with_value.taken_from: it is not a version like 5.15",
        ),
        (OPTION + 'source = "parser"', "line 6: x.source: it is not a URL"),
        (SPELLING + 'off = "no x"', "line 8: x.off: it is not a token of the options file"),
        (SPELLING + 'offf = "nox"', "x.offf: unknown key 'offf' (did you mean off?)"),
        (SPELLING + 'aliases = "y"', "x.aliases: it is not a table of tokens"),
        (SPELLING + "aliases = { y = 3 }", "x.aliases.y: it is not a token of the options"),
        (SPELLING + 'aliases = { y = "?" }', "x.aliases.y: it is not a token of the options"),
        (SPELLING + 'defaults = { new = "x" }', "x.defaults.new: it is not a version like 5.15"),
        (SPELLING + 'defaults = { "5.6" = "x", "3.4" = "" }', "its versions do not ascend"),
        (SPELLING.replace(WHO, ""), "x: source is missing"),
        (KERNEL + WHO, "debian:12.kernel[0]: release is missing"),
        (KERNEL + 'release = "6.1"\n' + WHO.split("\n", maxsplit=1)[0], "confirmed is missing"),
        (KERNEL + 'release = "6.1"\nsource = "a list"', "source: it is not a URL"),
        (KERNEL + f'realease = "6.1"\n{WHO}', "unknown key 'realease' (did you mean release?)"),
        (KERNEL.replace("debian:12", "debian"), "it is not ID:VERSION of os-release"),
        (PLANNED + f"rotational = {{ value = true, {VALUE} }}\nx = 3", "ssd.x: unknown key 'x'"),
        (PLANNED + "rotational = true", "it is not a table with value, source and confirmed"),
        (PLANNED + 'rotational = { value = true, source = "sd.c" }', "it is not a URL"),
        (PLANNED + f'nr_requests = {{ value = 1, since = "6.1", {VALUE} }}', "go together"),
        (PLANNED + f'nr_requests = {{ value = 1, since = "6", later = 2, {VALUE} }}', "6.17"),
        (
            PLANNED + f'nr_requests = {{ value = 1, since = "6.1", later = "2", {VALUE} }}',
            "ssd.nr_requests.later: it is not of the kind of value",
        ),
        (OPTION.replace("[x]", "sources = 3\n[x]"), "line 5: about.sources: it is not a table of"),
        (OPTION.replace("[x]", "sources.a = 3\n[x]"), "about.sources: it is not a table of"),
        (PROFILE + 'options = ["noatme"]', "x.options: unknown option 'noatme' (did you mean no"),
        (PROFILE + 'rate = { DUR1 = "low" }', "'DUR1' is not the code of a rule"),
        (PROFILE + 'rate = { DUR001 = "++low" }', "unknown severity '+low' (did you mean low?)"),
        (PROFILE + "reserved_percent = 99", "it is not between 0 and 50"),
        (PROFILE + 'forbid = ["nobarrier"]', "x.forbid: it is not a table"),
        (PROFILE + 'enable = ["durable"]', "'durable' is not the code of a rule"),
        (DISKS, "ssd: megabytes_per_second is missing"),
        (DISKS + "megabytes_per_second = 0", "it is not between 1 and"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, message: str) -> None:
    """A file with a mistake is not used at all."""
    with pytest.raises(KnowledgeError) as raised:
        read_newer(text, "x.toml", did_you_mean)
    assert message in str(raised.value)


def test_a_file_may_name_its_sources_by_a_word() -> None:
    """The source is given once in [about.sources], and its short name in each entry."""
    sources = '[about.sources]\nread = { source = "https://example.org", confirmed = "read" }\n'
    text = f'{ABOUT.format("option_grammar")}{sources}[x]\nsource = "read"\n'
    found = read_newer(text, "x.toml", did_you_mean)
    assert found.entries["x"] == {"source": "https://example.org", "confirmed": "read"}


def test_a_part_of_an_entry_may_name_its_source_too() -> None:
    """The part may be a kernel of a release, or a value for a kind of disk."""
    sources = '[about.sources]\nread = { source = "https://example.org", confirmed = "read" }\n'
    head = ABOUT.format("os_kernels") + sources
    text = f'{head}[["debian:12".kernel]]\nrelease = "6.1"\nsource = "read"\n'
    (kernel,) = read_newer(text, "x.toml", did_you_mean).entries["debian:12"]["kernel"]
    assert kernel == {"release": "6.1", "source": "https://example.org", "confirmed": "read"}


def test_the_document_is_plain_json() -> None:
    """It has texts, numbers, booleans, lists and tables, but no TOML dates."""

    def plain(value: object) -> bool:
        if isinstance(value, dict):
            return all(isinstance(key, str) and plain(each) for key, each in value.items())
        if isinstance(value, list):
            return all(map(plain, value))
        return value is None or isinstance(value, str | int | bool)

    assert plain(document((), tool_version="1"))
