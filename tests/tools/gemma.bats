#!/usr/bin/env bats
# Gemma 3n and 4, made small, through the tools: text is the same however it is made; caches that layers share are there once;
# of per-layer embeddings a token reads its rows; quantized, written for transformers and back, compared, merged and trained.

load ../common/helper
load ../common/same_text

rows=(gemma3n gemma4 experts)

make_row() { # ROW OPTION... FILE
    case $1 in
    experts) "$tests/mkmodel" --arch gemma4 --layers 6 --experts 4 --seed 3 --ctx 256 "${@:2}" ;;
    *) "$tests/mkmodel" --arch "$1" --layers 6 --seed 3 --ctx 256 "${@:2}" ;;
    esac
}

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    for row in gemma3n gemma4 experts; do make_row $row $row.gguf; done
}

setup() { cd "$BATS_FILE_TMPDIR" || exit; }

@test "the same text for any chunk, threads, draft and plan, and from the forward pass as text" {
    for row in "${rows[@]}"; do same_text_each_way "$row.gguf"; done
}

@test "a session cut at any word goes on as if it had not been" {
    for row in "${rows[@]}"; do same_text_from_session "$row.gguf"; done
}

@test "33 texts beside each other are those of runs alone" {
    for row in "${rows[@]}"; do same_text_beside_32 "$row.gguf" 1 8 17 26 33; done
}

@test "caches that layers share are there once, in a session and in memory" {
    # bytes of a token in f16: keys and values of the four layers that have a cache, of 2 key heads of 16 (of 4 without a window:
    # one of 32), and its id
    for row in gemma3n gemma4; do
        rm -f short long
        zt-run -m "$row.gguf" -p 'the cat' -n 0 --session short
        zt-run -m "$row.gguf" -p 'the cat the cat' -n 0 --session long
        tokens=$(($(zt-run -m "$row.gguf" --count -p 'the cat the cat') - $(zt-run -m "$row.gguf" --count -p 'the cat')))
        [ "$tokens" -gt 1 ]
        [ $((tokens * (4 * 2 * 32 * 2 + 4))) = $(($(stat -c %s long) - $(stat -c %s short))) ]
        zt-run -m "$row.gguf" --dry-run -c 256 >need
        grep -P '^kv\t131072$' need
    done
}

@test "quantized by mixes, and run" {
    for row in "${rows[@]}"; do
        make_row "$row" --type f16 --width 256 --head 64 --ffn 512 wide.gguf
        for type in q8_0 q4_k_m q2_k; do
            zt-quant -f --type "$type" wide.gguf small.gguf
            zt-run -m small.gguf -p 'the cat' -n 8 --temp 0 >text
            zt-run -m small.gguf -p 'the cat' -n 8 --temp 0 --chunk 1 | cmp - text
        done
        zt-quant -f --type q4_k_m wide.gguf small.gguf
        zt-convert --list small.gguf >list
        # as llama.cpp has it: the table of per-layer embeddings by the rule of embeddings, small matrices as they are
        grep 'per_layer_token_embd.weight' list | grep -qE 'q6_k|q8_0'
        grep 'per_layer_model_proj.weight' list | grep -q f16
        [ -z "$(grep -E 'altup|laurel' list | grep -vE 'f16|f32')" ]
        [ -z "$(grep -E '_norm.weight|[.]scale|ffn_gate_inp' list | grep -v f32)" ]
    done
}

@test "to a Hugging Face directory and back: the same tensors and text" {
    for row in "${rows[@]}"; do
        make_row "$row" --type f32 plain.gguf
        rm -rf folder
        zt-convert plain.gguf folder/
        zt-convert -f folder/ again.gguf
        for file in plain again; do zt-convert --hash $file.gguf | sort >$file; done
        [ "$(wc -l <plain)" -gt 60 ]
        cmp plain again
        for file in plain again; do zt-run -m $file.gguf -p 'the cat' -n 12 --temp 0 --exact >$file; done
        cmp plain again
    done
}

@test "compared and merged" {
    for row in "${rows[@]}"; do
        for seed in 3 4; do make_row "$row" --seed $seed --type f32 $seed.gguf; done
        run -1 --separate-stderr zt-dna compare 3.gguf 4.gguf
        printf '%s\n' "$output" >table
        grep -q inp_gate table
        zt-dna merge -f --method linear 3.gguf 4.gguf -o merged.gguf
        zt-run -m merged.gguf -p 'the cat' -n 8 --temp 0 >text
        [ -s text ]
    done
}

@test "an importance matrix, and a mix by it" {
    for row in gemma3n experts; do
        make_row $row --type f16 --width 256 --head 64 --ffn 512 wide.gguf
        printf 'the cat sat on the mat %.0s' {1..40} >text
        zt-quant -f --make-imatrix -m wide.gguf -i text -o sums.gguf
        zt-convert --list sums.gguf >list
        grep -q 'blk.5.inp_gate.weight.in_sum2' list
        grep -q 'blk.5.ffn_down.weight.in_sum2' list
        zt-quant -f --type q2_k --imatrix sums.gguf wide.gguf small.gguf
        zt-run -m small.gguf -p 'the cat' -n 4 --temp 0 >text
    done
}

@test "trained: the loss falls, and the result says what it learned" {
    printf 'the cat sat on the mat. %.0s' {1..120} >text
    for row in "${rows[@]}"; do # of Gemma 4 the divisors of rope are a tensor that is not learned, but written
        make_row "$row" --type f32 plain.gguf
        zt-train -q -f -m plain.gguf --text text -c 32 --batch 4 --epochs 4 --lr .003 -o trained.gguf >history
        perl -MJSON::PP -ne 'push @l, decode_json($_)->{loss}; END {exit !($l[-1] < .3 * $l[0])}' history
        zt-run --raw -m trained.gguf -p 'the cat sat' -n 12 --temp 0 >out
        grep -q 'on the mat' out
        for file in plain trained; do zt-convert --list $file.gguf | cut -f 1,3 | sort >$file; done
        cmp plain trained
    done
}
