#!/usr/bin/env bats
# Each fuzz target a little, by the plain driver: what make fuzz found once stays mended.

load ../common/helper

setup() {
    tests="$BATS_TEST_DIRNAME"
    cd "$BATS_TEST_TMPDIR"
}

# drive TARGET FILE...: every file, then 5000 inputs made from them
drive() {
    local target=$1
    shift
    run -0 "$ZT_TESTS/fuzz_$target" -n 5000 -s 1 "$@"
    [[ $output == "$# files and 5000 inputs made from them" ]]
}

@test "gguf: a made model, changed" {
    "$ZT_TESTS/mkmodel" --layers 1 --width 32 --vocab 259 m.gguf
    drive gguf m.gguf
}

@test "checkpoint: masks of each container, changed" {
    drive checkpoint "$tests"/seeds/checkpoint/*
}

@test "dna: networks and signatures, changed" {
    drive dna "$tests"/seeds/dna/*
}

@test "evolve: states of populations and recipes, changed" {
    drive evolve "$tests"/seeds/evolve/*
}

@test "directory: configurations and weights of quantized models, changed" {
    drive directory "$tests"/seeds/directory/*
}

@test "adapter: configurations and weights of adapters, changed" {
    drive adapter "$tests"/seeds/adapter/*
}

@test "netdata: networks and the files of their weights, changed" {
    drive netdata "$tests"/seeds/netdata/*
}

@test "netjson: networks and frames, changed" {
    drive netjson "$tests"/seeds/netjson/*
}

@test "nn: networks, lowered and saved, changed" {
    drive nn "$tests"/seeds/nn/*
}

@test "grammar: GBNF, regular expressions and schemas, and texts, changed" {
    drive grammar "$tests"/seeds/grammar/*
}

@test "kv: a block of the KV store, changed" {
    drive kv "$tests"/seeds/kv/*
}

@test "sign: signatures and their statements, changed" {
    drive sign "$tests"/seeds/sign/*
}

@test "recipe: merges in YAML and JSON, changed" {
    drive recipe "$tests"/seeds/recipe/*
}

@test "npy: arrays, changed" {
    drive npy "$tests"/seeds/npy/*
}

@test "npz: archives, changed" {
    drive npz "$tests"/seeds/npz/*
}

@test "pt: checkpoints and pickles, changed" {
    drive pt "$tests"/seeds/pt/*
}

@test "pass: programs for the passes, changed" {
    drive pass "$tests"/seeds/prog/*
}

@test "prog: a program, changed" {
    drive prog "$tests"/seeds/prog/*
}

@test "samples: rows of CSV and NDJSON, changed" {
    drive samples "$tests"/seeds/samples/*
}

@test "safetensors: headers and files, changed" {
    drive safetensors "$tests"/seeds/safetensors/*
}

@test "sentencepiece: models, changed" {
    drive sentencepiece "$tests"/seeds/sentencepiece/*
}

@test "tokjson: tokenizers, changed" {
    drive tokjson "$tests"/seeds/tokjson/*
}

@test "vocab: texts and tokenizer keys, changed" {
    drive vocab "$tests"/seeds/vocab/*
}

@test "jinja: templates, changed" {
    drive jinja "$tests"/seeds/jinja/*
}

@test "reply: generated texts, changed" {
    drive reply "$tests"/seeds/reply/*
}

@test "imatrix: importance matrices of both forms, changed" {
    drive imatrix "$tests"/seeds/imatrix/*
}

@test "files: an index, chat templates, keys and certificates, changed" {
    drive files "$tests"/seeds/files/*
}

@test "results: of zt-bench, llama-bench and hyperfine, changed" {
    drive results "$tests"/seeds/results/*
}

@test "receipt: receipts, changed" {
    drive receipt "$tests"/seeds/receipt/*
}

@test "moe: recipes of mixtures of experts, changed" {
    drive moe "$tests"/seeds/moe/*
}

@test "score: scores, printed and in lines, changed" {
    drive score "$tests"/seeds/score/*
}

@test "times: times of steps, changed" {
    drive times "$tests"/seeds/times/*
}

@test "data: tables, lines and arrays, changed" {
    drive data "$tests"/seeds/data/*
}

@test "hub: configurations, tokenizers and model cards, changed" {
    drive hub "$tests"/seeds/hub/*
}

@test "resume: checkpoints of training and sessions, changed" {
    drive resume "$tests"/seeds/resume/*
}

@test "request: lines of --jsonl and bodies of --serve, changed" {
    drive request "$tests"/seeds/request/*
}
