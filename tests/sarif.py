"""SARIF as tests read it: the shape is held to the standard, the places are returned."""

from __future__ import annotations

import json
from typing import NamedTuple


class Place(NamedTuple):
    """One result of a log, without its words."""

    rule: str
    level: str
    path: str
    line: int
    column: int


def read_places(text: str) -> list[Place]:
    """Return the results of a log whose shape is that of SARIF 2.1.0, as code hosts read it."""
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "areal-scaffold"
    found: list[Place] = []
    for result in run["results"]:
        rule = driver["rules"][result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        assert rule["shortDescription"]["text"]
        assert result["message"]["text"]
        assert len(result["partialFingerprints"]["claim/v1"]) == 16
        (location,) = result["locations"]
        place = location["physicalLocation"]
        region = place["region"]
        uri = place["artifactLocation"]["uri"]
        found.append(
            Place(rule["id"], result["level"], uri, region["startLine"], region["startColumn"])
        )
    return found
