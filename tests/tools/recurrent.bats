#!/usr/bin/env bats
# Models with recurrent layers through the tools: text is the same however it is made, by a plan and by the forward pass as text
# too; encoders have no text of their forward pass.

load ../common/helper
load ../common/same_text

rows=(qwen3next qwen35 qwen35moe rwkv7 arwkv7)
folders=(lfm2 lfm2moe mamba mamba-untied mamba2 falcon_mamba falcon_h1 falcon_h1-normed granitehybrid granitehybrid-experts nemotron_h)

# A directory of tests/llm/state_space with a tokenizer, as a GGUF.
make_file() { # NAME
    mkdir "$1"
    cp "$tests/../state_space/$1"/* "$tests/../state_space-ggufs/dress/gpt2"/* "$1/"
    zt-convert "$1" "$1.gguf"
}

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    for arch in "${rows[@]}"; do "$tests/mkmodel" --arch "$arch" --seed 3 --ctx 256 "$arch.gguf"; done
    for name in "${folders[@]}"; do make_file "$name"; done
}

setup() { cd "$BATS_FILE_TMPDIR" || exit; }

@test "arwkv7 with other ranks than its authors' class has cannot be written for it" {
    run -69 zt-convert arwkv7.gguf folder/
    [[ $output == *"RwkvHybridForCausalLM cannot have the ranks"* ]]
    [ ! -e folder ]
}

@test "gated delta nets and RWKV-7: the same text for any chunk, threads, draft and plan, and from the forward pass as text" {
    for arch in "${rows[@]}"; do same_text_each_way "$arch.gguf"; done
}

@test "gated delta nets and RWKV-7: a session cut at any word goes on as if it had not been, and 33 texts are those of runs alone" {
    for arch in "${rows[@]}"; do
        same_text_from_session "$arch.gguf"
        same_text_beside_32 "$arch.gguf" 1 8 33
    done
}

@test "short convolutions and state-space layers: the same, by a session, and from stored states" {
    for name in "${folders[@]}"; do
        greedy() { zt-run -m "$name.gguf" --raw -p 'ab cd ab cd ab' -n 24 --temp 0 -c 64 --ignore-eos "$@"; }
        greedy >whole
        for _ in {1..30}; do printf 'ab cd '; done >prompt
        zt-run -q -m "$name.gguf" --raw -i prompt -n 24 --temp 0 --ignore-eos >prompted
        [ -s whole ]
        for option in '--chunk 1' '--chunk 7' '--threads 3' --speculate; do
            # shellcheck disable=SC2086
            greedy $option | cmp - whole
        done
        zt-trace record -m "$name.gguf" -c 64 | zt-trace compile --bind n=1,m=1,ctx=64 >plan
        greedy --plan plan | cmp - whole
        zt-trace record -m "$name.gguf" --forward >forward.zt
        greedy --program forward.zt | cmp - whole
        rm -f s
        zt-run -m "$name.gguf" --raw -p 'ab cd ab' -n 0 -c 64 --session s
        greedy --session s | cmp - whole
        rm -rf kv
        for _ in 1 2; do zt-run -q -m "$name.gguf" --raw -i prompt -n 24 --temp 0 --ignore-eos --kv-store kv | cmp - prompted; done
        find kv -name '*.state' | grep -q .
    done
}

@test "short convolutions and state-space layers: 33 texts are those of runs alone" {
    perl -e 'printf qq({"prompt": "%s", "n": %d, "temp": 0, "ignore-eos": true}\n), join(" ", ("ab", "cd", "a", "bc")[map { ($_ * 3 + $_) % 4 } 0 .. $_ % 9]), 4 + $_ % 5 for 0 .. 32' >lines
    ids() { perl -MJSON::PP -ne 'print "@{decode_json($_)->{ids}}\n"'; }
    for name in "${folders[@]}"; do
        zt-run -m "$name.gguf" --raw --jsonl -c 64 -i lines | ids >beside
        [ "$(wc -l <beside)" = 33 ]
        for line in 8 33; do sed -n "${line}p" lines | zt-run -m "$name.gguf" --raw --jsonl -c 64 | ids | cmp - <(sed -n "${line}p" beside); done
    done
}

@test "a plan of another slot count or without a state is refused" {
    zt-trace record -m qwen35.gguf | zt-trace compile --bind n=1,m=1,ctx=256 >plan
    for script in '/^state/{s/f32\[/f32[1,/}' '0,/^state/{/^state/d}' 's/delta_rule/delta_rula/'; do
        sed "$script" plan >bad
        run ! cmp -s bad plan
        run -65 --separate-stderr zt-run -m qwen35.gguf -p 'the cat' -n 2 --plan bad
        [ -z "$output" ]
        one_message zt-run
    done
}
