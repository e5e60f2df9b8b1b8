#!/usr/bin/env bats
# zt-dna merge: heads that are embeddings, and parents that do not go together.

load ../common/helper

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    set=$(cd "${ZT_TESTS:-build/tests}/.." && pwd)/lora
    ln -s "$set"/bases/llama untied
    ln -s "$set"/bases/tied tied
    ln -s "$set"/tied_head/a adapter
    zt-convert -q tied tied.gguf
    zt-convert -q untied untied.gguf
    # the tied model with its embedding as a head of its own
    zt-dna merge tied.gguf+adapter=0 -o both.gguf
    "$tests/mkmodel" --arch llama --ctx 256 a.gguf
    "$tests/mkmodel" --arch qwen2 --ctx 256 q.gguf
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    ln -s "$BATS_FILE_TMPDIR"/* .
}

refused() { # CODE WORD ARGUMENTS
    local code=$1 word=$2
    shift 2
    run --separate-stderr zt-dna merge "$@" -o new.gguf
    echo "zt-dna merge $*: $status $stderr"
    [ "$status" -eq "$code" ] && one_message zt-dna && [[ $stderr == *"$word"* ]] && [ ! -e new.gguf ]
}

same() { diff <(zt-convert --hash "$1") <(zt-convert --hash "$2"); }

has_head() { zt-convert --list "$1" | grep -q "^$2"; }

@test "the head of a tied model is its embedding: every method, either order, GGUF" {
    has_head both.gguf output.weight
    run ! has_head tied.gguf output.weight
    while read -r first second arguments; do
        # shellcheck disable=SC2086
        zt-dna merge $arguments $first.gguf $second.gguf -f -o child.gguf
        # shellcheck disable=SC2086
        zt-dna merge ${arguments/ tied.gguf/ both.gguf} ${first/#tied/both}.gguf ${second/#tied/both}.gguf -f -o want.gguf
        has_head child.gguf output.weight
        same child.gguf want.gguf || { echo "$first $second $arguments"; false; }
    done <<'END'
tied untied --method linear --weight 0.3,0.7
untied tied --method linear --weight 0.3,0.7
tied untied --method slerp --t 0.25
untied tied --method slerp --t 0.25
tied untied --method nuslerp --weight 0.3,0.7
tied untied --method karcher
tied untied --method nearswap --t 0.1
untied tied --method task_arithmetic --base tied.gguf --weight 0.5
untied tied --method ties --base tied.gguf --weight 0.5 --density 0.5
untied tied --method dare_ties --base untied.gguf --weight 0.5 --density 0.5 --seed 3
tied untied --method breadcrumbs --base untied.gguf --weight 0.5 --density 0.9 --gamma 0.01 --lambda 1
END
}

@test "two tied models give a tied child; a directory's config.json says which it is" {
    zt-dna merge --method linear tied.gguf tied -o child.gguf
    run ! has_head child.gguf output.weight
    for order in 'tied untied' 'untied tied'; do
        # shellcheck disable=SC2086
        zt-dna merge --method linear $order -f -o child.gguf
        rm -rf child
        # shellcheck disable=SC2086
        zt-dna merge --method linear $order -o child/
        json '!$j->{tie_word_embeddings}' <child/config.json
        has_head child/model.safetensors lm_head.weight
        same child child.gguf
    done
    zt-dna merge --method linear tied tied.gguf -o twice/
    json '$j->{tie_word_embeddings}' <twice/config.json
    # safetensors without metadata: by Hugging Face's names
    zt-dna merge --method linear tied/model.safetensors untied/model.safetensors -o child.safetensors
    has_head child.safetensors lm_head.weight
    rm -r child/model.safetensors
    cp child.safetensors child/model.safetensors
    same child child.gguf
}

@test "slices of a tied and an untied model" {
    for order in 'tied untied' 'untied tied'; do
        read -r first second <<<"$order"
        cat >recipe.json <<END
{"merge_method": "passthrough", "slices": [{"sources": [{"model": "$first.gguf", "layer_range": [0, 1]}]},
 {"sources": [{"model": "$second.gguf", "layer_range": [1, 2]}]}]}
END
        zt-dna merge --config recipe.json -f -o child.gguf
        # the embedding is the first one's, the head the last one's
        cmp <(zt-convert --cat token_embd.weight child.gguf) <(zt-convert --cat token_embd.weight $first.gguf)
        from=output.weight
        [ "$second" = untied ] || from=token_embd.weight
        cmp <(zt-convert --cat output.weight child.gguf) <(zt-convert --cat $from $second.gguf)
        zt-run -m child.gguf -p abc -n 2 --temp 0 >text
    done
}

@test "parents that do not go together are one line" {
    refused 65 architecture --method linear a.gguf q.gguf
    zt-convert -q --set llama.attention.head_count=2 untied.gguf heads.gguf
    refused 65 "'llama.attention.head_count' is 2" --method linear untied.gguf heads.gguf
    zt-convert -q --set llama.attention.head_count=4 --set llama.attention.head_count_kv=2 a.gguf sizes.gguf
    refused 65 'token 0 is' --method linear sizes.gguf untied.gguf
    zt-convert -q --unset tokenizer.ggml.tokens sizes.gguf bare.gguf
    refused 65 "'token_embd.weight' has type" --method linear bare.gguf untied.gguf
    # tensors that only one of them has
    zt-convert -q --drop blk.1.ffn_up.weight untied.gguf less.gguf
    refused 65 "'blk.1.ffn_up.weight'" --method linear less.gguf untied.gguf
    refused 65 "'blk.1.ffn_up.weight'" --method linear untied.gguf less.gguf
    # other tokens of the same number
    sed 's/"z"/"Z"/' tied/tokenizer.json >tokenizer.json
    mkdir other
    cp tied/*.json tied/model.safetensors other/
    cp -f tokenizer.json other/tokenizer.json
    refused 65 "token 28 is 'Z'" --method linear tied other
    refused 65 "token 28 is 'z'" --method linear other tied.gguf
}

@test "what a template or an adapter has no place for is told" {
    run --separate-stderr zt-dna splice tied.gguf untied.gguf -o child.gguf
    [ "$status" -eq 0 ] && [[ $stderr == *"1 layer only in untied.gguf is not in the child: 'output.weight'"* ]]
    run --separate-stderr zt-dna splice untied.gguf tied.gguf -f -o child.gguf
    [ "$status" -eq 0 ] && [[ $stderr != *"not in the child"* ]]
    zt-dna merge -q untied.gguf -o same.gguf
    zt-dna merge -q tied.gguf+adapter -o tuned.gguf
    # its head is the adapter's, which the tied base has no tensor for
    zt-dna lora --rank 4 tied.gguf tuned.gguf -o l.gguf 2>told
    grep -q '^zt-dna: warning: 1 tensors that differ' told
}
