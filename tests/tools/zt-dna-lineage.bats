#!/usr/bin/env bats
# zt-dna lineage: made relatives, in any formats, and who comes from whom.

load ../common/helper

setup_file() {
    make_models
    cd "$BATS_FILE_TMPDIR" || exit
    # old -> young -> youngest; old -> frozen (a part of it); stranger; young as Q8_0
    zt-convert --dtype f32 "$tiny" old
    mv old old.gguf
    zt-convert old.gguf old.safetensors
    noisy old.safetensors young.safetensors . 0.05 1
    noisy young.safetensors youngest.safetensors . 0.03 2
    noisy old.safetensors frozen.safetensors '^blk\.1\.' 0.08 3
    noisy old.safetensors stranger.safetensors . 20 4
    zt-quant --type q8_0 young.safetensors young-q8.gguf
}

setup() {
    cd "$BATS_FILE_TMPDIR" || exit
}

parents() { # the parent and the kind of each, in lines
    zt-dna lineage "$@" | tail -n +2 | cut -f1-3 | tr '\t' ' '
}

@test "five relatives: each has its parent, whatever their order" {
    diff <(parents old.gguf youngest.safetensors stranger.safetensors frozen.safetensors young.safetensors | sort) - <<'END'
frozen.safetensors old.gguf fine-tune
old.gguf  root
stranger.safetensors  root
young.safetensors old.gguf fine-tune
youngest.safetensors young.safetensors fine-tune
END
    diff <(parents old.gguf young.safetensors frozen.safetensors youngest.safetensors stranger.safetensors | sort) \
        <(parents old.gguf stranger.safetensors youngest.safetensors young.safetensors frozen.safetensors | sort)
}

@test "the nearer a relative, the greater the overlap" {
    zt-dna lineage youngest.safetensors young.safetensors old.gguf frozen.safetensors stranger.safetensors --format json >got
    json 'my @o = @{$j->{overlap}[0]}; $o[0] == 1 && $o[1] > $o[2] && $o[2] > $o[4] && $o[3] > $o[4] && $o[4] < 0.3 &&
          $j->{overlap}[1][2] == $j->{overlap}[2][1] && @{$j->{tree}} == 5 && $j->{schema} eq "zt.dna.lineage/1"' <got
}

@test "frozen layers are those that are the same" {
    zt-dna lineage old.gguf frozen.safetensors --format json >got
    json 'my @f = @{$j->{tree}[1]{frozen}}; @f > 5 && !grep {/^blk\.1\./} @f' <got
    zt-convert --list frozen.safetensors | grep -vc '^blk\.1\.' >n
    [ "$(zt-dna lineage old.gguf frozen.safetensors | awk -F'\t' 'NR == 3 {print $6 + 1}')" -eq "$(cat n)" ]
}

@test "a copy is the same, a quantized one rounded, and from its own model" {
    diff <(parents old.gguf old.safetensors young.safetensors young-q8.gguf) - <<'END'
old.gguf  root
old.safetensors old.gguf same
young.safetensors old.gguf fine-tune
young-q8.gguf young.safetensors rounded
END
}

@test "the tree as text, plain unless colour is asked for; other models; standard input" {
    zt-dna lineage --map old.gguf young.safetensors - stranger.safetensors <youngest.safetensors >got
    grep -qE '^`- young.safetensors  fine-tune' got
    grep -qE '^   `- -  fine-tune' got
    grep -qE '^stranger.safetensors$' got
    grep -qE '^=1?[0-9]+ old.gguf$' got
    run ! grep -q "$(printf '\033')" got
    zt-dna lineage --map --color always old.gguf young.safetensors | grep -q "$(printf '\033')"
    # names in common, shapes not
    [ "$(parents old.gguf "$tiny_spm" | awk '{print $NF}' | xargs)" = 'root root' ]
}

@test "misuse is one line" {
    head -c 3000 old.gguf >cut.gguf
    all_refused zt-dna lineage <<'END'
64|argument|old.gguf
64|stdin|- old.gguf -
64|--alpha|--alpha 1 old.gguf old.gguf
65|cut.gguf|old.gguf cut.gguf
66|none|old.gguf none
END
}
