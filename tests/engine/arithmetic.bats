#!/usr/bin/env bats
# docs/arithmetic.md: its number, a second implementation of it, and the bits of small models, which change only with the number.

load ../common/helper

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    echo 'The lighthouse keeper counted the ships that passed before dawn: three brigs, one small boat.' >long
    head -c 12 long >short
}

setup() {
    cd "$BATS_FILE_TMPDIR" || exit
}

number() { sed -n 's/^#define ZT_ARITHMETIC //p' "$repo/lib/engine/engine.h"; }

# logits MODEL PROMPT OPTION...: to logits.npy
logits() {
    local model=$1 prompt=$2
    shift 2
    zt-run -q -f -m "$model" --raw -i "$prompt" -n 0 --logits logits.npy --all-logits "$@"
}

@test "header, page, latest decision and --version have one number" {
    [ -n "$(number)" ]
    [ "$(zt-run --version | sed -n 's/^arithmetic: //p')" = "$(number)" ]
    grep -qF "Its number is **$(number)**" "$repo/docs/arithmetic.md"
    latest=$(grep -lE '^Decided .* Arithmetic [0-9]+\.$' "$repo"/docs/decisions/*.md | sort | tail -1)
    grep -qE "^Decided .* Arithmetic $(number)\.$" "$latest"
}

@test "the tables of gelu on the page are those of the kernels" {
    sed -n '/^static const float erf_tail/,/^};/p; /^static const float tanh_tail/,/^};/p' "$repo/lib/engine/cpu/isa/activations_f32.h" |
        grep -v '^static' | grep -oE -- '-?[0-9][0-9.e+-]*' >kernel
    sed -n '/^    erf c /,/^$/p' "$repo/docs/arithmetic.md" | sed -E 's/^    (erf|tanh) (c|h|k[1-4]) *//' |
        grep -oE -- '-?[0-9][0-9.e+-]*' >page
    [ "$(wc -l <page)" -eq 384 ]
    cmp kernel page
}

# by_page TYPE PROMPT OPTION...: a model of that type of weights
by_page() {
    local type=$1 prompt=$2
    shift 2
    "$tests/mkmodel" --layers 2 --width 64 --ffn 96 --heads 4 --kv-heads 2 --ctx 512 --type "$type" page.gguf
    logits page.gguf "$prompt" "$@"
    # shellcheck disable=SC2046
    python3 "$repo/tests/contract_reference.py" page.gguf logits.npy $(zt-run -m page.gguf -i "$prompt" --tokenize) "$@"
}

@test "a model computed from the page has the same bits" {
    by_page q4_1 long | tee out # more than one tile of keys
    grep -q '^0 of [1-9][0-9]* logits' out
    for type in q4_1 q8_0 f32 f16 bf16; do
        by_page $type short
        by_page $type short --exact
    done
}

# by_program MODEL [FILE]: a text of a few tokens.
by_program() {
    local text=${2:-short}
    logits "$1" "$text"
    zt-trace record -m "$1" >program
    # shellcheck disable=SC2046
    python3 "$repo/tests/contract_program.py" program "$1" logits.npy $(zt-run -m "$1" -i "$text" --tokenize) | tee out
    grep -q '^0 of [1-9][0-9]* logits' out
}

@test "recurrent layers computed from the page have the same bits: gated delta nets, RWKV-7, Mamba, Mamba 2" {
    for arch in qwen35 rwkv7; do
        "$tests/mkmodel" --arch $arch --layers 2 --width 64 --ffn 96 --heads 4 --kv-heads 2 --ctx 512 --type q8_0 recurrent.gguf
        by_program recurrent.gguf
    done
    tar xJf "$repo/tests/llm/state_space/state_space.tar.xz" mamba mamba2
    tar xJf "$repo/tests/llm/state_space/state_space-ggufs.tar.xz" dress
    for arch in mamba mamba2; do
        cp dress/gpt2/tokenizer*.json $arch/
        zt-convert -q -f $arch recurrent.gguf
        by_program recurrent.gguf
    done
}

# one_layer ARCH LAYERS: with narrow rows
one_layer() { "$tests/mkmodel" --arch "$1" --layers "$2" --width 64 --ffn 128 --heads 4 --kv-heads 2 --ctx 512 --type q8_0 page.gguf; }

# The families of operations: windows, caps, chunks, ALiBi and sinks of attention; layer norm; gelu, geglu, gates with bounds; routers by
# softmax, sigmoid and masks, and products of experts. make long has all architectures of mkmodel whose operations the page's
# implementation has.
@test "attention, feed-forward and routed experts of other architectures computed from the page have the same bits" {
    local few='gemma2 gemma3 gpt2 mpt llama4 glm4moe phimoe' more='internlm2 qwen2 qwen3 phi3 smollm3 olmo2 granite qwen2moe qwen3moe
        qwen3next qwen35moe arwkv7 olmoe granitemoe gpt-oss command-r cohere2 stablelm starcoder2 gptneox falcon phi2 exaone exaone4 glm4
        hunyuan-dense baichuan minicpm apertus'
    head -c 24 long >middle # longer than the windows and chunks
    for arch in $few ${ZT_LONG:+$more}; do
        one_layer "$arch" 1
        by_program page.gguf middle
    done
    tar xJf "$repo/tests/llm/gpt_oss/gpt_oss.tar.xz" gpt-oss-bf16
    tar xJf "$repo/tests/llm/gpt_oss/gpt_oss-ggufs.tar.xz" dress
    cp dress/o200k/tokenizer*.json gpt-oss-bf16/
    zt-convert -q -f gpt-oss-bf16 page.gguf
    by_program page.gguf middle
}

@test "latent attention, queries scaled by position, and streams computed from the page have the same bits" {
    head -c 24 long >middle
    for arch in minicpm3 mistral3 gemma3n ${ZT_LONG:+deepseek2 mistral4}; do
        one_layer "$arch" 1
        by_program page.gguf middle
    done
    [ -n "${ZT_LONG-}" ] || return 0
    "$tests/mkmodel" --arch gemma4 --layers 2 page.gguf
    by_program page.gguf middle
}

# by_rows PROMPT: the vector of page.gguf, an encoder
by_rows() {
    zt-run -q -f -m page.gguf -i "$1" --embed -o vector.npy
    zt-trace record -f --embed -m page.gguf -o program
    # shellcheck disable=SC2046
    python3 "$repo/tests/contract_program.py" program page.gguf vector.npy $(zt-run -m page.gguf -i "$1" --tokenize) | tee out
    grep -q '^0 of [1-9][0-9]* numbers' out
}

# modern-bert has a layer with a window, of 8 keys each way, and t5encoder biases of distances. In make long they have more than one tile
# of keys.
@test "encoders computed from the page have the same bits" {
    local text=middle
    head -c 24 long >middle # longer than the window
    for ((i = 0; i < 3; i++)); do cat long; done >longest
    [ -z "${ZT_LONG-}" ] || text=longest
    for arch in nomic-bert ${ZT_LONG:+bert jina-bert-v2}; do
        one_layer "$arch" 2
        by_rows short
    done
    one_layer modern-bert 2
    by_rows $text
    tar xJf "$repo/tests/llm/rows/rows.tar.xz" t5 t5-gated
    tar xJf "$repo/tests/llm/rows/rows-ggufs.tar.xz" dress
    for model in t5 t5-gated; do
        cp dress/spm/* $model/
        zt-convert -q -f $model page.gguf
        by_rows $text
    done
}

@test "a long text, with more than one chunk of keys (make long)" {
    [ -n "${ZT_LONG-}" ] || skip "minutes: make long"
    for ((i = 0; i < 6; i++)); do cat long; done >longer
    by_page q8_0 longer
    by_page bf16 long
}

# Lines "NUMBER SHA256 WHAT".
sums() {
    local type how
    for type in f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs q1_0 tq1_0 tq2_0 iq3_xxs iq3_s iq2_xxs iq2_xs \
        iq2_s iq1_s; do
        "$tests/mkmodel" --width 256 --ffn 512 --head 64 --layers 1 --type "$type" model.gguf
        for how in '' --exact; do
            logits model.gguf short $how
            echo "$(number) $(sha256sum <logits.npy | cut -d' ' -f1) llama $type $how"
        done
    done
    for arch in gemma3 qwen3 gpt2 qwen2moe rwkv7; do
        "$tests/mkmodel" --arch $arch model.gguf
        logits model.gguf long
        echo "$(number) $(sha256sum <logits.npy | cut -d' ' -f1) $arch"
    done
}

@test "the bits of small models change only with the number" {
    sums | sed 's/ *$//' >now
    if ! diff "$repo/tests/engine/arithmetic.sums" now; then
        echo "Bits of logits have changed. If that is wanted: a higher ZT_ARITHMETIC, the page, a decision, and"
        echo "cp $BATS_FILE_TMPDIR/now tests/engine/arithmetic.sums"
        false
    fi
    [ "$(cut -d' ' -f1 now | sort -u)" = "$(number)" ]
    [ "$(wc -l <now)" -gt 50 ]
}
