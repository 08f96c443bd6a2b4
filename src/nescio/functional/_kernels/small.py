"""The evaluation of rowwise.py for small inputs on the CPU, where a call of torch costs more than its work.

The formulas are those of divergence.py in as few calls as they can be done in: polynomials that go over the
same numbers are one stack, all sums of a row are one product, workspaces and their views are kept from call
to call, and the scale of the gradient comes with its last product.

No row has to choose between the two forms of divergence.py here. With T the sum of s = min(e, KNEE) and D
that of e - s, the value is G(T + D) - T + sum of (h - (e - s)) for every row: T is taken from G in float64,
and how T and D were rounded cancels, as the same T and D make the E of G. The gradient h'(e) - H'(E) is
h' G' - H' (1 - h') as G' + H' = 1, a difference of products that each keep their digits:

    h'(e) - H'(E) = v [e (G' + v A(v)) - POLE H'] / (KNEE + POLE).
"""

from __future__ import annotations

import threading
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor

from nescio.functional._kernels import divergence as kernel
from nescio.functional._kernels.rowwise import RiskTerms, RowLoss, Strengths

MOST_ELEMENTS = 1 << 15  # beyond, the work outweighs the calls


class _Kind(TypedDict):
    dtype: torch.dtype
    device: torch.device


# Said wherever a tensor is made: others may have set another default type or device.
_NARROW: _Kind = {"dtype": torch.float32, "device": torch.device("cpu")}
_WIDE: _Kind = {"dtype": torch.float64, "device": torch.device("cpu")}


class _Constants(NamedTuple):
    """Of one number of classes."""

    zero: Tensor  # ()
    shift: Tensor  # ()
    ones: Tensor  # (K,)
    leads: tuple[float, ...]  # the highest powers' coefficients of q, p and slope
    seconds: tuple[Tensor, ...]  # the next, () each
    thirds: Tensor  # (2, 1, 1): then those of p and slope together,
    others: tuple[Tensor, ...]  # (3, 1, 1) each: then those of all three,
    last: Tensor  # (): and the last of slope
    linear: Tensor  # (12, 5) float64: from the sums of a row to what is linear in them
    start: Tensor  # (12, 1) float64: what that has without evidence
    rows: tuple[Tensor, ...]  # (2, 1) float64 each: value and slope by powers of 1 / (E + kappa)
    y: float
    log_limit: float
    log_series: tuple[float, ...]


class _Workspace(NamedTuple):
    """Memory for M rows, and all views of it that are needed."""

    e: Tensor  # (M, K), and so the next
    v: Tensor
    stack: Tensor  # (3, M, K): q, p and slope
    pair: Tensor  # (2, M, K): p and slope
    q: Tensor
    p: Tensor
    slope: Tensor
    four: Tensor  # (4, M, K): bent, s, excess and squares, whose rows are summed
    tall: Tensor  # (4 M, K): the same
    bent: Tensor
    s: Tensor
    excess: Tensor
    squares: Tensor
    zeros: Tensor  # (M, 1)
    narrow: Tensor  # (5, M) float32: the sums of the four, and the evidence of the true class
    narrow_sums: Tensor  # (4 M,)
    own: Tensor  # (M,)
    own_column: Tensor  # (M, 1)
    wide: Tensor  # (5, M): the same in float64
    wide_sums: Tensor  # (4, M)
    wide_own: Tensor  # (M,)
    of_rows: Tensor  # (12, M) float64: what is linear in the sums
    inverses: Tensor  # (4, M), the last of them, which are inverted
    parts: tuple[Tensor, ...]  # twelve (M,)
    y_and_minus_e: Tensor  # (2, M) of them
    e_and_inverse: Tensor  # (2, M) of them
    factors: Tensor  # (2, M) float64: delta and 1 / (E + kappa)^2
    delta: Tensor  # (M,)
    gradients: Tensor  # (2, M) float64: G' and -H'
    columns: Tensor  # (5, M) float32: G', -H', A, B and C of the risk
    first_columns: Tensor  # (2, M) of them
    risk_columns: tuple[Tensor, ...]  # three (M,)
    broad: Tensor  # (4, M, 1): all but C


def is_small(x: Tensor) -> bool:
    """Whether rows (M, K) are for this evaluation."""
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() <= MOST_ELEMENTS
        and x.shape[1] >= kernel.FEW_CLASSES
        and not x.is_inference()
    )


@kernel._kept
def _constants(num_classes: int) -> _Constants:
    fitted = kernel.coefficients(torch.float32)
    q0, q1, q2, q3 = fitted.value_q
    p0, p1, p2, p3, p4 = fitted.value_p
    a0, a1, a2, a3, a4, a5 = fitted.slope
    numbers = kernel.row_numbers(num_classes, torch.float32)
    kappa = numbers.kappa
    y = num_classes - 0.5
    # Of each line: what the sums of bent, s, excess, squares and the true class's evidence count; a number.
    linear = (
        ((0, 0, 0, 0, 1), 1),  # alpha of the true class
        ((0, 1, 1, 0, 0), num_classes - 1),  # the rest of the strength
        ((0, 2, 2, 1, 0), num_classes - 1),  # the squares of the alphas in it
        ((0, 1 / y, 1 / y, 0, 0), 0),  # r
        ((-0.5, -1, 0, 0, 0), 0),  # KL without G
        ((0, 0, 0, 0, 0), y),
        ((0, -1, -1, 0, 0), 0),  # -E
        ((0, 1, 1, 0, 0), 0),  # E
        ((0, 1, 1, 0, 0), kappa),
        ((0, 1, 1, 0, 0), y),
        ((0, 1, 1, 0, 1), num_classes),  # S
        ((0, 1, 1, 0, 1), num_classes + 1),
    )
    powers = []
    for n, (value, slope) in enumerate(zip(numbers.value, numbers.slope, strict=True)):
        powers.append((value * kappa**n, slope * kappa ** (n + 2)))
    return _Constants(
        zero=torch.zeros((), **_NARROW),
        shift=torch.tensor(kernel.POLE * kernel.SCALE, **_NARROW),
        ones=torch.ones(num_classes, **_NARROW),
        leads=(q3, p4, a5),
        seconds=tuple(torch.tensor(c, **_NARROW) for c in (q2, p3, a4)),
        thirds=torch.tensor([p2, a3], **_NARROW).view(2, 1, 1),
        others=(
            torch.tensor([q1, p1, a2], **_NARROW).view(3, 1, 1),
            torch.tensor([q0, p0, a1], **_NARROW).view(3, 1, 1),
        ),
        last=torch.tensor(a0, **_NARROW),
        linear=torch.tensor([line for line, _ in linear], **_WIDE),
        start=torch.tensor([[number] for _, number in linear], **_WIDE),
        rows=tuple(torch.tensor(pair, **_WIDE).unsqueeze(1) for pair in reversed(powers)),
        y=y,
        log_limit=numbers.log_limit,
        log_series=numbers.log_series,
    )


_of_thread = threading.local()


def _workspace_for(rows: int, num_classes: int) -> _Workspace:
    """The workspace of this thread, which keeps its last one."""
    last: _Workspace | None = getattr(_of_thread, "workspace", None)
    if last is None or last.e.shape != (rows, num_classes):
        with torch.inference_mode(False):
            last = _new_workspace(rows, num_classes)
        _of_thread.workspace = last
    return last


def _new_workspace(rows: int, num_classes: int) -> _Workspace:
    memory = torch.empty(9, rows, num_classes, **_NARROW)
    e, v, q, p, slope, bent, s, excess, squares = memory.unbind()
    narrow = torch.zeros(5, rows, **_NARROW)
    wide = torch.zeros(5, rows, **_WIDE)
    of_rows = torch.zeros(12, rows, **_WIDE)
    factors = torch.zeros(2, rows, **_WIDE)
    columns = torch.zeros(5, rows, **_NARROW)
    return _Workspace(
        e=e,
        v=v,
        stack=memory[2:5],
        pair=memory[3:5],
        q=q,
        p=p,
        slope=slope,
        four=memory[5:],
        tall=memory[5:].view(4 * rows, num_classes),
        bent=bent,
        s=s,
        excess=excess,
        squares=squares,
        zeros=torch.zeros(rows, 1, **_NARROW),
        narrow=narrow,
        narrow_sums=narrow[:4].view(4 * rows),
        own=narrow[4],
        own_column=narrow[4].unsqueeze(1),
        wide=wide,
        wide_sums=wide[:4],
        wide_own=wide[4],
        of_rows=of_rows,
        inverses=of_rows[8:],
        parts=of_rows.unbind(),
        y_and_minus_e=of_rows[5:7],
        e_and_inverse=of_rows[7:9],
        factors=factors,
        delta=factors[0],
        gradients=torch.zeros(2, rows, **_WIDE),
        columns=columns,
        first_columns=columns[:2],
        risk_columns=columns[2:].unbind(),
        broad=columns[:4].unsqueeze(2),
    )


def evaluate_small(x: Tensor, targets: Tensor | None, loss: RowLoss) -> tuple[Tensor, Tensor]:
    """The loss (M,) in float64, and its gradient with respect to x (M, K) times the expected scale."""
    rows, num_classes = x.shape
    constants = _constants(num_classes)
    workspace = _workspace_for(rows, num_classes)
    e = loss.activation.into(x, workspace.e)
    if targets is not None:
        index = targets.unsqueeze(1)
        torch.gather(e, 1, index, out=workspace.own_column)
        e.scatter_(1, index, workspace.zeros)
    _elements(constants, workspace)
    _sums(constants, workspace)
    torch.addmm(constants.start, constants.linear, workspace.wide, out=workspace.of_rows)
    workspace.inverses.reciprocal_()
    risk = _risk_terms(loss, workspace)
    divergence = _row_terms(loss, constants, workspace)
    gradient = _gradient(risk, loss, workspace)
    scale = loss.expected_scale
    result = loss.activation.scaled(e, gradient, scale, constants.zero)
    if targets is not None:
        own_gradient = loss.activation.scaled(workspace.own, workspace.risk_columns[2], scale, constants.zero)
        result.scatter_(1, index, own_gradient.unsqueeze(1))
    return torch.add(risk.value, divergence, alpha=loss.divergence_weight), result


def _elements(constants: _Constants, workspace: _Workspace) -> None:
    """Fill v, the stack and the four; bent is -2 (h - (e - s)), below the knee a product with all digits."""
    torch.add(constants.shift, workspace.e, alpha=kernel.SCALE, out=workspace.v)
    torch.clamp_min(workspace.v, 1.0, out=workspace.bent).log_()
    workspace.v.reciprocal_()
    torch.clamp_max(workspace.e, kernel.KNEE, out=workspace.s)
    torch.sub(workspace.e, workspace.s, out=workspace.excess)
    torch.mul(workspace.e, workspace.e, out=workspace.squares)
    # The polynomials have degree 3, 4 and 5: each joins the stack at its highest power.
    v = workspace.v
    for number, lead, polynomial in zip(
        constants.seconds, constants.leads, (workspace.q, workspace.p, workspace.slope), strict=True
    ):
        torch.add(number, v, alpha=lead, out=polynomial)
    torch.addcmul(constants.thirds, workspace.pair, v, out=workspace.pair)
    for coefficient in constants.others:
        torch.addcmul(coefficient, workspace.stack, v, out=workspace.stack)
    torch.addcmul(constants.last, workspace.slope, v, out=workspace.slope)
    workspace.p.addcmul_(workspace.q, workspace.s).mul_(workspace.s)
    workspace.bent.addcmul_(workspace.p, workspace.s, value=-2)


def _sums(constants: _Constants, workspace: _Workspace) -> None:
    """Fill wide (5, M): the sums of the four, and the evidence of the true class."""
    if workspace.e.shape[1] < kernel.SHORT_ROW:
        torch.mv(workspace.tall, constants.ones, out=workspace.narrow_sums)
        workspace.wide.copy_(workspace.narrow)
    else:
        torch.sum(workspace.four, 2, dtype=torch.float64, out=workspace.wide_sums)
        workspace.wide_own.copy_(workspace.own)


def _risk_terms(loss: RowLoss, workspace: _Workspace) -> RiskTerms:
    if loss.risk is None:
        zero = torch.zeros_like(workspace.wide_own)
        return RiskTerms(zero, zero, None, zero)
    assert loss.risk.terms is not None
    alpha, rest, squares = workspace.parts[:3]
    inverse, shrink = workspace.parts[10:]
    return loss.risk.terms(Strengths(alpha, rest, squares, inverse, shrink), loss.prior)


def _row_terms(loss: RowLoss, constants: _Constants, workspace: _Workspace) -> Tensor:
    """The divergence (M,); G' and -H' go into their workspace."""
    r, without_g = workspace.parts[3:5]
    inverse, inverse_y = workspace.parts[8:10]
    lead, *others = constants.rows
    stack = torch.addcmul(others[0], lead, inverse)
    for coefficient in others[1:]:
        torch.addcmul(coefficient, stack, inverse, out=stack)
    # delta = E / (E + kappa): the value takes delta^2, the slope delta / (E + kappa)^2.
    torch.mul(workspace.e_and_inverse, inverse, out=workspace.factors)
    value, slope = stack.mul_(workspace.delta).mul_(workspace.factors).unbind()
    torch.addcmul(slope, workspace.y_and_minus_e, inverse_y, out=workspace.gradients)
    divergence = torch.add(without_g, r.log1p(), alpha=constants.y)
    if loss.activation.least <= constants.log_limit:
        # Of next to no evidence G - T would be rounding alone.
        series = r * r * (constants.log_series[0] + constants.log_series[1] * r)
        bent, _, excess, _, _ = workspace.wide.unbind()
        few = torch.sub(excess, bent, alpha=0.5).add_(series, alpha=constants.y)
        divergence = torch.where(r < constants.log_limit, few, divergence)
    return divergence.add_(value).clamp_min_(0)


def _gradient(risk: RiskTerms, loss: RowLoss, workspace: _Workspace) -> Tensor:
    """The gradient by the evidence of wrong classes (M, K)."""
    offset, factor, own = workspace.risk_columns
    workspace.first_columns.copy_(workspace.gradients)
    offset.copy_(risk.wrong)
    own.copy_(risk.own)
    if risk.wrong_slope is not None:
        factor.copy_(risk.wrong_slope)
    # Broadcast once: with rows of a few classes each broadcast costs several times its arithmetic.
    workspace.four.copy_(workspace.broad)
    g, minus_h, offsets, factors = workspace.bent, workspace.s, workspace.excess, workspace.squares
    slope = torch.addcmul(g, workspace.slope, workspace.v, out=workspace.slope)
    minus_h.addcmul_(slope, workspace.e, value=1 / kernel.POLE)
    if risk.wrong_slope is not None:
        offsets.addcmul_(workspace.e, factors)
    return offsets.addcmul_(workspace.v, minus_h, value=kernel.POLE * kernel.SCALE * loss.divergence_weight)
