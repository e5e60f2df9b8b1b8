#!/usr/bin/env bats
# Every option of every tool in every mode takes effect or is refused: tests/tools/options/walk.pl, which reads --help, with
# a table a tool of what each option is given and how its effect is seen.

load ../common/helper

walk() { # tool
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "with a sanitizer this takes minutes"
    [[ $bin == /* ]] || bin=$PWD/$bin
    [[ $tests == /* ]] || tests=$PWD/$tests
    PATH=$bin:$PATH ZT_TESTS=$tests
    export PATH ZT_TESTS
    cd "$BATS_TEST_DIRNAME/options" || exit
    perl walk.pl "$1.pl"
}

@test "zt-run: no option is ignored" { walk zt-run; }
@test "zt-trace: no option is ignored" { walk zt-trace; }
@test "zt-bench: no option is ignored" { walk zt-bench; }
@test "zt-dna: no option is ignored" { walk zt-dna; }
@test "zt-quant: no option is ignored" { walk zt-quant; }
@test "zt-convert: no option is ignored" { walk zt-convert; }
@test "zt-train: no option is ignored" { walk zt-train; }

@test "each tool has its table" {
    for tool in "$repo"/tools/zt-*/; do [ -s "$BATS_TEST_DIRNAME/options/$(basename "$tool").pl" ]; done
}

@test "an option that is ignored is found" {
    mkdir bin
    printf '#!/bin/sh\n[ "$1" = --help=all ] && exec %s/zt-run --help=all\nexec %s/zt-run --count -m model.gguf -p hi\n' \
        "$(cd "$bin" && pwd)" "$(cd "$bin" && pwd)" >bin/zt-run
    chmod +x bin/zt-run
    [[ $tests == /* ]] || tests=$PWD/$tests
    cp "$BATS_TEST_DIRNAME"/options/{walk,shared}.pl .
    cat >few.pl <<'END'
{tool => "zt-run", make => '"$ZT_TESTS/mkmodel" --arch llama model.gguf', flags => [],
 modes => {count => {run => [qw(--count -m model.gguf -p hi)]}}, all => {"--temp" => {value => 1}}, in => {}};
END
    run env PATH="$PWD/bin:$PATH" ZT_TESTS="$tests" WALK_OPTION=--temp perl walk.pl few.pl
    [ "$status" -eq 1 ]
    [[ $output == *"zt-run, count: --temp changes nothing"* ]]
}

# Each line "status|what the message ends with, or holds|command".
@test "near misses: words that options, commands and programs do not know" {
    "$tests/mkmodel" --arch llama --ctx 64 model.gguf
    printf '%s\n' 'zt program 1' 'in x: f32[n,4]' 'y = rms_nrom x' 'out y = y' >op.zt
    printf '%s\n' 'zt program 1' 'in x: f23[n,4]' 'y = neg x' 'out y = y' >dtype.zt
    printf '%s\n' 'zt program 1' 'in x: f32[n,4]' 'in g: f32[4]' 'y = rms_norm x g epps=1' 'out y = y' >attribute.zt
    printf '%s\n' 'merge_method: linear' 'modles: []' >key.yaml
    printf '%s\n' 'zt program 1' 'in x: f32[n,4]' 'thing = neg x' 'out y = thing' >grad.zt
    printf '1,2,3\n' >data.csv
    while IFS='|' read -r code words command; do
        run --separate-stderr bash -c "$command"
        echo "$command: $status $stderr"
        [ "$status" -eq "$code" ]
        [ "${#stderr_lines[@]}" -eq 1 ]
        [[ $stderr == *"$words"* ]]
        [[ $words == *'did you mean'* || $stderr != *'did you mean'* ]]
    done <<'END'
64|unknown option '--tmep' (did you mean '--temp'?)|zt-run --tmep 1
64|unknown option '--nonesuch': --help lists|zt-run --nonesuch
64|iq4_nl (did you mean 'f16'?)|zt-run -m model.gguf -p hi --kv f6
64|not one of f16|zt-run -m model.gguf -p hi --kv float
64|unknown engine 'cpuu' (did you mean 'cpu'?): expected auto, |zt-run -m model.gguf -p hi --engine cpuu
64|unknown engine 'warp': expected auto, |zt-run -m model.gguf -p hi --engine warp
64|(did you mean 'chatml'?); --raw disables|zt-run -m model.gguf -p hi --template chatlm
64|unknown command 'lineag' (did you mean 'lineage'?): expected layers, |zt-dna lineag a b
64|unknown command 'help': expected layers, |zt-dna help
64|unknown merge_method 'lenear' (did you mean 'linear'?): expected one of |zt-dna merge --method lenear model.gguf model.gguf -o o.gguf
65|unknown key 'modles' (did you mean 'models'?)|zt-dna merge --config key.yaml -o o.gguf
64|unknown type 'q4_k_n' (did you mean 'q4_k_m'?): expected |zt-quant --type q4_k_n model.gguf o.gguf
64|unknown type 'q4_kk' (did you mean|zt-quant --type q8_0 --tensor-type '*=q4_kk' model.gguf o.gguf
64|unknown container 'saftensors' (did you mean 'safetensors'?): expected hf, |zt-convert --to saftensors model.gguf o
64|unknown type 'bf61' (did you mean 'bf16'?): expected |zt-convert --dtype bf61 model.gguf o.gguf
66|there is no tensor 'output_nrom.weight' (did you mean 'output_norm.weight'?)|zt-convert --cat output_nrom.weight model.gguf
64|unknown optimizer 'adamm' (did you mean 'adam'?): expected sgd, |zt-train -m grad.zt -i data.csv -o o.npz --optim adamm
64|unknown schedule 'cosin' (did you mean 'cosine'?): expected |zt-train -m grad.zt -i data.csv -o o.npz --schedule cosin
64|cross_entropy (did you mean 'mse'?)|zt-train -m grad.zt -i data.csv -o o.npz --loss mes
64|unknown network kind 'sequentiel' (did you mean 'sequential'?): expected |zt-train --new sequentiel -i data.csv -o o.json
65|unknown op 'rms_nrom' (did you mean 'rms_norm'?)|zt-trace show op.zt
65|unknown dtype 'f23' (did you mean 'f32'?)|zt-trace show dtype.zt
65|unknown attribute 'epps' (did you mean 'eps'?)|zt-trace show attribute.zt
64|the program has no value 'thign' (did you mean 'thing'?)|zt-trace grad --wrt thign grad.zt
END
}
