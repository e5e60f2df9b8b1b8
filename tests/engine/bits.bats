#!/usr/bin/env bats
# One sha256: the logits of every token of a prompt are the same bits for any number of threads, any
# --chunk and in any run. What instruction sets have alike, conformance compares.

load ../common/helper

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    cat >prompt <<'END'
The lighthouse keeper counted the ships that passed before dawn: three brigs, a schooner, and one
small boat whose sail had been mended with a red shirt. He wrote each name in a ledger bound in
green cloth, drank his tea cold, and waited for the fog to lift; nobody believed it would end.
END
    head -c 60 prompt >short
    cat prompt prompt prompt >long
    # More tokens than the largest chunk; weights of two families, and a window of 16 tokens.
    "$tests/mkmodel" --ctx 1024 --heads 6 --kv-heads 2 --type q4_1 llama.gguf
    "$tests/mkmodel" --ctx 1024 --arch gemma3 --width 256 --ffn 256 --head 64 --type q4_k gemma.gguf
    # Sizes that K-quants take, and their mixture.
    "$tests/mkmodel" --ctx 512 --layers 1 --width 1024 --ffn 2816 --heads 8 --kv-heads 2 --head 128 \
        --type q4_k --also q6_k k.gguf
    sanitized='' threads='1 2 3 7' chunks='1 7 64 512' text=prompt
    if grep -qs fsanitize "$(dirname "$bin")/flags"; then # slow
        sanitized=1 threads='1 3' chunks='7 512' text=short
    fi
    export sanitized threads chunks text
}

setup() {
    cd "$BATS_FILE_TMPDIR" || exit
}

# The instruction sets that processor and build have.
isas() {
    zt-run --version | sed -n 's/^instructions: //p'
}

# logits MODEL PROMPT OPTION...: their sum. A real model has a BOS or not by its own rule.
logits() {
    local model=$1 prompt=$2
    shift 2
    zt-run -m "$model" --raw -i "$prompt" -n 0 --logits - --all-logits "$@" | sha256sum
}

# same MODEL PROMPT 'THREADS...' 'CHUNKS...' OPTION...: one sum for each of them, with ZT_LONG (make long) for every pair; else the
# last of the chunks comes with every number of threads, and the last number of threads with every chunk.
same() {
    local model=$1 prompt=$2 threads=$3 chunks=$4 t c sum first=
    shift 4
    for t in $threads; do
        for c in $chunks; do
            [ -n "${ZT_LONG-}" ] || [ "$c" = "${chunks##* }" ] || [ "$t" = "${threads##* }" ] || continue
            sum=$(logits "$model" "$prompt" -t "$t" --chunk "$c" "$@")
            first=${first:-$sum}
            [ "$sum" = "$first" ] || { echo "$model $* -t $t --chunk $c: $sum, but first $first"; return 1; }
        done
    done
    echo "$first"
}

@test "made models: one sum over threads and chunks, for each instruction set" {
    [ "$(zt-run -m llama.gguf --count -i long)" -gt 600 ]
    for isa in $(isas); do
        same llama.gguf long "$threads" "$chunks" --isa "$isa"
        same gemma.gguf long "$threads" "$chunks" --isa "$isa"
    done
}

@test "a made model of K-quants, width 1024, ff 2816: one sum, for each instruction set" {
    for isa in $(isas); do
        if [ "$isa" = scalar ] || [ "$sanitized" ]; then
            same k.gguf short '1 3' '7 512' --isa "$isa"
        else
            same k.gguf prompt '1 2 3 7' '1 7 512' --isa "$isa"
        fi
    done
    [ "$sanitized" ] || same k.gguf short '1 3' '7 512' --exact
}

@test "made models: one sum for every type of weights" {
    for type in f32 f16 bf16 q4_0 q5_0 q5_1 q8_0 q2_k q3_k q5_k q6_k iq4_nl iq4_xs q1_0 q2_0 tq1_0 tq2_0 \
        iq3_xxs iq3_s iq2_xxs iq2_xs iq2_s iq1_s; do
        "$tests/mkmodel" --width 256 --ffn 512 --head 64 --layers 1 --type $type $type.gguf
        same $type.gguf short '1 3' '1 5 512'
    done | tee sums
    [ "$(sort -u sums | wc -l)" -eq 23 ]
}

@test "made models: the same with --exact, and with a cache in f32" {
    a=$(same llama.gguf long '1 2 7' '7 64 512' --exact)
    b=$(same gemma.gguf long '1 3' '64 512' --exact)
    c=$(same llama.gguf long '1 3' '64 512' --kv f32)
    d=$(same llama.gguf long '1 3' '64 512')
    [ "$(printf '%s\n' "$a" "$b" "$c" "$d" | sort -u | wc -l)" -eq 4 ]
}

@test "made models: one sum whatever --tile says" {
    for model in llama gemma k; do
        for tile in 1 8 20 64 1000; do
            logits $model.gguf short -t 2 --tile $tile
        done | tee sums
        logits $model.gguf short -t 3 >>sums
        [ "$(sort -u sums | wc -l)" -eq 1 ]
        [ "$(wc -l <sums)" -eq 6 ]
    done
    run -64 --separate-stderr zt-run -m llama.gguf -p a --tile 0
}

@test "made models: twenty runs, one sum" {
    for ((i = 0; i < 20; i++)); do
        logits llama.gguf long -t 3 --chunk 100
        logits gemma.gguf long -t 2 --chunk 512 | sed 's/-/gemma/'
    done | sort -k2 | uniq -c >sums
    cat sums
    [ "$(awk '{print $1, $3}' sums | xargs)" = '20 - 20 gemma' ]
}

@test "made models: a token's logits do not depend on what comes after it" {
    head -c 300 long >begin
    n=$(zt-run -m llama.gguf --count -i begin)
    zt-run -m llama.gguf --raw -i long -n 0 --all-logits --logits a.npy
    zt-run -m llama.gguf --raw -i begin -n 0 --all-logits --logits b.npy -f
    bytes=$((300 * 4 * (n - 20))) # the last tokens of the shorter text may be others
    cmp -n $bytes -i 128 a.npy b.npy
}

# real NAME: its file in $model, or a loud skip. With a sanitizer one model is enough of a wait.
real() {
    model=$("$repo/scripts/model" "$1") || skip "no model: scripts/model $1 failed"
}

@test "SmolLM2: one sum over threads and chunks, for each instruction set" {
    real smollm2
    [ "$(zt-run -m "$model" --count -i prompt)" -gt 60 ]
    for isa in $(isas); do
        if [ "$isa" = "$(isas | awk '{print $NF}')" ]; then
            same "$model" $text "$threads" "$chunks" --isa "$isa"
        elif [ -z "$sanitized" ] && [ "$isa" = scalar ]; then
            same "$model" short '1 3' '3 512' --isa "$isa" # as slow as it is
        elif [ -z "$sanitized" ]; then
            same "$model" prompt '1 3' '7 512' --isa "$isa"
        fi
    done
}

@test "SmolLM2: one sum with --exact" {
    [ -z "$sanitized" ] || skip "with a sanitizer this takes minutes"
    real smollm2
    a=$(same "$model" short '1 2 7' '1 512' --exact)
    b=$(same "$model" short '2' '512')
    [ "$a" != "$b" ]
}

@test "Gemma 3: one sum over threads and chunks, for each instruction set" {
    [ -z "$sanitized" ] || skip "with a sanitizer this takes minutes"
    real gemma3
    [ "$(zt-run -m "$model" --count -i prompt)" -gt 60 ]
    for isa in $(isas); do
        if [ "$isa" = "$(isas | awk '{print $NF}')" ]; then
            same "$model" prompt '1 2 3 7' '1 7 512' --isa "$isa"
        elif [ "$isa" = scalar ]; then
            same "$model" short '1 3' '3 512' --isa "$isa" # as slow as it is
        else
            same "$model" prompt '1 3' '7 512' --isa "$isa"
        fi
    done
}

@test "SmolLM2: drawn text is one text" {
    real smollm2
    for how in '-t 1' '-t 2 --chunk 1' '-t 3 --chunk 5' '-t 7'; do
        zt-run -m "$model" --raw -i short -n 24 --temp 0.8 --seed 7 --ids $how
    done | sort -u >texts
    [ "$(wc -l <texts)" -eq 1 ]
    [ "$(wc -w <texts)" -gt 5 ]
}
