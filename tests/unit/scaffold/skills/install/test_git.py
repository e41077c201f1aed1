"""Git as a source: real repositories, hostile ones too; nothing of them is run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scaffold.errors import ScaffoldError
from scaffold.skills.install import git
from scaffold.skills.install.address import Source
from scaffold.skills.install.source import open_source, take_skills
from tests.unit.scaffold.skills.install.conftest import SKILL, commit_all, run_git, write

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the traps are shell scripts")


def code_of(source: Source, folder: Path) -> tuple[str, str]:
    with pytest.raises(ScaffoldError) as caught:
        open_source(source, folder)
    return caught.value.code, caught.value.message


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_a_branch_a_tag_and_commits_are_pinned(repository: Path, tmp_path: Path) -> None:
    first = run_git(repository, "rev-parse", "HEAD")
    run_git(repository, "tag", "--annotate", "--message", "x", "v1.0")
    run_git(repository, "branch", "feature/x")
    write(repository, {"skills/one/SKILL.md": SKILL.format(name="one") + "more\n"})
    second = commit_all(repository)
    url = repository.as_uri()
    pins = {"": second, "main": second, "v1.0": first, "feature/x": first}
    pins |= {first: first, first[:9]: first, "HEAD": second}
    for number, (revision, commit) in enumerate(pins.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        opened = open_source(Source("git", url, revision), folder)
        assert opened.commit == commit, revision
        (skill,) = take_skills(opened, ["one"])
        assert skill.commit == commit
        assert skill.files["SKILL.md"].data.endswith(b"more\n") == (commit == second)
        assert not list(folder.rglob("SKILL.md")), "a commit is never checked out"


def test_a_folder_at_a_revision_is_read_from_its_repository(
    repository: Path, scratch: Path
) -> None:
    first = run_git(repository, "rev-parse", "HEAD")
    write(repository, {"skills/two/scripts/run.sh": "changed"})
    opened = open_source(Source("git", str(repository), "main"), scratch)
    (skill,) = take_skills(opened, ["two"])
    assert (opened.commit, skill.commit) == (first, first)
    assert skill.files["scripts/run.sh"] == (b"#!/bin/sh\necho hello\n", True)


def test_a_folder_as_it_stands_has_a_commit_only_if_it_is_as_committed(
    repository: Path, scratch: Path
) -> None:
    commit = run_git(repository, "rev-parse", "HEAD")

    def commits(folder: Path) -> dict[str, str]:
        opened = open_source(Source("folder", str(folder)), scratch)
        return {skill.name: skill.commit for skill in take_skills(opened, [])}

    assert commits(repository) == {"one": commit, "two": commit}
    assert commits(repository / "skills") == {"one": commit, "two": commit}
    write(repository, {"skills/one/new.md": "untracked"})
    (repository / "skills/two/scripts/run.sh").chmod(0o644)
    assert commits(repository) == {"one": "", "two": ""}
    (repository / "skills/one/new.md").unlink()
    (repository / "skills/one/SKILL.md").write_text(SKILL.format(name="one") + "x")
    assert commits(repository)["one"] == ""


def test_a_repository_without_a_commit_and_a_folder_without_one(
    tmp_path: Path, scratch: Path
) -> None:
    folder = write(tmp_path / "plain", {"one/SKILL.md": SKILL.format(name="one")})
    (skill,) = take_skills(open_source(Source("folder", str(folder)), scratch), [])
    assert skill.commit == ""
    assert code_of(Source("git", str(folder), "main"), scratch)[0] == "revision_unknown"
    run_git(folder, "init", "--quiet")
    (skill,) = take_skills(open_source(Source("folder", str(folder)), scratch), [])
    assert skill.commit == ""


def test_sha256_repositories(tmp_path: Path, scratch: Path) -> None:
    folder = write(tmp_path / "new", {"one/SKILL.md": SKILL.format(name="one")})
    run_git(folder, "init", "--quiet", "--object-format=sha256")
    commit = commit_all(folder)
    (skill,) = take_skills(open_source(Source("folder", str(folder)), scratch), [])
    assert skill.commit == commit
    assert len(commit) == 64


def test_unknown_revisions_and_remotes(repository: Path, tmp_path: Path, scratch: Path) -> None:
    code, message = code_of(Source("git", repository.as_uri(), "v9"), scratch)
    assert (code, "'v9'" in message) == ("revision_unknown", True)
    assert code_of(Source("git", str(repository), "v9"), scratch)[0] == "revision_unknown"
    other = tmp_path / "other"
    other.mkdir()
    code, message = code_of(Source("git", (tmp_path / "gone").as_uri()), other)
    assert (code, "does not appear to be a git repository" in message) == (
        "source_unreachable",
        True,
    )
    # Nothing listens on port 1, and the attempt goes no further than this machine.
    another = tmp_path / "another"
    another.mkdir()
    code, _ = code_of(Source("git", "https://localhost:1/x.git"), another)
    assert code == "source_unreachable"


@pytest.mark.parametrize("kind", ["address", "folder"])
def test_without_git(
    repository: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("PATH", str(scratch))
    place = repository.as_uri() if kind == "address" else str(repository)
    assert code_of(Source("git", place, "main"), scratch)[0] == "git_missing"
    opened = open_source(Source("folder", str(repository)), scratch)
    assert [skill.commit for skill in take_skills(opened, [])] == ["", ""]


def trap(folder: Path) -> Path:
    """Returns a program that leaves a mark when it is run."""
    program = folder / "trap.sh"
    program.write_text(f"#!/bin/sh\ntouch {folder / 'sprung'}\ncat\n")
    program.chmod(0o755)
    return program


def set_traps(repository: Path, program: Path) -> None:
    """Configures a repository so that it runs a program wherever git would let it."""
    settings = {
        "core.fsmonitor": program, "core.pager": program, "core.editor": program,
        "core.sshCommand": program, "core.askPass": program, "core.gitProxy": program,
        "core.alternateRefsCommand": program, "credential.helper": f"!{program}",
        "diff.external": program, "filter.x.smudge": program, "filter.x.clean": program,
        "filter.x.process": program, "uploadpack.packObjectsHook": program,
        "alias.rev-parse": f"!{program}", "alias.ls-tree": f"!{program}",
        "alias.cat-file": f"!{program}", "gpg.program": program, "pager.ls-tree": program,
        "remote.origin.url": f"ext::{program}", "remote.origin.promisor": "true",
        "extensions.partialClone": "origin", "core.repositoryFormatVersion": "1",
    }  # fmt: skip
    for name, value in settings.items():
        run_git(repository, "config", name, str(value))
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "pre-auto-gc", "post-index-change"):
        (hooks / name).write_bytes(program.read_bytes())
        (hooks / name).chmod(0o755)


@pytest.mark.parametrize("kind", ["folder", "folder at a revision", "address"])
def test_nothing_of_a_hostile_repository_is_run(
    repository: Path, tmp_path: Path, scratch: Path, kind: str
) -> None:
    write(repository, {".gitattributes": "* filter=x diff=x\n"})
    commit_all(repository)
    program = trap(tmp_path)
    set_traps(repository, program)
    sources = {
        "folder": Source("folder", str(repository)),
        "folder at a revision": Source("git", str(repository), "main"),
        "address": Source("git", repository.as_uri()),
    }
    opened = open_source(sources[kind], scratch)
    assert [skill.name for skill in take_skills(opened, [])] == ["one", "two"]
    assert not (tmp_path / "sprung").exists()
    subprocess.run(["git", "status"], cwd=repository, capture_output=True, check=False)
    assert (tmp_path / "sprung").exists(), "the traps are armed"


def test_an_object_that_is_missing_is_not_fetched(
    repository: Path, tmp_path: Path, scratch: Path
) -> None:
    oid = run_git(repository, "rev-parse", "HEAD:skills/one/SKILL.md")
    (repository / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    program = trap(tmp_path)
    set_traps(repository, program)
    opened = open_source(Source("git", str(repository), "main"), scratch)
    with pytest.raises(ScaffoldError) as caught:
        take_skills(opened, ["one"])
    assert caught.value.code == "source_unreachable"
    assert not (tmp_path / "sprung").exists()


def test_replaced_objects_do_not_change_a_pinned_commit(repository: Path, scratch: Path) -> None:
    oid = run_git(repository, "rev-parse", "HEAD:skills/one/SKILL.md")
    other = run_git(repository, "rev-parse", "HEAD:README.md")
    run_git(repository, "replace", oid, other)
    opened = open_source(Source("git", str(repository), "main"), scratch)
    (skill,) = take_skills(opened, ["one"])
    assert skill.files["SKILL.md"].data == SKILL.format(name="one").encode()


def test_the_repository_of_a_calling_hook_is_no_matter(
    repository: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "nonsense")
    commit = git.resolve(repository, "main")
    assert commit == open_source(Source("git", repository.as_uri()), scratch).commit


def test_a_submodule_is_not_fetched_and_a_link_is_a_text(
    repository: Path, tmp_path: Path, scratch: Path
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    run_git(inner, "init", "--quiet")
    commit_all(inner)
    run_git(repository, "submodule", "add", "--quiet", inner.as_uri(), "skills/one/sub")
    (repository / "skills/two/secret").symlink_to(tmp_path / "secret")
    commit_all(repository)
    opened = open_source(Source("git", repository.as_uri()), scratch)
    for name, reason in (("one", "submodule"), ("two", "leads out of the skill")):
        with pytest.raises(ScaffoldError, match=reason) as caught:
            take_skills(opened, [name])
        assert caught.value.code == "skill_unsafe"


def test_no_other_transport_than_the_one_that_was_named(
    repository: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that the user's configuration turns into another kind goes nowhere."""
    program = trap(scratch.parent)
    config = scratch.parent / "config"
    run_git(repository, "config", "--file", str(config), f"url.ext::{program}.insteadOf", "file:")
    run_git(repository, "config", "--file", str(config), "protocol.allow", "always")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ext:file")
    code, message = code_of(Source("git", repository.as_uri()), scratch)
    assert (code, "not allowed" in message) == ("source_unreachable", True)
    assert not (scratch.parent / "sprung").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the session is read from /proc")
def test_nobody_is_asked_for_a_password(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by a window nor at the terminal, which ssh opens by itself."""
    told = tmp_path / "told"
    ssh = tmp_path / "ssh.sh"
    ssh.write_text(
        f"#!/bin/sh\necho asks=$SSH_ASKPASS,$GIT_ASKPASS,$SSH_ASKPASS_REQUIRE >>{told}\n"
        f"cut -d' ' -f6 /proc/$$/stat >>{told}\n"
        "exit 255\n"
    )
    ssh.chmod(0o755)
    for name in ("SSH_ASKPASS", "GIT_ASKPASS"):
        monkeypatch.setenv(name, str(trap(tmp_path)))
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    code, _ = code_of(Source("git", "ssh://git@localhost:1/x.git"), scratch)
    assert code == "source_unreachable"
    asks, session, *_ = told.read_text().splitlines()
    assert asks == "asks=,,never"
    assert int(session) != os.getsid(0), "a session of its own has no terminal"


def test_a_remote_that_never_answers(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh.sh"
    ssh.write_text("#!/bin/sh\nsleep 300\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    monkeypatch.setattr(git, "TIMEOUT_S", 1)
    before = time.monotonic()
    code, message = code_of(Source("git", "git@localhost:x.git"), scratch)
    assert (code, "longer than 1 s" in message) == ("source_unreachable", True)
    assert time.monotonic() - before < 30, "what holds git's streams is ended with it"
