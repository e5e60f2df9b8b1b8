#!/usr/bin/env bats
# Models with routed experts, made small, through the tools: text is the same however it is made; quantized with the rules
# of the mixes; written for transformers and back; compared and merged.

load ../common/helper

rows=(llama qwen2moe qwen3moe olmoe granitemoe phimoe ernie4_5-moe glm4moe gpt-oss)

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    for arch in llama qwen2moe qwen3moe olmoe granitemoe phimoe ernie4_5-moe glm4moe gpt-oss; do
        "$tests/mkmodel" --arch "$arch" --experts 6 --seed 3 --ctx 256 "$arch.gguf"
    done
}

setup() { cd "$BATS_FILE_TMPDIR" || exit; }

@test "the same text for any chunk, threads, draft and plan" {
    for arch in "${rows[@]}"; do
        greedy() { zt-run -m "$arch.gguf" -p 'the cat the cat the cat sat' -n 48 --temp 0 "$@"; }
        greedy >whole
        [ -s whole ]
        for option in '--chunk 1' '--chunk 7' '--threads 1' '--threads 3' --speculate; do
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
    perl -e 'printf qq({"prompt": "%s", "n": %d, "temp": 0}\n), join(" ", ("the", "cat", "sat", "on")[map { ($_ * $ARGV[0] + $_) % 4 } 0 .. $_ % 9]), 4 + $_ % 5 for 0 .. 32' 3 >requests
    for arch in "${rows[@]}"; do
        zt-run -m "$arch.gguf" --jsonl -i requests | perl -MJSON::PP -ne 'print JSON::PP->new->canonical->encode(decode_json($_)), "\n"' >beside
        [ "$(wc -l <beside)" = 33 ]
        for line in 1 8 17 33; do
            sed -n "${line}p" requests | zt-run -m "$arch.gguf" --jsonl |
                perl -MJSON::PP -ne 'print decode_json($_)->{text}' >alone
            sed -n "${line}p" beside | perl -MJSON::PP -ne 'print decode_json($_)->{text}' | cmp - alone
        done
    done
}

@test "quantized: stacked experts by the rules of a mix, the router as it is" {
    for arch in "${rows[@]}"; do
        "$tests/mkmodel" --arch "$arch" --experts 6 --seed 3 --ctx 256 --type f16 --width 256 --head 64 --ffn 512 wide.gguf
        zt-quant -f --type q4_k_m wide.gguf small.gguf
        zt-convert --list small.gguf >list
        grep 'ffn_gate_inp.weight' list | grep -q f32
        [ -z "$(grep 'ffn_gate_inp.weight' list | grep -v f32)" ]
        grep 'ffn_gate_exps.weight' list | grep -q q4_k
        grep 'ffn_down_exps.weight' list | grep -q q6_k
        zt-run -m small.gguf -p 'the cat' -n 8 --temp 0 >text
        zt-run -m small.gguf -p 'the cat' -n 8 --temp 0 --chunk 1 | cmp - text
    done
}

@test "to a Hugging Face directory and back: the same tensors" {
    for arch in "${rows[@]}"; do
        "$tests/mkmodel" --arch "$arch" --experts 6 --seed 3 --ctx 256 --type f32 plain.gguf
        rm -rf folder
        zt-convert plain.gguf folder/
        zt-convert -f folder/ again.gguf
        # vectors that are matrices of one row there have another hash, of their shape
        for file in plain again; do
            zt-convert --hash $file.gguf | grep -v -e ffn_gate_inp_shexp -e exp_probs_b | sort >$file
        done
        [ "$(wc -l <plain)" -gt 20 ]
        cmp plain again
    done
}

@test "compared and merged: each expert's rows, and the router" {
    for arch in qwen2moe glm4moe; do
        "$tests/mkmodel" --arch "$arch" --experts 6 --seed 4 --ctx 256 --type f32 other.gguf
        "$tests/mkmodel" --arch "$arch" --experts 6 --seed 3 --ctx 256 --type f32 plain.gguf
        zt-dna compare plain.gguf plain.gguf >table
        grep -q ffn_down_exps table
        grep -q ffn_gate_inp table
        zt-dna merge -f --method linear plain.gguf other.gguf -o merged.gguf
        zt-run -m merged.gguf -p 'the cat' -n 8 --temp 0 >text
        [ -s text ]
    done
}

@test "an importance matrix: sums of each expert's own rows, and how many" {
    "$tests/mkmodel" --arch qwen2moe --experts 6 --seed 3 --ctx 256 --type f16 --width 256 --head 64 --ffn 512 wide.gguf
    printf 'the cat sat on the mat %.0s' {1..40} >text
    zt-quant -f --make-imatrix -m wide.gguf -i text -o sums.gguf
    zt-convert --list sums.gguf >list
    grep -q 'blk.0.ffn_down_exps.weight.in_sum2' list
    zt-quant -f --type q2_k --imatrix sums.gguf wide.gguf small.gguf
    zt-run -m small.gguf -p 'the cat' -n 4 --temp 0 >text
}

@test "gpt-oss: experts in MXFP4 stay so in a mix, and in a Hugging Face directory; asked for, they become another type" {
    "$tests/mkmodel" --arch gpt-oss --experts 6 --seed 3 --ctx 256 --type f16 --width 256 --head 64 --ffn 512 wide.gguf
    zt-quant -f --type mxfp4_moe wide.gguf packed.gguf
    zt-quant -f --type q4_k_m packed.gguf small.gguf
    zt-convert --list small.gguf >list
    [ "$(grep -c '_exps.weight.*mxfp4' list)" = "$(grep -c '_exps.weight' list)" ]
    grep 'attn_q.weight' list | grep -q q4_k
    zt-quant -f --type q4_k_m --tensor-type '*_exps.weight=q8_0' packed.gguf other.gguf
    zt-convert --list other.gguf >list
    [ "$(grep -c '_exps.weight.*q8_0' list)" = "$(grep -c '_exps.weight' list)" ]
    rm -rf folder
    zt-convert packed.gguf folder/
    grep -q '"mxfp4"' folder/config.json
    zt-convert -f folder/ again.gguf
    for file in packed again; do zt-convert --hash $file.gguf | grep _exps | sort >$file; done
    [ "$(wc -l <packed)" -gt 10 ]
    cmp packed again
    rm -rf folder
    zt-convert --dtype bf16 packed.gguf folder/
    run grep -q '"mxfp4"' folder/config.json
    [ "$status" = 1 ]
    zt-run -m folder/ -p 'the cat' -n 8 --temp 0 >text
    [ -s text ]
}
