"""Definitions of other languages: names, what is public, heads, and files that are not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.vcs import grammars
from scaffold.vcs.symbols import read_symbols, why_unread
from tests.unit.scaffold.vcs.commit.test_key_changes import Files, between

# A file, its text, and its definitions: "+" for public ones, "-" for others, with their heads.
SOURCES: dict[str, tuple[str, list[str]]] = {
    "a.js": (
        "export class Engine {\n  run(rows, n) { return rows }\n}\n"
        "function helper(a) { function inner() {} }\nfunction own() {}\n"
        "export const go = (x) => x;\nmodule.exports = { helper };\n",
        ["+Engine: class Engine", "+Engine.run: run(rows, n)", "+helper: function helper(a)",
         "-inner: function inner()", "-own: function own()", "+go: go = (x) => x"],
    ),
    "a.ts": (
        "export interface Row { size(): number }\n"
        "export class A<T> { private x(): void {} run(a: string): T { throw 1 } }\n"
        "function hidden(a: number): void {}\nclass B { run() {} }\nexport { B };\n",
        ["+Row: interface Row", "+Row.size: size(): number", "+A: class A<T>",
         "-A.x: private x(): void", "+A.run: run(a: string): T",
         "-hidden: function hidden(a: number): void", "+B: class B", "+B.run: run()"],
    ),
    "a.tsx": (
        "export default function App(props: P) { return <div/> }\n",
        ["+App: function App(props: P)"],
    ),
    "a.go": (
        "package a\nfunc Add(a, b int) int { return a + b }\nfunc sub() {}\n"
        "type Engine struct { n int }\nfunc (e *Engine) Run(x int) error { return nil }\n",
        ["+Add: func Add(a, b int) int", "-sub: func sub()", "+Engine: type Engine",
         "+Engine.Run: func (e *Engine) Run(x int) error"],
    ),
    "a.rs": (
        "pub struct A { x: i32 }\nimpl A { pub fn run(&self) -> i32 { 1 } fn own(&self) {} }\n"
        "fn private() {}\npub(crate) fn near() {}\n",
        ["+A: pub struct A", "+A.run: pub fn run(&self) -> i32", "-A.own: fn own(&self)",
         "-private: fn private()", "-near: pub(crate) fn near()"],
    ),
    "A.java": (
        "public class A { public int run(int a) { return a; } private void own() {} }\n"
        "interface B { int go(); }\npublic interface C { int go(); }\n",
        ["+A: public class A", "+A.run: public int run(int a)", "-A.own: private void own()",
         "-B: interface B", "-B.go: int go()", "+C: public interface C", "+C.go: int go()"],
    ),
    "a.c": (
        "static int own(void) { return 1; }\nint add(int a, int b) { return a + b; }\n",
        ["-own: static int own(void)", "+add: int add(int a, int b)"],
    ),
    "a.hpp": (
        "class A { int own(); public: int run(int a) { return a; } };\n"
        "struct P { int size(); };\nint A::own() { return 1; }\n",
        ["+A: class A", "-A.own: int own()", "+A.run: int run(int a)", "+P: struct P",
         "+P.size: int size()", "-A.own: int A::own()"],
    ),
    "a.rb": (
        "class A\n  def run(a)\n    a\n  end\n\n  private\n\n  def own(b)\n    b\n  end\nend\n",
        ["+A: class A", "+A.run: def run(a)", "-A.own: def own(b)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", SOURCES)
def test_definitions(path: str) -> None:
    text, wanted = SOURCES[path]
    found = read_symbols(path, text)
    assert found is not None
    assert [f"{'-+'[each.is_public]}{each.name}: {each.head}" for each in found] == wanted


def test_lines_and_digests() -> None:
    first, second = (
        read_symbols("a.go", "package a\n\nfunc A() {\n\treturn\n}\nfunc B() {}\n") or ()
    )
    assert (first.start, first.end, second.start) == (3, 5, 6)
    (moved,) = read_symbols("b.go", "package b\nfunc A() { // why\n  return }\n") or ()
    assert moved.digest == first.digest != second.digest


def test_a_broken_source_is_not_read() -> None:
    assert read_symbols("a.go", "package a\nfunc {") is None
    assert why_unread("a.go") == "it cannot be parsed"


def test_without_the_extra_the_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        grammars.GRAMMARS, "go", grammars.GRAMMARS["go"]._replace(package="no_such")
    )
    assert read_symbols("a.go", "package a\n") is None
    assert why_unread("a.go") == "not read: install areal-scaffold[languages]"


CHANGED: dict[str, tuple[Files, Files, list[str]]] = {
    "a head": (
        {"a.go": "package a\nfunc Add(a int) int { return a }\n"},
        {"a.go": "package a\nfunc Add(a, b int) int { return a }\n"},
        ["change function Add: func Add(a int) int -> func Add(a, b int) int (a.go)"],
    ),
    "gone": (
        {"a.js": "export function a() {}\nexport function b() {}\n"},
        {"a.js": "export function b() {}\n"},
        ["remove function a (a.js)"],
    ),
}


@pytest.mark.parametrize("case", CHANGED)
def test_key_changes_of_other_languages(case: str, tmp_path: Path) -> None:
    before, after, told = CHANGED[case]
    assert between(tmp_path / "r", before, after)[1] == told
