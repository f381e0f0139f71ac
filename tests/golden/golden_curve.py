"""The curve of a privacy plan as text and as SVG, from a plan that no accountant had a part in."""

from golden_runs import FOLDER

from fedner.privacy.curve import svg_curve, text_curve
from fedner.privacy.planning import CurvePoint, PrivacyPlan

SVG, TEXT = FOLDER / "curve.svg", FOLDER / "curve.txt"
CURVE = tuple(
    CurvePoint(epoch, rdp=0.9 * epoch**0.6 + 0.4, pld=0.7 * epoch**0.6) for epoch in (1, 3, 6, 12)
)
PLAN = PrivacyPlan(
    noise_multiplier=1.25,
    rdp=CURVE[-1].rdp,
    pld=CURVE[-1].pld,
    delta=1e-5,
    rdp_noise_multiplier=1.5,
    target_epsilon=3.5,
    examples=1200,
    platforms=3,
    examples_per_platform=400,
    batch_size=40,
    epochs=12,
    sampling_probability=0.1,
    steps=120,
    curve=CURVE,
)


def curves() -> dict[str, str]:
    """Return what each record should hold."""
    return {SVG.name: svg_curve(PLAN), TEXT.name: text_curve(CURVE) + "\n"}
