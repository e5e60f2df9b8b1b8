#!/usr/bin/env bats
# zt-dna extract: signatures as JSON and as checkpoints, read again by compare and lineage.

load ../common/helper

setup_file() {
    make_models
}

net() { # dtype weights inner
    printf '{"layers":[{"z":0,"y":0,"x":0,"l":0,"type":"Dense","dtype":"%s","scale":0.5,"weights":"%s"},{"z":0,"y":0,"x":0,"l":1,"type":"Parallel","parallel_branches":[{"type":"Dense","weights":"%s"},{"type":"Softmax"}]}]}' "$@"
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    ln -s "$tiny" a.gguf
    net float32 AABAQAAAgEA= AACAPw== >a.json # 3 4, 1
    net int8 AABAQAAAgEA= AACAPw== >b.json
}

@test "JSON: place, type, dtype, numbers of length 1, in a network's order" {
    zt-dna extract a.json >got
    json '$j->{schema} eq "zt.dna.extract/1" && $j->{rule} eq "field" && $j->{net} && @{$j->{layers}} == 2' <got
    json 'my $l = $j->{layers}[0]; $l->{type} eq "Dense" && $l->{dtype} eq "float32" && $l->{l} == 0 && $l->{n} == 2 && $l->{length} == 5 &&
          abs($l->{weights}[0] - 0.6) < 1e-7 && abs($l->{weights}[1] - 0.8) < 1e-7' <got
    # branches brought to length 1, and all of it
    json 'my $l = $j->{layers}[1]; $l->{type} eq "Parallel" && $l->{n} == 2 && !grep {abs($_ - sqrt(0.5)) > 1e-7} @{$l->{weights}}' <got
    # by Loom's rule 3 / 0.5 = 6, times 0.5, as it is; 8 bits hold it
    zt-dna extract --rule loom b.json |
        json '$j->{rule} eq "loom" && $j->{layers}[0]{dtype} eq "int8" && abs($j->{layers}[0]{weights}[0] - 0.6) < 1e-7'
}

@test "codes of a network have their precision already, by either rule" {
    # 25 and 49 hundredths: 0.25 / 0.01 is a little less than 25 in f32, and would be cut to 24
    printf '{"layers":[{"type":"Dense","dtype":"int8","native":true,"scale":0.01,"weights":"GTE="}]}' >n.json
    for rule in loom field; do
        zt-dna extract n.json --rule $rule | json 'abs($j->{layers}[0]{weights}[0] - 25 / sqrt(25 ** 2 + 49 ** 2)) < 1e-7'
    done
}

@test "signatures stand for their model: compare, in JSON and in any container" {
    for to in json gguf safetensors npz; do
        zt-dna extract a.gguf --to $to -o dna
        zt-dna compare -q dna a.gguf --threshold 0.999999 --format json >got
        json '$j->{overlap} > 0.999999 && $j->{only_a} == 0 && $j->{only_b} == 0 && @{$j->{layers}} > 10 &&
              !grep {$_->{rel_l2} > 5e-4 || $_->{dtype_a} ne $_->{dtype_b}} @{$j->{layers}}' <got
        zt-dna compare -q a.gguf dna --threshold 0.999999 >/dev/null
        diff <(zt-dna layers dna | cut -f1-6,7-9) <(zt-dna layers a.gguf | cut -f1-6,7-9)
        rm dna
    done
    zt-dna extract a.gguf | zt-dna compare -q - a.gguf >/dev/null
    zt-dna extract a.gguf --to json | zt-dna compare -q - a.gguf >/dev/null
    zt-dna extract a.gguf >dna; [ "$(head -c 4 dna)" = GGUF ]
    for rule in field loom; do
        for to in json gguf npz; do
            zt-dna extract b.json --rule $rule --to $to | zt-dna compare -q --rule $rule - b.json --threshold 0.9999999 --format json |
                json '$j->{rule} eq "'$rule'" && !grep {$_->{overlap} < 0.9999999} @{$j->{layers}}'
        done
    done
    [ "$(zt-dna extract a.gguf | zt-dna lineage a.gguf - | awk -F'\t' 'NR == 3 {print $2}')" = a.gguf ]
}

@test "the compact form is f16: a quarter of JSON at most" {
    zt-dna extract a.gguf -o dna.gguf
    zt-dna extract a.gguf -o dna.json
    [ $(($(stat -c %s dna.gguf) * 4)) -le "$(stat -c %s dna.json)" ]
    [ "$(zt-convert --list dna.gguf | tail -n +2 | cut -f2 | sort -u)" = f16 ]
}

@test "misuse and bad signatures: one line, and nothing is written" {
    zt-dna extract a.json -o good.json
    zt-dna extract a.json -o good.gguf
    head -c 300 good.json >cut.json
    sed 's/"n":2,"length":5/"n":2,"length":-5/' good.json >minus.json
    sed 's/"shape":\[2\]/"shape":[3]/' good.json >shape.json
    sed 's/"shape":\[2\]/"shape":[-1]/' good.json >negative.json
    sed 's/"type":"Dense",//' good.json >untyped.json
    sed 's/"rule":"field"/"rule":"none"/' good.json >rule.json
    sed 's/"weights":\[[^]]*\]/"weights":7/' good.json >weights.json
    zt-convert --set 'zt.dna.types=["x"]' good.gguf few.gguf
    zt-convert --unset zt.dna.places good.gguf none.gguf
    zt-convert --set 'zt.dna.places=["0,0,0,0","0;0"]' good.gguf place.gguf
    zt-convert --set 'zt.dna.lengths=["1","-1"]' good.gguf length.gguf
    ls -A >before
    all_refused zt-dna <<'END'
64|argument|extract
64|--to|extract a.json --to x
64|--map|extract a.json --map
64|already|extract good.json
64|rules|compare good.json --rule loom b.json
65|JSON|compare cut.json a.json
65|length|compare minus.json a.json
65|weights|compare shape.json a.json
65|shape|compare negative.json a.json
65|type|compare untyped.json a.json
65|rule|compare rule.json a.json
65|weights|compare weights.json a.json
65|zt.dna.types|compare few.gguf a.json
65|zt.dna.places|compare none.gguf a.json
65|zt.dna.places|compare place.gguf a.json
65|zt.dna.lengths|compare length.gguf a.json
66|nothing.gguf|extract nothing.gguf
69|signatures|splice good.json a.json -o c
73|a.json|extract a.json -f -o a.json
73|good.gguf|extract a.json -o good.gguf
75|limit|extract a.gguf -o c --mem-limit 200k
END
    ls -A | diff before -
}
