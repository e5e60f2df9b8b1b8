#!/usr/bin/env bats
# The bar on a terminal: it is taken away before anything else is written, is never wider than the terminal, shows
# rate, time left and what it works on; and is nowhere where nobody looks.

load ../common/helper

setup_file() {
    command -v script >/dev/null || skip "no script(1)"
    make_models
    cd "$BATS_FILE_TMPDIR" || exit
    "$tests/mkmodel" --arch llama --ctx 256 --seed 1 b.gguf
    "$tests/mkmodel" --arch llama --ctx 256 --layers 16 --width 128 --ffn 384 --type f32 deep.gguf
    printf 'hello on the she in there %d\n' {1..60} >text
    printf '0.1,0.2,0,1\n0.3,0.1,1,0\n0.5,0.4,1,0\n' >pairs.csv
    printf '%s' '{"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"Dense","input_height":2,"output_height":2}]}' >net.json
    cp text 'a long name, a very long name, which has 漢字 in it and ends here'
}

setup() {
    in_own_folder
    ln -s "$BATS_FILE_TMPDIR"/* .
    export BARS=$PWD/bars
}

# What a terminal so wide shows at the end of a command, into `screen`; what its bars were, into `bars`.
on_screen() { # columns command...
    : >bars
    "$BATS_TEST_DIRNAME/on-screen" "$@" >screen
}

bar='\[#* *\] +[0-9]+%'

# What differs from run to run.
without_times() {
    sed -E 's/"seconds":[^,}]*//; s/ +$//' "$1" | grep . | sort
}

@test "the bar is taken away before anything else is written, in every tool" {
    while read -r line; do
        echo "$line"
        bash -c "$line" >plain 2>&1 </dev/null || [ $? -eq 1 ]
        run ! grep -qE "$bar" plain
        on_screen 250 bash -c "$line" || [ $? -eq 1 ]
        cat screen
        [ "$(grep -cE "^[a-z0-9]+ $bar" bars)" -ge 1 ]
        run ! grep -qE "$bar" screen
        diff <(without_times plain) <(without_times screen)
    done <<'END'
zt-run -m model.gguf --raw --chunk 4 -i text -c 900 -n 3 --temp 0 --ids -v
zt-run -m model.gguf --perplexity text -c 32 --format tsv
zt-convert -f --dtype f16 deep.gguf out.gguf
zt-convert --hash deep.gguf
zt-quant -f --type q4_k_m deep.gguf out.gguf
zt-quant -f --target-size 2M deep.gguf out.gguf
zt-quant --type q4_0 --measure --format tsv deep.gguf
zt-quant -f --make-imatrix -m model.gguf -i text -c 32 -o im.dat
zt-dna compare model.gguf b.gguf --format tsv
zt-dna lineage model.gguf b.gguf --format tsv
zt-dna merge -f --method linear model.gguf b.gguf -o out.gguf
zt-dna lora -f --rank 2 model.gguf b.gguf -o out.gguf
zt-train -m net.json -i pairs.csv --epochs 3 --observe console -o out.json -f
END
}

@test "the bar is taken away before a command that zt-bench runs writes" {
    on_screen 200 zt-bench run -v -r 4 --format json -- sh -c 'echo said; sleep 0.1'
    cat screen
    grep -qE "^run $bar" bars
    run ! grep -qE "$bar" screen
    [ "$(grep -c '^said$' screen)" -eq 5 ]
}

@test "what is written to the terminal past the tools' stdout is not behind a bar" {
    on_screen 250 zt-dna compare --format tsv --plot - model.gguf b.gguf || [ $? -eq 1 ]
    [ "$(head -c 5 screen)" = '<svg ' ]
    run ! grep -qE "$bar" screen
    on_screen 250 zt-train -m net.json -i pairs.csv --epochs 2 -o out.json -f --observe -
    [ "$(head -c 2 screen)" = '{"' ]
    run ! grep -qE "$bar" screen
}

@test "the bar shows rate, time left and the tensor, as wide as the terminal is" {
    # slow enough for three of them
    slow='(head -c 60000 deep.gguf; sleep .15; tail -c +60001 deep.gguf | head -c 900000; sleep .15; tail -c +960001 deep.gguf)'
    on_screen 120 bash -c "$slow | zt-convert -f --dtype f16 - out.gguf"
    cat bars
    grep -qE "^convert \[#+ +\] +[0-9]+%  [0-9.]+ [kM]B/s  [0-9]+:[0-9]{2} left  (blk\.[0-9]+\.|token_embd)[a-z_.]+$" bars
    for columns in 60 20 2; do
        on_screen $columns bash -c "$slow | zt-convert -q -f --dtype f16 - out.gguf --progress always"
        [ "$(wc -l <bars)" -ge 2 ]
        [ "$(tr -d '\n' <screen)" = '' ]
        [ "$(awk -v c=$columns 'length >= c' bars | wc -l)" -eq 0 ]
    done
    # a file's name is cut by columns, of which some characters take two
    long='a long name, a very long name, which has 漢字 in it and ends here'
    on_screen 81 zt-run -m model.gguf --format tsv -c 32 --perplexity "$long"
    cat bars
    grep -qE '^perplexity \[#* +\] +[0-9]+%  .*a long name, .*\.\.\.$' bars
    [ "$(wc -l <screen)" -eq 2 ]
}

@test "no bar where nobody looks, or none is wanted" {
    zt-quant -f --type q4_k_m deep.gguf out.gguf 2>words
    run ! grep -q $'\r' words
    for option in -q '--progress never'; do
        # shellcheck disable=SC2086
        on_screen 100 zt-quant -f --type q4_k_m deep.gguf out.gguf $option
        [ ! -s bars ]
    done
    on_screen 100 bash -c 'zt-quant -f --type q4_k_m deep.gguf out.gguf 2>words'
    [ ! -s bars ]
    run ! grep -q $'\r' words
    zt-quant -f --type q4_k_m deep.gguf out.gguf --progress always 2>words
    grep -q $'\r' words
}
