#!/usr/bin/env bats
# Dense architectures, made small, through the tools: text is the same however it is made, and quantized models run.

load ../common/helper
load ../common/same_text

rows=(internlm2 command-r cohere2 stablelm starcoder2 gptneox falcon phi2 exaone exaone4 glm4 seed_oss hunyuan-dense mistral3 minicpm apertus mpt baichuan)

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    for arch in internlm2 command-r cohere2 stablelm starcoder2 gptneox falcon phi2 exaone exaone4 glm4 seed_oss hunyuan-dense mistral3 minicpm apertus mpt baichuan; do
        seed=3
        [ "$arch" = mpt ] && seed=4 # 3: a token without text
        "$tests/mkmodel" --arch "$arch" --seed "$seed" --ctx 256 "$arch.gguf"
    done
}

setup() { cd "$BATS_FILE_TMPDIR" || exit; }

@test "the same text for any chunk, threads, draft and plan" {
    for arch in "${rows[@]}"; do
        greedy() { zt-run -m "$arch.gguf" -p 'the cat the cat the cat sat' -n 48 --temp 0 "$@"; }
        greedy >whole
        [ -s whole ]
        for option in '--chunk 7' '--threads 1' --speculate; do
            # shellcheck disable=SC2086
            greedy $option | cmp - whole
        done
        zt-trace record -m "$arch.gguf" | zt-trace compile --bind n=1,m=1,ctx=256 >plan
        greedy --plan plan | cmp - whole
    done
}

@test "a session cut in the middle goes on as if it had not been" {
    for arch in "${rows[@]}"; do
        rm -f s
        zt-run -m "$arch.gguf" -p 'the cat the cat the cat sat' -n 24 --temp 0 >whole
        zt-run -m "$arch.gguf" -p 'the cat the cat' -n 0 --session s
        zt-run -m "$arch.gguf" -p 'the cat the cat the cat sat' -n 24 --temp 0 --session s | cmp - whole
    done
}

@test "33 texts beside each other are those of runs alone" {
    for arch in "${rows[@]}"; do same_text_beside_32 "$arch.gguf" 8 33; done
}

@test "the first rows: text by pieces with a draft, from a session, and beside 32 others" {
    for arch in llama qwen2 qwen3 gemma2 gemma3 phi3 gpt2 smollm3 olmo2 granite; do
        "$tests/mkmodel" --arch "$arch" --seed 3 --ctx 256 first.gguf
        greedy() { zt-run -m first.gguf -p 'the cat the cat the cat sat' -n 24 --temp 0 "$@"; }
        greedy >whole
        greedy --speculate --chunk 7 | cmp - whole
        rm -f s
        zt-run -m first.gguf -p 'the cat the cat' -n 0 --session s
        greedy --session s | cmp - whole
        same_text_beside_32 first.gguf 33
    done
}

@test "Falcon with two norms, of 24 layers" {
    mkdir two
    cp "$tests/../dense/falcon-two"/* "$tests/../dense-ggufs/dress/gpt2"/* two/
    zt-convert two two.gguf
    {
        printf 'merge_method: passthrough\nslices:\n'
        for _ in {1..12}; do printf -- '- sources:\n  - model: two.gguf\n    layer_range: [0, 2]\n'; done
    } >deep.yaml
    zt-dna merge --config deep.yaml -o deep.gguf
    zt-run -m deep.gguf --raw -p 'ab cd' -n 8 --temp 0 --ids -c 64 >whole
    [ "$(wc -w <whole)" -eq 8 ]
    zt-run -m deep.gguf --raw -p 'ab cd' -n 8 --temp 0 --ids -c 64 --chunk 1 | cmp - whole
}

@test "quantized by mixes, and run" {
    for arch in "${rows[@]}"; do
        "$tests/mkmodel" --arch "$arch" --seed 3 --ctx 256 --type f16 --width 256 --head 64 --ffn 512 wide.gguf
        for type in q8_0 q4_k_m; do
            zt-quant -f --type "$type" wide.gguf small.gguf
            zt-convert --list small.gguf | grep -q "$( [ "$type" = q8_0 ] && echo q8_0 || echo q4_k )"
            zt-run -m small.gguf -p 'the cat' -n 8 --temp 0 >text
        done
    done
}

@test "to a Hugging Face directory and back: the same tensors" {
    for arch in "${rows[@]}"; do
        "$tests/mkmodel" --arch "$arch" --seed 3 --ctx 256 --kv-heads 4 --type f32 plain.gguf
        rm -rf folder
        zt-convert plain.gguf folder/
        zt-convert -f folder/ again.gguf
        for file in plain again; do zt-convert --hash $file.gguf | sort >$file; done
        [ "$(wc -l <plain)" -gt 10 ]
        cmp plain again
    done
}

@test "what transformers cannot have is refused" {
    run ! zt-convert gptneox.gguf folder2/ # grouped keys
    [[ $output == *"gpt_neox"*"2 key heads"* ]]
    [ ! -e folder2 ]
}
