"""Consensus: of a Python file stays what most units have, and it is sound Python."""

from __future__ import annotations

import ast
import textwrap

import pytest

from scaffold.units.init.python_consensus import find_consensus
from scaffold.units.init.python_source import Source
from scaffold.units.init.spellings import Name

MARK = "# YOURS: why"


def kept(own: str, *others: str) -> str:
    """Returns what stays of the file of unit one; the others are two, three and four."""
    keys = ("two", "three", "four")
    sources = [
        Source(textwrap.dedent(text), Name(key)) for key, text in zip(keys, others, strict=False)
    ]
    source = Source(textwrap.dedent(own), Name("one"))
    found = find_consensus(source, sources, "why").apply(source.text)
    ast.parse(found)
    return found


def test_what_is_equal_but_for_the_name_stays():
    text = "import os\n\n\nclass OneThing(Base):\n    x = os.sep\n\n    def f(self):\n"
    text += "        return 'one'\n"
    two = text.replace("One", "Two").replace("one", "two")
    assert kept(text, two, two.replace("two", "three").replace("Two", "Three")) == text


def test_a_body_that_differs_is_the_author_s_behind_what_is_shared():
    own = """
    class OneThing:
        def run(self, x):
            y = self.check(x)
            return y + 1
    """
    two = """
    class TwoThing:
        def run(self, x):
            y = self.check(x)
            z = y * 2
            return z
    """
    assert kept(own, two) == textwrap.dedent(f"""
    class OneThing:
        def run(self, x):
            y = self.check(x)
            {MARK}
            raise NotImplementedError
    """)


def test_a_statement_goes_with_what_it_needs():
    own = "def run(x):\n    a = one_only(x)\n    log(a)\n    done()\n"
    two = "def run(x):\n    a = two_only(x, 2)\n    log(a)\n    done()\n"
    assert kept(own, two) == f"def run(x):\n    {MARK}\n    raise NotImplementedError\n    done()\n"


def test_parameters_imports_and_helpers_of_one_unit_go():
    own = """
    import math
    import os

    LIMIT = 3


    def helper():
        return math.pi


    def run(x, extra=LIMIT, *, keep=1):
        return os.path.join(x, helper(), extra)
    """
    two = """
    import os


    def run(x, other, *, keep=1):
        return os.path.split(x)
    """
    assert kept(own, two) == textwrap.dedent(f"""
    def run(x, *, keep=1):
        {MARK}
        raise NotImplementedError
    """)


def test_what_the_rest_needs_comes_back_as_the_author_s():
    own = "class Own: ...\n\n\nclass OneThing(Own):\n    x = 1\n"
    two = "class TwoThing(Base):\n    x = 1\n"
    found = kept(own, two)
    assert found.startswith(f"{MARK}\nclass Own")
    assert "class OneThing(Own):" in found


@pytest.mark.parametrize(
    ("own", "two", "expected"),
    [
        # Texts of one unit become empty, what it has more goes, other values stay.
        ('paper = "One of 2020"\n', 'paper = "Other"\n', f'{MARK}\npaper = ""\n'),
        ("x = 3\n", "x = 4\n", f"{MARK}\nx = 3\n"),
        ('x = {"a": "b c", "n": 1}\n', 'x = {"a": "d", "n": 1}\n',
         f'{MARK}\nx = {{"a": "", "n": 1}}\n'),
        ('__all__ = ["One", "own_thing"]\nOne = own_thing = 1\n', '__all__ = ["Two"]\nTwo = 1\n',
         '__all__ = ["One"]\nOne = own_thing = 1\n'),
        ('x = ("a b", "c")\n', 'x = ("d",)\n', f"{MARK}\nx = ()\n"),
        ('x = {\n    **base,\n    "one": 1,\n    "b": {"k": 1, "z": 3},\n    # c\n    "c": c,\n}\n',
         'x = {**base, "two": 2, "b": {"k": 3}}\n',
         f'{MARK}\nx = {{\n    **base,\n    "one": 1,\n    "b": {{"k": 1}},\n}}\n'),
        ('x = {"a": 1, **own}\n', 'x = {"b": 1}\n', f"{MARK}\nx = {{}}\n"),
        ("register(One, key='one', own=1)\n", "register(Two, key='two')\n",
         "register(One, key='one')\n"),
        ("x = f(\n    a,\n    # only here\n    b=1,\n)\n", "x = f(\n    a,\n)\n",
         f"{MARK}\nx = f(\n    a,\n)\n"),
    ],
)  # fmt: skip
def test_values_that_differ(own: str, two: str, expected: str):
    assert kept(own, two) == expected


def test_comments_and_docstrings_keep_the_lines_that_most_have():
    own = '''
    # Copyright 2023 The Team.
    # Measured 97.3 with one.
    def one():
        """Return the one.

        As in the paper of A. Author.

        Args:
            own: Nothing.
        """
        return 1  # own reason
    '''
    two = '''
    # Copyright 2025 The Team.
    def two():
        """Return the two.

        Of B. Author.
        """
        return 1
    '''
    assert kept(own, two) == textwrap.dedent('''
    # Copyright 2023 The Team.
    def one():
        """Return the one."""
        return 1
    ''')


def test_a_docstring_without_its_first_line_is_the_author_s():
    own = '"""What one does well."""\nX = 1\n'
    assert kept(own, '"""Another thing."""\nX = 1\n') == '"""YOURS: say what this is."""\nX = 1\n'


def test_tabs_stay():
    own = "class One:\n\tdef f(self):\n\t\treturn 1\n"
    two = "class Two:\n\tdef f(self):\n\t\treturn 2\n"
    assert (
        kept(own, two) == f"class One:\n\tdef f(self):\n\t\t{MARK}\n\t\traise NotImplementedError\n"
    )


def test_imports_under_a_condition_stay_with_their_use():
    own = """
    if TYPE_CHECKING:
        from a import A
    try:
        import b
    except ImportError:
        b = None


    def f(x: A):
        return b.run(x)
    """
    two = "def f(x: A):\n    return 1\n"
    found = kept(own, two)
    assert "from a import A" in found
    assert "import b" not in found


def test_a_majority_is_more_than_half_of_all():
    own, other = "A = 1\nB = 1\n", "A = 1\n"
    assert kept(own, own, other, other) == "A = 1\n"
    assert kept(own, own, own, other) == own


def test_the_class_that_bears_the_name_is_the_counterpart_of_such_a_class():
    own = """
    class OneOAuth(Base):
        url = "https://one.org"

        def user(self, row):
            return row["one"]
    """
    found = kept(
        own,
        "class TwoOAuth2(Base):\n    url = ''\n\n    def user(self, row):\n        return 2\n",
        "class ThreeAuth(Base):\n    url = 'x'\n\n    def user(self, row):\n        return 3\n",
    )
    assert found.strip().startswith("class OneOAuth(Base):")
    assert "def user(self, row):" in found
    # Where several bear it, none is known to be the one.
    assert "class" not in kept(own, "class TwoA: ...\nclass TwoB: ...\n")


LICENCE = "#\n# Licensed under the X License.\n\nimport os\n\nx = os.sep\n"


@pytest.mark.parametrize(
    ("own", "others", "header"),
    [
        # Of a header whose first line differs, no empty line stays on top.
        ("# Owned by A", ["# Owned by B", "# Owned by C", "# Owned by D"], ""),
        # Where most have the same, it is that one, whatever the years.
        ("# Owned by A", ["# Owned by B 2023", "# Owned by B 2024", "# Owned by B 2024"],
         "# Owned by B 2023\n#\n"),
        ("# Owned by B 2025", ["# Owned by B 2023", "# Owned by B 2024"], "# Owned by B 2025\n#\n"),
    ],
)  # fmt: skip
def test_a_header_is_that_of_most_units(own: str, others: list[str], header: str):
    found = kept(f"{own}\n{LICENCE}", *(f"{each}\n{LICENCE}" for each in others))
    assert found.startswith(f"{header}# Licensed under the X License.\n\nimport os\n")


def test_a_docstring_whose_title_is_one_unit_s_is_to_be_written():
    text = 'r"""\n=====\n{} thing\n=====\n\n:Example:\n"""\nx = 1\n'
    found = kept(text.format("Odd"), text.format("Two"), text.format("A three"))
    assert found == '"""YOURS: say what this is."""\nx = 1\n'


def test_what_goes_leaves_no_further_blank_lines():
    own = "import os\n\nimport lonely\n\n\nclass One:\n    x = os.sep\n    y = lonely.y\n"
    two = "import os\n\n\nclass Two:\n    x = os.sep\n"
    assert kept(own, two) == two.replace("Two", "One")
    # Nor any on top.
    assert kept("import lonely\n\n\nclass One:\n    x = 1\n    y = lonely.y\n",
                "class Two:\n    x = 1\n", "class Three:\n    x = 1\n",
                ).startswith("class One")  # fmt: skip


def test_a_decorator_stays_with_what_names_the_unit_or_is_shared():
    def text(key: str, more: str = "") -> str:
        return f"@mark({more})\n@register({key})\ndef run(x):\n    return x\n"

    one, two = text("'one', 'o'", "1"), text("'two-x', True", "2")
    three = text("'the-three'", "3")
    assert kept(one, two, three) == "@register('one')\ndef run(x):\n    return x\n"


def test_what_a_decorator_gives_goes_and_stays_with_it():
    def text(names: str, rows: str) -> str:
        mark = f"@mark.each('{names}', [{rows}])\n"
        return f"{mark}def test_it({names}):\n    assert f({rows})\n    assert g({names})\n"

    one, two, three = text("a, b", "(1, 2)"), text("a, b", "(3, 4)"), text("a, b, c", "(5, 6, 7)")
    open_body = f"    {MARK}\n    raise NotImplementedError\n"
    # The names that most have stay with an empty list of their values.
    assert kept(one, two, three) == (
        f"@mark.each('a, b', [])\ndef test_it(a, b):\n{open_body}    assert g(a, b)\n"
    )
    # Nobody gives the parameters of a decorator that goes.
    assert kept(one, three, text("b, c", "(8, 9)")) == f"def test_it():\n{open_body}"


def test_of_several_definitions_of_one_name_the_like_are_compared():
    def text(key: str, *more: str) -> str:
        given = "".join(f"    @overload\n    def __init__(self, *, {each}) -> None: ...\n"
                        for each in more)  # fmt: skip
        return f"""class {key}:
    @overload
    def __init__(self) -> None: ...
{given}    def __init__(self, *, key=None, client=None) -> None:
        super().__init__(key, client)
"""

    one = text("One", "key: str", "client: Client")
    others = [text("Two", "client: Client"), text("Three", "key: str", "client: Client")]
    assert kept(one, *others) == one
    # A setter is no getter.
    one = """class One:
    @property
    def x(self):
        return self._x

    @x.setter
    def x(self, value):
        self._x = value
"""
    assert kept(one, one.replace("One", "Two")) == one


def test_a_parameter_with_stars_stays_whatever_it_is_called():
    own = "def run(x, y, *labels, **words):\n    return x\n"
    others = ["def run(x, *args, **options):\n    return x\n", "def run(x, **kw):\n    return x\n"]
    assert kept(own, *others) == "def run(x, *labels, **words):\n    return x\n"
    assert kept(own, others[1], others[1]) == "def run(x, **words):\n    return x\n"


def test_what_a_block_of_imports_asks_goes_with_it():
    own = "from .available import is_there\n\nif is_there():\n    import fast\n\n\n"
    own += "def only_here():\n    return fast\n\n\ndef run():\n    return 1\n"
    other = "def run():\n    return 1\n"
    assert kept(own, other, other).strip() == other.strip()


def test_a_block_of_imports_that_only_itself_reads_goes():
    own = "try:\n    import one\n    from one import One\nexcept ImportError:\n    fail('one')\n\n"
    own += "try:\n    import fast\nexcept ImportError:\n    fast = None\n\n"
    own += "def run():\n    return fast\n\n\ndef only_here():\n    return One\n"
    other = "try:\n    import fast\nexcept ImportError:\n    fast = None\n\n"
    other += "def run():\n    return fast\n"
    assert kept(own, other, other).strip() == other.strip()


def test_a_text_below_a_field_goes_with_it():
    own = """class One:
    a = 1
    '''What a is.'''
    b = 2
    '''What only one has.'''
    c = 3
"""
    other = "class Two:\n    a = 1\n    '''What a is.'''\n    c = 3\n"
    assert kept(own, other, other.replace("Two", "Three")) == other.replace("Two", "One")


def test_a_parameter_that_has_to_be_given_stays_whatever_it_is_called():
    own = "def step(self, u):\n    return u\n"
    others = [
        "def step(self, action):\n    return 1\n",
        "def step(self, a, more=1):\n    return 2\n",
    ]
    assert kept(own, *others).startswith("def step(self, u):\n")
    # One that only this unit asks for goes, and so does one with a default.
    more = "def step(self, u, own, *, only=1):\n    return u\n"
    assert kept(more, *others).startswith("def step(self, u):\n")
    two = "def step(self, a, b):\n    return 1\n"
    assert kept("def step(self, *, only=1):\n    return 2\n", two).startswith("def step(self):\n")
