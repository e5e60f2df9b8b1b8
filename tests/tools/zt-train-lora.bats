#!/usr/bin/env bats
# zt-train --lora: adapters of frozen models of any type, their files, and the losses of PEFT (tests/train/lora).

load ../common/helper

setup_file() {
    cd "$BATS_FILE_TMPDIR"
    awk 'BEGIN {srand(1); n = split("cat dog bird fish", who); split("sleeps barks sings swims", does)
        for (i = 0; i < 400; i++) {k = 1 + int(n * rand()); printf "The %s %s.%s", who[k], does[k], i % 6 == 5 ? "\n" : " "}}' >text.txt
    sed 's/cat/cow/g; s/sleeps/moos/g' text.txt >other.txt
    zt-train -q --text text.txt --size 150K --vocab 290 -c 32 --batch 8 --lr .01 --clip 1 --epochs 3 -o tiny.gguf >/dev/null
    zt-quant -q --type q8_0 tiny.gguf q8.gguf
    export from=$BATS_FILE_TMPDIR
    export how="--text other.txt -c 32 --batch 8 --lr .01"
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    ln -s "$from"/* .
}

# first and last loss
losses() { perl -MJSON::PP -ne 'push @l, decode_json($_)->{loss}; END {print "$l[0] $l[-1]\n"}' "$1"; }

perplexity() { zt-run --perplexity other.txt --ctx 32 "$@" | awk "NR == 2 {print \$1}"; }

@test "an adapter learns what the base does not know, and the base stays as it is" {
    sum=$(sha256sum <tiny.gguf)
    zt-train -q $how -m tiny.gguf --lora 4,8 --lora-targets all-linear --epochs 3 -o a.gguf >history
    read -r first last <<<"$(losses history)"
    awk -v a="$first" -v b="$last" 'BEGIN {exit !(a > 1 && b < .8 * a)}'
    [ "$sum" = "$(sha256sum <tiny.gguf)" ]
    before=$(perplexity -m tiny.gguf) after=$(perplexity -m tiny.gguf --lora a.gguf)
    awk -v a="$before" -v b="$after" 'BEGIN {exit !(b < .8 * a)}'
    [ "$(zt-convert --list --format tsv a.gguf | grep -c 'lora_[ab]')" -eq "$((2 * 7 * $(zt-convert --list --format tsv tiny.gguf | grep -c attn_q)))" ]
}

@test "the PEFT directory and the GGUF are one adapter: the merged models are equal" {
    zt-train -q $how -m tiny.gguf --lora 3,6 --lora-targets q_proj,k_proj,mlp.down_proj --epochs 1 -o a.gguf >one
    zt-train -q $how -m tiny.gguf --lora 3,6 --lora-targets attn_q,k_proj,down_proj --epochs 1 -o a/ >two
    [ "$(losses one)" = "$(losses two)" ]
    [ "$(ls a)" = $'adapter_config.json\nadapter_model.safetensors' ]
    zt-dna merge tiny.gguf+a.gguf -o merged.gguf
    zt-dna merge tiny.gguf+a -o same.gguf
    [ "$(zt-convert --hash merged.gguf)" = "$(zt-convert --hash same.gguf)" ]
    [ "$(zt-convert --hash merged.gguf)" != "$(zt-convert --hash tiny.gguf)" ]
    perl -MJSON::PP -e 'local $/; my $c = decode_json(<>); exit !($c->{r} == 3 && $c->{lora_alpha} == 6 &&
        "@{$c->{target_modules}}" eq "q_proj k_proj down_proj" && $c->{base_model_name_or_path} eq "tiny.gguf")' a/adapter_config.json
    [ "$(perplexity -m tiny.gguf --lora a)" = "$(perplexity -m tiny.gguf --lora a.gguf)" ]
}

@test "the start is PEFT's: A uniform within 1/sqrt(columns), B zero, from the seed; a step of the base with it changes nothing" {
    zt-train -q $how -m tiny.gguf --lora 4,8 --epochs 0 --seed 3 -o a.gguf
    zt-train -q $how -m tiny.gguf --lora 4,8 --epochs 0 --seed 3 -o b.gguf
    zt-train -q $how -m tiny.gguf --lora 4,8 --epochs 0 --seed 4 -o c.gguf
    cmp a.gguf b.gguf && ! cmp -s a.gguf c.gguf
    [ "$(perplexity -m tiny.gguf)" = "$(perplexity -m tiny.gguf --lora a.gguf)" ]
    zt-convert --cat blk.0.attn_q.weight.lora_b a.gguf | tail -c 1024 | tr -d '\0' | cmp - /dev/null
    width=$(zt-convert --list --format tsv a.gguf | perl -ne 'print $1 if /^blk.0.attn_q.weight.lora_a\tf32\t\[?4[,x](\d+)/')
    zt-convert --cat blk.0.attn_q.weight.lora_a a.gguf | tail -c $((16 * width)) | perl -0777 -ne '
        my @a = unpack "f*"; my $b = 1 / sqrt($ARGV[0] // '"$width"'); my ($m, $s) = (0, 0);
        for (@a) {exit 1 if abs $_ > $b; $m += $_; $s += $_ * $_}
        exit !(abs($m / @a) < .15 * $b && abs($s / @a / ($b * $b / 3) - 1) < .2)'
}

@test "bases of other types: the losses of a quantized base are those of its values, and its memory is not a copy in f32" {
    zt-convert -q --dtype f32 q8.gguf wide.gguf
    zt-train -q $how -m q8.gguf --lora 4,8 --epochs 1 -o a.gguf >one
    zt-train -q $how -m wide.gguf --lora 4,8 --epochs 1 -o b.gguf >two
    awk -v a="$(losses one)" -v b="$(losses two)" 'BEGIN {split(a, x, " "); split(b, y, " "); d = x[1] - y[1]; exit !(d < 1e-5 && d > -1e-5)}'
    for type in q4_0 q5_1 iq4_nl bf16 f16; do
        zt-quant -q --type $type tiny.gguf $type.gguf
        zt-train -q $how -m $type.gguf --lora 2,4 --epochs 1 -o $type.lora.gguf >history
        read -r loss _ <<<"$(losses history)"
        awk -v a="$loss" 'BEGIN {exit !(a > .5 && a < 6)}'
        perplexity -m $type.gguf --lora $type.lora.gguf >/dev/null
    done
}

@test "stopped and resumed: the same bytes, for any number of threads" {
    ck=(--checkpoint ck --checkpoint-every 3 --resume)
    zt-train -q $how -m q8.gguf --lora 4,8 --epochs 2 -t 1 -o whole.gguf >/dev/null
    zt-train -q $how -m q8.gguf --lora 4,8 --epochs 1 -t 2 "${ck[@]}" -o half.gguf >/dev/null 2>&1
    zt-train -q $how -m q8.gguf --lora 4,8 --epochs 2 -t 2 "${ck[@]}" -o part.gguf >/dev/null
    cmp whole.gguf part.gguf
    [ "$(stat -c %s ck)" -lt $((4 * $(stat -c %s whole.gguf))) ]
    run -64 --separate-stderr zt-train -q $how -m q8.gguf --lora 2,8 --epochs 2 "${ck[@]}" -o other.gguf
    one_message zt-train
    [[ $stderr == *checkpoint* ]]
    run -64 --separate-stderr zt-train -q $how -m tiny.gguf --lora 4,8 --epochs 2 "${ck[@]}" -o other.gguf
    one_message zt-train
}

@test "the losses of PEFT with PyTorch from the same start, within 1e-4" {
    set=$(cd "${BATS_TEST_DIRNAME}/../train/lora" && pwd)
    read -r size vocab window batch rate rank alpha epochs <"$set/settings"
    zt-train -q --text "$set/text.txt" --size "$size" --vocab "$vocab" -c "$window" --epochs 0 -o base.gguf
    zt-train -q --text "$set/text.txt" -m base.gguf -c "$window" --batch "$batch" --lr "$rate" --lora "$rank,$alpha" \
        --epochs "$epochs" -o a.gguf >history
    perl -MJSON::PP -e 'my ($p, $o) = map {local @ARGV = $_; [map {decode_json($_)->{loss}} <>]} @ARGV; exit 1 if @$p != @$o || @$p < 8;
        for (0 .. $#$p) {my $d = abs($p->[$_] - $o->[$_]); die "$_: $p->[$_] $o->[$_]\n" if $d > 1e-4}
        exit !($p->[-1] < $p->[0] - .05)' "$set/losses.json" history
}

@test "what cannot be is refused in one line, and nothing is written" {
    refused() {
        local code=$1 word=$2
        shift 2
        run -"$code" --separate-stderr zt-train -q $how "$@" --epochs 1
        echo "$* : $stderr"
        one_message zt-train && [[ $stderr == *"$word"* ]] && [ ! -e new.gguf ] && [ ! -e new ]
    }
    for lora in 4 4, ,8 0,8 -1,8 4.5,8 4,0 4,-8 4,nan 4,inf 99999999,8 4,8,1 x,8 ''; do refused 64 RANK,ALPHA -m tiny.gguf --lora "$lora" -o new.gguf; done
    refused 64 rank -m tiny.gguf --lora 4000,8 -o new.gguf
    refused 64 "'no_proj'" -m tiny.gguf --lora 4,8 --lora-targets q_proj,no_proj -o new.gguf
    refused 64 "''" -m tiny.gguf --lora 4,8 --lora-targets q_proj, -o new.gguf
    refused 64 "'oj'" -m tiny.gguf --lora 4,8 --lora-targets oj -o new.gguf
    refused 64 --model --lora 4,8 -o new.gguf
    mkdir there && touch there/other
    run -73 --separate-stderr zt-train -q $how -m tiny.gguf --lora 4,8 --epochs 1 -o there/
    run -73 --separate-stderr zt-train -q $how -m tiny.gguf --lora 4,8 --epochs 1 -f -o there/
    [[ $stderr == *"'other'"* ]] && [ -e there/other ]
    zt-train -q $how -m tiny.gguf --lora 4,8 --epochs 0 -o again/
    zt-train -q $how -m tiny.gguf --lora 2,8 --epochs 0 -f -o again/
    grep -q '"r": 2' again/adapter_config.json && [ "$(ls -d again*)" = again ]
}

@test "a full disk and no memory: one line, 74 or 75, and no part of an adapter" {
    run --separate-stderr zt-train -q $how -m tiny.gguf --lora 4,8 --epochs 1 --mem-limit 1M -o new.gguf
    [ "$status" -eq 75 ] && one_message zt-train && [ ! -e new.gguf ]
    run --separate-stderr bash -c "ulimit -f 1; trap '' XFSZ; zt-train -q $how -m tiny.gguf --lora 4,8 --epochs 0 -o new/"
    [ "$status" -eq 74 ] && one_message zt-train && [ -z "$(ls -d new* 2>/dev/null)" ]
}
