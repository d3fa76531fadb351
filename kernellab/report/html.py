"""Reports as one HTML page that needs nothing else: no script, no network, no font."""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernellab.experiments.picture import BankMap, Bars, Curves, LaneMap, Timeline
from kernellab.report.curves import curve_shapes
from kernellab.report.numbers import language_name, plain, short
from kernellab.report.pictures import DIGITS, LANES, SHOWN_WAVEFRONTS
from kernellab.report.source import source_tables
from kernellab.report.table import Table, expectations_line, outcome_table, panel_table, totals_table
from kernellab.report.text import document_tables, trace_label

if TYPE_CHECKING:
    from kernellab.experiments.experiment import Result
    from kernellab.experiments.picture import Picture
    from kernellab.report.document import Document
    from kernellab.trace import Trace


def page(documents: Sequence[Document]) -> str:
    """Return documents as one HTML page.

    Parameters
    ----------
    documents : sequence of Document
        In the order of reading.

    Returns
    -------
    str
        Everything that comes from kernels and files is escaped.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_template())
    return template.render(documents=[_document(document) for document in documents]) + "\n"


def _template() -> str:
    return importlib.resources.files("kernellab.report").joinpath("page.html").read_text(encoding="utf-8")


def _document(document: Document) -> dict[str, Any]:
    return {
        "kind": document.kind,
        "made": document.made,
        "environment": dict(document.environment),
        "experiments": [_experiment(result) for result in document.experiments],
        "tables": [_table(table) for table in document_tables(document)],
        "traces": [_trace(trace) for trace in document.traces],
    }


def _experiment(result: Result) -> dict[str, Any]:
    return {
        "name": result.name,
        "question": result.question,
        "device": result.device,
        "languages": " and ".join(map(language_name, result.languages)),
        "is_right": result.is_right,
        "summary": expectations_line(result),
        "pictures": [_picture(picture) for picture in result.pictures],
        "tables": [_table(panel_table(panel, result.languages)) for panel in result.panels],
        "judged": [
            _table(outcome_table("Expectations", result.expectations)),
            *([_table(outcome_table("Claims", result.claims))] if result.claims else []),
        ],
        "notes": result.notes,
    }


def _trace(trace: Trace) -> dict[str, Any]:
    label = trace_label(trace)
    tables = [
        *source_tables(trace.lines, label),
        totals_table(trace.totals, label, trace.standard_errors or None),
    ]
    sides = (" x ".join(map(str, each)) for each in (trace.grid, trace.block))
    grid, block = sides
    return {
        "kernel": trace.kernel,
        "about": f"{language_name(trace.language)}, {trace.arch}, grid {grid}, block {block}",
        "sampled": trace.sampled_blocks,
        "tables": [_table(table) for table in tables],
        "diagnostics": [(each.is_error, each.message) for each in trace.diagnostics],
        "notes": trace.notes,
    }


def _table(table: Table) -> dict[str, Any]:
    is_source = bool(table.columns) and table.columns[0].header == "line"
    return {
        "title": table.title,
        "columns": [
            {
                "header": column.header,
                "source": column.source,
                "kind": _kind(table, index, is_source),
            }
            for index, column in enumerate(table.columns)
        ],
        "rows": table.rows,
        "notes": table.notes,
    }


def _kind(table: Table, index: int, is_source: bool) -> str:
    if table.columns[index].is_number:
        return "number"
    if is_source:
        return "code"
    return "label" if index == 0 and any(column.is_number for column in table.columns) else "text"


def _picture(picture: Picture) -> dict[str, Any]:
    if isinstance(picture, Bars):
        return _bars(picture)
    if isinstance(picture, BankMap):
        return _bank_map(picture)
    if isinstance(picture, Timeline):
        return _timeline(picture)
    if isinstance(picture, Curves):
        return {"kind": "curves", "title": picture.title, **curve_shapes(picture)}
    return _lane_map(picture)


def _timeline(picture: Timeline) -> dict[str, Any]:
    def percent(time: float) -> float:
        return round(100 * time / picture.total, 3)

    rows = [
        {
            "stage": stage,
            "spans": [
                {
                    "left": percent(span.start),
                    "width": percent(span.stop - span.start),
                    "stream": span.stream,
                    "about": f"chunk {span.chunk} on stream {span.stream}: {plain(span.start * picture.scale, 3)} "
                    f"to {plain(span.stop * picture.scale, 3)} {picture.unit}",
                }
                for span in spans
            ],
        }
        for stage, spans in picture.rows.items()
    ]
    end = f"{plain(picture.total * picture.scale, 3)} {picture.unit}"
    return {"kind": "timeline", "title": picture.title, "rows": rows, "end": end}


def _bars(picture: Bars) -> dict[str, Any]:
    rows = [
        {
            "label": bar.label,
            "bars": [
                {
                    "who": language_name(language),
                    "percent": round(100 * min(value / picture.full, 1), 2) if value == value else 0,
                    "value": plain(value),
                    "is_ideal": bool(picture.ideal) and value <= picture.ideal,
                }
                for language, value in bar.values.items()
            ],
        }
        for bar in picture.bars
    ]
    ideal = round(100 * picture.ideal / picture.full, 2)
    return {
        "kind": "bars",
        "title": picture.title,
        "rows": rows,
        "ideal": ideal,
        "ideal_value": plain(picture.ideal),
    }


def _bank_map(picture: BankMap) -> dict[str, Any]:
    shown = picture.wavefronts[:SHOWN_WAVEFRONTS]
    return {
        "kind": "banks",
        "title": f"{picture.title}: {len(picture.wavefronts)} wavefronts",
        "banks": list(DIGITS),
        "rows": [["" if lane < 0 else str(lane) for lane in row] for row in shown],
        "more": len(picture.wavefronts) - len(shown),
    }


def _lane_map(picture: LaneMap) -> dict[str, Any]:
    rows = [
        {
            "number": line.number,
            "percent": round(100 * line.lanes / LANES, 1),
            "lanes": plain(line.lanes, 1),
            "executions": short(line.executions),
            "text": line.text,
        }
        for line in picture.lines
    ]
    return {"kind": "lanes", "title": picture.title, "rows": rows}
