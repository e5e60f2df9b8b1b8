#!/usr/bin/env bats
# zt-train --text: new language models and known ones, and what the other tools make of them.

load ../common/helper

setup_file() {
    text=$BATS_FILE_TMPDIR/text.txt
    # sentences that can be learned: the verb goes with the subject
    awk 'BEGIN {srand(1); n = split("cat dog bird fish", who); split("sleeps barks sings swims", does)
        for (i = 0; i < 1500; i++) {k = 1 + int(n * rand()); printf "The %s %s.%s", who[k], does[k], i % 6 == 5 ? "\n" : " "}}' >"$text"
    cd "$BATS_FILE_TMPDIR"
    zt-train -q --text text.txt --arch llama --size 60K --vocab 290 -c 32 --batch 8 --lr .01 --clip 1 --epochs 6 \
        -o tiny.gguf >history
    export text tiny=$BATS_FILE_TMPDIR/tiny.gguf history=$BATS_FILE_TMPDIR/history
}

@test "a new model learns: the loss falls under a bound, and zt-run says true sentences" {
    perl -MJSON::PP -ne 'push @l, decode_json($_)->{loss}; END {exit !($l[0] > 1 && $l[-1] < .6)}' "$history"
    for subject in cat:sleeps dog:barks bird:sings fish:swims; do
        [[ $(zt-run -m "$tiny" --raw -p "The ${subject%:*}" -n 6 --temp 0) == *" ${subject#*:}."* ]]
    done
}

@test "a new Mamba, Mamba 2 and RWKV-7 learn the same, each within 60000 parameters" {
    for arch in mamba mamba2 rwkv7; do
        zt-train -q --text "$text" --arch $arch --size 60K --vocab 290 -c 32 --batch 8 --lr .01 --clip 1 --epochs 3 \
            -o $arch.gguf >log
        perl -MJSON::PP -ne 'push @l, decode_json($_)->{loss}; END {exit !($l[0] > 1 && $l[-1] < .6)}' log
        n=$(zt-convert --list --format tsv $arch.gguf | awk -F '\t' 'NR > 1 {n += $4} END {print n / 4}')
        [ "$n" -gt 20000 ] && [ "$n" -le 60000 ]
        [[ $(zt-run -m $arch.gguf --raw -p 'The bird' -n 6 --temp 0) == *' sings.'* ]]
    done
}

@test "RWKV-7 from a file: what the first layer does not read stays the same; a reranker is refused" {
    for arch in rwkv7 arwkv7; do
        "$tests/mkmodel" --arch $arch --ctx 64 m.gguf
        run -0 --separate-stderr zt-train --text "$text" -m m.gguf -c 16 --batch 8 --lr .003 --epochs 1 -o $arch.gguf
        [[ $stderr == *"3 tensors, such as 'blk.0.time_mix_v0.weight', are not used in training"* ]]
        zt-dna compare --format tsv m.gguf $arch.gguf | awk -F '\t' '$8 == "yes" {print $1}' | grep -x 'blk.0.time_mix_v[012].weight' >same
        [ "$(wc -l <same)" -eq 3 ]
        zt-run -m $arch.gguf --raw -p 'The cat' -n 6 --temp 0 >/dev/null
        zt-convert --check $arch.gguf
        rm m.gguf
    done
    mkdir reranker
    cp "$tests/../rows-ggufs/dress/reranker"/* reranker/
    cp "$tests/../rows/qwen3-reranker"/* reranker/
    run -69 --separate-stderr zt-train --text "$text" -m reranker -c 16 -o no.gguf
    [[ $stderr == *'rerankers'* && ! -e no.gguf ]]
}

@test "its tokenizer gives back what it takes: merges of the text, and any bytes" {
    ids=$(zt-run -m "$tiny" --tokenize -p 'The cat sleeps.')
    [ "$(wc -w <<<"$ids")" -le 8 ]
    [ "$(zt-run -m "$tiny" --detokenize -p "$ids")" = 'The cat sleeps.' ]
    ids=$(zt-run -m "$tiny" --tokenize -p $'\u00e4\u20ac \t~ 12 X')
    [ "$(zt-run -m "$tiny" --detokenize -p "$ids")" = $'\u00e4\u20ac \t~ 12 X' ]
    [ "$(zt-convert --list --format tsv "$tiny" | awk -F '\t' '$1 == "token_embd.weight" {print $2}')" = f32 ]
}

@test "zt-convert, zt-quant and zt-dna take it; its size is what was asked for" {
    zt-convert --check "$tiny"
    zt-quant -q --type q8_0 "$tiny" q.gguf
    zt-run -m q.gguf --raw -p 'The cat' -n 4 >/dev/null
    zt-dna compare --threshold .9 "$tiny" q.gguf >/dev/null
    n=$(zt-convert --list --format tsv "$tiny" | awk -F '\t' 'NR > 1 {n += $4} END {print n / 4}')
    [ "$n" -gt 20000 ] && [ "$n" -le 60000 ]
}

@test "a known model goes on learning, also from f16; the same bits however often it was stopped" {
    zt-convert --dtype f16 "$tiny" half.gguf
    zt-train -q --text "$text" -m half.gguf -c 32 --batch 8 --epochs 1 --lr .001 -o more.gguf >after
    perl -MJSON::PP -e '($a, $b) = map {local (@ARGV) = $_; my @l = <>; decode_json($l[-1])->{loss}} @ARGV;
        exit !($b < 1.1 * $a)' "$history" after
    [ "$(zt-convert --list --format tsv more.gguf | cut -f1,2 | sort)" = "$(zt-convert --list --format tsv "$tiny" | cut -f1,2 | sort)" ]
    how=(--text "$text" --size 60K --vocab 290 -c 32 --batch 8 --lr .01 --checkpoint ck --checkpoint-every 5)
    zt-train -q "${how[@]}" --epochs 2 -o whole.gguf >/dev/null
    rm ck ck.before
    timeout -s KILL .5 zt-train -q "${how[@]}" --epochs 2 --resume -o part.gguf >/dev/null 2>&1 || true
    timeout -s KILL .5 zt-train -q "${how[@]}" --epochs 2 --resume -f -o part.gguf >/dev/null 2>&1 || true
    zt-train -q "${how[@]}" --epochs 2 --resume -f -o part.gguf >/dev/null
    cmp whole.gguf part.gguf
}

@test "a text that is too short is 65, what makes no model 64, another architecture 69" {
    echo short >short.txt
    run -65 --separate-stderr zt-train --text short.txt -o o.gguf
    one_message zt-train
    for options in '--size 1K' '-c 1' '--vocab 200' '-i x.csv' '--eval'; do
        run -64 --separate-stderr zt-train --text "$text" $options -o o.gguf
        one_message zt-train
    done
    run -69 --separate-stderr zt-train --text "$text" --arch gemma3 -o o.gguf
    one_message zt-train
    run -64 --separate-stderr zt-train --text "$text" -m "$tiny" -c 64 -o o.gguf
    one_message zt-train
    run -66 --separate-stderr zt-train --text nowhere.txt -o o.gguf
    one_message zt-train
    [ ! -e o.gguf ]
}
