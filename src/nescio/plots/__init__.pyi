from ._belief import BeliefDisplay
from ._confusion import ConfusionDisplay
from ._dirichlet import DirichletDisplay
from ._entropy import EntropyCDFDisplay
from ._export import png, svg
from ._layout import add_heading, add_legend, box, draw_band, panel, panels
from ._reliability import ReliabilityDisplay
from ._risk_coverage import RiskCoverageDisplay
from ._rotation import RotationDisplay
from ._style import DARK_PALETTE, PALETTE, colour, style
from ._threshold import ThresholdDisplay
from ._uncertainty import UncertaintyDisplay

__all__ = [
    "DARK_PALETTE",
    "PALETTE",
    "BeliefDisplay",
    "ConfusionDisplay",
    "DirichletDisplay",
    "EntropyCDFDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "RotationDisplay",
    "ThresholdDisplay",
    "UncertaintyDisplay",
    "add_heading",
    "add_legend",
    "box",
    "colour",
    "draw_band",
    "panel",
    "panels",
    "png",
    "style",
    "svg",
]
