"""Definitions of Python sources: names, kinds, heads, lines, what is public, and digests."""

from __future__ import annotations

import textwrap

import pytest

from scaffold.vcs.definitions import Symbol, read_symbols, symbol_at, why_unread


def symbols(text: str) -> tuple[Symbol, ...]:
    """Reads a source that can be read."""
    found = read_symbols("a.py", textwrap.dedent(text))
    assert found is not None
    return found


# A source, and its definitions: "+" for public ones, "-" for others.
SOURCES: dict[str, tuple[str, list[str]]] = {
    "kinds": (
        """\
        LIMIT = 3
        size: int = 4
        def run(a, *, b=1) -> int: ...
        async def go(): ...
        class Engine(Base, metaclass=M):
            rows: list
            def start(self): ...
            def _own(self): ...
        """,
        ["+constant LIMIT ", "+constant size : int", "+function run (a, *, b=1) -> int",
         "+function go async ()", "+class Engine (Base, metaclass=M)",
         "+constant Engine.rows : list", "+method Engine.start (self)",
         "-method Engine._own (self)"],
    ),
    "what __all__ names": (
        "__all__ = ['_a']\ndef _a(): ...\ndef b(): ...\nclass C:\n    def d(self): ...\n",
        ["-constant __all__ ", "+function _a ()", "-function b ()", "-class C ()",
         "-method C.d (self)"],
    ),
    "an __all__ that is computed": (
        "__all__ = names()\ndef a(): ...\n", ["+constant __all__ ", "+function a ()"],
    ),
    "under conditions": (
        "if x:\n    def a(): ...\nelse:\n    def a(): ...\ntry:\n    B = 1\nfinally:\n    pass\n",
        ["+function a ()", "+function a ()", "+constant B "],
    ),
    "in every block of a module": (
        "try: import b\nexcept ImportError:\n    def a(): ...\nfinally:\n    B = 1\n"
        "with c:\n    class D:\n        for e in f:\n            G = 1\n",
        ["+function a ()", "+constant B ", "+class D ()", "+constant D.G "],
    ),
    "what runs where the module is the program": (
        "def a(): ...\nif __name__ == '__main__':\n    b = 1\n    def c(): ...\n",
        ["+function a ()"],
    ),
    "annotations in quotes": (
        "def a(b: 'B', *, c: list['C'] = 'c', d: Literal['x']) -> 'D': ...\ne: 'E' = 1\n",
        ["+function a (b: B, *, c: list[C]='c', d: Literal['x']) -> D", "+constant e : E"],
    ),
    "annotations in the words of typing": (
        "def a(b: Optional[Dict[str, 'B']], c: typing.Union[int, None]) -> List[D]: ...\n",
        ["+function a (b: dict[str, B] | None, c: int | None) -> list[D]"],
    ),
    "inside of functions": ("def a():\n    def b(): ...\n    C = 1\n", ["+function a ()"]),
    "several targets": ("a = b = 1\nc, d = 1, 2\nx.y = 3\n", []),
    "private around public": (
        "class _A:\n    def b(self): ...\n", ["-class _A ()", "-method _A.b (self)"],
    ),
    "special methods": (
        "class A:\n    def __len__(self): ...\n", ["+class A ()", "+method A.__len__ (self)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SOURCES)
def test_definitions(case: str) -> None:
    text, wanted = SOURCES[case]
    found = [f"{'-+'[each.is_public]}{each.kind} {each.name} {each.head}" for each in symbols(text)]
    assert found == wanted


def test_lines_count_decorators_and_find_the_innermost() -> None:
    found = symbols("""\
        @cache
        class A:
            @property
            def b(self):
                return 1

        X = 1
        """)
    assert [(each.name, each.start, each.end) for each in found] == [
        ("A", 1, 5), ("A.b", 3, 5), ("X", 7, 7),
    ]  # fmt: skip
    assert [getattr(symbol_at(found, line), "name", None) for line in (1, 3, 5, 6, 7)] == [
        "A", "A.b", "A.b", None, "X",
    ]  # fmt: skip


def test_a_digest_knows_the_text_and_not_its_layout() -> None:
    first, second, third = (
        symbols(text)[0].digest
        for text in (
            "def a(x):\n    return x\n",
            "# y\ndef a( x ): return x\n",
            "def a(y): ...\n",
        )
    )
    assert first == second != third


@pytest.mark.parametrize("text", ["def f(:\n", "\0", "(" * 5000])
def test_what_cannot_be_parsed_is_not_known(text: str) -> None:
    assert read_symbols("a.py", text) is None
    assert why_unread("a.py") == "it cannot be parsed"


@pytest.mark.parametrize("path", ["a.sql", "Makefile", "a.lua"])
def test_other_languages_are_not_read(path: str) -> None:
    assert read_symbols(path, "x") is None
    assert why_unread(path) == "its language is not read"
