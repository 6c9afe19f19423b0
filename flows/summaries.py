"""Summaries of a run for people: sentences, tables, links and a plot, as artifacts of the Prefect run."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)

from drsr.flows.places import Place
from drsr.offline.store.kept import kept_here

DASHBOARD = "dashboard.html"
Results = Mapping[str, Mapping[str, Any]]
"""Lines that each stage printed, by stage."""


def show_plot(key: str, png: bytes, description: str) -> None:
    """A plot as an artifact of the present run. It travels in the artifact itself: nothing else has to be served."""
    data = base64.b64encode(png).decode("ascii")
    create_image_artifact(image_url=f"data:image/png;base64,{data}", key=key, description=description)


def leave_dashboard(place: Place, docs: Path) -> None:
    """Write the dashboard beside the pages about the data."""
    from drsr.offline.dashboard import read_numbers, write_dashboard

    numbers = read_numbers(place, datetime.datetime.now(datetime.UTC), kept_here())
    write_dashboard(docs / DASHBOARD, numbers)


def leave_summary(results: Results, seconds: Mapping[str, float], headline: str, docs: Path | None) -> None:
    """The summary of a refresh: what was done, the numbers of the policy, the checks, and where to look."""
    done = (f"- **{stage}**: {said(stage, result)}" for stage, result in results.items())
    text = "\n".join([f"# {headline}", "", *done, *left_out(results.get("ingest", {}))])
    create_markdown_artifact(markdown=text, key="refresh", description=headline)
    create_table_artifact(table=stage_rows(results, seconds), key="stages", description="What each stage did.")
    numbers = policy_rows(results)
    if numbers:
        create_table_artifact(table=numbers, key="policy", description="The operating point, and how the policy does.")
    gates = list(results.get("publish", {}).get("gates", ()))
    if gates:
        create_table_artifact(table=gates, key="checks", description="The checks before publishing.")
    for key, (address, what) in links(results, docs).items():
        create_link_artifact(link=address, link_text=what, key=key)


def left_out(ingested: Mapping[str, Any]) -> list[str]:
    """Name what could not be read, and why, as lines of Markdown."""
    items = ingested.get("left_out", ())
    return ["", "Left out:", "", *(f"- `{item['where']}`: {item['detail']}" for item in items)] if items else []


def stage_rows(results: Results, seconds: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return a row per stage."""
    return [
        {"stage": stage, "did": said(stage, result), "seconds": round(seconds.get(stage, 0.0), 1)}
        for stage, result in results.items()
    ]


def policy_rows(results: Results) -> list[dict[str, Any]]:
    """Return a row per number, on validation and, where it was evaluated, on test."""
    found = results.get("calibrate", {})
    names = ("max_cardinality", "uncertainty_coefficient", "risk_threshold", "unsafe_rate", "mean_harm", "mean_removal")
    rows = [{"split": "validation", "number": name, "value": found[name]} for name in names if name in found]
    for metric in results.get("evaluate", {}).get("metrics", ()):
        number = f"{metric['name']}, {metric['grouping']}"
        rows.append({"split": "test", "number": number, "value": metric["value"]})
    return rows


def links(results: Results, docs: Path | None) -> dict[str, tuple[str, str]]:
    """Address and words of each link, by key."""
    found = {}
    published = results.get("publish", {})
    if "wheel" in published:
        found["wheel"] = (Path(published["wheel"]).as_uri(), f"drsr-policy {published['version']}")
        found["index"] = (Path(published["index"]).as_uri(), "the index that pip installs from")
    pages = {
        "data-docs": ("index.html", "what was expected of the data, and held"),
        "dashboard": (DASHBOARD, "the dashboard: nights, sources, labels, drift and releases"),
    }
    for key, (name, what) in pages.items():
        if docs is not None and (docs / name).exists():
            found[key] = ((docs.absolute() / name).as_uri(), what)
    return found


def said(stage: str, result: Mapping[str, Any]) -> str:
    """Return what a stage did, in a sentence."""
    match stage:
        case "ingest":
            return _ingested(result)
        case "freeze":
            damaged = len(result.get("damaged", ()))
            text = f"{_trajectories(result['frozen'])} frozen, {_counted(result['states'], 'decision state')}"
            without = result.get("without_states") or {}
            if without:
                text += f", {sum(without.values()):,} without any: {', '.join(sorted(without))}"
            return f"{text}{f', {damaged:,} wait with damaged bytes: drsr freeze' if damaged else ''}"
        case "label" | "featurize":
            return _spread("labelled" if stage == "label" else "featurized", result)
        case "train":
            how = f"trained in {result['seconds']:.0f} s" if result["is_new"] else "these inputs gave a scorer before"
            return f"{how}, on {result['train_sets']:,} sets of {_trajectories(result['train_trajectories'])}"
        case "calibrate":
            return str(result["explanation"])
        case "evaluate":
            what = f"{result['sets']:,} sets of {_trajectories(result['trajectories'])}"
            return f"{_counted(result['scorers'], 'configuration')} judged on {what} of {result['split']}"
        case "publish":
            return _published(result)
    return ", ".join(f"{key} {value}" for key, value in result.items())


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _trajectories(count: int) -> str:
    return "1 trajectory" if count == 1 else f"{count:,} trajectories"


def _ingested(result: Mapping[str, Any]) -> str:
    if result["files"] == result["unchanged_files"]:
        return f"nothing new in {result['files']:,} files"
    runs = f"{_counted(result['added'], 'run')} added, {result['superseded']:,} superseded"
    refused = sum(result.get("quarantined", {}).values())
    return f"{runs}{f', {refused:,} quarantined: drsr status --quarantined' if refused else ''}"


def _spread(word: str, result: Mapping[str, Any]) -> str:
    text = f"{_counted(result['states'], 'state')} {word}"
    if "shards" in result:
        text += f" in {_counted(result['shards'], 'shard')}"
    if result.get("lost_workers"):
        text += f", lost on the way: {_counted(result['lost_workers'], 'worker')}"
    excluded: Sequence[tuple[str, int]] = sorted(result.get("excluded", {}).items())
    return text + "".join(f", {count:,} excluded: {reason}" for reason, count in excluded)


def _published(result: Mapping[str, Any]) -> str:
    if not result["published"]:
        return f"the released policy stays: {result['reason']}"
    what = f"drsr-policy {result['version']}{', which abstains always' if result['abstains_always'] else ''}"
    return f"published {what}" if result["is_new"] else f"{what} had been published before"
