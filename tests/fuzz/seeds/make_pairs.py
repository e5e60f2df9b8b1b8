#!/usr/bin/env python3
"""make_pairs.py - seeds of the fuzz targets directory, adapter and netdata: a text, a byte 0, and a safetensors file, short enough
that libFuzzer changes all of it. Of a quantized model there is one matrix.

    tests/fuzz/seeds/make_pairs.py      (writes tests/fuzz/seeds/directory/*, adapter/* and netdata/*)
"""
import json, os, struct

HERE = os.path.dirname(os.path.abspath(__file__))
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "I8": 1, "U8": 1, "I32": 4, "I64": 8}
Q = "model.layers.0.self_attn.q_proj."


def safetensors(tensors):
    head, data = {}, b""
    for name, (dtype, shape, *values) in tensors.items():
        size = BYTES[dtype]
        for n in shape:
            size *= n
        raw = struct.pack(f"<{len(values)}q", *values) if values else bytes(range(1, 61)) * (size // 60 + 1)
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += raw[:size]
    text = json.dumps(head, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def save(target, name, text, tensors):
    os.makedirs(f"{HERE}/{target}", exist_ok=True)
    with open(f"{HERE}/{target}/{name}", "wb") as f:
        f.write(json.dumps(text, separators=(",", ":")).encode() + b"\0" + safetensors(tensors))


def compressed(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"], "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"symmetric": True, "dynamic": False, **weights}}}}


DIRECTORIES = {
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 16, "zero_point": True, "version": "gemm"},
            {"qweight": ("I32", [32, 4]), "qzeros": ("I32", [2, 4]), "scales": ("F16", [2, 32])}),
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": False, "sym": False},
             {"g_idx": ("I32", [32]), "qweight": ("I32", [4, 32]), "qzeros": ("I32", [2, 4]), "scales": ("F16", [2, 32])}),
    "gptq-3": ({"quant_method": "gptq", "bits": 3, "group_size": 32, "desc_act": True, "sym": False, "checkpoint_format": "gptq_v2"},
               {"g_idx": ("I32", [32]), "qweight": ("I32", [3, 32]), "qzeros": ("I32", [1, 3]), "scales": ("F16", [1, 32])}),
    "fp8": ({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [16, 32]},
            {"weight": ("F8_E4M3", [32, 32]), "weight_scale_inv": ("F32", [2, 1])}),
    "ct-fp8": (compressed("float-quantized", num_bits=8, type="float", strategy="channel"),
               {"weight": ("F8_E4M3", [32, 32]), "weight_scale": ("BF16", [32, 1])}),
    "ct-int8": (compressed("int-quantized", num_bits=8, type="int", strategy="channel", symmetric=False),
                {"weight": ("I8", [32, 32]), "weight_scale": ("BF16", [32, 1]), "weight_zero_point": ("I8", [32, 1])}),
    "ct-pack": (compressed("pack-quantized", num_bits=4, type="int", strategy="group", group_size=16),
                {"weight_packed": ("I32", [32, 4]), "weight_scale": ("F16", [32, 2]), "weight_shape": ("I64", [2], 32, 32)}),
    "ct-nvfp4": (compressed("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16),
                 {"weight_packed": ("U8", [32, 16]), "weight_scale": ("F8_E4M3", [32, 2]), "weight_global_scale": ("F32", [1])}),
    "ct-mxfp4": (compressed("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32),
                 {"weight_packed": ("U8", [32, 16]), "weight_scale": ("U8", [32, 1])}),
}
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 8, "hidden_size": 32, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 32, "rms_norm_eps": 0.01,
          "torch_dtype": "float16", "tie_word_embeddings": True}
EMBED = {"model.embed_tokens.weight": ("F16", [8, 32])}

for name, (quantization, tensors) in DIRECTORIES.items():
    save("directory", name, {**CONFIG, "quantization_config": quantization}, {**{Q + k: v for k, v in tensors.items()}, **EMBED})
save("directory", "rwkv7", {"model_type": "rwkv7", "hidden_size": 32, "num_hidden_layers": 1, "head_dim": 16, "norm_eps": 4e-5, "vocab_size": 8},
     {**{f"model.layers.0.attn.x_{n}": ("F16", [1, 1, 32]) for n in "rwkvag"}, "model.layers.0.attn.r_k": ("F32", [2, 16]),
      "model.layers.0.attn.a_lora.lora.2.bias": ("F32", [32]), "model.layers.0.pre_norm.weight": ("F32", [32]),
      "model.embeddings.weight": ("F16", [8, 32])})

A = "base_model.model.model.layers.0."
save("adapter", "lora", {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "bias": "none", "use_rslora": False,
                         "rank_pattern": {}, "alpha_pattern": {"q_proj": 8}},
     {A + "self_attn.q_proj.lora_A.weight": ("F32", [2, 16]), A + "self_attn.q_proj.lora_B.weight": ("F32", [16, 2])})
save("adapter", "dora", {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": "all-linear", "use_dora": True},
     {A + "mlp.up_proj.lora_A.weight": ("BF16", [2, 16]), A + "mlp.up_proj.lora_B.weight": ("BF16", [24, 2]),
      A + "mlp.up_proj.lora_magnitude_vector": ("F32", [24])})
save("adapter", "parameters", {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": [], "target_parameters": ["mlp.experts.gate_up_proj"]},
     {A + "mlp.experts.lora_A.weight": ("F32", [4, 16]), A + "mlp.experts.lora_B.weight": ("F32", [32, 4])})

LAYER = {"z": 0, "y": 0, "x": 0, "l": 0, "type": "Dense", "activation": "ReLU", "dtype": "float32", "input_height": 4, "output_height": 3,
         "weights": "#0:48"}
save("netdata", "dense", {"zt.data": "net.safetensors", "id": "n", "depth": 1, "rows": 1, "cols": 1, "layers_per_cell": 1, "layers": [LAYER]},
     {"layers.0.weights": ("F32", [12])})
save("netdata", "native", {"zt.data": "net.safetensors", "id": "n", "depth": 1, "rows": 1, "cols": 1, "layers_per_cell": 1,
                           "layers": [{**LAYER, "dtype": "int8", "native": True, "scale": 0.5, "weights": "#0:12"}]},
     {"layers.0.weights": ("I8", [12])})
