"""Pictures as lines of text that also read without colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from kernellab.experiments.picture import BankMap, Bars, Curves, LaneMap, Timeline
from kernellab.report.curves import curve_lines
from kernellab.report.numbers import language_name, plain, short

if TYPE_CHECKING:
    from kernellab.experiments.picture import Picture

STYLES = {"cuda-c": "green", "numba": "cyan"}
LANES = 32
SHOWN_WAVEFRONTS = 6
DIGITS = "0123456789abcdefghijklmnopqrstuv"
STREAM_STYLES = ("green", "cyan", "magenta", "yellow")


@dataclass(frozen=True)
class Signs:
    """What bars are drawn with."""

    full: str
    rest: str
    idle: str


UNICODE = Signs("█", "░", "·")
ASCII = Signs("#", ".", ".")


def draw(picture: Picture, width: int = 80, signs: Signs = UNICODE) -> list[Text]:
    """Return a picture as lines.

    Parameters
    ----------
    picture : Bars, BankMap, LaneMap, Timeline or Curves
        What to draw.
    width : int
        Columns there are.
    signs : Signs
        `ASCII` where the terminal has no blocks.
    """
    if isinstance(picture, Bars):
        return _bars(picture, width, signs)
    if isinstance(picture, BankMap):
        return _bank_map(picture, signs)
    if isinstance(picture, Timeline):
        return _timeline(picture, width, signs)
    if isinstance(picture, Curves):
        return curve_lines(picture, width)
    return _lane_map(picture, width, signs)


def _bars(picture: Bars, width: int, signs: Signs) -> list[Text]:
    title = picture.title + (f" ({plain(picture.ideal)} is ideal)" if picture.ideal else "")
    lines = [Text(title, "bold")]
    room = max((len(bar.label) for bar in picture.bars), default=0)
    length = max(10, min(48, width - room - 20))
    for bar in picture.bars:
        groups: dict[float, list[str]] = {}
        for language, value in bar.values.items():
            groups.setdefault(value, []).append(language)
        for index, (value, languages) in enumerate(groups.items()):
            filled = _length(value, picture.full, length)
            label = bar.label if index == 0 else ""
            who = "" if len(groups) == 1 else f" {', '.join(map(language_name, languages))}"
            style = "red" if picture.ideal and value > picture.ideal else "green"
            lines.append(
                Text.assemble(f"  {label:<{room}} ", (signs.full * filled, style), f" {plain(value)}{who}")
            )
    return lines


def _length(value: float, full: float, length: int) -> int:
    if value != value or full <= 0:
        return 0
    return max(min(round(length * value / full), length), 1 if value > 0 else 0)


def _bank_map(picture: BankMap, signs: Signs) -> list[Text]:
    count = len(picture.wavefronts)
    lines = [Text(f"{picture.title}: {count} wavefront{'s' if count != 1 else ''}", "bold")]
    lines.append(
        Text(
            f"  banks and lanes 0-31 are written 0-v; a cell is the lane served, {signs.idle} idle",
            "dim",
        )
    )
    lines.append(Text("  bank       " + " ".join(DIGITS), "dim"))
    for number, row in enumerate(picture.wavefronts[:SHOWN_WAVEFRONTS], 1):
        cells = Text()
        for lane in row:
            cells.append((signs.idle if lane < 0 else DIGITS[lane]) + " ", "dim" if lane < 0 else "green")
        lines.append(Text.assemble(f"  wave {number:>3}   ", cells))
    if count > SHOWN_WAVEFRONTS:
        lines.append(Text(f"  ... and {count - SHOWN_WAVEFRONTS} more such wavefronts", "dim"))
    for line in lines:
        line.rstrip()
    return lines


def _lane_map(picture: LaneMap, width: int, signs: Signs) -> list[Text]:
    lines = [Text(f"{picture.title} (of {LANES}; how often a warp ran it)", "bold")]
    length = LANES if width >= 110 else LANES // 2
    texts = _without_indent([line.text for line in picture.lines])
    for line, text in zip(picture.lines, texts, strict=True):
        filled = _length(line.lanes, LANES, length)
        style = "green" if line.lanes > LANES - 1 else "yellow" if line.lanes > LANES / 2 else "red"
        row = Text.assemble(
            f"  {line.number:>4} ",
            (signs.full * filled, style),
            (signs.rest * (length - filled), "dim"),
            f" {plain(line.lanes, 1):>4} {short(line.executions):>6}  {text}",
        )
        row.truncate(width, overflow="ellipsis" if signs is UNICODE else "crop")
        lines.append(row)
    return lines


def _timeline(picture: Timeline, width: int, signs: Signs) -> list[Text]:
    lines = [Text(f"{picture.title} (a sign a chunk, a colour a stream)", "bold")]
    room = max(map(len, picture.rows))
    length = max(20, min(width, 120) - room - 4)
    for stage, spans in picture.rows.items():
        cells = [(signs.idle, "dim")] * length
        for span in spans:
            first, last = (int(length * time / picture.total) for time in (span.start, span.stop))
            sign = DIGITS[span.chunk % len(DIGITS)], STREAM_STYLES[span.stream % len(STREAM_STYLES)]
            cells[first : max(last, first + 1)] = [sign] * (max(last, first + 1) - first)
        lines.append(Text.assemble(f"  {stage:<{room}} ", *cells[:length]))
    end = f"{plain(picture.total * picture.scale, 3)} {picture.unit}"
    lines.append(Text(f"  {'':<{room}} 0{end:>{length - 1}}", "dim"))
    return lines


def _without_indent(texts: Sequence[str]) -> list[str]:
    indents = [len(text) - len(text.lstrip()) for text in texts if text.strip()]
    least = min(indents, default=0)
    return [text[least:].rstrip() for text in texts]
