"""Calls and parameters of TypeScript, as blocks and sentences of real pages have them."""

from __future__ import annotations

import pytest

from tests.unit.scaffold.skills.check.conftest import Checked, told

LOADER = """export class TraceLoader extends Base {
  async load(backend: Backend, traceFile?: string, unzipProgress?: Progress): Promise<void> {}
  entryFor(file: string): Entry;
  entryFor(file: string, ordinal: number): Entry;
  entryFor(file: string, ordinal?: number, ...more: string[]): Entry { return find(file); }
  onEvent = (name: string, { once }: Options = {}) => {};
}

export class ZipBackend {
  constructor(private traceUri: string, progress: Progress) {}
}

export class PlainBackend extends ZipBackend {}

export interface SnapshotStore {
  snapshotByName(pageId: string, snapshotName: string): Snapshot;
  addFrame(frame: Frame, snapshot: Snapshot, isLast: boolean): void;
}

export const sendMessage = async (object: Owner, method: string, options: Options) => {};
export function openViewer(url: string, port = 80) {}
export function addLabel(target: Target, label: string) {}

export interface Labelled {
  addLabel(label: string): void;
}

export class Uint8Array {
  constructor(body: Body, length: number) {}
}
"""
FILES = {
    "src/loader.ts": LOADER,
    "src/bytes.ts": "export const first = new Uint8Array(1);\n",
    "src/loader.spec.ts": "function openViewer() {}\n",
    "src/generated.d.ts": "declare function listThings(this: Store, filter: Filter): void;\n",
}


def _block(code: str) -> str:
    return f"See `src/loader.ts`.\n\n```ts\n{code}\n```\n"


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("const zip = new ZipBackend('trace.zip');", "argument-missing"),
        ("this._snapshotStore.snapshotByName('before');", "argument-missing"),
        ("await traceLoader.load(backend, file, progress, 3);", "argument-surplus"),
        (
            "const snapshotStore = stores.at(0);\nsnapshotStore.snapshotByName('a');",
            "argument-missing",
        ),
        ("sendMessage(page, 'goto');", "argument-missing"),
        ("openViewer('x', 1, 2);", "argument-surplus"),
        ("listThings(store, filter);", "argument-surplus"),
        (
            "interface SnapshotStore {\n  snapshotByName(name);\n"
            "  addFrame(frame, snapshot, isLast);\n}",
            "argument-missing",
        ),
        (
            "interface SnapshotStore {\n  snapshotByName(snapshotName: string, pageId: string);\n"
            "  addFrame(frame: Frame, snapshot: Snapshot, isLast: boolean);\n}",
            "parameter-order",
        ),
        (
            "interface SnapshotStore {\n  snapshotByName(pageId, snapshotName);\n"
            "  addFrame(frame, snapshot, phase);\n}",
            "parameter-unknown",
        ),
    ],
)
def test_what_typescript_cannot_take_is_told(code: str, rule: str, checked: Checked) -> None:
    (found,) = told(checked(_block(code), FILES))
    assert found[:2] == (rule, "contradicts")


@pytest.mark.parametrize(
    "code",
    [
        "await traceLoader.load(backend);",
        "await traceLoader.load(...all);",
        "await traceLoader.load(/* as above */);",
        "traceLoader.entryFor(file);\ntraceLoader.entryFor(file, 1, 'a', 'b');",
        "traceLoader.onEvent('x', { once: true });",
        "new PlainBackend('x');",
        "new ZipBackend('x', report);",
        "openViewer('x');",
        "listThings(filter);",
        "addLabel('x');",  # the method, or the function of the name
        "new Uint8Array(8);",  # the one that every program has
        "const openViewer = viewerOf(page);\nopenViewer('x', 1, 2);",
        "pages.forEach((openViewer) => openViewer('x', 1, 2));",
        "loader.load();",  # a loader of any kind
        "sendMessage();",  # the function, and no call of it
        "import { sendMessage } from 'other-package';\nsendMessage('x');",
        "function sendMessage(text) {}\nsendMessage('x');",
        "traceLoader.load(backend, file, progress, {",
        "interface SnapshotStore {\n  snapshotByName(pageId, snapshotNames);\n"
        "  addFrame(...frames);\n}",
    ],
)
def test_what_typescript_takes_is_left_alone(code: str, checked: Checked) -> None:
    assert told(checked(_block(code), FILES)) == []


@pytest.mark.parametrize(
    ("span", "rule"),
    [
        ("sendMessage(object, method, zone)", "parameter-unknown"),
        ("traceLoader.load(backend, unzipProgress)", "parameter-order"),
        ("addFrame(snapshot, frame)", "parameter-order"),
        ("sendMessage(object, method)", ""),
        ("sendMessage(object, …)", ""),
        ("sendMessage(page, 'goto')", ""),
        ("sendMessage()", ""),
        ("snapshotByName(id, name)", ""),
    ],
)
def test_parameters_of_a_sentence_are_those_of_the_code(
    span: str, rule: str, checked: Checked
) -> None:
    found = told(checked(f"See `src/loader.ts`: `{span}` does it.\n", FILES))
    assert [each[0] for each in found] == [rule][: len(rule)]
