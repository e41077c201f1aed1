"""The commands of ``scaffold docs``: each reads the documents and returns its report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from scaffold.errors import escaped
from scaffold.findings import RuleText, write_findings
from scaffold.report import Report
from scaffold.transaction.apply import apply_changes, settle
from scaffold.translation.adopt import plan_adoption, starter_glossary
from scaffold.translation.agreement import check_page
from scaffold.translation.documents import Documents, find_root
from scaffold.translation.finding import RULES, disagreement, to_json, to_row
from scaffold.translation.plan import count_of, page_states, plan_page, shown, shown_plan


def docs_status(start: Path) -> Report:
    """Report which pages are missing or behind, section by section."""
    documents = Documents.at(start)
    states = page_states(documents)
    counts = Counter(state.state for state in states)
    sections = Counter(pair.state for state in states for pair in state.pairs)
    rows = [row for state in states if not state.is_fine for row in shown(state)]
    layout = documents.layout
    where = f"{layout.source} -> {layout.translation}, " if layout.source else ""
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    rows.append(f"{count_of(states, 'page')} ({where}{layout.how}): {told}")
    presumed = [pair for state in states for pair in state.pairs if pair.origin]
    warnings = [
        f"{count_of(presumed, 'section')} without a marker, judged by the commit that last changed "
        "the translation; `scaffold docs adopt` writes the markers"
    ]
    reworded = [pair for pair in presumed if pair.state == "reworded"]
    if reworded:
        warnings.append(
            f"{count_of(reworded, 'section')} not counted as stale, since a few words of the page "
            "changed and no code, link or number; `reworded` in --json"
        )
    return Report(
        "docs status",
        ok=all(state.is_fine for state in states),
        text="".join(f"{escaped(row)}\n" for row in rows),
        warnings=tuple(warnings) if presumed else (),
        extra={
            "docs": {
                "pages": [state.to_json() for state in states],
                "counts": {"pages": dict(counts), "sections": dict(sections)},
            }
        },
    )


def docs_plan(start: Path, page: str, keys: tuple[str, ...], *, everything: bool) -> Report:
    """Collect what is needed to translate a page."""
    documents = Documents.at(start)
    plan = plan_page(documents, documents.resolve(page, start), keys, everything=everything)
    check = (("scaffold", "docs", "check", plan.page),)
    return Report("docs plan", check=check, text=shown_plan(plan), extra={"docs": plan.to_json()})


def docs_adopt(
    start: Path, pages: tuple[str, ...], *, dry_run: bool, glossary: bool = False
) -> Report:
    """Write the markers of translations that have none, as git's history shows them.

    Args:
        pages: Pages or translations; none means all.
        glossary: Also begin a glossary, where there is none.
    """
    root = find_root(start)
    if not dry_run:
        settle(root, "docs adopt")
    documents = Documents.at(start)
    wanted = [documents.resolve(page, start) for page in pages] or documents.wanted_pages()
    adoption = plan_adoption(documents, wanted)
    begun = starter_glossary(documents) if glossary else None
    changes = (*adoption.changes, *([begun] if begun is not None else []))
    if changes and not dry_run:
        apply_changes(root, changes, "docs adopt")
    warnings = tuple(
        f"{place}: no marker, as it is not committed, or no commit of its page has the section"
        for place in adoption.left
    )
    return Report(
        "docs adopt",
        dry_run=dry_run,
        changes=tuple(each.reported for each in changes),
        warnings=warnings,
        extra={
            "docs": {
                "marked": adoption.marked,
                "left": list(adoption.left),
                "reworded": list(adoption.reworded),
            }
        },
    )


def docs_check(start: Path, pages: tuple[str, ...], form: str = "human") -> Report:
    """Prove that translations agree with their pages; those that are missing are named.

    Args:
        pages: Pages or translations; none means all.
        form: One of `scaffold.findings.FORMATS`.
    """
    documents = Documents.at(start)
    wanted = [documents.resolve(page, start) for page in pages] or documents.wanted_pages()
    translations = documents.layout.pages
    there = [each for each in wanted if documents.has(each) and documents.has(translations[each])]
    lacking = [page for page in wanted if page not in there]
    findings = [finding for page in there for finding in check_page(documents, page)]
    # A page that was named has to be there; of all pages a missing one is only a warning.
    findings += [
        disagreement(
            translations[page], 1, "page", "none", f"the translation of {page}", f"{page}:1"
        )
        for page in lacking
        if pages
    ]
    rows = [to_row(finding) for finding in findings]
    rows.append(f"{count_of(there, 'page')} checked, {count_of(findings, 'finding')}")
    warnings: list[str] = []
    if lacking and not pages:
        warnings.append(f"no translation of {count_of(lacking, 'page')}; `scaffold docs status`")
    pairs = [pair for page in there for pair in documents.pairs(page)]
    # An old translation may agree in form with a page whose words have changed since.
    behind = [pair for pair in pairs if pair.state in ("stale", "unmarked")]
    if behind:
        warnings.append(f"{count_of(behind, 'section')} behind; `scaffold docs status`")
    report = Report(
        "docs check",
        ok=not findings,
        text="".join(f"{escaped(row)}\n" for row in rows),
        warnings=tuple(warnings),
        extra={"docs": {"findings": [to_json(finding) for finding in findings], "checked": there}},
    )
    rules = {name: RuleText(asks) for name, asks in RULES.items()}
    # Other writers have no other place for the page's line.
    said = {
        each: f"the page has it at {each.evidence}" if each.evidence else "" for each in findings
    }
    placed = [each._replace(evidence=said[each], now="") for each in findings]
    return write_findings(report, form, placed, rules)
