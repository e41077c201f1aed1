"""Front matter: its keys, where they stand, and what is wrong with it."""

import pytest

from scaffold.analysis.files.front_matter import read_front_matter


@pytest.mark.parametrize(
    ("head", "fields", "lines"),
    [
        ("", {}, {}),
        ("a: 1\nb: [x,\n  y]\nc: z", {"a": 1, "b": ["x", "y"], "c": "z"}, {"a": 2, "b": 3, "c": 5}),
        ("a: &here 1\nb: *here", {"a": 1, "b": 1}, {"a": 2, "b": 3}),
        ("1: a", {"1": "a"}, {"1": 2}),
        # A merged key is on no line of its own.
        ("base: &base {x: 1}\n<<: *base", {"base": {"x": 1}, "x": 1}, {"base": 2, "<<": 3}),
    ],
)
def test_keys_have_their_values_and_lines(
    head: str, fields: dict[str, object], lines: dict[str, int]
):
    found = read_front_matter(f"---\n{head}\n---\nbody\n")
    assert (found.fields, found.lines, found.problem) == (fields, lines, None)
    assert found.body_line == head.count("\n") + 4


@pytest.mark.parametrize(
    ("head", "problem", "line"),
    [
        ("a: 1\nb: 2\na: 3", "the key 'a' is there twice", 4),
        ("- a", "the front matter is not a mapping of keys", 2),
        ("a: 1\nb: [", "the YAML is broken: did not find expected node content", 4),
        ("a: 1\nb: *none", "the YAML is broken: found undefined alias", 3),
        ("a: 2020-13-45", "the YAML is broken: month must be in 1..12", 2),
    ],
)
def test_what_is_wrong_is_told_with_its_line(head: str, problem: str, line: int):
    found = read_front_matter(f"---\n{head}\n---\nbody\n")
    assert (found.problem, found.problem_line) == (problem, line)


@pytest.mark.parametrize("text", ["[", "{a: ", "\n- - [", "? ["])
def test_values_nested_without_end_are_told_and_do_not_end_the_process(text: str):
    found = read_front_matter(f"---\na: 1\nb: {text * 200_000}\n---\nbody\n")
    assert (found.fields, found.body_line > 3) == ({}, True)
    assert found.problem is not None
    assert found.problem.startswith("the YAML is broken")


def test_many_values_beside_one_another_are_read():
    rows = "".join(f"\n- [{number}, {{a: -1}}]" for number in range(500))
    found = read_front_matter(f"---\nb:{rows}\n---\nbody\n")
    assert found.fields["b"][499] == [499, {"a": -1}]
