#!/usr/bin/env bats
# zt-dna: commands and options, layers and their places, and what is refused.

load ../common/helper

setup_file() {
    make_models
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    ln -s "$tiny" a.gguf
    # A network: a dense layer, one with two branches of which one is a sequence, one without weights.
    cat >net.json <<'END'
{"id":"n","depth":1,"rows":1,"cols":1,"layers_per_cell":3,"layers":[
 {"z":0,"y":0,"x":0,"l":0,"type":"Dense","dtype":"float32","input_height":2,"output_height":1,"weights":"AACAPwAAAEA="},
 {"z":0,"y":0,"x":0,"l":1,"type":"Parallel","dtype":"float32","parallel_branches":[
  {"type":"Dense","dtype":"float32","weights":"AACAPwAAAEAAAEBA"},
  {"type":"Sequential","sequential_layers":[{"type":"Softmax"},{"type":"Dense","dtype":"float16","weights":"AACAPw=="}]}]},
 {"z":0,"y":0,"x":0,"l":2,"type":"Softmax","dtype":"float32"}]}
END
}

@test "the man page has the options of --help, in that order" {
    man_is_true zt-dna
}

@test "the man page tells every command, in that order" {
    man_has_commands zt-dna
}

@test "the man page's examples run" {
    zt-quant --type q4_0 a.gguf b.gguf 2>/dev/null
    printf '%s\n' 1,2,0 3,1,1 >pairs.csv # a network that runs
    zt-train -q -f --new sequential --set dModel=2 --set numClasses=2 -i pairs.csv --loss cross_entropy --epochs 1 -o net.json
    man_examples_run zt-dna
}

@test "layers of a checkpoint: places from names, every tensor once" {
    zt-dna layers a.gguf >got
    diff <(tail -n +2 got | cut -f9 | sort) <(zt-convert --list a.gguf | tail -n +2 | cut -f1 | sort)
    # block, stack, x; and within a block they are numbered
    awk -F'\t' 'NR > 1 {
        z = match($9, /^blk\.[0-9]+\./) ? substr($9, 5, RLENGTH - 5) : -1
        t = $9; sub(/^blk\.[0-9]+\./, "blk.*.", t)
        if ($1 != z || $2 != 0 || $3 != 0 || $4 != 0 + n[z]++ || $5 != t) {print; bad = 1}
    } END {exit bad}' got
    # two stacks of blocks, in any container
    zt-convert --rename 'blk.1.*=dec.blk.0.*' a.gguf b.safetensors
    zt-dna layers - <b.safetensors >got
    [ "$(awk -F'\t' '$5 ~ /^dec/ && !($1 == 0 && $2 == 1)' got | wc -l)" -eq 0 ]
    [ "$(awk -F'\t' '$5 ~ /^dec.blk.\*/' got | wc -l)" -gt 4 ]
}

@test "layers of a network: its grid, with what is in each layer, in any container" {
    zt-dna layers net.json | cut -f1-6,8,9 >got
    diff got - <<'END'
z	y	x	l	type	dtype	numbers	name
0	0	0	0	Dense	float32	2	0,0,0,0
0	0	0	1	Parallel	float32	5	0,0,0,1
0	0	0	2	Softmax	float32	1	0,0,0,2
END
    zt-convert net.json net.gguf
    zt-dna layers net.gguf | cut -f1-6,8,9 | diff got -
    [ "$(zt-dna layers --select '*,[02]' net.json | wc -l)" -eq 3 ]
}

@test "misuse is one line and 64, bad files 65, missing ones 66" {
    head -c 3000 a.gguf >cut.gguf
    all_refused zt-dna <<'END'
64|command|
64|layers|lyers a.gguf
64|argument|layers
64|argument|layers a.gguf a.gguf
64|--nope|layers --nope a.gguf
65|cut.gguf|layers cut.gguf
65|null|layers /dev/null
66|none|layers none.gguf
END
}
