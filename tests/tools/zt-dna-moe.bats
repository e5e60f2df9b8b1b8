#!/usr/bin/env bats
# zt-dna moe: gates as mergekit-moe has them (tests/dna/mixture), what a mixture is made of, that it runs, and what is refused.

load ../common/helper

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    for m in base:0 one:1 two:2; do "$tests/mkmodel" --arch llama --ctx 64 --type f32 --seed "${m#*:}" "${m%:*}.gguf"; done
    for m in base:5 one:6; do "$tests/mkmodel" --arch qwen3 --ctx 64 --type f32 --seed "${m#*:}" "q3-${m%:*}.gguf"; done
    for m in base:3 one:4; do "$tests/mkmodel" --arch qwen2 --ctx 64 --type f32 --seed "${m#*:}" "q-${m%:*}.gguf"; done
    "$tests/mkmodel" --arch llama --ctx 64 --ffn 96 --type f32 wide.gguf
    zt-quant -q --type q8_0 two.gguf two-q8_0.gguf
}
setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    ln -s "$BATS_FILE_TMPDIR"/*.gguf .
    set=$(cd "${ZT_TESTS:-build/tests}/.." && pwd)/mixture
    # one object of JSON, without its closing brace: tests add keys
    experts='"experts": [{"source_model": "one.gguf", "positive_prompts": ["hello"], "negative_prompts": ["no"]},
        {"source_model": "two.gguf", "positive_prompts": ["world"]}]'
    echo "{\"base_model\": \"base.gguf\", $experts}" >r.json
}
refused() { # CODE WORD JSON
    echo "$3" >bad.json
    run --separate-stderr zt-dna moe bad.json -o x.gguf
    echo "$3: $status $stderr"
    [ "$status" -eq "$1" ] && one_message zt-dna && [[ $stderr == *"$2"* ]] && [ ! -e x.gguf ]
}

@test "gates of prompts are mergekit-moe's" {
    for mode in hidden hidden_avg cheap_embed; do
        zt-dna moe "$set/$mode.json" -o $mode.gguf
        for layer in 0 1; do
            name=blk.$layer.ffn_gate_inp.weight
            zt-convert --cat $name $mode.gguf >a.f32.npy
            zt-convert --cat $name "$set/$mode.npz" >b.f32.npy
            # f32, little-endian, behind a header of 128 bytes
            paste <(tail -c +129 a.f32.npy | od -An -v -t f4 -w4) <(tail -c +129 b.f32.npy | od -An -v -t f4 -w4) |
                awk -v "what=$mode $layer" '{d = $1 - $2; d = d < 0 ? -d : d; if (d > most) most = d}
                    END {print what, NR, most; exit !(NR == 32 && most < 2e-6)}'
        done
    done
}
@test "a mixture has the base's tensors, and the experts' feed-forwards stacked" {
    zt-dna moe r.json -o m.gguf
    zt-convert --check m.gguf
    [ "$(zt-convert --meta m.gguf | awk -F'\t' '$1 ~ /expert/ {print $1, $3}' | sort | tr '\n' ' ')" = 'llama.expert_count 2 llama.expert_used_count 2 ' ]
    zt-convert --hash base.gguf | grep -v ffn_ | sort >base.hash
    zt-convert --hash m.gguf | grep -v 'ffn_.*exps\|ffn_gate_inp' | sort >rest.hash
    diff <(grep -v ffn_norm rest.hash) base.hash
    for what in gate up down; do
        name=blk.1.ffn_$what
        zt-convert --cat ${name}_exps.weight m.gguf | tail -c +129 >stacked
        for m in one two; do zt-convert --cat $name.weight $m.gguf | tail -c +129; done | cmp - stacked
    done
    zt-run -m m.gguf -p hi -n 4 --temp 0 --ids >ids
    [ "$(wc -w <ids)" -eq 4 ]
}
@test "experts that are the base give what the base gives" {
    sed 's/one.gguf\|two.gguf/base.gguf/' r.json >same.json
    run --separate-stderr zt-dna moe same.json -o same.gguf
    [ "$status" -eq 0 ]
    [[ $stderr == *'warning: all 2 experts are base.gguf'* ]]
    zt-run -m same.gguf -p hi --exact --logits same.npy -n 0
    zt-run -m base.gguf -p hi --exact --logits base.npy -n 0
    paste <(tail -c +129 same.npy | od -An -v -t f4 -w4) <(tail -c +129 base.npy | od -An -v -t f4 -w4) |
        awk '{d = $1 - $2; d = d < 0 ? -d : d; if (d > most) most = d} END {print NR, most; exit !(NR >= 100 && most < 1e-4)}'
}
@test "a mixture of Qwen 2 has a shared expert" {
    echo '{"base_model": "q-base.gguf", "gate_mode": "random", "experts_per_token": 1, "dtype": "float16",
        "experts": [{"source_model": "q-base.gguf"}, {"source_model": "q-one.gguf", "noise_scale": 0.01}],
        "shared_experts": [{"source_model": "q-one.gguf", "residual_scale": 0.5}]}' >q.json
    zt-dna moe q.json --seed 3 -o q.gguf
    zt-dna moe q.json --seed 3 -o again.gguf
    cmp q.gguf again.gguf
    zt-convert --meta q.gguf | grep >/dev/null 'general.architecture.*qwen2moe'
    zt-convert --list q.gguf | grep >/dev/null '^blk.0.ffn_down_shexp.weight	f16'
    zt-run -m q.gguf -p hi -n 3 --temp 0 --ids >ids
    [ "$(wc -w <ids)" -eq 3 ]
    # half of the expert's, rounded
    zt-convert --cat blk.0.ffn_down.weight q-one.gguf >whole.npy
    od -An -v -t f4 -w4 -j 128 -N 12 whole.npy >whole
    zt-convert -q --dtype f32 q.gguf wide.f32.gguf
    zt-convert --cat blk.0.ffn_down_shexp.weight wide.f32.gguf >half.npy
    od -An -v -t f4 -w4 -j 128 -N 12 half.npy >half
    paste whole half | awk '{d = $1 / 2 - $2; if (d * d > 1e-7 * $1 * $1 + 1e-12) bad = 1} END {exit bad || NR != 3}'
}
@test "a mixture of Qwen 3" {
    echo '{"base_model": "q3-base.gguf", "gate_mode": "hidden", "experts": [
        {"source_model": "q3-base.gguf", "positive_prompts": ["one"]}, {"source_model": "q3-one.gguf", "positive_prompts": ["two"]}]}' >q3.json
    zt-dna moe q3.json -o q3.gguf
    zt-convert --check q3.gguf
    zt-convert --meta q3.gguf | awk -F'\t' '$1 ~ /architecture|expert/ {print $1, $3}' | sort >keys
    diff keys - <<END
general.architecture qwen3moe
qwen3moe.expert_count 2
qwen3moe.expert_feed_forward_length 128
qwen3moe.expert_used_count 2
END
    zt-run -m q3.gguf -p hi -n 3 --temp 0 --ids >ids
    [ "$(wc -w <ids)" -eq 3 ]
    # experts that are the base give what the base gives
    sed 's/q3-one/q3-base/' q3.json >same.json
    zt-dna moe -q same.json -o same.gguf
    for m in same q3-base; do zt-run -m $m.gguf -p hi --exact --logits $m.npy -n 0; done
    paste <(tail -c +129 same.npy | od -An -v -t f4 -w4) <(tail -c +129 q3-base.npy | od -An -v -t f4 -w4) |
        awk '{d = $1 - $2; d = d < 0 ? -d : d; if (d > most) most = d} END {print NR, most; exit !(NR >= 100 && most < 1e-4)}'
    zt-dna moe -q q3.json -o hf/
    grep -q Qwen3Moe hf/config.json
}
@test "containers, and weights of another type" {
    sed 's/two.gguf/two-q8_0.gguf/' r.json >types.json
    run --separate-stderr zt-dna moe types.json -o types.gguf
    [ "$status" -eq 0 ] # the second is converted to the first's f32
    zt-convert --list types.gguf | grep >/dev/null '^blk.0.ffn_up_exps.weight	f32'
    zt-dna moe r.json -o hf/
    [ -e hf/config.json ]
    grep -q Mixtral hf/config.json
    zt-dna moe r.json -o - | zt-run -m - -p hi -n 2 --temp 0 --ids >one
    zt-run -m hf -p hi -n 2 --temp 0 --ids >two
    cmp one two
}
@test "what is refused" {
    refused 65 "missing key 'base_model'" "{$experts}"
    refused 65 'no experts' '{"base_model": "base.gguf"}'
    refused 65 "unknown key 'expert' (did you mean 'experts'?)" '{"base_model": "base.gguf", "expert": []}'
    refused 65 "unknown gate_mode 'best'" "{\"base_model\": \"base.gguf\", \"gate_mode\": \"best\", $experts}"
    refused 65 'experts_per_token is 3, but there are 2 experts' "{\"base_model\": \"base.gguf\", \"experts_per_token\": 3, $experts}"
    refused 65 'expert 2 (two.gguf) has no positive_prompts' "{\"base_model\": \"base.gguf\", $(sed 's/, "positive_prompts": ."world".//' <<<"$experts")}"
    refused 65 'all 2 experts have the same prompts' '{"base_model": "base.gguf", "experts": [
        {"source_model": "one.gguf", "positive_prompts": ["x"]}, {"source_model": "two.gguf", "positive_prompts": ["x"]}]}'
    refused 65 'mixtral has no shared expert, but the recipe has 1' "{\"base_model\": \"base.gguf\", $experts, \"shared_experts\": [{\"source_model\": \"one.gguf\", \"positive_prompts\": [\"y\"]}]}"
    refused 69 "architecture 'deepseek' is not supported: expected mixtral, qwen or qwen3" "{\"base_model\": \"base.gguf\", \"architecture\": \"deepseek\", $experts}"
    refused 65 "tensor 'blk.0.ffn_gate.weight' has type f32[96,64], but in one.gguf it has f32[128,64]" "{\"base_model\": \"base.gguf\", ${experts/two.gguf/wide.gguf}}"
    refused 65 "the architecture is 'qwen2', but that of base.gguf is 'llama'" "{\"base_model\": \"base.gguf\", ${experts/two.gguf/q-one.gguf}}"
    refused 66 'nothere.gguf' "{\"base_model\": \"base.gguf\", ${experts/two.gguf/nothere.gguf}}"
    refused 65 "unknown dtype 'int3'" "{\"base_model\": \"base.gguf\", \"dtype\": \"int3\", $experts}"
    refused 65 'noise_scale' "{\"base_model\": \"base.gguf\", $(sed 's/"negative_prompts": ."no"./"noise_scale": "much"/' <<<"$experts")}"
    run zt-dna moe r.json
    [ "$status" -eq 64 ]
}
