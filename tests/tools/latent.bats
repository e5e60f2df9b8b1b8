#!/usr/bin/env bats
# Models with latent attention, made small, through the tools: text is the same however it is made; a cache of one row a token;
# quantized, written for transformers and back, compared, merged and trained.

load ../common/helper
load ../common/same_text

rows=(deepseek2 mistral4 minicpm3)

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    for arch in deepseek2 mistral4 minicpm3; do
        "$tests/mkmodel" --arch "$arch" --seed 3 --ctx 256 "$arch.gguf"
    done
}

setup() { cd "$BATS_FILE_TMPDIR" || exit; }

@test "the same text for any chunk, threads, draft and plan, and from the forward pass as text" {
    for arch in "${rows[@]}"; do same_text_each_way "$arch.gguf"; done
}

@test "a session cut at any word goes on as if it had not been" {
    for arch in "${rows[@]}"; do same_text_from_session "$arch.gguf"; done
}

@test "33 texts beside each other are those of runs alone" {
    for arch in "${rows[@]}"; do same_text_beside_32 "$arch.gguf" $(seq 33); done
}

@test "a session holds of a token one row a layer: the latent and the rotated key" {
    for arch in "${rows[@]}"; do
        rm -f short long
        zt-run -m "$arch.gguf" -p 'the cat' -n 0 --session short
        zt-run -m "$arch.gguf" -p 'the cat the cat' -n 0 --session long
        # two layers of f16[32 + 8] and the token's id; made models spell one letter a token
        tokens=$((($(stat -c %s long) - $(stat -c %s short)) / (2 * 40 * 2 + 4)))
        [ $((tokens * (2 * 40 * 2 + 4))) = $(($(stat -c %s long) - $(stat -c %s short))) ]
        [ "$tokens" -gt 3 ]
        [ "$tokens" -lt 16 ]
    done
}

@test "quantized by mixes, and run" {
    for arch in "${rows[@]}"; do
        "$tests/mkmodel" --arch "$arch" --seed 3 --ctx 256 --type f16 --width 256 --head 128 --ffn 512 wide.gguf
        for type in q8_0 q4_k_m q2_k mxfp4_moe; do
            zt-quant -f --type "$type" wide.gguf small.gguf
            zt-run -m small.gguf -p 'the cat' -n 8 --temp 0 >text
            zt-run -m small.gguf -p 'the cat' -n 8 --temp 0 --chunk 1 | cmp - text
        done
        zt-quant -f --type q4_k_m wide.gguf small.gguf
        zt-convert --list small.gguf >list
        grep 'attn_q_a.weight' list | grep -q q4_k
        [ -z "$(grep '_norm.weight' list | grep -v f32)" ]
    done
    grep 'attn_kv_b.weight' list | grep -q q6_k # a value matrix, by the mix's rule
}

@test "to a Hugging Face directory and back: the same tensors" {
    for arch in "${rows[@]}"; do
        "$tests/mkmodel" --arch "$arch" --seed 3 --ctx 256 --type f32 plain.gguf
        rm -rf folder
        zt-convert plain.gguf folder/
        zt-convert -f folder/ again.gguf
        for file in plain again; do zt-convert --hash $file.gguf | grep -v -e attn_k_b -e _exps | sort >$file; done
        cmp plain again
        for file in plain again; do zt-run -m $file.gguf -p 'the cat' -n 12 --temp 0 --exact >$file; done
        cmp plain again
    done
}

@test "compared and merged" {
    for arch in "${rows[@]}"; do
        for seed in 3 4; do "$tests/mkmodel" --arch "$arch" --seed $seed --ctx 256 --type f32 $seed.gguf; done
        run -1 --separate-stderr zt-dna compare 3.gguf 4.gguf
        printf '%s\n' "$output" >table
        grep -q attn_kv_a_mqa table
        zt-dna merge -f --method linear 3.gguf 4.gguf -o merged.gguf
        zt-run -m merged.gguf -p 'the cat' -n 8 --temp 0 >text
        [ -s text ]
    done
}

@test "an importance matrix, and a mix by it" {
    "$tests/mkmodel" --arch deepseek2 --seed 3 --ctx 256 --type f16 --width 256 --head 128 --ffn 512 wide.gguf
    printf 'the cat sat on the mat %.0s' {1..40} >text
    zt-quant -f --make-imatrix -m wide.gguf -i text -o sums.gguf
    zt-convert --list sums.gguf >list
    grep -q 'blk.0.attn_q_b.weight.in_sum2' list
    grep -q 'blk.0.attn_v_b.weight.in_sum2' list
    zt-quant -f --type q2_k --imatrix sums.gguf wide.gguf small.gguf
    zt-run -m small.gguf -p 'the cat' -n 4 --temp 0 >text
}

@test "trained: the loss falls, and the result says what it learned" {
    printf 'the cat sat on the mat. %.0s' {1..120} >text
    for arch in "${rows[@]}"; do
        "$tests/mkmodel" --arch "$arch" --seed 3 --ctx 256 --type f32 plain.gguf
        zt-train -q -f -m plain.gguf --text text -c 32 --batch 4 --epochs 4 --lr .003 -o trained.gguf >history
        perl -MJSON::PP -ne 'push @l, decode_json($_)->{loss}; END {exit !($l[-1] < .3 * $l[0])}' history
        zt-run --raw -m trained.gguf -p 'the cat sat' -n 12 --temp 0 >out
        grep -q 'on the mat' out
    done
}
