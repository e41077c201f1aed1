"""What a person sees of a run: console, statistics, sampled episodes, curve and HTML report."""

from __future__ import annotations

from areal.trainer.report.records import EpisodeSample
from areal.trainer.report.run_log import ReportPaths, RunLog, render_report

__all__ = ["EpisodeSample", "ReportPaths", "RunLog", "render_report"]
