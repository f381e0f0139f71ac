"""Drawing epsilon by epoch: in a terminal with block characters, and as a self-contained SVG."""

import math
from collections.abc import Sequence
from html import escape

from fedner.privacy.planning import CurvePoint, PrivacyPlan

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 360, 64, 24, 40, 52
# Two colours that differ in lightness too, and two dashes: readable in print and by everybody.
_STYLES = (("rdp", "RDP", "#d55e00", "6 4"), ("pld", "PLD", "#0072b2", ""))


def text_curve(curve: Sequence[CurvePoint], *, width: int = 60, height: int = 8) -> str:
    """Return the PLD curve as columns of block characters, with its axes.

    Args:
        curve: The points, by epoch.
        width: Columns of the drawing area.
        height: Lines of the drawing area.
    """
    last = curve[-1].epoch
    top = max((point.pld for point in curve if math.isfinite(point.pld)), default=0.0)
    if top == 0:
        return "epsilon is infinite: no noise" if math.isinf(curve[-1].pld) else "epsilon is 0"
    eighths = [
        round(8 * height * _pld_at(curve, last * (column + 1) / width) / top)
        for column in range(width)
    ]
    label_width = len(f"{top:.2f}")
    lines = []
    for row in range(height - 1, -1, -1):
        label = f"{top:.2f}" if row == height - 1 else ("0" if row == 0 else "")
        cells = "".join(_BLOCKS[min(8, max(0, level - 8 * row))] for level in eighths)
        lines.append(f"{label:>{label_width}} ┤{cells}")
    lines.append(" " * label_width + " └" + "─" * width)
    axis = f"epoch {last}".rjust(width + 2 + label_width)
    return "\n".join([f"{'ε':>{label_width}} (PLD)", *lines, axis])


def _pld_at(curve: Sequence[CurvePoint], epoch: float) -> float:
    """Return epsilon between two points, by a straight line from (0, 0) on."""
    before_epoch, before = 0.0, 0.0
    for point in curve:
        if epoch <= point.epoch:
            part = (epoch - before_epoch) / (point.epoch - before_epoch)
            return before + part * (point.pld - before)
        before_epoch, before = float(point.epoch), point.pld
    return before


def svg_curve(plan: PrivacyPlan) -> str:
    """Return both curves of a plan as one SVG document that needs nothing else."""
    finite = [value for point in plan.curve for value in (point.rdp, point.pld)]
    top = _nice_above(max((value for value in finite if math.isfinite(value)), default=1.0))
    title = (
        f"ε by epoch: noise {plan.noise_multiplier:g}, batch {plan.batch_size:,}, "
        f"{plan.examples_per_platform:,} examples, δ = {plan.delta:g}"
    )
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="12">'
    )
    parts = [
        opening,
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="22" font-size="13">{escape(title)}</text>',
        *_grid(top, plan.epochs),
        *(_line(plan, field, top, colour, dash) for field, _, colour, dash in _STYLES),
        *_legend(plan),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(top: float, epochs: int) -> list[str]:
    parts = []
    for tick in range(5):
        value = top * tick / 4
        height = _y(value, top)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}" '
            'stroke="#dddddd"/>'
            f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    epoch_ticks = sorted({0, *(round(epochs * quarter / 4) for quarter in range(1, 5))})
    parts.extend(
        f'<text x="{_x(epoch, epochs):.1f}" y="{_HEIGHT - _BOTTOM + 18}" '
        f'text-anchor="middle">{epoch}</text>'
        for epoch in epoch_ticks
    )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 12}" text-anchor="middle">epoch</text>')
    parts.append(f'<text x="16" y="{_TOP - 4}">ε</text>')
    return parts


def _line(plan: PrivacyPlan, field: str, top: float, colour: str, dash: str) -> str:
    points = [(0, 0.0), *((point.epoch, float(getattr(point, field))) for point in plan.curve)]
    path = " ".join(
        f"{_x(epoch, plan.epochs):.1f},{_y(value, top):.1f}"
        for epoch, value in points
        if math.isfinite(value)
    )
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'


def _legend(plan: PrivacyPlan) -> list[str]:
    parts = []
    for row, (field, name, colour, dash) in enumerate(_STYLES):
        height = _TOP + 16 + 18 * row
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        value = getattr(plan, field)
        shown = f"{value:.2f}" if math.isfinite(value) else "∞"
        parts.append(
            f'<line x1="{_LEFT + 12}" x2="{_LEFT + 40}" y1="{height - 4}" y2="{height - 4}" '
            f'stroke="{colour}" stroke-width="2"{dashes}/>'
            f'<text x="{_LEFT + 48}" y="{height}">{name}: {shown}</text>'
        )
    return parts


def _x(epoch: float, epochs: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * epoch / epochs


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / top


def _nice_above(value: float) -> float:
    """Return the next of 1, 2, 4, 5, 8, 10 (times a power of ten) above `value`."""
    if value <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(value))
    return next(scale * step for step in (1, 2, 4, 5, 8, 10) if scale * step >= value)
