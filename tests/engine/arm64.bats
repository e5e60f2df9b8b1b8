#!/usr/bin/env bats
# AArch64 has the bits of this machine: what `make arm64` built, run by qemu's user mode, beside the programs of this machine.
# ZT_ARM64 names its folder; without it the tests are skipped. `make arm64-bits` builds and runs all, with ZT_LONG=1 also real
# models, which take minutes.

load ../common/helper

setup_file() {
    arm=${ZT_ARM64:-}
    [ -n "$arm" ] || return 0
    [ -x "$arm/run/zt-run" ] || { echo "$arm: type 'make arm64'"; return 1; }
    cd "$BATS_FILE_TMPDIR" || exit
    echo 'The lighthouse keeper counted the ships that passed before dawn: three brigs.' >prompt
    for type in f32 f16 bf16 q4_0 q4_1 q5_0 q8_0 q2_k q3_k q4_k q6_k iq4_nl iq4_xs mxfp4 tq1_0; do
        "$tests/mkmodel" --width 256 --ffn 512 --head 64 --layers 1 --type $type $type.gguf
    done
    "$tests/mkmodel" --arch gemma3 --width 256 --ffn 256 --head 64 --type q4_k gemma.gguf
    export arm
}

setup() {
    [ -n "${ZT_ARM64:-}" ] || skip "no build for AArch64: make arm64-bits"
    cd "$BATS_FILE_TMPDIR" || exit
}

# The instruction sets of the build for AArch64.
isas() { "$arm/run/zt-run" --version | sed -n 's/^instructions: //p'; }

# same MODEL TEXT OPTION...: one sum of all logits, here and by each instruction set there.
same() {
    local model=$1 text=$2 isa here there options
    shift 2
    options=(-m "$model" --raw -i "$text" -n 0 --logits - --all-logits "$@")
    here=$("$bin/zt-run" "${options[@]}" | sha256sum)
    for isa in $(isas); do
        there=$("$arm/run/zt-run" "${options[@]}" --isa "$isa" -t 2 | sha256sum)
        echo "${here%% *} ${there%% *} $isa $(basename "$model") $*"
        [ "$here" = "$there" ] || return 1
    done
}

@test "AArch64 has scalar, neon and dotprod, and no instruction set of x86-64" {
    [ "$(isas)" = 'scalar neon dotprod' ]
    [ "$(ZT_QEMU_CPU=cortex-a72 isas)" = 'scalar neon' ]
    run -69 --separate-stderr "$arm/run/zt-run" -m q4_0.gguf -p a -n 1 --isa avx2
    one_message zt-run
    run -69 --separate-stderr "$bin/zt-run" -m q4_0.gguf -p a -n 1 --isa neon
    one_message zt-run
}

# erf of f64 is the C library's, whose last bit differs.
op_bits() { grep -E ' [0-9a-f]{16} [0-9a-f]{16}$' | grep -vE '^(erf|gelu|geglu) f64 '; }

@test "every op's cases have this machine's bits on AArch64" {
    "$tests/conformance" bits scalar | op_bits >here
    [ "$(wc -l <here)" -gt 600 ]
    for isa in $(isas); do
        qemu-aarch64 -cpu max -L "$("$arm/run/sysroot")" "$arm/tests/conformance" bits "$isa" | op_bits >there
        diff here there
    done
}

@test "made models of each type of weights: one sum of all logits on both" {
    for type in f32 f16 bf16 q4_0 q4_1 q5_0 q8_0 q2_k q3_k q4_k q6_k iq4_nl iq4_xs mxfp4 tq1_0; do same $type.gguf prompt; done
    same gemma.gguf prompt
}

@test "made models: one sum of all logits on both with --exact" {
    for model in q4_0 q8_0 q4_k bf16 gemma; do same $model.gguf prompt --exact; done
}

@test "SmolLM2 and Gemma 3: one sum of all logits on both" {
    [ -n "${ZT_LONG-}" ] || skip "minutes: ZT_LONG=1"
    for name in smollm2 gemma3; do
        model=$("$repo/scripts/model" $name) || skip "no model: scripts/model $name failed"
        same "$model" prompt
        same "$model" prompt --exact
    done
}
