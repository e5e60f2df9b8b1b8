#!/usr/bin/env bats
# zt-dna mutate: children of networks, from the command line.

load ../common/helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    printf '1,2,3,4,1,0\n4,3,2,1,0,1\n' >data.csv
    printf '1,2,3,4\n-1,0.5,2,0\n' >x.csv
    zt-train -q --new sequential --set dModel=4 --set numClasses=2 -i data.csv --epochs 0 -o net.json >/dev/null
}

@test "the same seed gives the same child, and each child runs" {
    for seed in 1 2 3 4 5 6 7 8; do
        zt-dna mutate --seed $seed --kind-rate 0.7 --toggle-rate 0.3 --link-add-rate 0.5 net.json -o $seed.json
        zt-run -m $seed.json -i x.csv >y.csv
        [ "$(tr -c -d ',\n' <y.csv | tr -d '\n' | wc -c)" -eq 2 ] # two rows of two numbers
        zt-dna mutate --seed $seed --kind-rate 0.7 --toggle-rate 0.3 --link-add-rate 0.5 net.json -o - | cmp - $seed.json
    done
    [ "$(sha256sum [1-8].json | cut -d' ' -f1 | sort -u | wc -l)" -eq 8 ]
}

@test "rates of 0 change nothing; weights alone; a report" {
    zero="--activation-rate 0 --kind-rate 0 --toggle-rate 0 --link-add-rate 0 --link-drop-rate 0"
    zt-dna mutate $zero --perturb-rate 0 net.json -o same.json
    zt-dna compare -q --threshold 1 net.json same.json
    zt-dna mutate $zero --perturb-rate 1 --report r.json net.json -o noisy.json
    json '$j->{schema} eq "zt.dna.mutate/1" && $j->{perturbed} == 4 && $j->{kinds} == 0 && $j->{seed} == 0' <r.json
    zt-dna compare --format json --threshold 0 net.json noisy.json |
        json '$j->{same} == 0 && !grep { $_->{max_diff} > 0.05 + 1e-6 || $_->{max_diff} == 0 } @{$j->{layers}}'
    # codes of int8 become masters
    zt-quant -q --type int8 net.json net8.json
    zt-dna mutate net8.json -o child8.json
    zt-run -m child8.json -i x.csv >/dev/null
}

@test "only allowed types; links are read back; weights that are missing are drawn" {
    zt-dna mutate --kind-rate 1 --kinds rnn,LSTM net.json -o types.json
    ! zt-dna layers types.json | tail -n +2 | cut -f5 | grep -qvE '^(RNN|LSTM)$'
    zt-dna mutate --link-add-rate 1 --link-drop-rate 0 net.json -o linked.json
    [ "$(grep -c '"is_remote_link":true' linked.json)" -eq 1 ]
    zt-run -m linked.json -i x.csv --cycles 6 >/dev/null
    zt-dna mutate --link-add-rate 0 --link-drop-rate 1 --kind-rate 0 linked.json -o dropped.json
    ! grep -q is_remote_link dropped.json
    perl -pe 's/,"weights":"[^"]*"//' net.json >spec.json
    zt-dna mutate --perturb-rate 0 --seed 1 spec.json -o one.json
    zt-dna mutate --perturb-rate 0 --seed 2 spec.json -o two.json
    ! cmp -s one.json two.json
}

@test "misuse, bad input and outputs that cannot be written" {
    fails() { run -"$1" zt-dna mutate "${@:3}"; [[ $output == *"$2"* ]] && [ "${#lines[@]}" -eq 1 ]; }
    fails 64 "no output" net.json
    fails 64 "0 arguments, expected" -o out.json
    fails 64 "from 0 to 1" --kind-rate 2 net.json -o out.json
    fails 64 "unknown layer type 'Dens' (did you mean 'Dense'?)" --kinds Dens net.json -o out.json
    fails 64 "Parallel contains layers" --kinds RNN,Parallel net.json -o out.json
    fails 64 "writes JSON only" net.json -o out.gguf
    fails 64 "does not apply" --ratio 0.5 net.json -o out.json
    fails 66 "none.json" none.json -o out.json
    fails 65 "x.csv" x.csv -o out.json
    fails 73 "net.json" net.json -o net.json
    fails 73 "nowhere" net.json -o nowhere/out.json
    [ ! -e out.json ]
    if [ -w /dev/full ]; then fails 74 "No space left" net.json -o /dev/full; fi
}
