#!/usr/bin/env bats
# zt-run --program: forward passes as text, recorded by zt-trace record --forward, give the bits of the built-in ones; an
# architecture that has none runs by its text; what does not fit is refused.

load ../common/helper

rows=(llama qwen2 gemma3 qwen3 gemma2 phi3 gpt2 smollm3 olmo2 granite qwen2moe qwen3moe glm4moe command-r cohere2 stablelm
    gptneox falcon exaone4 gpt-oss)

setup_file() {
    make_models
}

setup() {
    in_own_folder
    ln -sf "$tiny_spm" spm.gguf
    zt-trace record --forward -m model.gguf -o t.zt
}

# Runs the model by its row, then by a text: the same logits.
same_logits() { # model text options...
    zt-run -m "$1" --raw -p 'hello there on the' -n 0 --logits row.npy "${@:3}"
    zt-run -m "$1" --raw -p 'hello there on the' -n 0 --logits text.npy --program "$2" "${@:3}"
    cmp row.npy text.npy
    rm row.npy text.npy
}

@test "the logits of each row, by a text that --exact and --kv apply to" {
    for arch in "${rows[@]}"; do
        "$tests/mkmodel" --arch "$arch" --ctx 128 m.gguf
        zt-trace record --forward -m m.gguf >m.zt
        zt-trace record --forward --exact -m m.gguf >exact.zt
        same_logits m.gguf m.zt
        same_logits m.gguf m.zt --exact
        same_logits m.gguf m.zt --kv f32 --chunk 2
        zt-run -m m.gguf --raw -p 'hello on' -n 0 --exact --logits a.npy
        zt-run -m m.gguf --raw -p 'hello on' -n 0 --program exact.zt --logits b.npy
        cmp a.npy b.npy
        rm m.gguf a.npy b.npy
    done
}

@test "the text is canonical, and names no model and no numbers" {
    for m in model spm; do
        zt-trace record --forward -m $m.gguf >m.zt
        zt-trace show --plain m.zt | cmp - m.zt
        zt-trace record -m $m.gguf | grep -v -e ^model -e ^bind | cmp - m.zt
        zt-trace stats -m $m.gguf --bind n=2,m=1,ctx=64 m.zt >/dev/null
    done
    zt-trace record --forward -m model.gguf -c 64 --kv f32 | grep -q 'state kc0: f32\[ctx'
    all_refused zt-trace record <<'END'
64|exclude|--forward -m model.gguf -p hi
64|exclude|--forward -m model.gguf --at 2
64|nothing is run|--forward -m model.gguf -t 2
64|no model|--forward
66|none|--forward -m none.gguf
END
}

@test "generation, drafts, chunks, threads, samples, JSON and perplexity are those of the row" {
    for m in model spm; do
        zt-trace record --forward -m $m.gguf >m.zt
        for options in '--temp 0' '--temp 0.9 --seed 3 --repeat-penalty 1.2' '--speculate --temp 0' '--no-kv-cache --temp 0' \
            '--chunk 3 -t 1 --temp 0' '--regex [a-z]{4} --ids' '-c 40'; do
            # shellcheck disable=SC2086
            zt-run -m $m.gguf -p 'the cat the cat the cat' -n 24 $options >row
            # shellcheck disable=SC2086
            zt-run -m $m.gguf -p 'the cat the cat the cat' -n 24 --program m.zt $options | cmp - row
        done
        zt-run -m $m.gguf -p hello -n 6 --temp 0 --json --logprobs 2 | sed -E 's/[a-z_]+_s":[0-9.e-]+//g; s/[0-9]+ms//g' >row
        zt-run -m $m.gguf -p hello -n 6 --temp 0 --json --logprobs 2 --program m.zt | sed -E 's/[a-z_]+_s":[0-9.e-]+//g' | cmp - row
        printf 'the cat sat on the mat %.0s' {1..30} >text
        zt-run -m $m.gguf --perplexity text -c 64 >row
        zt-run -m $m.gguf --perplexity text -c 64 --program m.zt | cmp - row
        zt-run -m $m.gguf --dry-run | sed '/available/d' >row
        zt-run -m $m.gguf --dry-run --program m.zt | sed '/available/d' | cmp - row
    done
    zt-run -m model.gguf -p hello -n 4 --temp 0 >row
    zt-run -m model.gguf -p hello -n 4 --temp 0 --program - <t.zt | cmp - row
    # after the passes, too: fused operations address the caches in the same way
    zt-trace compile --bind n=1,m=1,ctx=64 t.zt | zt-run -m model.gguf -p hello -n 4 --temp 0 --program - | cmp - row
}

@test "33 requests beside each other are those of the row" {
    perl -e 'printf qq({"prompt": "%s", "n": %d, "temp": %d}\n), join(" ", ("the", "cat", "sat", "on")[map { ($_ * 3 + $_) % 4 } 0 .. $_ % 9]), 4 + $_ % 5, $_ % 2 for 0 .. 32' >requests
    texts() { perl -CO -MJSON::PP -ne 'print decode_json($_)->{text}, "\n"'; }
    zt-run -m model.gguf --jsonl -i requests | texts >row
    [ "$(wc -l <row)" -ge 33 ]
    zt-run -m model.gguf --jsonl -i requests --program t.zt | texts | cmp - row
    sed -n 9p requests | zt-run -m model.gguf --jsonl --program t.zt | texts >alone
    zt-run -m model.gguf --jsonl -i requests --program t.zt | sed -n 9p | texts | cmp - alone
}

@test "--chat answers as with the row" {
    command -v python3 >/dev/null || skip "no python3 to make a terminal"
    chat() {
        printf '%s\n' $'> \thello on the\\n' $'> \tand the cat\\n' $'> \t/quit\\n' |
            "$BATS_TEST_DIRNAME/on-terminal" zt-run -m model.gguf --chat --temp 0 -n 12 "$@"
    }
    chat >row
    chat --program t.zt >text
    [ "$(wc -c <row)" -gt 40 ]
    cmp row text
}

@test "embeddings are those of the row: decoders, recurrent layers, encoders" {
    printf '%s\n' 'the cat sat' 'on the mat' hello >lines
    for arch in llama gemma3 gpt2 qwen35 rwkv7 bert nomic-bert modern-bert jina-bert-v2; do
        "$tests/mkmodel" --arch "$arch" --ctx 128 m.gguf
        for pooling in 1 2 3; do
            zt-convert --set "$arch.pooling_type=$pooling" m.gguf
            zt-trace record --forward --embed -m m.gguf >m.zt
            grep -q '^out   states = ' m.zt
            for options in '' --exact '--chunk 2'; do
                # shellcheck disable=SC2086
                zt-run -m m.gguf --embed -p 'hello there on the' $options >row
                # shellcheck disable=SC2086
                zt-run -m m.gguf --embed -p 'hello there on the' $options --program m.zt | cmp - row
            done
        done
        zt-run -m m.gguf --embed --format ndjson -i lines >row
        [ "$(wc -l <row)" -eq 3 ]
        zt-run -m m.gguf --embed --format ndjson -i lines --program m.zt | cmp - row
    done
}

@test "embeddings: the scores of a classifier; what does not fit" {
    for name in bert-labels:wordpiece bert-rank:wordpiece modernbert-mean:gpt2 qwen3-reranker:reranker t5:spm; do
        model=${name%:*}
        mkdir "$model"
        cp "$tests/../rows-ggufs/dress/${name#*:}"/* "$model/"
        cp "$tests/../rows/$model"/* "$model/"
        zt-trace record --forward --embed -m "$model" >m.zt
        zt-run -m "$model" --embed -p 'ab c' --format json >row
        [[ $model == t5 || $(<row) == *scores* ]]
        zt-run -m "$model" --embed -p 'ab c' --format json --program m.zt | cmp - row
    done
    "$tests/mkmodel" --arch bert --ctx 128 bert.gguf
    zt-trace record --forward --embed -m bert.gguf >bert.zt
    zt-trace record --forward --embed -m model.gguf >e.zt
    sed 's/^in    types.*/&\nstate s: f32[4,4]/' bert.zt >state.zt
    sed 's/^in    types.*/&\nin kinds: i32[n]/' bert.zt >kinds.zt
    sed 's/^out   states = .*/out   states = ids/' e.zt >ids.zt
    # text and embeddings in one program
    { cat t.zt; echo "out   states = $(sed -n 's/.*linear \([a-z0-9_]*\) token_embd.*/\1/p' t.zt | tail -1)"; } >both.zt
    zt-run -m model.gguf --embed -p hello >row
    zt-run -m model.gguf --embed -p hello --program both.zt | cmp - row
    zt-run -m model.gguf -p hello -n 4 --temp 0 >row
    zt-run -m model.gguf -p hello -n 4 --temp 0 --program both.zt | cmp - row
    all_refused zt-run <<'END'
69|no output 'states': the program computes logits|-m model.gguf --embed -p hi --program t.zt
69|no output 'logits': the program computes embeddings|-m model.gguf -p hi --program e.zt
69|no output 'logits': the program computes embeddings|-m bert.gguf -p hi --program bert.zt
65|unknown input 'kinds', expected ids, types, pos and last|-m bert.gguf --embed -p hi --program kinds.zt
65|state 's' of an encoder|-m bert.gguf --embed -p hi --program state.zt
65|output 'states' is i32|-m model.gguf --embed -p hi --program ids.zt
END
}

@test "--serve answers as with the row, with embeddings if the text has states" {
    command -v curl >/dev/null || skip "no curl"
    zt-run -m model.gguf --serve unix:s --program t.zt 2>err 3>&- &
    server=$!
    post() { curl -s --unix-socket s "http://localhost$1" -H 'Content-Type: application/json' -d "$2"; }
    for _ in {1..1200}; do grep -q -e listening -e zt-run: err && break; sleep .1; done
    if ! grep -q listening err; then skip "no server: $(cat err)"; fi
    post /v1/completions '{"prompt":"hello on the","max_tokens":8,"temperature":0}' |
        perl -CO -MJSON::PP -0777 -ne 'print decode_json($_)->{choices}[0]{text}' >text
    post /v1/embeddings '{"input":"hello"}' >refused
    kill $server
    wait $server || true
    echo '{"prompt":"hello on the","n":8,"temp":0}' | zt-run -m model.gguf --raw --jsonl |
        perl -CO -MJSON::PP -ne 'print decode_json($_)->{text}' | cmp - text
    [ -s text ]
    grep -q "no output 'states'" refused
}

@test "a session goes on with the same text; of another text it is ignored" {
    long='the cat the cat the cat sat'
    zt-run -m model.gguf -p "$long" -n 20 --temp 0 >whole
    zt-run -m model.gguf -p 'the cat the cat' -n 0 --session s --program t.zt
    run -0 --separate-stderr zt-run -m model.gguf -p "$long" -n 20 --temp 0 --session s --program t.zt --stats
    [ "$output" = "$(cat whole)" ]
    [[ $stderr == *reused* ]]
    sed 's/swiglu/geglu/' t.zt >other.zt
    zt-run -m model.gguf -p "$long" -n 20 --temp 0 --program other.zt >other
    for program in '' '--program other.zt'; do
        zt-run -m model.gguf -p "$long" -n 0 --session s --program t.zt
        # shellcheck disable=SC2086
        run -0 --separate-stderr zt-run -m model.gguf -p "$long" -n 20 --temp 0 --session s $program
        [[ $stderr == *"program "*"session ignored"* ]]
        if [ -n "$program" ]; then expected=other; else expected=whole; fi
        [ "$output" = "$(cat $expected)" ]
    done
    run ! cmp -s whole other
}

@test "an architecture without a row runs by its text, with a vocabulary and tensors alone" {
    for m in model spm; do
        zt-trace record --forward -m $m.gguf >m.zt
        cp $m.gguf unknown.gguf
        zt-convert --set general.architecture=frobnicate unknown.gguf
        run -69 --separate-stderr zt-run -m unknown.gguf -p hello -n 8
        [[ $stderr == *"'frobnicate' is not supported"* ]]
        zt-run -m $m.gguf --raw -p 'hello there' -n 8 --temp 0 >row
        zt-run -m unknown.gguf --raw -p 'hello there' -n 8 --temp 0 --program m.zt | cmp - row
        zt-convert --unset general.architecture unknown.gguf
        zt-run -m unknown.gguf --raw -p 'hello there' -n 8 --temp 0 --program m.zt | cmp - row
        zt-run -m unknown.gguf --dry-run --program m.zt >/dev/null
    done
    # the context length is the file's, or that of --ctx
    run -75 --separate-stderr zt-run -m model.gguf -p hello -n 8 -c 4 --program t.zt
    [[ $stderr == *'the context of 4'* ]]
}

@test "another model with the same shapes; another activation, fewer layers: as the text says" {
    "$tests/mkmodel" --arch llama --ctx 256 --seed 4 other.gguf
    same_logits other.gguf t.zt
    sed 's/swiglu/geglu/' t.zt >other.zt
    zt-run -m model.gguf --raw -p hello -n 0 --logits a.npy
    zt-run -m model.gguf --raw -p hello -n 0 --program other.zt --logits b.npy
    run ! cmp -s a.npy b.npy
}

@test "without attention there are no caches, and what follows a token depends on that token alone" {
    printf '%s\n' 'zt program 1' 'in ids: i32[n]' 'in pos: i32[n]' 'in seq: i32[n]' 'in table: i32[4,ctx/32]' 'in rows: i32[m]' \
        'data e: q8_0[300,64] "token_embd.weight"' 'x = gather e ids' 'y = gather x rows' 'z = linear y e' 'out logits = z' >bigram.zt
    bigram() { zt-run -m model.gguf --raw -n 8 --temp 0 --program bigram.zt "$@"; }
    bigram -p 'hello on the' --ids >ids
    [ "$(wc -w <ids)" -eq 8 ]
    bigram -p 'the the on the' --ids | cmp - ids
    bigram -p 'hello on the' --ids --speculate | cmp - ids
    for _ in once again; do bigram -p 'hello on the' --ids --session s | cmp - ids; done
    bigram -p 'hello on the' >text
    echo '{"prompt":"hello on the","n":8,"temp":0}' | zt-run -m model.gguf --raw --jsonl --program bigram.zt |
        perl -CO -MJSON::PP -ne 'print decode_json($_)->{text}' | cmp - text
    zt-run -m model.gguf --dry-run --program bigram.zt --format tsv | grep -qx 'kv.0'
}

# The text changed by a sed script is refused with that word.
refused() { # word script
    sed -E "$2" t.zt >h.zt
    run ! cmp -s h.zt t.zt
    run --separate-stderr zt-run -m model.gguf --raw -p hello -n 1 --program h.zt
    echo "$2: $status $stderr"
    [ "$status" -eq 65 ]
    one_message zt-run
    [[ $stderr == "zt-run: h.zt:"*"$1"* ]]
    [ -z "$output" ]
}

@test "what does not fit is one line, 65: inputs, outputs, caches, data" {
    refused "no input 'rows'" '/^in    rows/d; /_rows = /s/rows$/ids/'
    refused "unknown input 'mask'" 's/^(in    ids.*)/\1\nin mask: i32[n]/'
    refused "input 'table' is i32[1,4] for n=3, m=2 and ctx=64, expected i32[1,2]" 's|ctx/32|ctx/16|'
    refused "input 'table' is i32[3,2]" 's|i32\[1,ctx/32|i32[n,ctx/32|'
    refused "input 'ids' is i64[3]" 's/^(in    ids: )i32/\1i64/'
    refused "unknown symbol 'k', expected n, m and ctx" 's/i32\[m\]/i32[k]/'
    refused "no output 'logits'" '/^out   logits/d'
    refused "output 'logits' is f32[3,64]" 's/^(out   logits = ).*/\1x/'
    refused "unknown output 'hidden'" '$s/$/\nout hidden = x/'
    refused "'best' is not the argmax" 's/^(out   best = ).*/\1rows/'
    refused "missing tensor 'blk.0.attn_x.weight'" 's/"blk.0.attn_q.weight"/"blk.0.attn_x.weight"/'
    refused "missing tensor" 's/"blk.0.attn_q.weight"/"a\\nb"/'
    refused "has type q8_0[64,64], but the program expects f16[64,64]" 's/q8_0(.* "blk.0.attn_q.weight")/f16\1/'
    refused 'g has 63 entries, expected 64' 's/f32\[64\]( "output_norm.weight")/f32[63]\1/'
    refused "state 's' is f32[3,4]" 's/^(in    rows.*)/\1\nstate s: f32[n,4]/'
    refused "state 'kc0' is not a KV cache" '/^keep  kc0/d'
    refused "state 'kc0' is not a KV cache" 's/^(kp0 = .*) pos seq/\1 seq seq/'
    refused "reads 'kp0', a state: only attention" 's/^(kp0 = .*)/\1\nz = sum kp0/'
    refused "reads 'kp0', a state: only attention" 's/^(a0 = attention \S+ \S+ \S+) pos/\1 seq/'
    refused "reads 'kc0', a state: only attention" 's/^(kp0 = .*)/z = attention qr0 kc0 kc0 pos seq table head=16\n\1/'
    refused "has rows for 64 tokens, but there are logits of 300" 's/^x = gather token_embd ids/data e: q8_0[64,64] "blk.0.attn_q.weight"\nx = gather e ids/'
    refused "unknown op" 's/= swiglu/= swigloo/'
    refused "not a program" '1s/zt/tz/'
    : >h.zt
    run -65 --separate-stderr zt-run -m model.gguf -p hello --program h.zt
    zt-trace record -m model.gguf >of-model.zt
    same_logits model.gguf of-model.zt
    run -65 --separate-stderr zt-run -m spm.gguf -p hello --program of-model.zt
    [[ $stderr == *"is for model"*"not for"* ]]
}

@test "positions with a table of their own limit the context" {
    "$tests/mkmodel" --arch gpt2 --ctx 64 m.gguf
    zt-trace record --forward -m m.gguf >m.zt
    run -64 --separate-stderr zt-run -m m.gguf -p hello -n 90 -c 65 --program m.zt
    [[ $stderr == *"exceeds the model's 64 positions"* ]]
    zt-convert --unset gpt2.context_length m.gguf
    zt-run -m m.gguf -p hello -n 1 -c 64 --program m.zt >/dev/null
    run -64 --separate-stderr zt-run -m m.gguf -p hello -n 90 -c 65 --program m.zt
}

@test "usage: what --program does not go with" {
    all_refused zt-run <<'END'
64|exclude|-m model.gguf -p hi --program t.zt --plan t.zt
64|does not apply to --tokenize|-m model.gguf --tokenize -p hi --program t.zt
64|does not apply|-m t.zt --program t.zt
64|stdin|-m model.gguf --program -
64|stdin|-m model.gguf --jsonl --program -
73|t.zt|-m model.gguf -p hi --program t.zt --logits t.zt -f
66|none|-m model.gguf -p hi --program none.zt
65|model.gguf|-m model.gguf -p hi --program model.gguf
END
    [ "$(head -1 t.zt)" = 'zt program 1' ]
}

@test "examples/architecture: a forward pass recorded, edited and run" {
    tools=$(cd "$(dirname "$(command -v zt-run)")" && pwd)
    cp "$repo"/examples/architecture/Makefile .
    make -s ZT="$tools" MODEL=model.gguf N=12 same >same
    zt-run -m model.gguf --raw -p 'The capital of France is' -n 12 --temp 0 | cmp - <(head -c -1 same)
    for way in relu skip; do
        make -s ZT="$tools" MODEL=model.gguf N=12 LAYER=1 $way >$way
        run ! cmp -s same $way
    done
    [ "$(grep -c '^r[0-9]* = relu g' relu.zt)" -eq "$(grep -c '^f[0-9]* = mul r' relu.zt)" ]
    [ "$(grep -c '^r[0-9]* = relu g' relu.zt)" -ge 2 ]
    printf 'the cat sat on the mat %.0s' {1..30} >text
    [ "$(make -s ZT="$tools" MODEL=model.gguf LAYER=1 TEXT=text perplexity | grep -c :)" -eq 3 ]
    run ! make -s ZT="$tools" MODEL=model.gguf LAYER=9 skip
    run ! make -s ZT="$tools" same
}

@test "SmolLM2 and Gemma 3: the logits and text of the row" {
    for name in smollm2 gemma3; do
        model=$("$repo/scripts/model" $name) || skip "no model: scripts/model $name failed"
        zt-trace record --forward -m "$model" >m.zt
        same_logits "$model" m.zt
        same_logits "$model" m.zt --exact
        zt-run -m "$model" -p 'Count to five' -n 16 --temp 0 >row
        zt-run -m "$model" -p 'Count to five' -n 16 --temp 0 --program m.zt --speculate | cmp - row
    done
}
