#!/usr/bin/env bats
# Hugging Face directories and safetensors through zt-run: what may be named, and what is said of what
# is not there. The models are those of tests/llm/archs; the tokenizer is of single characters.

load ../common/helper

setup_file() {
    archs=$(realpath "$tests/../archs")
    export archs
    perl -e 'my @t = ((map { chr } 33 .. 126), "\xc4\xa0", "\xc4\x8a");
        s/(["\\])/\\$1/ for @t;
        my $vocab = join ",", map { "\"$t[$_]\":$_" } 0 .. $#t;
        my $level = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}";
        print "{\"model\":{\"type\":\"BPE\",\"vocab\":{$vocab},\"merges\":[]},",
            "\"pre_tokenizer\":$level,\"decoder\":$level,\"added_tokens\":[]}\n"' \
        >"$BATS_FILE_TMPDIR/tokenizer.json"
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    cp -r "$archs/llama" llama
    cp -r "$archs/llama-shards" shards
    chmod -R u+w .
    cp "$BATS_FILE_TMPDIR/tokenizer.json" llama
    cp "$BATS_FILE_TMPDIR/tokenizer.json" shards
}

ids() { # model
    zt-run -m "$1" --raw --temp 0 -p 'Hello there' -n 8 --ids
}

# refused CODE WORD MODEL: one line that has the word
refused() {
    run -"$1" --separate-stderr zt-run -m "$3" --raw -p x -n 1
    one_message zt-run
    [[ $stderr == *"$2"* ]]
}

@test "a directory, or its weights, is a model" {
    want=$(ids llama)
    [ "$(wc -w <<<"$want")" -eq 8 ]
    [ "$(ids llama/)" = "$want" ]
    [ "$(ids llama/model.safetensors)" = "$want" ]
    [ "$(cd llama && ids model.safetensors)" = "$want" ]
    [ "$(cd llama && ids .)" = "$want" ]
}

@test "shards: by the directory, the index or any shard" {
    want=$(ids shards)
    [ "$(ids shards/model.safetensors.index.json)" = "$want" ]
    for shard in shards/*-of-*.safetensors; do [ "$(ids "$shard")" = "$want" ]; done
}

@test "text goes in and comes out as in any model" {
    [ "$(zt-run -m llama --tokenize -p 'ab!')" = "64 65 0" ]
    [ "$(zt-run -m llama --detokenize -p '64 94 65')" = "a b" ]
    [ "$(zt-run -m llama --count -p 'ab!')" = 3 ]
    zt-run -m llama --dry-run >/dev/null
}

@test "a vocabulary needs neither weights nor a known architecture" {
    mkdir words
    cp llama/tokenizer.json words
    echo '{"model_type":"dinosaur"}' >words/config.json
    [ "$(zt-run -m words --tokenize -p 'ab')" = "64 65" ]
    refused 69 "'dinosaur'" words
    cp llama/config.json words
    [ "$(zt-run -m words --tokenize -p 'ab')" = "64 65" ]
    refused 66 "no weights: searched for model.safetensors" words
}

@test "what is not there is 66" {
    refused 66 nowhere nowhere
    mkdir empty
    refused 66 "without config.json" empty
    mv llama/config.json .
    refused 66 "without config.json" llama
    refused 66 "without config.json" llama/model.safetensors
    rm "$(ls shards/*-of-*.safetensors | tail -1)"
    refused 66 "No such file" shards
    run -66 --separate-stderr zt-run -m - --raw -p x <shards/model-00001-of-00003.safetensors
    one_message zt-run
}

@test "what is broken is 65, what is odd 69" {
    truncate -s -1 llama/model.safetensors
    refused 65 "bytes of data" llama
    : >llama/model.safetensors
    refused 65 "0 bytes" llama
    sed -i 's/"model-00002-of/"..\/model-00002-of/' shards/model.safetensors.index.json
    refused 65 "plain file name" shards
    cp -r "$archs/qwen3" odd
    chmod -R u+w odd
    sed -i 's/"qwen3"/"llama"/' odd/config.json
    cp llama/tokenizer.json odd
    refused 69 "k_norm" odd
    echo '{"model_type":"llama","num_hidden_layers":"two"}' >odd/config.json
    refused 65 "num_hidden_layers" odd
}
