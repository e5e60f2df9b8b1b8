#!/usr/bin/env bats
# --strict-bits: the bits of docs/arithmetic.md on every engine, or exit 69 with the op that does not promise them.

load ../common/helper

setup_file() {
    make_models
    cd "$BATS_FILE_TMPDIR" || exit
    export XDG_CACHE_HOME=$BATS_FILE_TMPDIR/cache MESA_SHADER_CACHE_DIR=$BATS_FILE_TMPDIR/mesa
    "$tests/mkmodel" --layers 2 --type q4_1 made.gguf
    zt-run -q -m made.gguf --raw -p 'a small boat' -n 0 --logits cpu.npy --all-logits
    zt-run -q -m made.gguf --raw -p 'a small boat' -n 20 --seed 7 --receipt cpu.json >/dev/null
}

setup() { cd "$BATS_FILE_TMPDIR" || exit; }

@test "the cpu has the bits with and without it" {
    zt-run -q -f -m made.gguf --raw -p 'a small boat' -n 0 --logits strict.npy --all-logits --strict-bits
    cmp cpu.npy strict.npy
}

@test "ref refuses, and names the op" {
    run -69 --separate-stderr zt-run -m made.gguf --raw -p a -n 2 --engine ref --strict-bits
    [[ ${stderr##*$'\n'} == 'zt-run: engine ref: op '*' with output '*' does not have the bits of arithmetic '* ]]
    [ -z "$output" ]
}

@test "--compute has other bits" {
    run -64 --separate-stderr zt-run -m made.gguf --raw -p a -n 2 --compute f16 --strict-bits
}

@test "vulkan on a driver for processors: the same logits, and receipts that each engine verifies of the other" {
    zt-run --version | grep -q '^vulkan:0: .*, cpu, ' || skip 'no Vulkan driver that runs on a processor'
    for how in '' --exact; do
        zt-run -q -f -m made.gguf --raw -p 'a small boat' -n 0 --logits cpu.npy --all-logits $how
        zt-run -q -f -m made.gguf --raw -p 'a small boat' -n 0 --logits vulkan.npy --all-logits --engine vulkan --strict-bits $how
        cmp cpu.npy vulkan.npy
    done
    zt-run -q -f -m made.gguf --raw -p 'a small boat' -n 20 --seed 7 --engine vulkan --strict-bits --receipt vulkan.json >/dev/null
    [ "$(grep -o '"chain":.*' cpu.json)" = "$(grep -o '"chain":.*' vulkan.json)" ]
    zt-run -q -m made.gguf --verify vulkan.json
    zt-run -q -m made.gguf --verify cpu.json --engine vulkan --strict-bits
    run -69 --separate-stderr zt-run -m made.gguf --verify cpu.json --engine vulkan
    [[ $stderr == *'use --strict-bits or --engine cpu' ]]
}

# same_logits ENGINE MODEL OPTION...: as the cpu's
same_logits() {
    local engine=$1 model=$2
    shift 2
    zt-run -q -f -m "$model" --raw -p 'a small boat' -n 0 --logits cpu.npy --all-logits "$@"
    zt-run -q -f -m "$model" --raw -p 'a small boat' -n 0 --logits "$engine.npy" --all-logits --engine "$engine" --strict-bits \
        --strict-engine "$@"
    cmp cpu.npy "$engine.npy" || { echo "$engine $model $*"; return 1; }
}

need_emulation() {
    [ -e "$tests/libcuda-emu.so" ] || skip 'built without CUDA'
    export ZT_LIBCUDA=$tests/libcuda-emu.so ZT_LIBHIP=$tests/libcuda-emu.so
}

@test "cuda, emulated: the same logits of models of each family of weights, by default and with --exact" {
    need_emulation
    for type in q4_1 q8_0 f16 bf16 f32 iq3_xxs; do
        size=(--width 64 --ffn 96)
        [ "$type" != iq3_xxs ] || size=(--width 256 --ffn 256 --head 64)
        "$tests/mkmodel" --layers 1 "${size[@]}" --type "$type" one.gguf
        same_logits cuda one.gguf
        same_logits cuda one.gguf --exact
    done
    "$tests/mkmodel" --arch gemma3 --layers 2 --width 256 --ffn 256 --head 64 --type q4_k --also q6_k gemma.gguf
    same_logits cuda gemma.gguf
    same_logits cuda gemma.gguf --exact
}

@test "cuda, emulated: keys of several chunks, and receipts that each engine verifies of the other" {
    need_emulation
    head -c 330 "$repo/README.md" >long
    zt-run -q -f -m made.gguf --raw -i long -n 2 --ctx 1024 --seed 7 --receipt cpu_long.json >/dev/null
    zt-run -q -f -m made.gguf --raw -i long -n 2 --ctx 1024 --seed 7 --engine cuda --strict-bits --receipt cuda.json >/dev/null
    [ "$(grep -o '"chain":.*' cpu_long.json)" = "$(grep -o '"chain":.*' cuda.json)" ]
    zt-run -q -m made.gguf --verify cuda.json
    zt-run -q -m made.gguf --verify cpu.json --engine cuda --strict-bits
}

@test "hip, emulated, has the same kernels" {
    need_emulation
    same_logits hip made.gguf
}

@test "cuda refuses what its kernels do not promise, and names the op" {
    need_emulation
    "$tests/mkmodel" --arch qwen3moe --layers 1 moe.gguf
    run -69 --separate-stderr zt-run -m moe.gguf --raw -p a -n 2 --engine cuda --strict-bits
    [[ ${stderr##*$'\n'} == 'zt-run: engine cuda: op '*' does not have the bits of arithmetic '* ]]
}

@test "kernels of cuda have the bits that they promise" { # with ZT_LONG (make long) of all ops
    need_emulation
    local ops=(linear rms_norm rope rope_put swiglu geglu scale gather)
    run -0 "$tests/conformance" contract cuda "${ops[@]}"
    [[ $output != *', 0 promised'* ]]
    [ -z "${ZT_LONG-}" ] || "$tests/conformance" contract cuda
}
