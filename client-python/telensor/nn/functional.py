"""Functions behind the modules: those of the op table, and what PyTorch's own signatures add to them."""

import math
import warnings

from .. import _core
from .padding import pad

_ops = _core.functional
# Whatever a row of the op table offers for `F`; below is what PyTorch's signatures add to it.
globals().update({name: value for name, value in vars(_ops).items() if not name.startswith("_")})
_where = _core.where
tanh, sigmoid = _core.tanh, _core.sigmoid


def legacy_reduction(size_average, reduce, reduction):
    """The reduction that the two flags of early PyTorch mean, or `reduction` where neither is given."""
    if size_average is None and reduce is None:
        return reduction
    warnings.warn("size_average and reduce args will be deprecated, please use reduction= instead.", stacklevel=3)
    if reduce is not None and not reduce:
        return "none"
    return "sum" if size_average is not None and not size_average else "mean"


def _reduced(loss, reduction):
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _in_place(input, function):
    """`input` overwritten by function(input), with a gradient that still sees what `input` was."""
    kept = input.clone() if input.requires_grad and _core._grad_enabled() else input
    return input.copy_(function(kept))


def _sizes(tensor):
    return list(tensor.shape)


# --- linear, convolution, pooling ---


def _convolution(name, rank, input, weight, bias, stride, padding, dilation, groups):
    if input.dim() not in (rank + 1, rank + 2):
        raise RuntimeError(f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, "
                           f"but got input of size: {_sizes(input)}")
    batched = input.dim() == rank + 2
    if not batched:
        input = input.unsqueeze(0)
    if isinstance(padding, str):
        input, padding = _string_padding(rank, input, weight, stride, padding, dilation)
    out = getattr(_ops, name)(input, weight, bias, stride, padding, dilation, groups)
    return out if batched else out.squeeze(0)


def _string_padding(rank, input, weight, stride, padding, dilation):
    """padding='valid' or 'same' as (input, numbers). An odd total puts one more at the end."""
    if padding == "valid":
        return input, (0,) * rank
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    strides = (stride,) * rank if isinstance(stride, int) else tuple(stride)
    if any(s != 1 for s in strides):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    dilations = (dilation,) * rank if isinstance(dilation, int) else tuple(dilation) * (rank // len(dilation))
    totals = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:])]
    if any(t % 2 for t in totals):
        edges = [n for t in reversed(totals) for n in (0, t % 2)]
        input = pad(input, edges)
    return input, tuple(t // 2 for t in totals)


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """1-D cross-correlation. input: (N, C, L) or (C, L), weight: (out, C / groups, k), bias: (out).

    padding: a number, a tuple, 'valid' or 'same' (stride 1 only).
    """
    return _convolution("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """2-D cross-correlation. input: (N, C, H, W) or (C, H, W), weight: (out, C / groups, kh, kw), bias: (out).

    padding: a number, a pair, 'valid' or 'same' (stride 1 only).
    """
    return _convolution("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def _pooled(name, input, function):
    if input.dim() not in (3, 4):
        raise RuntimeError(f"{name}: Expected 3D (unbatched) or 4D (batched) input, but got input of size: "
                           f"{_sizes(input)}")
    if input.dim() == 4:
        return function(input)
    result = function(input.unsqueeze(0))
    return tuple(r.squeeze(0) for r in result) if isinstance(result, tuple) else result.squeeze(0)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest of each window. input: (N, C, H, W) or (C, H, W). With return_indices also where in the plane."""

    def function(x):
        if return_indices:
            pair = [(v, v) if isinstance(v, int) else v for v in (kernel_size, stride, padding, dilation)]
            return tuple(_core._op("_max_pool2d", x, *pair, ceil_mode))
        return _ops.max_pool2d(x, kernel_size, stride, padding, dilation, ceil_mode)

    return _pooled("max_pool2d", input, function)


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    """The mean of each window. input: (N, C, H, W) or (C, H, W)."""
    return _pooled("avg_pool2d", input, lambda x: _ops.avg_pool2d(x, kernel_size, stride, padding, ceil_mode,
                                                                  count_include_pad, divisor_override))


def adaptive_avg_pool2d(input, output_size):
    """Means of as many even windows as output_size says: a number, or a pair in which None keeps a size."""
    size = (output_size,) * 2 if output_size is None or isinstance(output_size, int) else tuple(output_size)
    size = [have if want is None else want for want, have in zip(size, input.shape[-2:])]
    return _pooled("adaptive_avg_pool2d", input, lambda x: _ops.adaptive_avg_pool2d(x, size))


# --- normalisation ---


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalises every channel (dimension 1), in training by the batch; that moves the running statistics."""
    if training and input.numel() == input.shape[1]:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    return _ops.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalises over the last dimensions, whose sizes are normalized_shape."""
    return _ops.layer_norm(input, list(normalized_shape), weight, bias, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalises groups of channels. input: (N, C, *), weight and bias: (C)."""
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    shape = _sizes(input)
    batch, channels = shape[:2]
    if channels % num_groups:
        raise RuntimeError(f"Expected number of channels in input to be divisible by num_groups, but got input of "
                           f"shape {shape} and num_groups={num_groups}")
    group = math.prod(shape[1:]) // num_groups
    out = _ops.layer_norm(input.reshape(batch, num_groups, group), [group], None, None, eps).reshape(shape)
    per_channel = [1, channels] + [1] * (len(shape) - 2)
    if weight is not None:
        out = out * weight.reshape(per_channel)
    return out if bias is None else out + bias.reshape(per_channel)


def normalize(input, p=2.0, dim=1, eps=1e-12):
    """`input` over its p-norm along `dim`, which counts as `eps` where it is smaller."""
    return input / input.norm(p, dim, True).clamp(min=eps)


# --- embedding, attention ---


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of `weight`: (rows, features) by `input`: (*), int64 or int32. Row padding_idx gets no gradient."""
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NotImplementedError("embedding: max_norm, scale_grad_by_freq and sparse are not supported")
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    return _core._op("embedding", weight, input, padding_idx)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    """softmax(query key^T * scale + mask) value. query: (*, L, E), key: (*, S, E), value: (*, S, V) -> (*, L, V).

    attn_mask: broadcast to (*, L, S); bool, True where to look, or floating, added. scale: 1 / sqrt(E) by default.
    """
    scores = (query * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)) @ key.transpose(-2, -1)
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError("scaled_dot_product_attention: is_causal and attn_mask exclude each other")
        attn_mask = _core.ones(query.shape[-2], key.shape[-2], dtype=_core.bool, device=query.device).tril()
    if attn_mask is not None:
        if attn_mask.dtype == _core.bool:
            scores = scores.masked_fill(attn_mask.logical_not(), -math.inf)
        else:
            scores = scores + attn_mask
    weights = _ops.softmax(scores, -1)
    return (dropout(weights, dropout_p) if dropout_p > 0 else weights) @ value


# --- activations ---


def relu(input, inplace=False):
    """max(x, 0)."""
    return input.relu_() if inplace else _core.relu(input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where positive, else negative_slope * x."""
    if inplace:
        return _in_place(input, lambda x: _ops.leaky_relu(x, negative_slope))
    return _ops.leaky_relu(input, negative_slope)


def silu(input, inplace=False):
    """x * sigmoid(x)."""
    return _in_place(input, _ops.silu) if inplace else _ops.silu(input)


def mish(input, inplace=False):
    """x * tanh(softplus(x))."""

    def function(x):
        return x * _ops.softplus(x).tanh()

    return _in_place(input, function) if inplace else function(input)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x limited to [min_val, max_val]; unlike clamp, no gradient at the limits themselves."""

    def function(x):
        return _where(x <= min_val, min_val, _where(x >= max_val, max_val, x))

    return _in_place(input, function) if inplace else function(input)


def relu6(input, inplace=False):
    """x limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


def elu(input, alpha=1.0, inplace=False):
    """x where positive, else alpha * (exp(x) - 1)."""

    def function(x):
        return _where(x > 0, x, x.clamp(max=0).expm1() * alpha)

    return _in_place(input, function) if inplace else function(input)


def prelu(input, weight):
    """x where positive, else weight * x. weight: one number, or one for each channel (dimension 1)."""
    if weight.numel() != 1:
        if input.dim() < 2 or input.shape[1] != weight.numel():
            raise RuntimeError(f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                               f"{weight.numel()} and channel size = {input.shape[1] if input.dim() > 1 else 1}.")
        weight = weight.reshape([1, -1] + [1] * (input.dim() - 2))
    return _where(input > 0, input, weight * input)


def softsign(input):
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def gelu(input, *, approximate="none"):
    """x * Phi(x), by erf or, with approximate='tanh', by its approximation."""
    return _ops.gelu(input, approximate=approximate)


def softplus(input, beta=1, threshold=20):
    """log(1 + exp(beta * x)) / beta; linear above threshold / beta."""
    return _ops.softplus(input, beta, threshold)


def _softmax_dim(name, ndim):
    dim = 0 if ndim in (0, 1, 3) else 1
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
                  "argument.", stacklevel=3)
    return dim


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) over its sum along `dim`; None takes 0 for 0, 1 or 3 dimensions, else 1, with a warning."""
    return _ops.softmax(input, _softmax_dim("softmax", input.dim()) if dim is None else dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(x)) along `dim`; None as in softmax."""
    return _ops.log_softmax(input, _softmax_dim("log_softmax", input.dim()) if dim is None else dim, dtype=dtype)


# --- dropout ---


def _check_probability(p):
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input, p=0.5, training=True, inplace=False):
    """In training zeroes each element with probability p and scales the rest by 1 / (1 - p)."""
    _check_probability(p)
    if not training:
        return input
    out = _ops.dropout(input, p, True)
    return input.copy_(out) if inplace else out


def _drop_channels(input, lead, p, training, inplace):
    _check_probability(p)
    if not training:
        return input
    mask = _ops.dropout(input.new_ones(_sizes(input)[:lead] + [1] * (input.dim() - lead)), p, True)
    return input.mul_(mask) if inplace else input * mask


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels. input: (N, C, L) or (C, L)."""
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
                           "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, a "
                           "channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs).")
    return _drop_channels(input, input.dim() - 1, p, training, inplace)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels. input: (N, C, H, W); (N, C, L) counts as a batch too, as in PyTorch."""
    return _drop_channels(input, 2, p, training, inplace)


# --- losses ---


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    """log_softmax and nll_loss. input: (N, C, *) or (C); target: (N, *) int64, or probabilities like input."""
    return _ops.cross_entropy(input, target, weight=weight, ignore_index=ignore_index,
                              reduction=legacy_reduction(size_average, reduce, reduction),
                              label_smoothing=label_smoothing)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Minus the log-probability of the target. input: (N, C, *) or (C); target: (N, *) int64."""
    return _ops.nll_loss(input, target, weight=weight, ignore_index=ignore_index,
                         reduction=legacy_reduction(size_average, reduce, reduction))


def _warn_sizes(input, target):
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This "
                      "will likely lead to incorrect results due to broadcasting. Please ensure they have the same "
                      "size.", stacklevel=3)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Squared differences. Warns where sizes differ."""
    _warn_sizes(input, target)
    return _ops.mse_loss(input, target, reduction=legacy_reduction(size_average, reduce, reduction))


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Absolute differences. Warns where sizes differ."""
    _warn_sizes(input, target)
    return _ops.l1_loss(input, target, reduction=legacy_reduction(size_average, reduce, reduction))


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """0.5 d^2 / beta below beta, |d| - 0.5 beta above. Warns where sizes differ."""
    _warn_sizes(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return _ops.smooth_l1_loss(input, target, reduction=legacy_reduction(size_average, reduce, reduction), beta=beta)


def huber_loss(input, target, reduction="mean", delta=1.0):
    """0.5 d^2 below delta, delta * (|d| - 0.5 delta) above. Warns where sizes differ."""
    _warn_sizes(input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    difference = input - target
    size = difference.abs()
    loss = _where(size <= delta, difference.square() * 0.5, (size - 0.5 * delta) * delta)
    return _reduced(loss, reduction)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Cross entropy of probabilities. Raises ValueError where sizes differ."""
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is "
                         "deprecated. Please ensure they have the same size.")
    return _ops.binary_cross_entropy(input, target, weight,
                                     reduction=legacy_reduction(size_average, reduce, reduction))


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean",
                                     pos_weight=None):
    """Cross entropy of sigmoid(input). Raises ValueError where sizes differ."""
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return _ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight=pos_weight,
                                                 reduction=legacy_reduction(size_average, reduce, reduction))


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """Dot product over the product of norms along `dim`; a norm below eps counts as eps."""
    norms = x1.norm(2, dim, True).clamp(min=eps), x2.norm(2, dim, True).clamp(min=eps)
    return ((x1 / norms[0]) * (x2 / norms[1])).sum(dim)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"module 'telensor.nn.functional' has no attribute '{name}' (docs/ops.md lists what there is)")
