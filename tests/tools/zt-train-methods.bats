#!/usr/bin/env bats
# zt-train --method: target propagation and clocked meshes; what they learn, resume, and refuse. Formulas: tests/train/target_prop.c.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    golden=${ZT_GOLDEN:-$repo/tests/golden}
    printf '%s\n' a,b,one,label 0,0,1,0 0,1,1,1 1,0,1,1 1,1,1,0 >xor.csv
    dense 3 16 2 >xor.json
}

# A network of dense layers of these widths.
dense() {
    perl -e '
        my $last = $#ARGV - 1;
        printf q({"depth":1,"rows":1,"cols":1,"layers_per_cell":%d,"layers":[%s]}), $last + 1, join ",", map {
            sprintf q({"type":"Dense","l":%d,"input_height":%d,"output_height":%d,"activation":"%s"}), $_, $ARGV[$_], $ARGV[$_ + 1],
                $_ < $last ? "ReLU" : "Linear"
        } 0 .. $last' "$@"
}

methods="backprop target-prop-chain target-prop systolic systolic-target-prop"

accuracy() { # of a network on data
    zt-train -t 1 --eval -m "$@" --format json | perl -MJSON::PP -e 'print decode_json(<STDIN>)->{accuracy}'
}

# One thread: these are small.
train() { zt-train -q -t 1 "$@"; }

@test "every method learns XOR" {
    for method in $methods; do
        train -m xor.json -i xor.csv --loss cross_entropy --method $method --optim adam --lr .02 --epochs 400 -f -o out.json >/dev/null
        [ "$(accuracy out.json -i xor.csv)" = 100 ]
    done
}

@test "every method has the same bits for any number of threads" {
    for method in $methods; do
        for threads in 1 3; do
            zt-train -q -t $threads -m xor.json -i xor.csv --loss cross_entropy --method $method --optim adam --epochs 5 \
                -f -o $threads.json >$threads
        done
        cmp 1.json 3.json
        diff <(sed 's/"seconds.*//' 1) <(sed 's/"seconds.*//' 3)
    done
}

@test "every method learns digits that it has not seen" {
    [ -f "$golden/data/digits/digits_train.csv" ] || skip "no digits here"
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "with a sanitizer this takes minutes"
    awk -F, '$1 + 0 == $1 {print > (n++ % 5 ? "fit.csv" : "held.csv")}' "$golden/data/digits/digits_train.csv"
    dense 64 96 10 >digits.json
    for method in $methods; do
        train -m digits.json -i fit.csv --scale .0625 --loss cross_entropy --method $method --optim adam --lr .003 \
            --schedule cosine --epochs 30 -f -o learned.json >/dev/null
        right=$(accuracy learned.json -i held.csv --scale .0625)
        echo "$method: $right"
        awk -v a="$right" 'BEGIN {exit !(a >= 95)}'
    done
}

@test "a run that is stopped and resumed has the bits of one that is not; another method's checkpoint is refused" {
    for method in $methods; do
        run="-m xor.json -i xor.csv --loss cross_entropy --method $method --optim adam --batch 2"
        train $run --epochs 6 -f -o whole.json >whole
        rm -f ck*
        train $run --epochs 3 --checkpoint ck -f -o part.json >parts
        train $run --epochs 6 --checkpoint ck --resume -f -o part.json >>parts
        cmp whole.json part.json
        diff <(sed 's/"seconds.*//' whole) <(sed 's/"seconds.*//' parts)
    done
    for others in target-prop "target-prop --targets plain" backprop; do
        run -64 --separate-stderr zt-train -q -t 1 -m xor.json -i xor.csv --loss cross_entropy --method $others --optim adam \
            --batch 2 --epochs 7 --checkpoint ck --resume -f -o part.json
        one_message zt-train
    done
}

@test "gaps fall and link budgets rise as a network learns, one of each for each layer" {
    train -m xor.json -i xor.csv --loss cross_entropy --method target-prop --optim adam --lr .02 --epochs 400 -o out.json |
        perl -MJSON::PP -ne '
            push @e, decode_json($_);
            END {
                @{$_->{gaps}} == 2 && @{$_->{link_budgets}} == 2 or die for @e;
                my ($first, $last) = @e[0, -1];
                $last->{gaps}[$_] < .5 * $first->{gaps}[$_] or die "gap $_" for 0, 1;
                $last->{link_budgets}[$_] > $first->{link_budgets}[$_] or die "budget $_" for 0, 1;
            }'
    train -m xor.json -i xor.csv --loss cross_entropy --epochs 1 -f -o out.json | json '!exists $j->{gaps}'
}

@test "observed or not, a method takes the same steps" {
    for method in target-prop target-prop-chain systolic-target-prop; do
        run="-m xor.json -i xor.csv --loss cross_entropy --method $method --epochs 3"
        train $run -f -o plain.json >plain
        train $run --observe seen -f -o seen.json >observed
        cmp plain.json seen.json
        diff <(sed 's/"seconds.*//' plain) <(sed 's/"seconds.*//' observed)
        [ "$(grep -c backward seen)" -eq 6 ]
    done
}

# The first place reads the last: the network counts the ones of a sequence that is held, cycle by cycle.
@test "a link back in time: trained for some cycles, it is run and evaluated for as many" {
    cat >loop.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":3,"layers":[
{"l":0,"type":"Dense","activation":"Tanh","input_height":3,"output_height":4},
{"l":1,"type":"Dense","activation":"Tanh","input_height":4,"output_height":4,"is_remote_link":true,"target_l":0},
{"l":2,"type":"Dense","activation":"Linear","input_height":4,"output_height":2}]}
END
    train -m loop.json -i xor.csv --loss cross_entropy --method systolic --cycles 5 --optim adam --lr .05 --epochs 200 \
        -o learned.json >/dev/null
    [ "$(accuracy learned.json -i xor.csv --cycles 5)" = 100 ]
    tail -n +2 xor.csv | cut -d, -f1-3 | zt-run -m learned.json --cycles 5 --feed every |
        perl -F, -ane 'push @c, $F[1] > $F[0] ? 1 : 0; END {exit "@c" ne "0 1 1 0"}'
    # once: what enters is gone after the first cycle
    dense 3 3 3 | sed s,ReLU,Tanh, >square.json
    printf '%s\n' 1,2,3 >x.csv
    train -m square.json -i <(echo 1,2,3,1,0,0) --method systolic --epochs 1 --lr 0 --feed once --cycles 4 -o out.json >once
    ! diff <(zt-run -m square.json -i x.csv --cycles 4) <(zt-run -m square.json -i x.csv --cycles 4 --feed every)
    diff <(zt-run -m square.json -i x.csv --cycles 9 --feed every) <(zt-run -m square.json -i x.csv)
    train -m square.json -i <(echo 1,2,3,1,0,0) --method systolic --epochs 1 --lr 0 -f -o out.json >every
    ! diff <(cut -d, -f3 once) <(cut -d, -f3 every)
}

@test "layers without a rule are refused by name, and what does not apply to a method too" {
    cat >conv.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[
{"l":0,"type":"CNN1","input_channels":1,"input_height":3,"output_height":3,"filters":2,"kernel_size":3,"padding":1,"activation":"ReLU"},
{"l":1,"type":"Dense","input_height":6,"output_height":2}]}
END
    run -69 --separate-stderr zt-train -m conv.json -i xor.csv --loss cross_entropy --method target-prop -o out.json
    one_message zt-train
    [[ $stderr == *"conv.json: layers.0 (CNN1): "* ]]
    train -m conv.json -i xor.csv --loss cross_entropy --method target-prop-chain --epochs 1 -o chain.json >/dev/null
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 'data w: f32[2,3] "w"' 'y = linear x w' 'out y = y' >p.zt
    echo text >t.txt
    while read -r wrong; do
        run -64 --separate-stderr zt-train -i xor.csv --loss cross_entropy $wrong -o none.json
        one_message zt-train
    done <<'END'
-m p.zt --method target-prop
-m p.zt --method systolic
-m xor.json --cycles 3
-m xor.json --feed once --method target-prop
-m xor.json --targets plain --method target-prop-chain
-m xor.json --gradient-scale 2
-m xor.json --method target-prop --accumulate 2
-m xor.json --method tween
-m xor.json --method systolic --cycles 1
-m xor.json --method systolic --cycles 65536
END
    run -64 --separate-stderr zt-train --text t.txt --method systolic -o none.gguf
    one_message zt-train
    run -64 --separate-stderr zt-train --eval -m xor.json -i xor.csv --feed once
    one_message zt-train
    # with what enters once, layers of other widths do not fit
    run -65 --separate-stderr zt-train -m xor.json -i xor.csv --method systolic --feed once --loss cross_entropy -o none.json
    one_message zt-train
    [ ! -e none.json ] && [ ! -e none.gguf ]
}

@test "chained targets train the layers through which others do not pass: recurrent ones, attention, SwiGLU, convolutions" {
    local -A layers=([RNN]='"input_height":3,"output_height":4' [LSTM]='"input_height":3,"output_height":4'
        [MultiHeadAttention]='"d_model":4,"num_heads":2' [SwiGLU]='"input_height":4,"output_height":6')
    for kind in "${!layers[@]}"; do
        first='{"l":0,"type":"Dense","activation":"Tanh","input_height":3,"output_height":4},'
        [[ ${layers[$kind]} != *'"input_height":3'* ]] || first='{"l":0,"type":"Dense","activation":"Tanh","input_height":3,"output_height":3},'
        printf '{"depth":1,"rows":1,"cols":1,"layers_per_cell":3,"layers":[%s{"l":1,"type":"%s",%s},%s]}' "$first" "$kind" "${layers[$kind]}" \
            '{"l":2,"type":"Dense","input_height":4,"output_height":2}' >$kind.json
        how="-m $kind.json -i xor.csv --loss cross_entropy --optim adam --lr .02"
        train $how --method target-prop-chain --epochs 400 -o learned.$kind.json >/dev/null
        [ "$(accuracy learned.$kind.json -i xor.csv)" = 100 ] || { echo "$kind does not learn"; false; }
        for method in target-prop systolic-target-prop; do
            run -69 --separate-stderr zt-train $how --method $method --epochs 1 -o none.json
            one_message zt-train
            [[ $stderr == *"$kind.json: layers.1 ($kind): "* ]] && [ ! -e none.json ]
        done
    done
}

@test "plain targets stop at a norm, which is noted" {
    sed 's/"layers_per_cell":2/"layers_per_cell":3/; s/"l":1/"l":2/; s/\[/&{"type":"RMSNorm","l":1,"input_height":16,"output_height":16},/' xor.json >norm.json
    zt-train -m norm.json -i xor.csv --loss cross_entropy --method target-prop --targets plain --epochs 2 -o out.json 2>err >/dev/null
    grep -q 'layers below layers.[0-9] (RMSNorm) do not learn' err
    zt-train -m norm.json -i xor.csv --loss cross_entropy --method target-prop --optim adam --lr .02 --epochs 400 -f -o out.json 2>err >/dev/null
    [ ! -s err ]
    [ "$(accuracy out.json -i xor.csv)" = 100 ]
}

# ---- make long -----------------------------------------------------------------------------------

@test "every method learns XOR with each of 20 seeds, and two spirals" {
    [ -n "${ZT_LONG-}" ] || skip "part of make long"
    zt-train compare -q -t 1 -m xor.json -i xor.csv --loss cross_entropy --optim adam --lr .02 --epochs 400 --seeds 20 \
        --target-accuracy 100 >table
    [ "$(tail -n +2 table | cut -f4,10 | sort -u)" = "$(printf '100\t20')" ]
    perl -e 'for my $class (0, 1) { for my $i (0 .. 96) {
        my ($angle, $radius) = ($i / 96 * 2 * 3.14159265358979, (1 - 2 * $class) * (.1 + 1.9 * $i / 96));
        printf "%.5f,%.5f,1,%d\n", $radius * cos $angle, $radius * sin $angle, $class } }' >spirals.csv
    dense 3 64 64 2 >two.json
    zt-train compare -q -t 1 -m two.json -i spirals.csv --loss cross_entropy --optim adam --lr .005 --schedule cosine --epochs 600 \
        --seeds 2 --target-accuracy 100 >table
    tail -n +2 table | awk -F '\t' '{n += $4 >= 99} END {exit n != 5}'
}
