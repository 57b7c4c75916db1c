"""
Statements of random programs.

In a template `{x}`, `{y}`, `{z}` are floating-point tensors, `{m}` is a matrix of these, `{b}`,
`{c}` are booleans, `{i}`, `{j}` integers, `{k}` ones of 64 bits, `{d}` and `{e}` dimensions of x, i
or b, `{n}` is a small number and `{s}` a scalar. A template need not know which shapes and types
it fits: what PyTorch refuses is dropped. Results that PyTorch leaves open, such as which of equal
elements `topk` finds, are used only where that makes no difference.
"""

from __future__ import annotations

POINTWISE = """
{x}.relu() | {x}.sigmoid() | {x}.tanh() | {x}.clamp(-4, 4).exp() | {x}.sin() | {x}.cos() | {x}.abs()
-{x} | {x}.abs().sqrt() | ({x}.abs() + 0.1).rsqrt() | ({x}.abs() + 0.1).log() | {x}.erf()
{x}.floor() | {x}.ceil() | {x}.round() | {x}.trunc() | {x}.square() | 1 / ({x}.abs() + 0.5)
F.silu({x}) | F.gelu({x}) | F.gelu({x}, approximate="tanh") | F.softplus({x}) | F.elu({x})
F.leaky_relu({x}, 0.1) | F.hardtanh({x}) | F.hardswish({x}) | F.mish({x}) | {x}.abs().log1p()
{x}.clamp(-3, 3).expm1() | {x}.sign() | {x}.nan_to_num() | F.softsign({x}) | F.selu({x})
F.hardsigmoid({x}) | F.logsigmoid({x}) | F.relu6({x}) | {x}.clamp(-0.9, 0.9).asin() | {x}.atan()
{x}.clamp(-3, 3).sinh() | {x}.clamp(min={s}) | {x} ** 2 | {x} * {s} | {s} - {x} | {x} / {s}
{x}.clamp(-0.9, 0.9).acos() | ({x}.abs() + 1.5).acosh() | {x}.asinh() | {x}.clamp(-3, 3).cosh()
{x}.clamp(-0.9, 0.9).atanh() | {x}.clamp(-1.2, 1.2).tan() | {x}.erfc() | {x}.clamp(-4, 4).exp2()
{x}.frac() | ({x}.abs() + 0.1).log2() | ({x}.abs() + 0.1).log10() | {x}.reciprocal().clamp(-9, 9)
{x}.round(decimals=1) | {x}.signbit() | {x}.isinf() | {x}.isnan() | 2 ** {x}.clamp(-3, 3)
F.threshold({x}, 0.1, {s}) | F.glu({x}, {d}) | F.dropout({x}, 0.5, False) | F.celu({x}, 1.5)
{x} + {y} | {x} - {y} | {x} * {y} | {x} / ({y}.abs() + 0.5) | torch.maximum({x}, {y})
torch.minimum({x}, {y}) | ({x}.abs() + 0.1) ** {y}.clamp(-2, 2) | torch.lerp({x}, {y}, 0.3)
{x}.fmax({y}) | {x}.fmin({y}) | {x}.hypot({y}) | {x}.copysign({y})
{x}.clamp({y}.abs() - 1, {z}.abs()) | {x} > {y} | {x} <= {y} | {x} != {x} | {x} >= {s}
{b} & ({x} > {s}) | {b} | ~{b} | {b} ^ {c} | {b}.logical_not() | {b}.bitwise_or({c})
{b}.logical_or({x}) | {x}.logical_and({y}) | {b}.logical_xor({i}) | torch.where({b}, {x}, {y})
torch.where({x} > {y}, {x}, {y}) | {x}.masked_fill({b}, {s}) | torch.where({b}, {x}, {s})
torch.where({b}, {s}, {x}) | torch.where({b}, {i}, {x}) | {x}.masked_fill({x} > 1, float("-inf"))
{x}.masked_fill({x} > 2, float("nan")) | {x}.isfinite() | torch.addcmul({x}, {y}, {z})
torch.atan2({x}, {y}.abs() + 0.5) | torch.fmod({x}, {s}) | torch.remainder({x}, 1.7)
torch.logaddexp({x}, {y}) | {x}.clone() | {x}.double().float()
torch.addcdiv({x}, {y}, {z}.abs() + 0.5) | torch.fmod({x}, {y}.abs() + 0.5) | {x} // {s}
torch.remainder({x}, {y}.abs() + 0.5) | {x}.xlogy({y}.abs() + 0.5)
{x}.div({s}, rounding_mode="trunc")
"""
TYPES = """
{x}.half() | {x}.bfloat16() | {x}.float() | {x}.half().float() | {x}.bfloat16().float()
{x}.double() | {x}.to({y}.dtype) | {b}.float() | {b}.to({x}.dtype) | {i}.float() | {i}.to({x}.dtype)
{x}.clamp(-99, 99).int() | {x}.clamp(-99, 99).long() | {x}.clamp(-99, 99).to(torch.int8)
{x}.abs().clamp(max=200).to(torch.uint8) | {i}.to({j}.dtype) | {i}.int() | {i}.to(torch.uint8)
{i}.to(torch.int8) | {i}.to(torch.int16) | {b}.int() | {i}.bool() | {x}.bool() | {b}.to(torch.uint8)
{i} * {x} | {x} + {i} | {b} * {x} | {i} + {b} | {i} / 3 | {i} + {s} | {i} * {s} | {x}.type_as({y})
F.softmax({x}, {d}, dtype=torch.float32) | {x}.sum({d}, dtype=torch.float32)
"""
INTEGERS = """
{i} + {i} | {i} * 2 - 1 | {i} // 2 | {i} % 3 | {i} == {n} | {i} + {j} | {i} - {j} | {i} * {j} | -{i}
{i}.abs() | {i} & {j} | {i} ^ {j} | ~{i} | {i}.bitwise_or(3) | {i} << 2 | {i} >> 1 | {i}.clamp(1, 5)
{i} < {j} | torch.maximum({i}, {j}) | torch.where({b}, {i}, {j}) | {i} ** 2 | {i}.sign()
{i} // ({j}.abs() + 1) | {i} % ({j}.abs() + 1) | torch.fmod({i}, 3) | {i}.bitwise_or({j})
{i} >= {j} | {i} != {x} | {i}.square() | {i}.clamp(min={j}) | {n} - {i}
torch.arange({i}.numel()) * {n} | {i}.clamp(max=3) | {i}.sum({d}) | {i}.cumsum({d}) | {i}.amax({d})
{i}.amin() | {i}.prod({d}) | {i}.argmax() | {i}.max() | {i}.argmin({d}) | {i}.sort({d})[0]
{i}.float().mean() | {i}.all() | {i}.any({d}) | {i}.flip({d}) | {i}[None]
torch.cat([{i}, {j}], {d}) | torch.stack([{i}, {i}]) | F.pad({i}, (1, {n}), value=2) | {i}.tril()
{i}.reshape(-1) | {i}[..., ::2] | torch.bitwise_left_shift({i}, {j} & 3)
torch.bitwise_right_shift({i}, {j} & 3) | {i}.count_nonzero()
{b}[None] | {b}.flip(0) | torch.cat([{b}, {b}]) | {b}.cumsum({d}) | {b}.sum() | {b}.any(0)
{i} @ {i} | torch.argsort({b}, dim={d}, stable=True)
"""
REDUCTIONS = """
{x}.sum() | {x}.sum({d}) | {x}.sum({d}, keepdim=True) | {x}.sum(({d}, {e})) | {x}.mean({d})
{x}.mean(({d}, {e}), keepdim=True) | {x}.amax({d}) | {x}.amin(({d}, {e})) | {x}.max()
{x}.min({d})[0] | {x}.mean() | {x}.min() | {x}.aminmax(dim={d})[1] | {x}.max({d})[1]
{x}.argmax({d}) | {x}.argmin({d}, keepdim=True) | {x}.argmax() | {x}.var({d})
{x}.var(({d}, {e}), correction=0) | {x}.std({d}, keepdim=True) | ({x} * 0.1 + 1).prod({d})
({x} > 0).any({d}) | {b}.all({d}) | {b}.any() | {b}.sum({d}) | {x}.logsumexp({d})
{x}.norm(dim={d}) | {x}.abs().sum({d}).sqrt() | {x}.cumsum({d}) | ({x} * 0.1 + 1).cumprod({d})
F.softmax({x}, {d}) | F.log_softmax({x}, {d}) | F.normalize({x}, dim={d}) | F.softmin({x}, {d})
F.layer_norm({x}, {x}.shape[-1:]) | F.rms_norm({x}, {x}.shape[-1:], eps=1e-5)
F.layer_norm({x}, {x}.shape[-1:], {x}.flatten()[: {x}.shape[-1]]) | F.group_norm({x}, 1)
F.instance_norm({x}) | F.rms_norm({x}, {x}.shape[-1:], {x}.flatten()[: {x}.shape[-1]])
F.batch_norm({x}, {x}.mean(0)[:{x}.shape[1]], {x}.var(0)[:{x}.shape[1]]) | F.softmax({x} + {y}, {d})
({x} - {x}.mean({d}, keepdim=True)).square().mean({d}) | F.cosine_similarity({x}, {y}, dim={d})
{x}.count_nonzero({d}) | torch.std_mean({x}, {d})[1] | torch.var_mean({x}, {d})[0]
torch.linalg.vector_norm({x}, 1) | {x}.nansum({d}) | {x}.std() | {x}.sort({d})[0]
{x}.sort(stable=True, dim={d}, descending=True)[1] | {x}.topk(1, {d})[0]
{x}.gather({d}, {x}.topk(2, {d})[1])
F.mse_loss({x}, {y}) | F.l1_loss({x}, {x}.flip(0)) | torch.cdist({m}, {m}) | {x}.diff(dim={d})
F.kl_div({x}, {x}.softmax(-1), reduction="sum")
"""
SHAPES = """
{x}.transpose({d}, {e}) | {x}.mT | {x}.flip({d}) | {x}.roll({n}, {d}) | {x}.unsqueeze({d})
{x}.squeeze({d}) | {x}.flatten() | {x}.flatten({d}) | {x}.reshape(-1) | {x}.reshape(-1, {n})
{x}.reshape({n}, -1) | {x}.unflatten({d}, ({n}, -1)) | {x}[{n}:] | {x}[..., {n}:] | {x}[..., ::2]
{x}[..., 1::3] | {x}[:, :{n}] | {x}[-1] | {x}[..., 0] | {x}[None] | {x}.narrow({d}, 0, {n})
torch.cat([{x}, {y}], {d}) | torch.cat([{x}, {x} * 2, {x}], {d}) | torch.stack([{x}, {y}], {d})
{x}.chunk(2, {d})[0] | {x}.chunk(2, {d})[1] | {x}.split({n}, {d})[-1]
{x}.repeat({n}, *[1] * {x}.ndim) | {x}.tile(2) | {x}.expand(3, *{x}.shape) | F.pad({x}, ({n}, 1))
{x}.narrow({d}, 0, 1).expand_as({x}) | {x} * {y}.narrow({d}, 0, 1)
{x}.mT[..., :1].expand_as({x}.mT)
F.pad({x}, (0, {n}, 1, 0), value={s}) | F.pad({x}, (-1, {n})) | {x}.tril() | {x}.triu({n})
{x}.unbind({d})[0] | {x}.movedim(0, -1) | {x}.repeat_interleave({n}, {d})
{x}.swapaxes(0, -1).contiguous() | {x}.fliplr() | {x}.diagonal() | torch.arange({x}.shape[-1]) * {x}
torch.full_like({x}, {s}) + {x} | torch.ones_like({x}).tril() | torch.eye({x}.shape[-1])
torch.hstack([{x}, {x}]) | {x}.unfold({d}, {n}, 1) | F.pad({x}, (1, 1), mode="reflect")
F.pad({x}, (1, {n}), mode="replicate") | {x}.diag_embed() | F.pad({x}, ({n}, 1), mode="circular")
F.pixel_shuffle({x}, 2) | {x}.rot90() | {x}.squeeze() | {x}.permute(*range({x}.ndim)[::-1])
{x}.tensor_split(2, {d})[0] | {x}.new_zeros(3, 2) + {s} | F.interpolate({x}, scale_factor=2)
F.interpolate({x}, scale_factor=1.5, mode="linear") | F.unfold({x}, 2)
{x}.broadcast_to(2, *{x}.shape) | {x}.select({d}, -1)
F.interpolate({x}, scale_factor=2, mode="bilinear")
torch.meshgrid({x}.flatten()[:5], {y}.flatten()[:7], indexing="ij")[1]
"""
INDEXING = """
{x}[{k} % {x}.shape[0]] | {x}[:, {k} % {x}.shape[1]] | {x}[-1 - {k} % {x}.shape[0]]
{x}.index_select(0, {k}.flatten() % {x}.shape[0]) | {i}[{k} % {i}.shape[0]]
F.embedding({k} % {m}.shape[0], {m}) | F.one_hot({k} % 5, 5) | {x}.gather({d}, {x}.argsort({d}))
{x}[{k} % {x}.shape[0], {k} % {x}.shape[1]] | {x}[..., {k} % {x}.shape[-1], None]
{x}.take_along_dim({x}.argmax({d}, True), {d}) | {x}.take({k} % {x}.numel())
{x}.gather({d}, {x}.argmax({d}, True)) | {x}.flatten()[{k} % {x}.numel()]
torch.zeros_like({x}).scatter({d}, {x}.argmax({d}, keepdim=True), 1.0)
torch.zeros({m}.shape).index_add(0, torch.arange({m}.shape[0]) // 2, {m}.float())
{x}.scatter_add({d}, {x}.argmax({d}, keepdim=True), {y})
{x}.scatter_reduce({d}, {x}.argmax({d}, keepdim=True), {x}.amin({d}, True), "amax")
torch.zeros(7).scatter_add(0, {k}.flatten() % 7, {k}.flatten().float() * 0.5)
{x}.scatter({d}, {x}.argmin({d}, keepdim=True), {x}.amax({d}, True))
torch.slice_scatter({x}, {x}[1:] * 2, 0, 1) | torch.select_scatter({x}, {x}[0] + 1, 0, -1)
{x}.index_put(({k} % {x}.shape[0],), torch.ones((), dtype={x}.dtype), accumulate=True)
{x}.index_fill({d}, torch.tensor([0]), {s}) | {x}.masked_scatter({x} > 0, {x}.flip(0) * 2)
{x}.index_put(({b},), {x}.flatten()[0] * {s}, accumulate=True)
{x}.index_put(({x} > 0,), {s} * {x}.sum())
{x}.diagonal_scatter({x}.diagonal() + 1) | {x}.index_copy(0, torch.arange(1), {x}[-1:])
"""
PRODUCTS = """
{x} @ {y} | {m} @ {m}.t() | {m}.t() @ {m} | {x} @ {x}.mT | {x}.mT @ {x}
torch.relu({m} @ {m}.t() + {s}) | F.linear({x}, {m}) | F.linear({x}, {m}, {m}[:, 0])
torch.einsum("ij,kj->ik", {m}, {m}) | torch.einsum("...i,...i->...", {x}, {x})
torch.addmm({m}, {m}, {m}.t() @ {m}) | {m} @ {m}[0] | F.scaled_dot_product_attention({x}, {x}, {x})
F.scaled_dot_product_attention({x}, {y}, {y})
F.scaled_dot_product_attention({x}, {x}, {x}, is_causal=True) | {x}.flatten() @ {x}.flatten()
F.scaled_dot_product_attention({x}, {x}, {x}, {x} @ {x}.mT > 0.1) | {m}.mv({m}[0])
{x}.flatten().dot({x}.flatten()) | F.conv1d({x}, {x}[:1, :, :3])
F.conv1d({x}, {x}[:2, :, :3], padding=1) | F.conv2d({x}, {x}[:, :, :2, :2], padding=1, stride=2)
F.avg_pool2d({x}, 2) | F.max_pool2d({x}, 2)
F.conv1d({x}, {x}[:1, :, :2].transpose(0, 1), groups={x}.shape[1])
F.conv2d({x}, {x}[:1, :, :1, :3], {x}[0, 0, 0, :1])
F.conv_transpose1d({x}, {x}[:2, :, :2].transpose(0, 1))
F.conv_transpose2d({x}, {x}[:1, :, :2, :2].transpose(0, 1), stride=2) | F.avg_pool1d({x}, 2)
F.max_pool1d({x}, 3, 2, 1) | F.adaptive_avg_pool1d({x}, {n}) | F.adaptive_avg_pool2d({x}, {n})
F.adaptive_max_pool2d({x}, 2) | F.max_pool2d({x}, 2, return_indices=True)[1]
F.avg_pool2d({x}, 3, 1, 1) | ({m} @ {m}.t()).softmax(-1) @ {m}
torch.outer({x}.flatten(), {y}.flatten()[:5]) | {x} @ ({x}.mT @ {x}) | torch.bmm({x}, {x}.mT)
torch.baddbmm({x} @ {x}.mT, {x}, {x}.mT, beta=0.5) | torch.addmv({m}[:, 0], {m}, {m}[0], alpha={s})
torch.einsum("bij,bkj->bik", {x}, {x}) | torch.tensordot({m}, {m}, dims=2)
torch.kron({m}[:2, :2], {m})
torch.addbmm({x}[0] @ {x}[0].mT, {x}, {x}.mT) | torch.chain_matmul({m}, {m}.t(), {m})
F.conv3d({x}, {x}[:1, :, :2, :1, :2]) | F.avg_pool3d({x}, 2) | F.max_pool3d({x}, 2, ceil_mode=True)
F.adaptive_avg_pool3d({x}, {n}) | F.conv_transpose3d({x}, {x}[:, :1, :1, :2, :1])
{m}.flatten().vdot({m}.flatten()) | F.lp_pool1d({x}, 2, 2) | F.conv2d({x}, {x}[:1], dilation=2)
"""
DIRECT = """
aten.add.Scalar({x}, {s}, {n}) | aten.sub.Scalar({x}, {s}) | aten.mul.Scalar({x}, {s})
aten.div.Scalar({x}, {s}) | aten.div.Scalar_mode({x}, {s}, rounding_mode="floor")
aten._softmax({x}, {d}, False) | aten._log_softmax({x}, {d}, False) | aten._safe_softmax({x}, {d})
aten.bitwise_and.Scalar({i}, 3) | aten.bitwise_xor.Scalar({i}, 5)
aten.bitwise_and.Tensor({i}, {j}) | aten.bitwise_xor.Tensor({i}, {j}) | aten.__or__.Tensor({i}, {j})
aten.__xor__.Scalar({i}, 5) | aten.constant_pad_nd({x}, [1, {n}], {s}) | aten.bmm({x}, {x}.mT)
aten.copy({x}, {y}) | aten.convolution({x}, {x}[:2, :, :3], None, [1], [1], [2], False, [0], 1)
aten.fill.Scalar({x}, {s})
aten.convolution({x}, {x}[:1, :, :2, :2], None, [2, 1], [0, 1], [1, 1], False, [0, 0], 1)
aten.native_layer_norm({x}, {x}.shape[-1:], None, None, 1e-5)[0] | aten.fill.Tensor({x}, {y}.mean())
F.group_norm({x}, 1)
aten.native_dropout({x}, 0.5, False)[0] | aten.split_with_sizes({x}, [1, {x}.shape[0] - 1])[1]
aten.squeeze.dim({x}, {d}) | aten.squeeze.dims({x}, [{d}, {e}]) | aten.lt.Scalar({x}, {s})
aten.prod.default({x} * 0.1 + 1) | aten.any.dims({b}, [0]) | aten.all.dims({b}, [-1], True)
torch.arange(1, 9, {n}) + {x}[..., :1] | aten.logical_xor({b}, {c})
aten._adaptive_avg_pool2d({x}, [{n}, 2]) | aten.max_pool3d_with_indices({x}, [2, 1, 2])[0]
aten.max_pool2d_with_indices({x}, 2)[1] | aten.rsub.Tensor({x}, {y})
aten.pow.Scalar(2, {x}.clamp(-2, 2)) | aten.where.ScalarSelf({b}, {s}, {x})
aten.where.Scalar({b}, {s}, 0.5) | aten.clamp_max.Tensor({x}, {y}) | aten.sgn({x})
aten.positive({x}) | aten.remainder.Scalar_Tensor(2, {x}.abs() + 0.5)
aten.scatter.reduce({x}, {d}, {x}.argmax({d}, True), {x}, reduce="add")
aten.slice_copy.Tensor({x}, {d}, 1, None, 2) | aten.unbind_copy.int({x}, {d})[-1]
aten.diagonal_copy({x}, 1) | aten.var.correction({x}, [{d}], correction=0)
aten.var_mean.correction({x}, [{d}])[1] | aten.std_mean({x}, False)[0]
aten.norm.ScalarOpt_dim({x}, 1, [{d}]) | aten.norm.Scalar({x})
aten.masked_fill.Tensor({x}, {b}, {y}.sum()) | aten._unsafe_index.Tensor({x}, [{k} % {x}.shape[0]])
aten.expand_copy({x}, [2, *{x}.shape]) | aten.numpy_T({m}) | aten.argmin({x}, None)
aten.topk({x}, 1, {d}, False)[0] | aten.cumprod({x} * 0.1 + 1, {d})
aten.full([2, 3], {s}) + {x}.sum() | aten.atleast_3d({x})
aten.tensor_split.indices({x}, [1], {d})[1]
"""
"""Overloads that are seldom what `torch.export` makes of the rest; `aten` is
`torch.ops.aten`."""
E4, E5 = "torch.float8_e4m3fn", "torch.float8_e5m2"
EIGHTHS = f"""
{{x}}.to({E4}).float() | {{x}}.to({E5}).float() | {{x}}.to({E4}) | {{x}}.to({E5}) | {{x}}.float()
{{x}}.to({E4}).to({{y}}.dtype) | {{x}}.to({{y}}.dtype) | {{x}}.to({E5}).half() | {{x}}.bfloat16()
{{x}}.to({E4}).to({E5}) | {{i}}.to({E4}).bfloat16() | {{b}}.to({E5}).float()
({{x}} * 50).to({{y}}.dtype) | ({{x}} * {{s}}).to({E5}).float() | ({{x}} * {{x}}).to({E4}).float()
({{x}}.to({E4}).float() + {{y}}.to({E5}).float()).to({{y}}.dtype) | {{x}}.to({E5}).isnan()
{{x}}.to({E4})[..., ::2].float() | {{x}}.to({E5}).flip({{d}}).bfloat16()
{{x}}.to({E5})[{{k}} % {{x}}.shape[0]].float() | {{x}}.to({E4}).view(torch.uint8)
torch.cat([{{x}}.to({E4})] * 2, {{d}}).float() | {{m}}.to({E4}).float() @ {{m}}.to({E4}).float().t()
({{x}} / {{x}}.abs().amax({{d}}, True).clamp(min=0.01) * 448).to({E4}).float()
torch._scaled_mm({{m}}.to({E4}), {{m}}.to({E4}).t(), torch.ones(()), torch.ones(()),
    out_dtype={{y}}.dtype)
torch._scaled_mm({{m}}.to({E5}), {{m}}.to({E4}).t(), torch.ones(()) / 4, torch.ones(()))
torch._scaled_mm({{m}}.to({E4}), {{m}}.to({E5}).t(),
    {{m}}[:, :1].float(), {{m}}[:, :1].float().t(), out_dtype=torch.float32)
torch._scaled_mm({{m}}.to({E4}), {{m}}.to({E4}).t(), torch.ones(()), torch.ones(()),
    bias={{m}}[:, 0].half(), out_dtype=torch.half)
""".replace("\n    ", " ")
"""Floats of 8 bits, of which some are values of their own for other templates to use."""
TABLES = (POINTWISE, POINTWISE, TYPES, INTEGERS, REDUCTIONS, SHAPES, INDEXING, PRODUCTS, DIRECT)
TABLES = (*TABLES, EIGHTHS)
TEMPLATES = [
    [
        entry.strip().replace("aten.", "torch.ops.aten.")
        for line in table.strip().splitlines()
        for entry in line.split(" | ")
    ]
    for table in TABLES
]
"""Those of a table are drawn equally often, and so are the tables."""
