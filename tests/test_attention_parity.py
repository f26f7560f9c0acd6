"""The formula gives what torch and scipy give, over random shapes, to 1e-5."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import entr, logsumexp, softmax
from torch.nn.functional import scaled_dot_product_attention

from index.attention import (
    MultiHeadAttention,
    attend,
    attention,
    attention_weights,
    causal_mask,
    sqrt_d,
)

Array = np.ndarray[Any, np.dtype[Any]]
SEEDS = range(12)


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def some_mask(rng: np.random.Generator, *shape: int) -> Array:
    """Draw a mask that leaves every query a key: torch gives NaN where there is none."""
    allowed = rng.random(shape) < 0.5
    np.put_along_axis(allowed, rng.integers(0, shape[-1], (*shape[:-1], 1)), True, axis=-1)
    return allowed


def random_inputs(seed: int) -> tuple[np.random.Generator, Array, Array, Array]:
    """Draw (…, q, d) queries, (…, n, d) keys and (…, n, v) values, with 0 to 3 batch dims."""
    rng = np.random.default_rng(seed)
    batch = rng.integers(1, 4, seed % 4).tolist()
    q, n, d, v = rng.integers(1, 20, 4).tolist()
    return rng, normal(rng, *batch, q, d), normal(rng, *batch, n, d), normal(rng, *batch, n, v)


def by_torch(queries: Array, keys: Array, values: Array, **options: Any) -> Array:
    tensors = (torch.from_numpy(x) for x in (queries, keys, values))
    return scaled_dot_product_attention(*tensors, **options).numpy()


def assert_close(got: Array, expected: Array) -> None:
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_attention_is_torchs(seed: int) -> None:
    _, queries, keys, values = random_inputs(seed)

    context, _ = attention(queries, keys, values, temperature=sqrt_d(queries.shape[-1]))

    assert_close(context, by_torch(queries, keys, values))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_temperature_is_torchs_scale_inverted(seed: int) -> None:
    _, queries, keys, values = random_inputs(seed)

    context, _ = attention(queries, keys, values, temperature=0.7)

    assert_close(context, by_torch(queries, keys, values, scale=1 / 0.7))


@pytest.mark.parametrize("seed", SEEDS)
def test_masked_attention_is_torchs(seed: int) -> None:
    rng, queries, keys, values = random_inputs(seed)
    allowed = some_mask(rng, *queries.shape[:-1], keys.shape[-2])

    context, _ = attention(
        queries, keys, values, temperature=sqrt_d(queries.shape[-1]), allowed=allowed
    )

    assert_close(context, by_torch(queries, keys, values, attn_mask=torch.from_numpy(allowed)))


@pytest.mark.parametrize("seed", SEEDS)
def test_causal_attention_is_torchs(seed: int) -> None:
    _, queries, keys, values = random_inputs(seed)
    allowed = causal_mask(queries.shape[-2], keys.shape[-2])

    context, _ = attention(
        queries, keys, values, temperature=sqrt_d(queries.shape[-1]), allowed=allowed
    )

    assert_close(context, by_torch(queries, keys, values, is_causal=True))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_multi_head_attention_is_torchs(seed: int, masked: bool, bias: bool) -> None:
    rng = np.random.default_rng(seed)
    b, q, n, heads, c, d_k, d_v = rng.integers(1, 8, 7).tolist()
    width = heads * c
    layer, ours = both_layers(seed, width, heads, d_k, d_v, bias)
    queries, keys, values = normal(rng, b, q, width), normal(rng, b, n, d_k), normal(rng, b, n, d_v)
    allowed = some_mask(rng, q, n) if masked else None

    context, weights = ours(queries, keys, values, allowed=allowed)

    with torch.no_grad():
        expected_context, expected_weights = layer(
            *(torch.from_numpy(x) for x in (queries, keys, values)),
            attn_mask=None if allowed is None else torch.from_numpy(~allowed),
            average_attn_weights=False,
        )
    assert_close(context, expected_context.numpy())
    assert_close(weights, expected_weights.numpy())


def test_self_attention_with_a_mask_per_item_is_torchs() -> None:
    rng = np.random.default_rng(7)
    layer, ours = both_layers(7, width=8, heads=2, d_k=8, d_v=8, bias=True)
    x, allowed = normal(rng, 3, 5, 8), some_mask(rng, 3, 5, 5)

    context, weights = ours(x, allowed=allowed)

    tensor = torch.from_numpy(x)
    with torch.no_grad():
        expected_context, expected_weights = layer(
            *(tensor, tensor, tensor),
            attn_mask=torch.from_numpy(~allowed).repeat_interleave(2, dim=0),  # one a head
            average_attn_weights=False,
        )
    assert_close(context, expected_context.numpy())
    assert_close(weights, expected_weights.numpy())


def both_layers(
    seed: int, width: int, heads: int, d_k: int, d_v: int, bias: bool
) -> tuple[torch.nn.MultiheadAttention, MultiHeadAttention]:
    """Make torch's layer with random weights, and ours with the same copied in."""
    torch.manual_seed(seed)
    layer = torch.nn.MultiheadAttention(
        width, heads, bias=bias, kdim=d_k, vdim=d_v, batch_first=True
    ).eval()
    for parameter in layer.parameters():  # torch starts biases at zero, which would hide them
        torch.nn.init.normal_(parameter, std=0.5)
    if layer.in_proj_weight is None:
        w_q, w_k, w_v = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    else:
        w_q, w_k, w_v = layer.in_proj_weight.chunk(3)
    b_q, b_k, b_v = layer.in_proj_bias.chunk(3) if bias else (None, None, None)
    matrices = (w.detach().numpy().T for w in (w_q, w_k, w_v, layer.out_proj.weight))
    biases = (
        None if b is None else b.detach().numpy() for b in (b_q, b_k, b_v, layer.out_proj.bias)
    )
    return layer, MultiHeadAttention(*matrices, heads, *biases)


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_are_scipys_softmax(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = normal(rng, *rng.integers(1, 20, 1 + seed % 4).tolist())
    temperature = float(rng.uniform(0.05, 5))

    weights = attention_weights(scores, temperature=temperature)

    assert_close(weights, softmax(scores / temperature, axis=-1))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_state_holds_scipys_logsumexp_and_entropy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = normal(rng, 3, 1 + seed * 50)
    logits = scores.astype(float) / 0.3

    state = attend(scores, temperature=0.3)

    total, entropy = logsumexp(logits, axis=-1), entr(softmax(logits, axis=-1)).sum(axis=-1)
    np.testing.assert_allclose(state.peak + np.log(state.mass), total, rtol=1e-5)
    np.testing.assert_allclose(state.effective_keys, np.exp(entropy), rtol=1e-5)
