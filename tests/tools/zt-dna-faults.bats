#!/usr/bin/env bats
# zt-dna mutate, moe, transplant and evolve while memory is short, and runs whose files were damaged between a kill and --resume.

load ../common/helper
load ../common/faults

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    cat >net.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[
{"l":0,"type":"Dense","activation":"Tanh","input_height":3,"output_height":3},
{"l":1,"type":"Dense","activation":"Tanh","input_height":3,"output_height":1}]}
END
    printf '%s\n' 'merge_method: linear' 'models:' '  - model: a.gguf' '    parameters: {weight: 0.5}' '  - model: b.gguf' \
        '    parameters: {weight: [0.7, 0.3]}' >recipe.yaml
    # shellcheck disable=SC2016
    printf '%s\n' '#!/bin/sh' 'n=0; while read -r l; do n=$((n + ${#l} % 97)); done; echo $n' >score
    chmod +x score
    make_refusing
}

usual="-q --population 6 --kind-rate 0.5 --seed 3 --fitness ./score<{}"

evolve() { # OPTION... OPERAND...
    local more=()
    [[ " $* " == *" --generations "* ]] || more=(--generations 3)
    zt-dna evolve $usual "${more[@]}" "$@"
}

@test "memory: mutants" {
    refuse_allocations <<'END'
zt-dna mutate -q --kind-rate 1 --link-add-rate 1 --toggle-rate 0.5 net.json -o new.json
zt-dna mutate -q net.json -o new.json --report new.report
END
}

@test "memory: mixtures and transplants" {
    for m in base:0 one:1; do "$tests/mkmodel" --arch llama --layers 1 --ctx 64 --seed "${m#*:}" "${m%:*}.gguf"; done
    "$tests/mkmodel" --arch gemma3 --layers 1 --ctx 64 --seed 3 donor.gguf
    echo '{"base_model": "base.gguf", "gate_mode": "random", "experts": [{"source_model": "base.gguf", "noise_scale": 0.1},
        {"source_model": "one.gguf"}]}' >random.json
    echo '{"base_model": "base.gguf", "gate_mode": "cheap_embed", "dtype": "float16", "experts": [
        {"source_model": "base.gguf", "positive_prompts": ["a"]}, {"source_model": "one.gguf", "positive_prompts": ["b"]}]}' >prompts.json
    refusals=8 refuse_allocations <<'END'
zt-dna moe -q random.json -o new.gguf
zt-dna moe -q prompts.json -o new.gguf
zt-dna transplant -q -t 2 -k 4 base.gguf donor.gguf -o new.gguf
zt-dna transplant -q -t 2 --method subword base.gguf donor.gguf -o new.gguf
END
}

@test "memory: merges of models with different tokens" {
    set=$(cd "${ZT_TESTS:-build/tests}/.." && pwd)/vocab
    for m in base one two more; do zt-convert -q "$set/$m" $m.gguf; done
    zt-convert -q --set "tokenizer.huggingface.json=$(cat "$set/base/tokenizer.json")" base.gguf whole.gguf
    for recipe in tokens mean rectify; do sed -E 's/"(base|one|two|more)"/"\1.gguf"/g' "$set/$recipe.json" >$recipe.json; done
    sed 's/"base.gguf"/"whole.gguf"/g' mean.json >whole.json
    sed 's/"base.gguf"/X/g; s/"more.gguf"/"base.gguf"/g; s/X/"more.gguf"/g' rectify.json >cut.json
    refusals=16 refuse_allocations <<'END'
zt-dna merge -q -t 2 --config tokens.json -o new.gguf
zt-dna merge -q -t 2 --config whole.json -o new.gguf
zt-dna merge -q -t 2 --config cut.json -o new.gguf
END
}

# The run that memory stopped is resumed to the same champion and lines.
@test "memory: evolution, new and resumed, of networks and recipes" {
    for from in net.json recipe.yaml; do
        evolve "$from" -o "whole.$from" >/dev/null
    done
    while_failed() {
        local from=${1##* }
        [ -e run ] || return 0
        [ -e run/state.json ] && zt-dna evolve -q --resume --generations 3 -o run >/dev/null && cmp -s run/champion.json "whole.$from/champion.json" &&
            cmp -s run/generations.ndjson "whole.$from/generations.ndjson"
        local code=$?
        rm -rf run
        return $code
    }
    differs() { cmp -s want/run/champion.json run/champion.json && cmp -s want/run/generations.ndjson run/generations.ndjson; }
    may_stay=run refusals=10 refuse_allocations <<END
zt-dna evolve $usual --generations 3 -o run net.json
zt-dna evolve $usual --generations 3 -o run recipe.yaml
END
}

# Here it is found out what the operand is, and the first members are written.
@test "memory: the first 40 allocations of an evolution of recipes" {
    for n in {1..40}; do
        code=0
        ZT_REFUSE=$n refusing/zt-dna evolve $usual --generations 3 -o run recipe.yaml >/dev/null 2>err || code=$?
        fails_with 75 zt-dna 'out of memory' && [ ! -e run ] || { echo "$n: $code $(cat err)"; false; }
    done
}

@test "a champion's file that is damaged or lost: restored, or 65" {
    evolve --generations 4 net.json -o whole >/dev/null
    for damage in 'truncate -s 40 run/champion.json' 'rm run/champion.json' 'printf x >>run/champion.json' ': >run/champion.json' 'cp net.json run/champion.json'; do
        for more in 3 4; do # nothing is left to do, and something is
            rm -rf run
            evolve net.json -o run >/dev/null
            eval "$damage"
            zt-dna evolve --resume --generations $more -o run 2>said >/dev/null
            grep -q 'run/champion.json: missing or damaged: restored' said
            [ $more -eq 3 ] || cmp whole/champion.json run/champion.json
            zt-convert --check run/champion.json
        done
    done
    # no copy is left
    evolve --elites 0 --generations 6 --minimize net.json -o none >/dev/null
    rm -rf none/gen
    truncate -s 40 none/champion.json
    run -65 --separate-stderr zt-dna evolve -q --resume --generations 6 -o none
    one_message zt-dna
    [[ $stderr == *"none/champion.json: missing or damaged: expected member "* ]]
}

@test "members that are damaged between a kill and --resume are made again" {
    evolve net.json -o whole >/dev/null
    code=0
    interrupt_when '[ "$(grep -c . run/gen/0001/scores 2>/dev/null)" -ge 2 ]' zt-dna evolve -q --population 6 --generations 3 --kind-rate 0.5 \
        --seed 3 --fitness './score<{}; [ -e go ] || case {} in *gen/0001/00[345]*) sleep 60 ;; esac' net.json -o run >/dev/null 2>err || code=$?
    [ $code -eq 130 ]
    touch go
    damaged=0
    for f in run/gen/0001/*.json; do
        member=$(basename "$f" .json)
        grep -q "^$((10#$member)) " run/gen/0001/scores || [ "$member" = 000 ] || { truncate -s 30 "$f"; damaged=$((damaged + 1)); }
    done
    [ $damaged -ge 2 ]
    printf '4 17.' >>run/gen/0001/scores # a line that is not whole
    printf '{"schema"' >>run/generations.ndjson
    run --separate-stderr zt-dna evolve -q --resume --generations 3 -o run
    [ "$status" -eq 0 ] || { echo "$stderr"; false; }
    cmp whole/champion.json run/champion.json
    cmp whole/generations.ndjson run/generations.ndjson
}

@test "a parent that is damaged is named" {
    evolve --generations 2 net.json -o run >/dev/null
    for f in run/gen/0001/*.json; do truncate -s 30 "$f"; done
    run -65 --separate-stderr zt-dna evolve -q --resume --generations 3 -o run
    one_message zt-dna
    [[ $stderr == *run/gen/0001/* ]]
}
