"""The evaluation of rowwise.py for small inputs on the CPU, where a call of torch costs more than its work.

The formulas are those of divergence.py in as few calls as they can be done in: polynomials that go over the
same numbers are one stack, rooms and their views are kept from call to call, one sum goes over each row where
there were two, and the scale of the gradient comes with its last product.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import torch
from torch import Tensor

from nescio.functional._kernels import divergence as kernel
from nescio.functional._kernels.rowwise import RiskTerms, RowLoss

MOST_ELEMENTS = 1 << 15  # beyond, the work outweighs the calls


class _Constants(NamedTuple):
    """Of one number of classes."""

    zero: Tensor  # ()
    shift: Tensor  # ()
    minus_pole: Tensor  # () float64
    ones: Tensor  # (K,)
    elements: tuple[Tensor, ...]  # (3, 1, 1) each: value_p, value_q and slope, the highest power first
    rows: tuple[Tensor, ...]  # (2, 1) float64 each: value and slope, the highest power first
    shifts: Tensor  # (2, 1) float64: kappa and y
    kappa: float
    log_limit: float
    log_series: tuple[float, ...]


class _Room(NamedTuple):
    """Memory for M rows, and all views of it that are needed."""

    e: Tensor  # (M, K)
    square: Tensor  # (M, K), right behind e
    both: Tensor  # (2 M, K): e and square
    v: Tensor
    s: Tensor
    stack: Tensor  # (3, M, K)
    p: Tensor
    q: Tensor
    slope: Tensor
    zeros: Tensor  # (M, 1)
    of_rows: Tensor  # (4, M) float64: is the row low, POLE (low - 1), offset, factor
    low: Tensor
    held: Tensor
    offset: Tensor
    factor: Tensor
    columns: Tensor  # (4, M): the same in float32
    low_column: Tensor  # (M, 1), and so on
    held_column: Tensor
    offset_column: Tensor
    factor_column: Tensor


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
    numbers = kernel.row_numbers(num_classes, torch.float32)
    return _Constants(
        zero=torch.zeros(()),
        shift=torch.tensor(kernel.POLE * kernel.SCALE),
        minus_pole=torch.tensor(-kernel.POLE, dtype=torch.float64),
        ones=torch.ones(num_classes),
        elements=_stacked((fitted.value_p, fitted.value_q, fitted.slope), torch.float32, 2),
        rows=_stacked((numbers.value, numbers.slope), torch.float64, 1),
        shifts=torch.tensor([[numbers.kappa], [num_classes - 0.5]], dtype=torch.float64),
        kappa=numbers.kappa,
        log_limit=numbers.log_limit,
        log_series=numbers.log_series,
    )


def _stacked(polynomials: tuple[tuple[float, ...], ...], dtype: torch.dtype, dims: int) -> tuple[Tensor, ...]:
    """Polynomials as one: the coefficients of each power together, the highest power first."""
    length = max(len(each) for each in polynomials)
    padded = [(*each, *(0.0 for _ in range(length - len(each)))) for each in polynomials]
    shape = (len(polynomials),) + (1,) * dims
    found = []
    for power in reversed(range(length)):
        found.append(torch.tensor([each[power] for each in padded], dtype=dtype).view(shape))
    return tuple(found)


_of_thread = threading.local()


def _room_for(rows: int, num_classes: int) -> _Room:
    """The room of this thread, which keeps its last one."""
    last: _Room | None = getattr(_of_thread, "room", None)
    if last is None or last.e.shape != (rows, num_classes):
        with torch.inference_mode(False):
            last = _new_room(rows, num_classes)
        _of_thread.room = last
    return last


def _new_room(rows: int, num_classes: int) -> _Room:
    memory = torch.empty(7, rows, num_classes)
    e, square, v, s, p, q, slope = memory.unbind()
    of_rows = torch.zeros(4, rows, dtype=torch.float64)
    columns = torch.zeros(4, rows)
    return _Room(
        *(e, square, memory[:2].view(2 * rows, num_classes), v, s),
        *(memory[4:], p, q, slope, torch.zeros(rows, 1)),
        *(of_rows, *of_rows.unbind()),
        *(columns, *columns.unsqueeze(2).unbind()),
    )


def evaluate_small(x: Tensor, targets: Tensor, loss: RowLoss) -> tuple[Tensor, Tensor]:
    """The loss (M,) in float64, and its gradient with respect to x (M, K) times the expected scale."""
    rows, num_classes = x.shape
    constants = _constants(num_classes)
    room = _room_for(rows, num_classes)
    index = targets.unsqueeze(1)
    e = loss.activation.into(x, room.e)
    own = e.gather(1, index)  # (M, 1)
    e.scatter_(1, index, room.zeros)
    own_wide = own.view(rows).double()
    total, risk = _risk_terms(own_wide, loss, num_classes, constants, room)
    constant, derivative = _row_terms(total, num_classes, loss, constants, room)
    weight = loss.divergence_weight
    torch.add(risk.wrong, derivative, alpha=weight, out=room.offset)
    if risk.wrong_slope is not None:
        room.factor.copy_(risk.wrong_slope)
    room.columns.copy_(room.of_rows)
    sums = _elements(constants, room)
    offset = room.offset_column
    if risk.wrong_slope is not None:
        offset = torch.addcmul(offset, e, room.factor_column, out=room.s)
    gradient = torch.addcmul(offset, room.v, room.q, value=kernel.SCALE * weight, out=room.s)
    scale = loss.expected_scale
    result = loss.activation.scaled(e, gradient, scale, constants.zero)
    own_gradient = loss.activation.scaled(own.view(rows), risk.own.float(), scale, constants.zero)
    result.scatter_(1, index, own_gradient.unsqueeze(1))
    divergence = torch.sub(constant, sums).clamp_min_(0)
    return torch.add(risk.value, divergence, alpha=weight), result


def _risk_terms(
    own: Tensor, loss: RowLoss, num_classes: int, constants: _Constants, room: _Room
) -> tuple[Tensor, RiskTerms]:
    """The sums of wrong evidence (M,), and the risk."""
    if loss.risk is not None and loss.risk.uses_squares:
        torch.mul(room.e, room.e, out=room.square)
        sums = _row_sums(room.both, constants).double()
        total, squares = sums.view(2, -1).unbind()
    else:
        total = _row_sums(room.e, constants).double()
        squares = total  # not looked at
    if loss.risk is None:
        zero = torch.zeros_like(total)
        return total, RiskTerms(zero, zero, None, zero)
    assert loss.risk.terms is not None
    return total, loss.risk.terms(own, total, squares, num_classes, loss.prior)


def _row_terms(
    total: Tensor, num_classes: int, loss: RowLoss, constants: _Constants, room: _Room
) -> tuple[Tensor, Tensor]:
    """G or -H, and its derivative, each (M,): as divergence.row_terms."""
    y = num_classes - 0.5
    low = torch.le(total, num_classes, out=room.low)
    torch.add(constants.minus_pole, low, alpha=kernel.POLE, out=room.held)
    r = total / y
    log = r.log1p()
    constant = torch.addcmul(log, r, low, value=-1)
    inverse, inverse_y = torch.add(constants.shifts, total).reciprocal_().unbind()
    if loss.activation.least > num_classes * constants.log_limit:
        derivative = torch.add(low, inverse_y, alpha=-y).neg_()
    else:
        # Of next to no evidence both differences would be rounding alone.
        series = r * r * (constants.log_series[0] + constants.log_series[1] * r)
        constant = torch.where(r < constants.log_limit, series, constant)
        derivative = torch.where(low.bool(), -total, y).mul_(inverse_y)
    rho = inverse * constants.kappa
    delta = inverse.mul_(total)
    lead, *others = constants.rows
    stack = torch.addcmul(others[0], lead, rho)
    for coefficient in others[1:]:
        stack = torch.addcmul(coefficient, stack, rho)
    value, slope = stack.unbind()
    constant.mul_(y).addcmul_(value, delta * delta)
    derivative.addcmul_(slope.mul_(delta), rho.square_())
    return constant, derivative


def _elements(constants: _Constants, room: _Room) -> Tensor:
    """The sum over each row (M,); the part of the gradient that differs within a row is left in q."""
    e, v, s, p, q, slope = room.e, room.v, room.s, room.p, room.q, room.slope
    sums = room.square  # what was in it is summed
    torch.add(constants.shift, e, alpha=kernel.SCALE, out=v)
    torch.clamp_min(v, 1.0, out=sums).log_()
    v.reciprocal_()
    torch.clamp_max(e, kernel.KNEE, out=s)
    lead, *others = constants.elements
    torch.addcmul(others[0], lead, v, out=room.stack)
    for coefficient in others[1:]:
        torch.addcmul(coefficient, room.stack, v, out=room.stack)
    p.addcmul_(q, s).mul_(s)
    # Below the knee the logarithm is an exact zero, and so is s - e: the small term comes last.
    torch.add(s, sums, alpha=0.5, out=sums)
    sums.addcmul_(e, room.low_column, value=-1)
    sums.addcmul_(p, s, value=-1)
    slope.mul_(v)
    torch.addcmul(room.held_column, e, room.low_column, out=q)
    q.addcmul_(e, slope)
    return _row_sums(sums, constants)


def _row_sums(x: Tensor, constants: _Constants) -> Tensor:
    if x.shape[1] < kernel.SHORT_ROW:
        return x.mv(constants.ones)
    return x.sum(1, dtype=torch.float64)
