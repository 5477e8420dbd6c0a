"""`ext4audit schema`: the JSON Schema of the machine format."""

from __future__ import annotations

import json

import jsonschema

from support.program import run


def test_the_schema_is_valid() -> None:
    """It says that it is of the draft 2020-12, and obeys that draft's own schema."""
    done = run("schema")
    assert done.returncode == 0
    assert done.stderr == ""
    schema = json.loads(done.stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_the_schema_refuses_what_is_no_report() -> None:
    """A schema that accepts anything would promise nothing."""
    validator = jsonschema.Draft202012Validator(json.loads(run("schema").stdout))
    assert not validator.is_valid({})
    assert not validator.is_valid([])
