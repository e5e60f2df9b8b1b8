#!/usr/bin/env python3
"""make.py - made models with quantized weights, as libraries write them, and the weights that those libraries read back.

    pip install torch transformers compressed-tensors numpy xxhash gguf
                                  (made with torch 2.15.0, transformers 5.24.0, compressed-tensors 0.20.0)
    tests/llm/quantized/make.py [DIRECTORY]           (default: build/quantized-made)
    tests/llm/quantized/make.py --pack DIRECTORY      (writes tests/llm/quantized/quantized.tar.xz)

Each model is a Hugging Face directory, config.json and model.safetensors, of one layer and with random codes, scales and zeros.
Beside it expected.txt, a line a tensor of the GGUF that zt makes of it: `name dtype shape hash`, XXH3-64 of the bytes in
hexadecimal. Values come from

    compressed-tensors   its decompress
    fp8                  compressed-tensors' FP8BlockDequantizer (which pads), transformers' Fp8Dequantize for one scale
    awq                  AutoAWQ's dequantize_gemm in NumPy, and compressed-tensors' AutoAWQConverter
    gptq                 GPTQModel's dequantize_weight in NumPy; zeros of v1 are stored less 1, modulo the range of the codes
"""
import importlib.util, io, json, os, struct, sys, zlib

import numpy as np
import torch
import xxhash

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, HEADS, KV, HEAD, FF, VOCAB = 64, 4, 2, 16, 96, 96
DTYPES = {torch.bfloat16: ("BF16", "bf16"), torch.float16: ("F16", "f16"), torch.float32: ("F32", "f32"),
          torch.float8_e4m3fn: ("F8_E4M3", "f8_e4m3"), torch.uint8: ("U8", "u8"), torch.int8: ("I8", "i8"),
          torch.int32: ("I32", "i32"), torch.int64: ("I64", "i64")}
LAYER = "model.layers.0."
MODULES = {"self_attn.q_proj": (HEADS * HEAD, WIDTH), "self_attn.k_proj": (KV * HEAD, WIDTH),
           "self_attn.v_proj": (KV * HEAD, WIDTH), "self_attn.o_proj": (WIDTH, HEADS * HEAD), "mlp.gate_proj": (FF, WIDTH),
           "mlp.up_proj": (FF, WIDTH), "mlp.down_proj": (WIDTH, FF)}
GGUF = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm"}


def config_of(model_type, quantization, dtype="bfloat16", **more):
    names = {"qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM"}
    return {"architectures": [names[model_type]], "model_type": model_type, "vocab_size": VOCAB, "hidden_size": WIDTH,
            "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV, "head_dim": HEAD,
            "intermediate_size": FF, "max_position_embeddings": 64, "rms_norm_eps": 0.01, "rope_theta": 10000.0,
            "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": dtype, "quantization_config": quantization, **more}


# ---- the parts of a matrix ----------------------------------------------------------------------

def scales(rng, *shape, dtype=torch.bfloat16):
    return torch.from_numpy(rng.uniform(0.001, 0.02, shape)).to(dtype)


def compressed(rng, shape, weights, form, dtype=torch.bfloat16):
    """A random matrix, compressed and read back by the library."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    args = QuantizationArgs(**weights)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    rows, columns = shape
    blocks = {"tensor": (1,), "channel": (rows, 1)}.get(args.strategy)
    if args.strategy in ("group", "tensor_group"):
        blocks = (rows, columns // args.group_size)
    if args.strategy == "block":
        blocks = tuple(-(-n // b) for n, b in zip(shape, args.block_structure))
    state = {"weight": torch.from_numpy(rng.normal(0, 0.02 * 2 ** (args.num_bits - 4), shape)).to(dtype)}
    scale = scales(rng, *blocks, dtype=dtype)
    if form.startswith("mx"):
        scale = (2.0 ** torch.from_numpy(rng.integers(-9, -3, blocks))).to(dtype)
    if args.num_bits == 8 and args.type == "float":
        state["weight"] = (state["weight"].float() * 8).to(dtype)
    state["weight_scale"] = scale
    if form.startswith("nvfp4"):
        state["weight_global_scale"] = torch.tensor([float(rng.uniform(100, 3000))], dtype=torch.float32)
        state["weight_scale"] = torch.from_numpy(rng.uniform(1, 400, blocks)).to(torch.float8_e4m3fn).to(dtype)
        state["weight"] = state["weight"] * 20
    if not args.symmetric:
        half = 2 ** (args.num_bits - 1)
        state["weight_zero_point"] = torch.from_numpy(rng.integers(-half, half, blocks)).to(torch.int8)
    compressor = BaseCompressor.get_value_from_registry(form)
    stored = compressor.compress(state, scheme)
    stored = {k: (v.data if isinstance(v, torch.nn.Parameter) else v) for k, v in stored.items()}
    read = compressor.decompress(dict(stored), scheme)["weight"]
    return stored, read


def fp8(rng, shape, block, dtype=torch.bfloat16):
    weight = torch.from_numpy(rng.normal(0, 60, shape)).float().clamp(-448, 448).to(torch.float8_e4m3fn)
    if block is None:
        from transformers.integrations.finegrained_fp8 import Fp8Dequantize
        scale = torch.tensor(float(rng.uniform(0.0001, 0.001)), dtype=torch.float32)
        read = Fp8Dequantize(None)._dequantize_one(weight, scale, dtype)
    else:
        from compressed_tensors.entrypoints.convert.converters.fp8block_dequantizer import FP8BlockDequantizer
        scale = torch.from_numpy(rng.uniform(0.0001, 0.001, [-(-n // b) for n, b in zip(shape, block)])).float()
        read = FP8BlockDequantizer(weight_block_size=block, dtype=dtype)._create_dequantized_weight(weight, scale)
    return {"weight": weight, "weight_scale_inv": scale}, read


def pack_threes(codes):
    """GPTQ's 3 bits, as AutoGPTQ packs them: 10 codes and the low bits of the 11th in the first of 3 words, and so on."""
    out = np.zeros((len(codes) // 32 * 3, codes.shape[1]), np.uint32)
    codes = codes.astype(np.uint32)
    for unit in range(len(codes) // 32):
        i, word = 32 * unit, 3 * unit
        for at, shift, low in ((0, 0, 2), (11, 1, 1), (22, 2, 0)):
            for j in range(10):
                out[word] |= codes[i + at + j] << np.uint32(3 * j + shift)
            if low:
                out[word] |= codes[i + at + 10] << np.uint32(30 if low == 2 else 31)
                out[word + 1] |= codes[i + at + 10] >> np.uint32(low)
            word += 1
    return out.view(np.int32)


def pack_words(codes, bits):
    """[n, m] along the first dimension: [n * bits / 32, m], the first code in the lowest bits."""
    if bits == 3:
        return pack_threes(codes)
    each = 32 // bits
    out = np.zeros((len(codes) // each, codes.shape[1]), np.uint32)
    for j in range(each):
        out |= codes[j::each].astype(np.uint32) << np.uint32(j * bits)
    return out.view(np.int32)


def gptq(rng, shape, bits, group, v2, order=False, symmetric=False):
    """(code - zero) * scale of the column's group, in float16 as GPTQModel computes it."""
    rows, columns = shape
    size = columns if group < 0 else group
    groups = -(-columns // size)
    codes = rng.integers(0, 2 ** bits, (columns, rows))
    zeros = np.full((groups, rows), 2 ** (bits - 1)) if symmetric else rng.integers(0, 2 ** bits, (groups, rows))
    scale = rng.uniform(0.001, 0.02, (groups, rows)).astype(np.float16)
    index = np.arange(columns) // size
    if order:
        index = index[rng.permutation(columns)]
    read = ((codes - zeros[index]).astype(np.float16) * scale[index]).T
    stored = zeros if v2 else (zeros - 1) % 2 ** bits
    parts = {"qweight": pack_words(codes, bits), "qzeros": np.ascontiguousarray(pack_words(stored.T, bits).T), "scales": scale,
             "g_idx": index.astype(np.int32)}
    return {k: torch.from_numpy(v) for k, v in parts.items()}, torch.from_numpy(np.ascontiguousarray(read))


def awq(rng, shape, group):
    """AutoAWQ: of 8 outputs that share a word, the j-th is nibble (0, 4, 1, 5, 2, 6, 3, 7)[j]."""
    from compressed_tensors.entrypoints.convert.converters.autoawq import AutoAWQConverter
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    rows, columns = shape
    order = np.array([0, 4, 1, 5, 2, 6, 3, 7])
    codes = rng.integers(0, 16, (columns, rows))
    zeros = rng.integers(0, 16, (columns // group, rows))
    scale = rng.uniform(0.001, 0.02, zeros.shape).astype(np.float16)

    def pack(x):
        out = np.zeros((len(x), rows // 8), np.uint32)
        for j in range(8):
            out |= x[:, j::8].astype(np.uint32) << np.uint32(4 * order[j])
        return torch.from_numpy(out.view(np.int32))

    read = torch.from_numpy(np.ascontiguousarray(
        ((codes - zeros.repeat(group, 0)).astype(np.float16) * scale.repeat(group, 0)).T))
    parts = {"qweight": pack(codes), "qzeros": pack(zeros), "scales": torch.from_numpy(scale)}
    other = AutoAWQConverter(group_size=group).process({f"m.{k}": v.clone() for k, v in parts.items()})
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(
        num_bits=4, symmetric=False, group_size=group, strategy="group"))
    other = BaseCompressor.get_value_from_registry("pack-quantized").decompress(
        {k.removeprefix("m."): v for k, v in other.items()}, scheme)["weight"]
    assert torch.equal(other, read)
    return parts, read


# ---- cases --------------------------------------------------------------------------------------

def group_of(weights, form=None, activations=None):
    return {"targets": ["Linear"], "weights": weights, "input_activations": activations, "output_activations": None,
            **({"format": form} if form else {})}


def compressed_case(weights, form, dtype=torch.bfloat16, model_type="qwen3", activations=None, **more):
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "dynamic": False, **weights}
    method = {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"], "kv_cache_scheme": None,
              "quantization_status": "compressed", "config_groups": {"group_0": group_of(weights, None, activations)}, **more}
    return config_of(model_type, method), lambda rng, name, shape: compressed(rng, shape, weights, form, dtype)


F8 = {"num_bits": 8, "type": "float"}
TOKEN = {"num_bits": 8, "type": "float", "symmetric": True, "dynamic": True, "strategy": "token"}
FINE = {"num_bits": 4, "type": "int", "symmetric": True, "dynamic": False, "strategy": "group", "group_size": 32}
WIDE = {"num_bits": 8, "type": "float", "symmetric": True, "dynamic": False, "strategy": "channel"}


def mixed(rng, name, shape):
    if "mlp" in name:
        return compressed(rng, shape, FINE, "pack-quantized")
    return None if "o_proj" in name else compressed(rng, shape, WIDE, "float-quantized")


def gptq_case(bits, group, v2=False, order=False, symmetric=False):
    method = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": order, "sym": symmetric, "lm_head": False,
              "damp_percent": 0.01, **({"checkpoint_format": "gptq_v2"} if v2 else {})}
    return config_of("qwen3", method, "float16"), lambda rng, name, shape: gptq(rng, shape, bits, group, v2, order, symmetric)


def fp8_case(block, model_type="qwen3", dtype="bfloat16", **more):
    method = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": block}
    return (config_of(model_type, method, dtype, **more),
            lambda rng, name, shape: fp8(rng, shape, block, getattr(torch, dtype)))


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 16, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}
MOE = dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True, decoder_sparse_step=1,
           mlp_only_layers=[])
CASES = {
    "fp8-block": fp8_case([24, 40]),
    "fp8-block-f32": fp8_case([32, 32], dtype="float32"),
    "fp8-tensor": fp8_case(None, "llama"),
    "fp8-experts": fp8_case([16, 32], "qwen3_moe", **MOE),
    "ct-fp8-channel": compressed_case({**F8, "strategy": "channel"}, "float-quantized", activations=TOKEN),
    "ct-fp8-tensor": compressed_case({**F8, "strategy": "tensor"}, "float-quantized", dtype=torch.float32),
    "ct-fp8-block": compressed_case({**F8, "strategy": "block", "block_structure": [24, 40]}, "float-quantized"),
    "ct-mxfp8": compressed_case({**F8, "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"}, "mxfp8-quantized"),
    "ct-int8": compressed_case({"num_bits": 8, "strategy": "channel", "symmetric": False}, "int-quantized"),
    "ct-int8-f16": compressed_case({"num_bits": 8, "strategy": "channel"}, "int-quantized", dtype=torch.float16),
    "ct-pack-4": compressed_case({"strategy": "group", "group_size": 32}, "pack-quantized", model_type="llama"),
    "ct-pack-4-zeros": compressed_case({"strategy": "group", "group_size": 16, "symmetric": False}, "pack-quantized",
                                       dtype=torch.float16),
    "ct-pack-8": compressed_case({"num_bits": 8, "strategy": "channel"}, "pack-quantized"),
    "ct-pack-2-zeros": compressed_case({"num_bits": 2, "strategy": "group", "group_size": 8, "symmetric": False},
                                       "pack-quantized", dtype=torch.float32),
    "ct-nvfp4": compressed_case({**F8, "num_bits": 4, "strategy": "tensor_group", "group_size": 16}, "nvfp4-pack-quantized"),
    "ct-mxfp4": compressed_case({**F8, "num_bits": 4, "strategy": "group", "group_size": 32}, "mxfp4-pack-quantized",
                                model_type="llama"),
    "ct-mixed": (config_of("qwen3", {
        "quant_method": "compressed-tensors", "format": "mixed-precision", "ignore": ["lm_head", "re:.*o_proj"],
        "kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True},
        "config_groups": {"a": group_of(WIDE, "float-quantized"), "b": group_of(FINE, "pack-quantized")}}), mixed),
    "gptq-4": gptq_case(4, 16),
    "gptq-4-symmetric": gptq_case(4, 32, symmetric=True),
    "gptq-4-row": gptq_case(4, -1),
    "gptq-4-order": gptq_case(4, 16, order=True),
    "gptq-8-v2": gptq_case(8, 16, v2=True, order=True),
    "gptq-2": gptq_case(2, 32),
    "gptq-3": gptq_case(3, 16),
    "gptq-3-order": gptq_case(3, 32, v2=True, order=True),
    "awq-4": (config_of("qwen3", AWQ, "float16"), lambda rng, name, shape: awq(rng, shape, 16)),
}


# ---- files --------------------------------------------------------------------------------------

def raw(x):
    return x.contiguous().view(torch.uint8).numpy().tobytes() if x.numel() and x.dim() else x.reshape(1).view(torch.uint8).numpy().tobytes()


def save(path, tensors):
    header, at, data = {}, 0, []
    for name, x in sorted(tensors.items()):
        bytes_ = raw(x)
        header[name] = {"dtype": DTYPES[x.dtype][0], "shape": list(x.shape), "data_offsets": [at, at + len(bytes_)]}
        at += len(bytes_)
        data.append(bytes_)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def paired(x, heads):
    """Rows of the two halves of each head take turns."""
    return x.reshape(heads, 2, -1, x.shape[1]).transpose(1, 2).reshape(x.shape)


def mxfp4_blocks(parts):
    """GGUF's blocks of the same bits: an exponent; byte j holds value j, and above it value j + 16."""
    pairs = parts["weight_packed"].numpy()
    codes = np.stack([pairs & 15, pairs >> 4], -1).reshape(len(pairs), -1, 32)
    scale = parts["weight_scale"].numpy()
    return np.concatenate([scale[..., None], codes[..., :16] | codes[..., 16:] << 4], -1).astype(np.uint8)


def line_of(name, dtype, shape, bytes_):
    return f"{name} {dtype} {'x'.join(map(str, shape))} {xxhash.xxh3_64_hexdigest(bytes_)}"


def make(root, name, case):
    config, quantize = case
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    llama = config["model_type"] == "llama"
    dtype = getattr(torch, config["torch_dtype"])
    stored, lines, stacks = {}, [], {}

    def plain(hf, gguf, shape):
        x = torch.from_numpy(rng.choice([-0.75, -0.25, 0.5, 1], shape)).to(dtype)  # packs well
        stored[hf] = x
        x = x.float() if len(shape) == 1 or "gate_inp" in gguf else x
        lines.append(line_of(gguf, DTYPES[x.dtype][1], shape, raw(x)))

    plain("model.embed_tokens.weight", "token_embd.weight", (VOCAB, WIDTH))
    plain("model.norm.weight", "output_norm.weight", (WIDTH,))
    for norm in ("input_layernorm", "post_attention_layernorm") + (() if llama else ("self_attn.q_norm", "self_attn.k_norm")):
        plain(f"{LAYER}{norm}.weight", f"blk.0.{GGUF[norm]}.weight", (HEAD if "self" in norm else WIDTH,))
    modules = dict(MODULES)
    if config["model_type"] == "qwen3_moe":
        modules = {k: v for k, v in modules.items() if "mlp" not in k}
        plain(f"{LAYER}mlp.gate.weight", "blk.0.ffn_gate_inp.weight", (3, WIDTH))
        for e in range(3):
            modules |= {f"mlp.experts.{e}.{m}_proj": (WIDTH, 24) if m == "down" else (24, WIDTH) for m in ("gate", "up", "down")}
    for module, shape in modules.items():
        made = quantize(rng, module, shape)
        gguf = f"blk.0.{GGUF.get(module)}.weight"
        if made is None:
            plain(f"{LAYER}{module}.weight", gguf, shape)
            continue
        parts, read = made
        stored.update({f"{LAYER}{module}.{k}": v for k, v in parts.items()})
        heads = {"self_attn.q_proj": HEADS, "self_attn.k_proj": KV}.get(module) if llama else None
        if ".experts." in module:
            stacks.setdefault(module.split(".")[-1], []).append(read)
        elif "mxfp4" in name:
            import gguf as library
            blocks = mxfp4_blocks(parts)
            values = library.quants.dequantize(blocks.reshape(len(blocks), -1), library.GGMLQuantizationType.MXFP4)
            assert (values == read.float().numpy()).all()
            blocks = blocks.reshape(len(blocks), -1)
            if heads:
                blocks = paired(torch.from_numpy(blocks), heads).numpy()
            lines.append(line_of(gguf, "mxfp4", shape, blocks.tobytes()))
        else:
            read = paired(read, heads) if heads else read
            lines.append(line_of(gguf, DTYPES[read.dtype][1], shape, raw(read)))
    for module, list_ in stacks.items():
        x = torch.stack(list_)
        lines.append(line_of(f"blk.0.ffn_{module.split('_')[0]}_exps.weight", DTYPES[x.dtype][1], x.shape, raw(x)))
    if "mixed" in name:
        for which in "kv":
            stored[f"{LAYER}self_attn.{which}_scale"] = torch.tensor([0.5], dtype=dtype)
    folder = f"{root}/{name}"
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/config.json", "w") as f:
        json.dump(config, f, indent=1)
    save(f"{folder}/model.safetensors", stored)
    with open(f"{folder}/expected.txt", "w") as f:
        f.write("\n".join(sorted(lines)) + "\n")


def main(args):
    if args[:1] == ["--pack"]:
        spec = importlib.util.spec_from_file_location("archs_make", f"{HERE}/../archs/make.py")
        archs = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(archs)
        archs.HERE = HERE
        return archs.pack(args[1], "quantized.tar.xz")
    for name, case in CASES.items():
        make(args[0] if args else "build/quantized-made", name, case)
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
