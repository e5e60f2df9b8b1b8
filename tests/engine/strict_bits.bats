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

@test "cuda, emulated, refuses and names the op" {
    [ -e "$tests/libcuda-emu.so" ] || skip 'built without CUDA'
    ZT_LIBCUDA=$tests/libcuda-emu.so run -69 --separate-stderr zt-run -m made.gguf --raw -p a -n 2 --engine cuda --strict-bits
    [[ ${stderr##*$'\n'} == 'zt-run: engine cuda: op '*' does not have the bits of arithmetic '* ]]
}
