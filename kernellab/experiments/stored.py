"""Results of experiments as plain values, there and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kernellab.experiments.experiment import Column, Outcome, Panel, Result
from kernellab.experiments.picture import picture_from_dict, picture_to_dict


def result_to_dict(result: Result) -> dict[str, Any]:
    """Return a result as plain values for JSON."""
    return {
        "name": result.name,
        "question": result.question,
        "device": result.device,
        "languages": list(result.languages),
        "seconds": result.seconds,
        "panels": [_panel_to_dict(panel) for panel in result.panels],
        "expectations": [asdict(outcome) for outcome in result.expectations],
        "claims": [asdict(outcome) for outcome in result.claims],
        "pictures": [picture_to_dict(picture) for picture in result.pictures],
        "notes": list(result.notes),
    }


def result_from_dict(data: Mapping[str, Any]) -> Result:
    """Return the result that `result_to_dict` wrote."""
    for panel in data["panels"]:
        if set(panel["records"]) != set(data["languages"]):
            raise ValueError(
                f"{data['name']}: languages are {data['languages']}, records in {[*panel['records']]}"
            )
    return Result(
        name=data["name"],
        question=data["question"],
        device=data["device"],
        languages=tuple(data["languages"]),
        panels=tuple(_panel_from_dict(panel) for panel in data["panels"]),
        expectations=tuple(Outcome(**outcome) for outcome in data["expectations"]),
        claims=tuple(Outcome(**outcome) for outcome in data["claims"]),
        pictures=tuple(picture_from_dict(picture) for picture in data["pictures"]),
        notes=tuple(data["notes"]),
        seconds=data["seconds"],
    )


def _panel_to_dict(panel: Panel) -> dict[str, Any]:
    return {
        "title": panel.title,
        "columns": [asdict(column) for column in panel.columns],
        "labels": list(panel.labels),
        "faults": dict(panel.faults),
        "records": {
            language: {label: record.to_dict() for label, record in records.items()}
            for language, records in panel.records.items()
        },
    }


def _panel_from_dict(data: Mapping[str, Any]) -> Panel:
    from kernellab.record import Record

    return Panel(
        title=data["title"],
        columns=tuple(Column(**column) for column in data["columns"]),
        labels=tuple(data["labels"]),
        faults=dict(data["faults"]),
        records={
            language: {label: Record.from_dict(record) for label, record in records.items()}
            for language, records in data["records"].items()
        },
    )
