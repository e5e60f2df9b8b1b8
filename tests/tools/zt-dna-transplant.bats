#!/usr/bin/env bats
# zt-dna transplant: rows as mergekit-tokensurgeon has them (tests/dna/transplant), the donor's tokenizer, containers, refusals.

load ../common/helper

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    "$tests/mkmodel" --arch llama --ctx 64 --type f32 model.gguf
    "$tests/mkmodel" --arch llama --ctx 64 --type q8_0 --untied --seed 2 head.gguf
    "$tests/mkmodel" --arch gemma3 --ctx 64 --type f32 --seed 3 donor.gguf
}
setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    ln -s "$BATS_FILE_TMPDIR"/*.gguf .
    set=$(cd "${ZT_TESTS:-build/tests}/.." && pwd)/transplant
    text='hello, <eos> worlds'
}
refused() { # CODE WORD ARGUMENT...
    run --separate-stderr zt-dna transplant "${@:3}" -o x.gguf
    echo "${*:3}: $status $stderr"
    [ "$status" -eq "$1" ] && one_message zt-dna && [[ $stderr == *"$2"* ]] && [ ! -e x.gguf ]
}
column() { tail -c +129 "$1" | od -An -v -t f4 -w4; } # f32, little-endian, behind a header of 128 bytes
row() { # FILE.npy ROW BYTES: of a matrix
    tail -c +129 "$1" | tail -c +$(($2 * $3 + 1)) | head -c "$3"
}

@test "rows are mergekit's, of embedding and head, from a donor with a tied head" {
    for method in omp common_interpolation subword mean zero; do
        zt-dna transplant -q --method $method -k 6 "$set/model" "$set/donor" -o $method.gguf
        for name in token_embd output; do
            zt-convert --cat $name.weight $method.gguf >a.f32.npy
            zt-convert --cat $name.weight "$set/$method.npz" >b.f32.npy
            paste <(column a.f32.npy) <(column b.f32.npy) | awk -v "what=$method $name" '{d = $1 - $2; d = d < 0 ? -d : d; if (d > most) most = d}
                END {print what, NR, most; exit !(NR == 106 * 16 && most < 1e-6)}'
        done
    done
}
@test "the tokenizer is the donor's, and the model runs" {
    zt-dna transplant model.gguf donor.gguf -o m.gguf
    zt-convert --check m.gguf
    for options in '' --special --no-bos; do
        zt-run -m m.gguf --tokenize $options -p "$text" >ours
        zt-run -m donor.gguf --tokenize $options -p "$text" >theirs
        cmp ours theirs
    done
    zt-run -m m.gguf -p hello -n 4 --temp 0 --ids >ids
    [ "$(wc -w <ids)" -eq 4 ]
    diff <(zt-convert --meta m.gguf | grep ^tokenizer) <(zt-convert --meta donor.gguf | grep ^tokenizer)
    diff <(zt-convert --meta m.gguf | grep '^llama') <(zt-convert --meta model.gguf | grep '^llama' | sed '/vocab_size/s/300/400/')
    diff <(zt-convert --hash m.gguf | grep -v token_embd) <(zt-convert --hash model.gguf | grep -v token_embd)
    zt-convert --meta m.gguf >meta
    grep -q 'zt.merge.method.*transplant' meta
    grep -q 'zt.merge.recipe.*omp.*64' meta
    grep -q 'zt.merge.parents.*model.gguf.*donor.gguf' meta
}
@test "its own tokenizer changes no row" {
    for m in model head; do
        zt-dna transplant $m.gguf $m.gguf -o same-$m.gguf
        diff <(zt-convert --hash same-$m.gguf) <(zt-convert --hash $m.gguf)
    done
}
@test "special tokens by role, bytes by their tokens, blocks with the same bytes" {
    zt-dna transplant -v --method zero head.gguf donor.gguf -o m.gguf 2>said
    grep -q 'tokens have rows of head.gguf, [0-9]* are approximated, 0 have zeros' said
    for m in m head; do zt-convert -q --dtype f32 $m.gguf $m.f32.gguf; done
    for name in token_embd output; do
        for m in m head; do zt-convert --cat $name.weight $m.f32.gguf >$m.f32.npy; done
        for pair in bos eos unknown; do
            ours=$(zt-convert --meta head.gguf | awk -F'\t' -v k="tokenizer.ggml.${pair}_token_id" '$1 == k {print $3}')
            theirs=$(zt-convert --meta donor.gguf | awk -F'\t' -v k="tokenizer.ggml.${pair}_token_id" '$1 == k {print $3}')
            [ -n "$ours" ] && [ -n "$theirs" ] || continue
            cmp <(row m.f32.npy "$theirs" 256) <(row head.f32.npy "$ours" 256)
            touch "found-$pair"
        done
    done
    [ -e found-bos ] && [ -e found-eos ]
    for byte in a Z 7; do # the same byte
        ours=$(zt-run -m head.gguf --tokenize --no-bos -p $byte) theirs=$(printf %s $byte | zt-run -m donor.gguf --tokenize --no-bos -i -)
        [[ $ours =~ ^[0-9]+$ ]] || continue
        theirs=${theirs##* }
        cmp <(row m.f32.npy "$theirs" 256) <(row head.f32.npy "$ours" 256)
    done
}
@test "the same bytes with any number of threads and instruction set" {
    for method in omp common_interpolation; do
        zt-dna transplant --method $method -k 5 -t 1 -f model.gguf donor.gguf -o one.gguf
        for threads in 2 3; do
            zt-dna transplant --method $method -k 5 -t $threads model.gguf donor.gguf -o - | cmp - one.gguf
        done
        ZT_ISA=scalar zt-dna transplant --method $method -k 5 model.gguf donor.gguf -o - | cmp - one.gguf
    done
}
@test "per-layer embeddings: Gemma 3n" {
    "$tests/mkmodel" --arch gemma3n --ctx 64 --type f32 --seed 4 layers.gguf
    zt-dna transplant layers.gguf layers.gguf -o same.gguf
    diff <(zt-convert --hash same.gguf) <(zt-convert --hash layers.gguf)
    width=$(zt-convert --list layers.gguf | sed -nE 's/^per_layer_token_embd.weight.*[[,]([0-9]+)\].*/\1/p')
    [ "$width" -gt 0 ]
    for method in omp subword zero; do
        zt-dna transplant --method $method -k 4 layers.gguf model.gguf -o $method.gguf
        zt-run -m $method.gguf -p hello -n 2 --temp 0 --ids >ids
        [ "$(wc -w <ids)" -eq 2 ]
        for m in $method layers; do zt-convert --cat per_layer_token_embd.weight $m.gguf >$m.f32.npy; done
        ours=$(zt-convert --meta layers.gguf | awk -F'\t' '$1 == "tokenizer.ggml.bos_token_id" {print $3}')
        theirs=$(zt-convert --meta model.gguf | awk -F'\t' '$1 == "tokenizer.ggml.bos_token_id" {print $3}')
        cmp <(row $method.f32.npy "$theirs" $((4 * width))) <(row layers.f32.npy "$ours" $((4 * width)))
        diff <(zt-convert --hash $method.gguf | grep -v token_embd) <(zt-convert --hash layers.gguf | grep -v token_embd)
    done
    # a new token in both: the recipes of merges know the rows too
    echo '{"merge_method": "linear", "parameters": {"weight": 1}, "models": [{"model": "layers.gguf"}, {"model": "same.gguf"}],
        "tokenizer": {"source": "base", "tokens": {"<|new|>": {"source": {"kind": "zero"}}}}}' >r.json
    zt-dna merge -q --config r.json -o new.gguf
    zt-convert --cat per_layer_token_embd.weight new.gguf >new.npy
    cmp <(tail -c +129 layers.f32.npy) <(tail -c +129 new.npy | head -c -$((4 * width)))
    zt-run -m new.gguf -p hello -n 2 --temp 0 --ids >ids
    [ "$(wc -w <ids)" -eq 2 ]
}
@test "containers" {
    zt-dna transplant --method subword model.gguf donor.gguf -o m.gguf
    zt-dna transplant --method subword model.gguf donor.gguf -o m.safetensors
    zt-dna transplant --method subword model.gguf donor.gguf -o hf/
    [ -e hf/config.json ] && [ -e hf/tokenizer.json ]
    zt-dna transplant --method subword - donor.gguf -o s.gguf <model.gguf
    for m in m.gguf m.safetensors hf s.gguf; do
        zt-run -m $m -p hi -n 3 --temp 0 --ids >ids-$m
        cmp ids-$m ids-m.gguf
    done
}
@test "what is refused" {
    refused 64 "unknown method 'ties'" --method ties model.gguf donor.gguf
    refused 64 "unknown method 'ompp' (did you mean 'omp'?)" --method ompp model.gguf donor.gguf
    refused 66 'nothere.gguf' model.gguf nothere.gguf
    refused 64 "option '--k': '0'" -k 0 model.gguf donor.gguf
    zt-convert -q --drop token_embd.weight donor.gguf tokens.gguf
    refused 65 "tokens.gguf: missing tensor 'token_embd.weight': method omp needs the donor's rows" model.gguf tokens.gguf
    refused 65 "tokens.gguf: not a language model: no tensor 'token_embd.weight'" tokens.gguf model.gguf
    zt-dna transplant --method mean model.gguf tokens.gguf -o mean.gguf # only the tokenizer is needed
    zt-convert --check mean.gguf
    zt-train -q --new sequential --set dModel=4 --set numClasses=2 -i <(printf '1,2,3,4,1,0\n') --epochs 0 -o net.json >/dev/null
    refused 65 'net.json' model.gguf net.json
    refused 65 'net.json' net.json model.gguf
    run zt-dna transplant model.gguf -o x.gguf
    [ "$status" -eq 64 ]
    run --separate-stderr zt-dna transplant model.gguf donor.gguf
    [ "$status" -eq 64 ]
    [[ $stderr == *'no output'* ]]
}
