"""What every report of the command line has to be."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

_PATH = Path(__file__).parents[1] / "docs" / "schema" / "report.schema.json"

# Made once: `jsonschema.validate` checks the schema too, at each call, which takes 200 ms.
REPORTS = jsonschema.Draft202012Validator(json.loads(_PATH.read_text(encoding="utf-8")))
