#!/usr/bin/env bats
# Models of the rows of tests/llm/further, made small, through the tools: text is the same however it is made; quantized, written for
# transformers and back, compared, merged and trained.

load ../common/helper
load ../common/same_text

rows=(llama4 deepseek32)

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    "$tests/mkmodel" --arch llama4 --seed 3 --ctx 256 --layers 4 llama4.gguf # the last layer does not rotate; chunks of 16 tokens
    "$tests/mkmodel" --arch deepseek32 --seed 3 --ctx 256 deepseek32.gguf         # each token chooses 5
}

setup() { cd "$BATS_FILE_TMPDIR" || exit; }

@test "the same text for any chunk, threads, draft and plan, and from the forward pass as text" {
    for arch in "${rows[@]}"; do same_text_each_way "$arch.gguf"; done
}

@test "a session cut at any word goes on as if it had not been" {
    for arch in "${rows[@]}"; do same_text_from_session "$arch.gguf"; done
}

@test "33 texts beside each other are those of runs alone" {
    for arch in "${rows[@]}"; do same_text_beside_32 "$arch.gguf" 1 8 33; done
}

@test "a dry run states the memory of the cache" {
    zt-run -m llama4.gguf --dry-run -c 256 >need
    grep -P '^kv\t131072$' need # four layers of two matrices f16[256,32]
    zt-run -m deepseek32.gguf --dry-run -c 256 >need
    grep -P '^kv\t57344$' need # two layers of a matrix f16[256,40] and the indexer's, f16[256,16]
}

@test "quantized by mixes, and run" {
    for arch in "${rows[@]}"; do
        "$tests/mkmodel" --arch "$arch" --seed 3 --ctx 256 --type f16 --width 256 --head 64 --ffn 512 wide.gguf
        for type in q8_0 q4_k_m q2_k; do
            zt-quant -f --type "$type" wide.gguf small.gguf
            zt-run -m small.gguf -p 'the cat' -n 8 --temp 0 >text
            zt-run -m small.gguf -p 'the cat' -n 8 --temp 0 --chunk 1 | cmp - text
        done
        zt-convert --list small.gguf >list
        [ -z "$(grep -e '_norm.weight' -e ffn_gate_inp list | grep -v f32)" ]
    done
}

@test "to a Hugging Face directory and back: the same tensors" {
    for arch in "${rows[@]}"; do
        "$tests/mkmodel" --arch "$arch" --seed 3 --ctx 256 --type f32 plain.gguf
        rm -rf folder
        zt-convert plain.gguf folder/
        zt-convert -f folder/ again.gguf
        for file in plain again; do zt-convert --hash $file.gguf | sort >$file; done
        [ "$(wc -l <plain)" -gt 10 ]
        cmp plain again
        for file in plain again; do zt-run -m $file.gguf -p 'the cat' -n 12 --temp 0 --exact >$file; done
        cmp plain again
    done
}

@test "compared and merged" {
    for arch in "${rows[@]}"; do
        for seed in 3 4; do "$tests/mkmodel" --arch "$arch" --seed $seed --ctx 256 --type f32 $seed.gguf; done
        run -1 --separate-stderr zt-dna compare 3.gguf 4.gguf
        [[ $output == *ffn_down* ]]
        zt-dna merge -f --method linear 3.gguf 4.gguf -o merged.gguf
        zt-run -m merged.gguf -p 'the cat' -n 8 --temp 0 >text
        [ -s text ]
    done
}

@test "llama4 is trained on texts of whole chunks: the loss falls" {
    printf 'the cat sat on the mat. %.0s' {1..60} >text
    "$tests/mkmodel" --arch llama4 --seed 3 --ctx 256 --layers 4 --type f32 plain.gguf
    zt-train -q -f -m plain.gguf --text text -c 32 --batch 4 --epochs 3 --lr .003 -o trained.gguf >history
    perl -MJSON::PP -ne 'push @l, decode_json($_)->{loss}; END {exit !($l[-1] < .5 * $l[0])}' history
    run ! zt-train -q -f -m plain.gguf --text text -c 40 --batch 4 -o trained.gguf
    [[ $output == *'40 tokens'*'chunk'* ]]
}

@test "deepseek32 is not trained" {
    printf 'the cat sat on the mat. %.0s' {1..60} >text
    "$tests/mkmodel" --arch deepseek32 --seed 3 --ctx 256 --type f32 plain.gguf
    run -69 --separate-stderr zt-train -q -f -m plain.gguf --text text -c 16 --batch 4 -o trained.gguf
    [ "${#stderr_lines[@]}" = 1 ]
    [[ $stderr == *'indexer'* ]]
}

# A directory of tests/llm/further, or of another SET there, with a tokenizer.
make_folder() { # NAME DRESS [SET]
    rm -rf "$1"
    mkdir "$1"
    cp "$tests/../${3-further}/$1"/* "$tests/../further-ggufs/dress/$2"/* "$1/"
}

@test "classifiers of Qwen 3: scores of the directory and of its GGUF, no text" {
    for name in qwen3-labels:3 qwen3-score:1; do
        folder=${name%:*}
        make_folder "$folder" gpt2
        zt-run -m "$folder" --embed --exact -p 'ab c' --format json >scores
        perl -MJSON::PP -e '$s = decode_json(<STDIN>)->{scores}; exit !(@$s == shift && $s->[0] != 1)' "${name#*:}" <scores
        zt-convert -f "$folder" "$folder.gguf"
        zt-run -m "$folder.gguf" --embed --exact -p 'ab c' --format json | cmp - scores
        run -69 --separate-stderr zt-run -m "$folder.gguf" -p 'ab' -n 2
        [ "${#stderr_lines[@]}" = 1 ]
        run -69 zt-convert "$folder.gguf" back/
    done
}

@test "Baichuan: one matrix of q, k and v, and back; heads that do not fit are refused" {
    make_folder baichuan2 spm
    zt-convert -f baichuan2 one.gguf
    rm -rf back
    zt-convert one.gguf back/
    zt-convert -f back two.gguf
    for file in one two; do zt-convert --hash $file.gguf | sort >$file; done
    cmp one two
    zt-convert --list back/model.safetensors | grep -P 'model.layers.0.self_attn.W_pack.weight\t.*f32' | grep -q 96
    for heads in 3 5 32 1000 0 -1; do
        perl -i -pe "s/\"num_attention_heads\": -?\\d+/\"num_attention_heads\": $heads/" baichuan2/config.json
        run -65 --separate-stderr zt-run -m baichuan2 -p 'ab' -n 2
        [ "${#stderr_lines[@]}" = 1 ]
    done
}

@test "Bamba and Nemotron-H with experts: the same text however it is made, by the GGUF too" {
    for name in bamba nemotron_h_moe nemotron_h_moe-latent; do
        make_folder "$name" gpt2 state_space
        zt-convert -f "$name" model.gguf
        greedy() { zt-run -m model.gguf --raw -p 'ab cd ab cd ab' -n 40 --temp 0 -c 96 --ignore-eos "$@"; }
        greedy >whole
        [ -s whole ]
        for model in "$name" model.gguf; do zt-run -m "$model" --raw -p 'ab cd ab' -n 0 -c 96 -f --logits "${model%.gguf}.npy"; done
        cmp "$name.npy" model.npy
        for option in '--chunk 1' '--chunk 7' '--threads 1' '--threads 3' --speculate --no-kv-cache; do
            # shellcheck disable=SC2086
            greedy $option | cmp - whole
        done
        zt-trace record -m model.gguf --forward >forward.zt
        greedy --program forward.zt | cmp - whole
        rm -f s
        zt-run -m model.gguf --raw -p 'ab cd ab' -n 0 -c 96 --session s
        greedy --session s | cmp - whole
        perl -e 'printf qq({"prompt": "%s", "n": 9, "temp": 0}\n), substr("ab cd ab cd", 0, 2 + $_ % 9) for 0 .. 8' >requests
        zt-run -m model.gguf --raw --jsonl -i requests -c 96 >beside
        for line in 1 5 9; do
            sed -n "${line}p" requests | zt-run -m model.gguf --raw --jsonl -c 96 | perl -MJSON::PP -ne 'print decode_json($_)->{text}' >alone
            sed -n "${line}p" beside | perl -MJSON::PP -ne 'print decode_json($_)->{text}' | cmp - alone
        done
        zt-quant -f --type q8_0 model.gguf small.gguf
        zt-run -m small.gguf --raw -p 'ab' -n 8 --temp 0 -c 96 >text
    done
}

@test "a Bamba of another converter, which pairs the columns of whole heads, is refused" {
    make_folder bamba gpt2 state_space
    zt-convert -f bamba other.gguf
    zt-convert --set granitehybrid.rope.pair=thirds other.gguf
    run -65 --separate-stderr zt-run -m other.gguf -p 'ab' -n 2
    [[ $stderr == *"rope.pair is neither neighbours nor halves"* ]]
    zt-convert --unset granitehybrid.rope.pair other.gguf
    run -69 --separate-stderr zt-run -m other.gguf -p 'ab' -n 2
    [[ $stderr == *"rotate a part of each head"*"'granitehybrid.rope.pair'"* ]]
}
