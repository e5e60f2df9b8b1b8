#!/usr/bin/env bats
# Networks as language models (zt-run --tokenizer), and networks whose weights are in a file beside them (--external-data).

load ../common/helper

setup_file() {
    cd "$BATS_FILE_TMPDIR"
    awk 'BEGIN {srand(1); n = split("cat dog bird fish", who); split("sleeps barks sings swims", does)
        for (i = 0; i < 300; i++) {k = 1 + int(n * rand()); printf "The %s %s.%s", who[k], does[k], i % 6 == 5 ? "\n" : " "}}' >text.txt
    zt-train -q --text text.txt --size 60K --vocab 290 -c 32 --batch 8 --lr .01 --clip 1 --epochs 8 -o tiny.gguf >/dev/null
    zt-convert -q tiny.gguf hf/
    zt-convert -q hf/model.safetensors net.json
    mkdir beside
    zt-convert -q --external-data hf/model.safetensors beside/net.json
    export from=$BATS_FILE_TMPDIR
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    cp -r "$from"/{tiny.gguf,hf,net.json,beside,text.txt} .
}

same() { [ "$1" = "$2" ] || { printf '%s\n---\n%s\n' "$1" "$2"; false; }; }

@test "a network generates the text of the model that it was made from, greedy and sampled, by any option for text" {
    for how in "--temp 0" "--temp .8 --seed 3" "--temp 1 --top-k 5 --seed 9" "--ids --temp 0" "--exact --temp 0" "--repeat-penalty 1.3 --temp 0" "--speculate --temp 0"; do
        want=$(zt-run -m tiny.gguf --raw -p 'The cat' -n 12 $how)
        for net in net.json beside/net.json; do
            same "$want" "$(zt-run -m $net --tokenizer hf --raw -p 'The cat' -n 12 $how)"
        done
    done
    same "$(zt-run -m tiny.gguf --tokenize -p 'The cat')" "$(zt-run -m net.json --tokenizer tiny.gguf --tokenize -p 'The cat')"
    same "$(zt-run -m tiny.gguf --raw -p 'The dog' -n 5 --temp 0)" "$(zt-run -m net.json --tokenizer hf/tokenizer.json --raw -p 'The dog' -n 5 --temp 0)"
    a=$(zt-run -m tiny.gguf --perplexity text.txt --ctx 32 | awk 'NR == 2 {print $1}')
    b=$(zt-run -m net.json --tokenizer hf --perplexity text.txt --ctx 32 | awk 'NR == 2 {print $1}')
    awk -v a="$a" -v b="$b" 'BEGIN {d = a / b - 1; exit !(d < 1e-4 && d > -1e-4)}'
    echo '{"prompt":"The bird","n":4,"temp":0}' | zt-run -m net.json --tokenizer hf --raw --jsonl | grep -q sings
}

@test "its logits are those of the network as such: what -m net.json -i IDS gives" {
    ids=$(zt-run -m tiny.gguf --tokenize -p 'The cat sleeps. The')
    zt-run -m net.json --tokenizer hf --raw -p 'The cat sleeps. The' -n 0 --exact --all-logits --logits a.npy
    zt-run -m tiny.gguf --raw -p 'The cat sleeps. The' -n 0 --exact --all-logits --logits b.npy
    zt-dna compare --threshold .99999 a.npy b.npy >/dev/null
    tr ' ' '\n' <<<"$ids" >ids.csv
    zt-run -m net.json -i ids.csv -o c.npy
    zt-dna compare --threshold .99999 b.npy c.npy >table
    [ "$(wc -l <table)" -ge 1 ]
}

@test "weights beside the document: the same network, in every tool; a tenth of the text and back" {
    [ "$(ls beside)" = $'net.json\nnet.safetensors' ]
    [ "$(stat -c %s beside/net.json)" -lt 20000 ]
    same "$(zt-convert --hash net.json)" "$(zt-convert --hash beside/net.json)"
    zt-convert -q beside/net.json back.json
    cmp back.json net.json || { # but for the line of history
        same "$(zt-convert --hash net.json)" "$(zt-convert --hash back.json)"
    }
    zt-convert -q --external-data net.json again.json
    cmp again.safetensors beside/net.safetensors
    zt-convert -q beside/net.json n.gguf
    same "$(zt-convert --hash net.json)" "$(zt-convert --hash n.gguf)"
    same "$(zt-trace show net.json | grep -v ^model)" "$(zt-trace show beside/net.json | grep -v ^model)"
    zt-dna compare --threshold .9999 net.json beside/net.json >/dev/null
    zt-quant -q --type int8 beside/net.json q.json
    zt-run -m q.json --tokenizer hf --raw -p 'The cat' -n 4 --temp 0 >/dev/null
    zt-convert -q --external-data q.json q2.json
    same "$(zt-convert --hash q.json)" "$(zt-convert --hash q2.json)"
    zt-convert --check beside/net.json
    run -73 --separate-stderr zt-convert -q --external-data net.json again.json
    one_message zt-convert
    run -64 --separate-stderr zt-convert -q --external-data net.json -
    one_message zt-convert
    run -64 --separate-stderr zt-convert -q --external-data tiny.gguf x.json
    one_message zt-convert
}

# bad CODE WORD PERL: the document beside its weights, changed, is refused.
bad() {
    rm -rf bad
    cp -r beside bad
    perl -0pi -e "$3" bad/net.json
    run --separate-stderr zt-run -m bad/net.json --tokenizer hf --raw -p 'The' -n 1
    echo "$3: $status $stderr"
    [ "$status" -eq "$1" ] && one_message zt-run && [[ $stderr == *"$2"* ]]
}

@test "documents whose weights are not what they say are refused by name" {
    bad 66 other.safetensors 's/net.safetensors/other.safetensors/'
    bad 65 zt.data 's/net.safetensors/..\/net.safetensors/'
    bad 65 zt.data 's/net.safetensors/.hidden/'
    bad 65 zt.data 's/"net.safetensors"/7/'
    bad 65 zt.data 's/"net.safetensors"/""/'
    bad 65 zt.data 's/"net.safetensors"/"\/etc\/passwd"/'
    bad 65 placeholder 's/#1:/#2:/'
    bad 65 bytes 's/#1:(\d+)/"#1:" . ($1 + 4)/e'
    bad 65 placeholder 's/#1:(\d+)/#1:-4/'
    bad 65 placeholder 's/#1:\d+/AAAA/'
    bad 65 base64 's/"zt.data":"net.safetensors",//'
    rm -rf bad && cp -r beside bad && truncate -s -8 bad/net.safetensors
    run -65 --separate-stderr zt-run -m bad/net.json --tokenizer hf --raw -p 'The' -n 1
    one_message zt-run
    cp hf/model.safetensors bad/net.safetensors
    run -65 --separate-stderr zt-run -m bad/net.json --tokenizer hf --raw -p 'The' -n 1
    one_message zt-run
    [[ $stderr == *"no tensor"* ]]
}

# not_lm WORD PERL: the network, changed, is not a language model.
not_lm() {
    perl -0pe "$2" net.json >changed.json
    run --separate-stderr zt-run -m changed.json --tokenizer hf --raw -p 'The' -n 1
    echo "$2: $status $stderr"
    [ "$status" -eq 69 ] && one_message zt-run && [[ $stderr == *"$1"* ]]
}

@test "networks with other layers are refused, and a tokenizer is for networks alone" {
    not_lm rope 's/"rope_freq_base":[0-9.e+]+/"rope_freq_base":0/g'
    not_lm attention 's/"rope_freq_base":[0-9.e+]+/"rope_freq_base":77/'
    not_lm eps 's/"eps":[0-9.e-]+/"eps":0.5/'
    not_lm Dense 's/("type":"Dense","activation":)"Linear"/$1"Tanh"/'
    not_lm SwiGLU 's/("type":"SwiGLU")/"is_disabled":true,$1/'
    not_lm Embedding 's/"type":"Embedding"/"is_disabled":true,"type":"Embedding"/'
    echo '{"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"Dense","input_height":2,"output_height":1}]}' >dense.json
    run -69 --separate-stderr zt-run -m dense.json --tokenizer hf --raw -p 'The' -n 1
    one_message zt-run
    run -64 --separate-stderr zt-run -m tiny.gguf --tokenizer hf --raw -p 'The' -n 1
    one_message zt-run
    run -66 --separate-stderr zt-run -m net.json --tokenizer none --raw -p 'The' -n 1
    one_message zt-run
}
