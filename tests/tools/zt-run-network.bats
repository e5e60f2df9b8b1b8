#!/usr/bin/env bats
# Networks where tools take programs: run, traced, benched; zt-network(5) and its examples.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    # W = [[1,2],[3,4],[5,6]], then a Softmax
    cat >net.json <<'END'
{"id":"n","depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[
{"type":"Dense","activation":"Linear","input_height":2,"output_height":3,
 "weights":"AACAPwAAAEAAAEBAAACAQAAAoEAAAMBA"}]}
END
    printf '%s\n' 1,0 0,1 >x.csv
    printf '%s\n' 1,3,5 2,4,6 >want
}

@test "rows of CSV through a network, from a file and a pipe" {
    zt-run -m net.json -i x.csv -o y.csv
    cmp y.csv want
    zt-run -m net.json <x.csv | cmp - want
    zt-run -m net.json -i x.csv -o y.npz
    zt-convert --list y.npz | grep -q '^y.*3'
}

@test "a network, and a program, on standard input" {
    [ "$(cat net.json | zt-run -m - -i x.csv)" = "$(cat want)" ]
    zt-run -m - -i x.csv <net.json | cmp - want
    (printf '{'; sleep .1; tail -c +2 net.json) | zt-run -m - -i x.csv | cmp - want
    zt-convert --to safetensors net.json - | zt-convert --to json - - | zt-run -m - -i x.csv | cmp - want
    cat net.json | zt-trace record -m - | sed 's/"stdin"/"net.json"/' >piped.zt
    zt-trace record -m net.json | cmp - piped.zt
    cat net.json | zt-trace stats --bind n=4 | grep -q ^linear
    zt-trace record -m net.json | zt-trace compile | zt-run -m - -i x.csv | cmp - want
    printf '%s\n' 'zt program 1' 'in a: f32[n,2]' 'x = relu a' 'out x = x' | zt-run -m - -i x.csv | cmp - x.csv
    # it is taken: no inputs are left there
    run --separate-stderr bash -c 'cat net.json | zt-run -m - -i -'
    [ "$status" -eq 64 ]
    [[ $stderr == *"standard input (-) can be used for one file only" ]]
    run --separate-stderr bash -c 'cat net.json | zt-run -m - -o y.npz'
    echo "$status $stderr"
    [ "$status" -eq 64 ]
    one_message zt-run
    [ ! -e y.npz ]
    run --separate-stderr bash -c 'cat net.json | TMPDIR=$PWD/none zt-run -m - -i x.csv'
    [ "$status" -eq 73 ]
    one_message zt-run
}

@test "x comes in its own shape" {
    printf '%s\n' 'zt program 1' 'in a: f32[n,2]' 'x = reshape a shape=[1,n,2]' 'out x = x' >shape.zt
    zt-run -m shape.zt -i x.csv -o x.npz
    zt-run -m net.json -i x.npz -o y.npz
    zt-convert --list y.npz --format tsv | grep -P '^y\tf32\t.*1.*2.*3'
    # planes of a convolution as lines of numbers
    cat >cnn.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"CNN2","input_channels":1,
"filters":1,"input_height":2,"input_width":2,"kernel_size":2,"weights":"AACAPwAAgD8AAIA/AACAPw=="}]}
END
    [ "$(echo 1,2,3,4 | zt-run -m cnn.json)" = 10 ]
}

@test "a network is a program to zt-trace and zt-bench" {
    zt-trace record -m net.json >net.zt
    grep -q '^model "net.json" id=' net.zt
    grep -q '^data  layers.0.w: f32\[3,2\] "layers.0.w"' net.zt
    [ "$(sed -n 3p net.zt)" = 'bind  n=1' ]
    zt-trace show --plain net.json | cmp - <(sed 3d net.zt)
    zt-run -m net.zt -i x.csv | cmp - want
    mkdir sub
    cp net.json sub
    zt-trace show --plain sub/net.json | cmp - <(sed 3d net.zt)
    zt-trace diff --engine ref,cpu net.zt
    zt-trace diff --engine ref,cpu --bind n=3 sub/net.json
    zt-trace stats --bind n=4 net.json | grep -q ^linear
    zt-bench op --bind n=4 net.json >/dev/null || zt-bench op net.json >/dev/null
    # of another network it is not
    sed 's/"n"/"m"/' net.json >sub/net.json
    mv net.json other.json
    mv sub/net.json net.json
    run --separate-stderr zt-run -m net.zt -i x.csv
    [ "$status" -eq 65 ]
    [[ $stderr == "zt-run: "*"net.json: the model's id is"* ]]
    run --separate-stderr zt-trace record -m net.json -p hello
    [ "$status" -eq 64 ]
}

@test "a clocked mesh: --cycles" {
    # two layers of W = [2], then a place that reads the first: 1, 2, 4, ... is 2^cycles behind
    cat >mesh.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":3,"layers":[
{"l":0,"type":"Dense","input_height":1,"output_height":1,"weights":"AAAAQA=="},
{"l":1,"type":"Dense","input_height":1,"output_height":1,"weights":"AAAAQA=="},
{"l":2,"type":"Dense","input_height":1,"output_height":1,"weights":"AAAAQA==","is_remote_link":true}]}
END
    [ "$(echo 1 | zt-run -m mesh.json)" = 8 ]
    [ "$(echo 1 | zt-run -m mesh.json --cycles 1)" = 2 ]
    [ "$(echo 1 | zt-run -m mesh.json --cycles 3)" = 8 ]
    [ "$(echo 1 | zt-run -m mesh.json --cycles 5)" = 32 ]
    zt-trace record --cycles 3 -m mesh.json >mesh.zt
    [ "$(echo 1 | zt-run -m mesh.zt)" = 8 ]
    run --separate-stderr zt-run -m mesh.zt --cycles 3 -i x.csv
    [ "$status" -eq 64 ]
    [ "$stderr" = "zt-run: option '--cycles' does not apply to a program; it applies to a network" ]
    run --separate-stderr zt-run -m mesh.json --cycles 30000 -i x.csv
    [ "$status" -eq 64 ]
    [[ $stderr == *"30000 cycles times 3 places"* ]]
    # its weights learn through all cycles: y = 2^3 x becomes 27 x
    printf '%s\n' x,y 1,27 2,54 >data.csv
    zt-train -q -m mesh.zt -i data.csv --loss mse -o mesh.npz --optim adam --lr 0.1 --schedule cosine --epochs 1000 >/dev/null
    zt-run -m mesh.zt --data mesh.npz -i <(echo 1) | awk '{ exit !($1 > 26.9 && $1 < 27.1) }'
}

@test "rows that go on: --chunk" {
    cat >spec.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[
{"l":0,"type":"MHA","d_model":4,"num_heads":2,"rope_freq_base":10000},
{"l":1,"type":"RMSNorm","input_height":4}]}
END
    printf '%s\n' 1,2,3,4 5,-6,7,8 1,1,0,1 2,3,2,1 0,0,1,9 >rows.csv
    zt-run -m spec.json -i rows.csv --chunk 5 -o all.csv
    for n in 1 2 3 99; do zt-run -m spec.json -i rows.csv --chunk $n | cmp - all.csv; done
    paste -d, all.csv <(zt-run -m spec.json -i rows.csv) |
        awk -F, '{ for (i = 1; i <= 4; i++) if (($i - $(i + 4)) ^ 2 > 1e-10) exit 1 } END { exit NR != 5 }'
    # rows that are alone are so in any number
    zt-run -m net.json -i x.csv --chunk 1 | cmp - want
    sed 's/10000/10000,"max_seq_len":3/' spec.json >short.json
    run --separate-stderr zt-run -m short.json -i rows.csv --chunk 2 -o no.csv
    [ "$status" -eq 65 ]
    [ "${#stderr_lines[@]}" -eq 1 ]
    [ ! -e no.csv ]
    run --separate-stderr zt-run -m net.json -i x.csv --chunk 2 --cycles 3
    [ "$status" -eq 64 ]
}

@test "weights that a document lacks come from the seed" {
    sed 's/,"weights":"[^"]*"//; s/,$/,"eps":0,/' net.json | tr -d '\n' | sed 's/, *"weights":"[^"]*"//' >spec.json
    zt-run -m spec.json -i x.csv -o 1.csv --seed 1
    zt-run -m spec.json -i x.csv -o 2.csv --seed 2
    zt-run -m spec.json -i x.csv --seed 1 | cmp - 1.csv
    run cmp -s 1.csv 2.csv
    [ "$status" -eq 1 ]
}

@test "what is wrong is one line that says where" {
    while IFS='|' read -r sed word; do
        sed "$sed" net.json >bad.json
        run --separate-stderr zt-run -m bad.json -i x.csv -o out.csv
        [ "$status" -eq 65 ]
        [ "${#stderr_lines[@]}" -eq 1 ]
        [[ $stderr == "zt-run: bad.json: "*"$word"* ]]
        [ ! -e out.csv ]
    done <<'END'
s/Dense/Dance/|layers.0: unknown layer type 'Dance'
s/"output_height":3/"output_height":4/|layers.0 (Dense): 8 weights of type float32 need 32 bytes, but the document has 24
s/"input_height":2/"input_height":0/|layers.0 (Dense): input_height is 0
s/AACAPw/AADAfw/|layers.0 (Dense): weight 0 is nan
s/"depth":1/"depth":0/|"depth" is not a valid grid size
END
    printf '%s\n' 1,2,3 >x.csv
    run --separate-stderr zt-run -m net.json -i x.csv
    [ "$status" -eq 65 ]
}

@test "zt-network(5) is well formed, and its examples run" {
    man=$repo/man/zt-network.5
    if command -v mandoc >/dev/null; then mandoc -T lint -W warning "$man"; fi
    n=0
    while IFS= read -r line; do
        bash -e -c "$line" >out
        [ -s out ]
        n=$((n + 1))
    done < <(man_examples zt-network.5)
    [ "$n" -ge 2 ]
}

@test "members that no network knows are refused with the nearest, wherever they stand" {
    while IFS='|' read -r word edit; do
        sed "$edit" net.json >bad.json
        for command in 'zt-run -m bad.json -i x.csv' 'zt-trace record -m bad.json' 'zt-train --eval -m bad.json -i x.csv'; do
            run --separate-stderr $command
            echo "$command $edit: $status $stderr"
            [ "$status" -eq 65 ]
            [ "${#stderr_lines[@]}" -eq 1 ]
            [[ $stderr == *"$word"* ]]
        done
    done <<'END'
unknown member 'actvation' (did you mean 'activation'?)|s/activation/actvation/
unknown member 'use_bias'|s/"type"/"use_bias":true,"type"/
unknown member 'dpeth' (did you mean 'depth'?)|s/depth/dpeth/
unknown member 'version': expected id, depth, rows|s/"id"/"version":1,"id"/
unknown activation 'Liner' (did you mean 'Linear'?)|s/Linear/Liner/
unknown layer type 'Dens' (did you mean 'Dense'?)|s/Dense/Dens/
END
}
