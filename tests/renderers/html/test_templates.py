from __future__ import annotations

import re
from pathlib import Path

import pytest
from jinja2 import nodes
from jinja2.exceptions import UndefinedError

from ext4audit.renderers import html
from ext4audit.renderers.html import ENVIRONMENT

TEMPLATES = ENVIRONMENT.list_templates()
MODULES = sorted(Path(html.__file__).parent.glob("*.py"))
HARMLESS_FILTERS = frozenset(
    "capitalized counted format length max phase_text upper why_text".split()
)
"""Filters that return plain values, which are escaped."""

JOINS_OR_MODIFIES = (nodes.EvalContextModifier, nodes.FilterBlock, nodes.Concat, nodes.Mod)
"""Blocks that change the escaping; `~` and `%`, which escape without `visible`."""


def source(name: str) -> str:
    """Return the text of a template."""
    assert ENVIRONMENT.loader is not None
    return ENVIRONMENT.loader.get_source(ENVIRONMENT, name)[0]


def test_autoescape_is_enabled() -> None:
    """It is on for any file extension, as is the check for undefined names."""
    assert ENVIRONMENT.autoescape is True
    assert {"page.html.j2", "boxes.svg.j2", "style.css", "script.js"} <= set(TEMPLATES)


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_do_not_disable_escaping(name: str) -> None:
    """No template uses a safe filter, an autoescape block, or an operator that joins markup."""
    tree = ENVIRONMENT.parse(source(name))
    filters = {node.name for node in tree.find_all(nodes.Filter)}
    assert filters <= HARMLESS_FILTERS
    assert not list(tree.find_all(JOINS_OR_MODIFIES))
    assert "|safe" not in source(name).replace(" ", "")


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name.endswith(".j2")])
def test_attributes_in_templates_are_quoted(name: str) -> None:
    """Escaping protects only quoted attributes; links point to anchors of the page."""
    assert re.search(r"=\s*\{\{", source(name)) is None
    assert re.findall(r"(?:href|src)=\"(?!#)", source(name)) == []
    assert re.search(r"style=|\son[a-z]+=", source(name)) is None
    scripts = ['<script>{% include "script.js" %}</script>'] if name == "page.html.j2" else []
    assert re.findall(r"<script.*", source(name)) == scripts


def test_script_is_the_same_in_every_report() -> None:
    """The script contains no value of a report, and does not turn text into markup."""
    tree = ENVIRONMENT.parse(source("script.js"))
    assert not list(tree.find_all(nodes.Name))
    assert re.findall(r"innerHTML|outerHTML|insertAdjacent|eval|Function|fetch", str(tree)) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_python_modules_contain_no_markup(path: Path) -> None:
    """All elements are in the templates, and no value is declared to be markup."""
    text = path.read_text()
    assert "Markup" not in text
    assert re.search(r"</|<[a-z]+[ >]|&[a-z]+;", text) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("<b>&\"'", "&lt;b&gt;&amp;&#34;&#39;"),
        ("a\x1b[1m\u202e", r"a\x1b[1m\u202e"),
        ("line\nline", r"line\x0aline"),
        ("\udcff", r"\xff"),
    ],
)
@pytest.mark.parametrize(
    "template",
    [
        "{{ name }}",
        "{% macro shown(x) %}{{ x }}{% endmacro %}{{ shown(name) }}",
        "{% set x %}{{ name }}{% endset %}{{ x }}",
        "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}{{ name }}{% endcall %}",
    ],
)
def test_printed_values_are_escaped_once(template: str, name: str, expected: str) -> None:
    """A value is escaped exactly once, even inside a macro, a set block or a call block."""
    assert ENVIRONMENT.from_string(template).render(name=name) == expected


def test_printed_objects_are_escaped() -> None:
    """An object is printed as its text, which may contain a name of the host."""
    assert ENVIRONMENT.from_string("{{ x }}").render(x=Path("/mnt/a\x1b<")) == r"/mnt/a\x1b&lt;"


def test_undefined_names_and_none_raise_an_error() -> None:
    """A misspelt name and a None raise an error."""
    with pytest.raises(UndefinedError):
        ENVIRONMENT.from_string("{{ mispelt }}").render()
    with pytest.raises(UndefinedError):
        ENVIRONMENT.from_string("{{ badge.mispelt }}").render(badge=object())
    with pytest.raises(TypeError, match="None"):
        ENVIRONMENT.from_string("{{ label }}").render(label=None)
