"""Linear maps in int8, one scale a column, for the fast path.

Of y = x W + b, x becomes x₈ = round(x / s) + z from 0 to 255, with one s and z for all texts, so a
text's row does not depend on those beside it; and each column of W becomes whole numbers W₈ of its
own scale. What int8 would lose is kept in three ways:

- Input channels differ in size, so x is multiplied by a factor a channel, and W's rows are divided
  by it (SmoothQuant, Xiao et al. 2023).
- Behind GELU one mark of each text lights up a channel or two, several times as brightly as any
  other: the brightest stay in full precision beside the int8 product (LLM.int8(), Dettmers et al.
  2022).
- The later rows of W₈ make up for the rounding of the earlier ones, as far as their inputs go
  together (GPTQ, Frantar et al. 2023).

Processors without VNNI add the products of two neighbouring rows in 16 bits, and cut off what does
not fit. So what two neighbours of one sign sum to is kept within those 16 bits, for x₈ up to 255,
and the products are the same whole numbers everywhere.
"""

from dataclasses import dataclass

import torch
from torch.onnx import ops

GREATEST = 90  # of W₈: then two neighbours of one sign hardly ever sum to more than fits
FITS = 2**15 // 256  # what these may sum to
EASED = 0.85  # how much of a channel's factor is the inputs' doing, and not the weights'
KEPT = 32  # channels behind GELU that stay in full
SAMPLED = 30  # inputs, of which one goes into the choice of s and z
DAMPING = 0.01  # of the mean second moment: few inputs leave some directions unseen


@dataclass
class Seen:
    """What the inputs of a map with k of them were like."""

    moments: torch.Tensor  # (k, k) float64: Σ xᵀ x
    greatest: torch.Tensor  # (k,) of |x|
    rows: torch.Tensor  # (m, k) some of them


class Int8Linear(torch.nn.Module):
    """A linear map with int8 weights; ONNX Runtime alone can apply it."""

    def __init__(self, linear: torch.nn.Linear, seen: Seen, *, behind_gelu: bool) -> None:
        """Round the weights; behind GELU the brightest channels come first."""
        super().__init__()
        weights, inputs = linear.weight.detach().T.clone(), seen.rows.clone()
        moments = seen.moments.clone()
        self.ease = self.kept = None
        if behind_gelu:
            self.kept = weights[:KEPT].clone()
            weights[:KEPT] = inputs[:, :KEPT] = moments[:KEPT] = moments[:, :KEPT] = 0
        else:
            self.ease = eased(seen.greatest, weights)
            weights /= self.ease[:, None]
            inputs *= self.ease
            moments *= torch.outer(self.ease, self.ease)
        self.step, self.zero = chosen_step(inputs, weights)
        self.scales = weights.abs().amax(0).clamp(min=1e-9) / GREATEST
        self.weights = rounded(weights / self.scales, moments)
        found = stepped(inputs, self.step, self.zero) @ (self.weights * self.scales)
        self.bias = linear.bias.detach() + (inputs @ weights - found).mean(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, k) → (…, n)"""
        step, zero = torch.tensor(self.step), torch.tensor(self.zero, dtype=torch.uint8)
        inputs = x if self.ease is None else x * self.ease
        levels = ops.symbolic(
            "QuantizeLinear", (inputs, step, zero), dtype=torch.uint8, shape=x.shape
        )
        y = ops.symbolic(
            "com.microsoft::MatMulIntegerToFloat",
            (levels, self.weights, step, self.scales, zero, None, self.bias),
            dtype=torch.float32, shape=(*x.shape[:-1], len(self.bias)), version=1,
        )  # fmt: skip
        return y if self.kept is None else y + x[..., :KEPT] @ self.kept


@torch.inference_mode()
def watch(body: torch.nn.Module, inputs) -> dict[torch.nn.Linear, Seen]:
    """Apply a body to each of some ``inputs`` (its arguments), and see what its maps are given.

    ``inputs`` end with a mask (b, t): what stands where it is 0 is no input.
    """
    seen: dict[torch.nn.Linear, Seen] = {}
    sampler = torch.Generator().manual_seed(0)

    def look(linear: torch.nn.Linear, given: tuple[torch.Tensor]) -> None:
        x = given[0][mask > 0]
        drawn = torch.rand(len(x), generator=sampler) < 1 / SAMPLED
        rows = x[drawn] if drawn.any() else x[:1]  # a few texts will do to try every step
        new = Seen((x.T @ x).double(), x.abs().amax(0), rows)
        if linear in seen:
            old = seen[linear]
            new.moments += old.moments
            new.greatest = torch.maximum(new.greatest, old.greatest)
            new.rows = torch.cat([old.rows, new.rows])
        seen[linear] = new

    linears = [each for each in body.modules() if isinstance(each, torch.nn.Linear)]
    hooks = [linear.register_forward_pre_hook(look) for linear in linears]
    for *others, mask in inputs:
        body(*others, mask)
    for hook in hooks:
        hook.remove()
    return seen


def brightest_first(wide: torch.nn.Linear, narrow: torch.nn.Linear, seen: Seen) -> None:
    """Bring the channels between two maps, and what was seen of them, into order, in place."""
    order = seen.greatest.argsort(descending=True)
    wide.weight.data, wide.bias.data = wide.weight.data[order], wide.bias.data[order]
    narrow.weight.data = narrow.weight.data[:, order]
    seen.moments, seen.greatest = seen.moments[order][:, order], seen.greatest[order]
    seen.rows = seen.rows[:, order]


def eased(greatest: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Give the (k,) factors of the channels, 1 in their (geometric) mean."""
    inputs, rows = greatest.clamp(min=1e-3), weights.abs().amax(1).clamp(min=1e-4)
    factors = rows ** (1 - EASED) / inputs**EASED
    return factors / factors.log().mean().exp()


def stepped(inputs: torch.Tensor, step: float, zero: int) -> torch.Tensor:
    """Give what inputs are in int8."""
    return (((inputs / step).round() + zero).clamp(0, 255) - zero) * step


def chosen_step(inputs: torch.Tensor, weights: torch.Tensor) -> tuple[float, int]:
    """Choose s and z, by what the products of (m, k) inputs and (k, n) weights lose.

    Rare great inputs may be cut for smaller steps. GELU goes no lower than -.17.
    """
    low, high = min(float(inputs.min()), 0.0), max(float(inputs.max()), 1e-6)
    found = []
    for share in torch.linspace(0.4, 1, 25).tolist():
        least = low if low > -high / 2 else low * share
        step = (high * share - least) / 255
        zero = round(-least / step)
        lost = (stepped(inputs, step, zero) - inputs) @ weights
        found.append((float(lost.square().sum()), step, zero))
    _, step, zero = min(found)
    return step, zero


def rounded(weights: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """Round (k, n) weights to int8 for inputs of (k, k) second moments.

    Two neighbours at a time, those of the strongest inputs first.
    """
    damped = moments.clone()
    damped.diagonal().add_(DAMPING * float(moments.diagonal().mean()))
    first = 2 * damped.diagonal().view(-1, 2).sum(1).argsort(descending=True)
    order = torch.stack([first, first + 1], 1).flatten()
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped[order][:, order]))
    effects = torch.linalg.cholesky(inverse, upper=True)
    left, found = weights[order].double(), torch.zeros(weights.shape, dtype=torch.float64)
    for i in range(len(left)):
        neighbour = found[i - 1] if i % 2 else torch.zeros(1)
        least = (-FITS - neighbour.clamp(max=0)).clamp(min=-GREATEST)
        most = (FITS - neighbour.clamp(min=0)).clamp(max=GREATEST)
        found[i] = left[i].round().clamp(least, most)
        left[i:] -= torch.outer(effects[i, i:] / effects[i, i], left[i] - found[i])
    return torch.empty(weights.shape, dtype=torch.int8).index_copy_(0, order, found.to(torch.int8))
