#!/usr/bin/env bats
# zt-train: data in every form, history, what is written, evaluation, what is refused.

load ../common/helper

setup_file() {
    net=$BATS_FILE_TMPDIR/net.zt
    train=$BATS_FILE_TMPDIR/train.csv
    cat >"$net" <<'END'
zt program 1
in x: f32[n,4]
data w0: f32[16,4] "first.w"
data b0: f32[16] "first.b"
data w1: f32[3,16] "second.w"
h = linear x w0 b0
a = tanh h
y = linear a w1
out y = y
END
    # The class is where the largest of the first three is.
    awk 'BEGIN {srand(5); print "p0,p1,p2,p3,label"
        for (i = 0; i < 400; i++) {
            m = 0; line = ""
            for (k = 0; k < 4; k++) {v[k] = int(2000 * rand() - 1000) / 1000; line = line v[k] ","}
            for (k = 1; k < 3; k++) if (v[k] > v[m]) m = k
            print line m
        }}' >"$train"
    export net train
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    cp "$net" net.zt
    cp "$train" train.csv
    printf 'The text of a small house, and the words in the house.\n%.0s' {1..40} >text.txt
}

fit() { # OPTION...
    zt-train -q -m net.zt -i train.csv --loss cross_entropy "$@"
}

@test "the man page has the options of --help, in that order" {
    man_is_true zt-train
}

@test "the man page's examples run" {
    man_examples_run zt-train
    grep -q '<svg' loss.svg
}

@test "every optimizer makes the loss fall, and what is written predicts" {
    for optim in sgd momentum nesterov rmsprop adam adamw; do
        fit --optim $optim --lr .03 --epochs 15 -f -o out.safetensors >history
        [ "$(wc -l <history)" -eq 15 ]
        first=$(sed -n 1p history) last=$(tail -1 history)
        json '$j->{epoch} == 1 && $j->{steps} == 13 && $j->{seconds} > 0 && $j->{lr} == .03' <<<"$first"
        perl -MJSON::PP -e '($a, $b) = map {decode_json($_)->{loss}} @ARGV; exit !($b < .95 * $a)' "$first" "$last"
        zt-train --eval -m net.zt --data out.safetensors -i train.csv --format json >scores
        json '$j->{total} == 400 && $j->{accuracy} == $j->{correct} / 4 && $j->{correct} > 220' <scores
    done
    [ "$(zt-convert --list --format tsv out.safetensors | cut -f1,2 | xargs)" = 'name dtype first.w f32 first.b f32 second.w f32' ]
}

@test "data has the same bits in every form: CSV, NDJSON, npz, npy, from a pipe" {
    fit --epochs 2 -o csv.npz >/dev/null
    fit --epochs 2 --method backprop -o method.npz >/dev/null
    cmp csv.npz method.npz
    tail -n +2 train.csv | sed -E 's/(.*),(.)$/{"x": [\1], "label": \2}/' >train.ndjson
    zt-train -q -m net.zt -i - --loss cross_entropy --epochs 2 -o ndjson.npz <train.ndjson >/dev/null
    cmp csv.npz ndjson.npz
    tail -n +2 train.csv | sed -E 's/(.*),(.)$/[[\1],\2]/' | tr -d '[]' | sed 's/.*/[&]/' >lists.ndjson
    zt-train -q -m net.zt -i lists.ndjson --loss cross_entropy --epochs 2 -o lists.npz >/dev/null
    cmp csv.npz lists.npz
}

@test "the same bits for any number of threads; others for another seed" {
    fit --epochs 3 -t 1 -o 1.npz >/dev/null
    fit --epochs 3 -t 3 -o 3.npz >/dev/null
    fit --epochs 3 --seed 1 -o other.npz >/dev/null
    cmp 1.npz 3.npz
    ! cmp -s 1.npz other.npz
}

@test "classes without --loss: the loss that fits is named, and nothing is trained" {
    tail -n +2 train.csv | sed -E 's/(.*),(.)$/{"x": [\1], "label": \2}/' >train.ndjson
    printf '%s\n' 'zt program 1' 'in x: f32[n,4]' 'out x = x' >x.zt
    printf '%s\n' 'zt program 1' 'in y: i64[n]' 'out y = y' >y.zt
    sed 1d train.csv | cut -d, -f1-4 | zt-run -m x.zt -o x.npy
    sed 1d train.csv | cut -d, -f5 | zt-run -m y.zt -o y.npy
    for data in 'train.csv' 'train.ndjson' '-' 'x.npy --target y.npy'; do
        run --separate-stderr bash -c "zt-train -m net.zt -i $data -o out.gguf <train.csv"
        [ "$status" -eq 64 ] && one_message zt-train && [ -z "$output" ] && [ ! -e out.gguf ]
        [[ $stderr == *"needs one value for each of the 3 outputs: use --loss cross_entropy"* ]]
    done
    # what is no class of this network's stays what it was: data of another shape
    sed '2s/,.$/,3/' train.csv >four.csv
    run --separate-stderr zt-train -m net.zt -i four.csv -o out.gguf
    [ "$status" -eq 65 ] && one_message zt-train && [[ $stderr == *"columns"* ]]
    run --separate-stderr zt-train -m net.zt -i train.csv --loss mse -o out.gguf
    [ "$status" -eq 65 ] && one_message zt-train
}

@test "--eval of several networks: each is run, and has its row" {
    fit --epochs 3 --optim adam --lr .03 -o a.npz >/dev/null
    sed 's/tanh/relu/' net.zt >b.zt
    for m in net.zt b.zt; do zt-train --eval -m $m -i train.csv --format json >$m.json; done
    zt-train --eval -m net.zt -m b.zt -i train.csv --format json >both.json
    perl -MJSON::PP -e 'my ($a, $b, $both) = map { local (@ARGV, $/) = $_; decode_json(scalar <>) } @ARGV; my $c = JSON::PP->new->canonical;
        my @n = @{$both->{networks}}; @n == 2 && $n[0]{network} eq "net.zt" && $n[1]{network} eq "b.zt" or die;
        for ($a, $b) { delete $_->{schema}; my $n = shift @n; delete $n->{network}; $c->encode($_) eq $c->encode($n) or die }
        $c->encode($a->{results}) ne $c->encode($b->{results}) or die "the same"' net.zt.json b.zt.json both.json
    zt-train --eval -m net.zt -m b.zt -i - <train.csv >rows
    [ "$(cut -f1 rows | xargs)" = "network net.zt b.zt" ]
    [ "$(sed -n 3p rows | cut -f4)" -eq "$(perl -MJSON::PP -0ne 'print decode_json($_)->{correct}' b.zt.json)" ]
    while IFS='|' read -r said args; do
        run --separate-stderr bash -c "zt-train $args"
        [ "$status" -eq 64 ] && one_message zt-train && [[ $stderr == *"$said"* ]]
    done <<'END'
-m is given 2 times|-m net.zt -m b.zt -i train.csv -o out.gguf
-m is given 2 times|-m net.zt -m net.zt -i train.csv -o out.gguf
--data needs one network|--eval -m net.zt -m b.zt --data a.npz -i train.csv
--observe needs one network|--eval -m net.zt -m b.zt --observe - -i train.csv
END
    run --separate-stderr zt-train --eval -m net.zt -m none.zt -i train.csv
    [ "$status" -eq 66 ] && [ -z "$output" ]
}

@test "--eval of several outputs: values are judged one by one, classes of a 1 among zeros by their place" {
    printf '%s\n' 'zt program 1' 'in x: f32[n,2]' 'data w: f32[1] "w"' 'y = mul x w' 'out y = y' >id.zt
    perl -e 'my $h = q({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}); print pack("Q<", length $h), $h, pack("f<", 1)' >w.safetensors
    # predictions are the first two: 1 of 1, 2.5 of 2 (25%); 3 of 2 (50%), 4 of 4; 0 of 0, 1 of 4 (75%)
    printf '%s\n' 1,2.5,1,2 3,4,2,4 0,1,0,4 >values.csv
    zt-train --eval -m id.zt --data w.safetensors -i values.csv >rows
    diff - rows <<'END'
network	output	samples	correct	accuracy	score	avg_deviation	0-10%	10-20%	20-30%	30-40%	40-50%	50-100%	100%+
id.zt	all	6	3	50	75	25	3	0	1	0	1	1	0
id.zt	0	3	2	66.66666667	83.33333333	16.66666667	2	0	0	0	1	0	0
id.zt	1	3	1	33.33333333	66.66666667	33.33333333	1	0	1	0	0	1	0
END
    zt-train --eval -m id.zt --data w.safetensors -i values.csv --format json >values.json
    json '$j->{total} == 6 && $j->{correct} == 3 && @{$j->{outputs}} == 2 && $j->{outputs}[1]{buckets}{"50-100%"}{samples}[0] == 2 &&
          @{$j->{results}} == 6 && $j->{results}[1]{sample_index} == 0 && $j->{results}[1]{output} == 1 && $j->{results}[1]{deviation} == 25' <values.json
    # the same from NDJSON and arrays
    zt-train --eval -m id.zt --data w.safetensors -i - < <(sed -E 's/(.*),(.*),(.*),(.*)/{"x":[\1,\2],"target":[\3,\4]}/' values.csv) | cmp - rows
    printf '%s\n' 'zt program 1' 'in v: f32[n,2]' 'out v = v' >v.zt
    cut -d, -f1,2 values.csv | zt-run -m v.zt -o x.npy
    cut -d, -f3,4 values.csv | zt-run -m v.zt -o t.npy
    zt-train --eval -m id.zt --data w.safetensors -i x.npy --target t.npy | cmp - rows
    # a 1 among zeros is a class
    printf '%s\n' 1,2.5,0,1 3,4,1,0 0,1,0,1 >hot.csv
    printf '%s\n' 1,2.5,1 3,4,0 0,1,1 >class.csv
    cmp <(zt-train --eval -m id.zt --data w.safetensors -i hot.csv) <(zt-train --eval -m id.zt --data w.safetensors -i class.csv)
}

@test "a program with a loss of its own is trained as it is" {
    sed -i 's/^out y = y/in t: f32[n]\nf = reshape t shape=[n,1]\nl = mse y f\nout loss = l/; s/\[3,16\]/[1,16]/' net.zt
    zt-train -q -m net.zt -i train.csv --epochs 20 --optim adam --lr .02 -o out.gguf >history
    perl -MJSON::PP -ne 'push @l, decode_json($_)->{loss}; END {exit !($l[-1] < .5 * $l[0])}' history
}

@test "held out samples: their loss after each epoch, and patience" {
    head -100 train.csv >valid.csv
    fit --valid valid.csv --optim adam --lr 1 --epochs 200 --patience 3 -o out.gguf >history
    n=$(wc -l <history)
    [ "$n" -lt 200 ]
    [ "$(grep -c '"valid_loss":' history)" -eq "$n" ]
    perl -MJSON::PP -ne 'push @l, decode_json($_)->{valid_loss};
        END {my ($best) = sort {$a <=> $b} @l; exit !($best == $l[-4])}' history
}

@test "the learning rate: warm-up and schedule" {
    fit --epochs 4 --lr .1 --schedule linear --warmup 13 -o out.gguf |
        perl -MJSON::PP -ne 'push @l, decode_json($_)->{lr};
            END {exit !(abs($l[0] - .1) < 1e-12 && abs($l[3] - .1 / 39) < 1e-12 && $l[1] > $l[2])}'
}

@test "a run that stopped at any step goes on to the same bytes" {
    fit --epochs 4 --optim adamw --clip 1 --schedule cosine -o whole.safetensors >/dev/null
    for n in 1 7 20; do
        rm -f ck ck.before part.safetensors
        # the n-th checkpoint is the last thing that the process does
        traced -qq -o trace -e trace=rename,renameat,renameat2 -e inject=rename,renameat,renameat2:signal=KILL:when=$n \
            zt-train -q -m net.zt -i train.csv --loss cross_entropy --epochs 4 --optim adamw --clip 1 \
            --schedule cosine --checkpoint ck --checkpoint-every 2 -o part.safetensors >/dev/null || true
        [ ! -e part.safetensors ]
        fit --epochs 4 --optim adamw --clip 1 --schedule cosine --checkpoint ck --checkpoint-every 2 --resume \
            -o part.safetensors >/dev/null
        cmp whole.safetensors part.safetensors
    done
}

@test "killed at 20 random instants, resumed: the same bytes" {
    fit --epochs 300 --optim adam -o whole.npz >/dev/null
    seed=$(($(date +%N | sed 's/^0*//') % 32768)) killed=0 finished=0
    echo "RANDOM=$seed"
    RANDOM=$seed
    while [ "$killed" -lt 20 ]; do
        code=0
        timeout -s KILL ".$(printf %03d $((5 + RANDOM % 250)))" zt-train -q -m net.zt -i train.csv --loss cross_entropy \
            --epochs 300 --optim adam --checkpoint ck --checkpoint-every 3 --resume -f -o part.npz >/dev/null 2>said || code=$?
        [ "$code" -eq 137 ] || [ "$code" -eq 0 ]
        [ ! -s said ]
        killed=$((killed + (code == 137)))
        if [ "$code" -eq 0 ]; then # begun anew
            cmp whole.npz part.npz
            finished=$((finished + 1))
            [ "$finished" -lt 100 ]
            rm -f ck ck.before
        fi
        rm -f part.npz
    done
    fit --epochs 300 --optim adam --checkpoint ck --checkpoint-every 3 --resume -f -o part.npz >/dev/null
    cmp whole.npz part.npz
}

flip() { # FILE BYTE BIT
    perl -e 'open F, "+<", $ARGV[0]; seek F, $ARGV[1], 0; read F, $c, 1; seek F, $ARGV[1], 0;
             print F chr(ord($c) ^ 1 << $ARGV[2])' "$@"
}

resume() { # from good and good.before; what is said goes to `said`
    cp good.before ck.before
    zt-train -m net.zt -i train.csv --loss cross_entropy --epochs 6 --checkpoint ck --resume -f -o again.npz >/dev/null 2>said
}

@test "a flipped bit anywhere in a checkpoint: said, and the one before is used" {
    fit --epochs 6 -o whole.npz >/dev/null
    fit --epochs 4 --checkpoint ck -o four.npz >/dev/null
    mv ck good
    mv ck.before good.before
    size=$(stat -c %s good)
    # each word of the head, and places all over
    for at in $(seq 0 8 160) $(seq 167 $((size / 12)) $((size - 1))) $((size - 16)) $((size - 1)); do
        cp good ck
        flip ck "$at" $((at / 8 % 8))
        resume
        grep -q '^zt-train: ck: .*; using ck.before instead$' said || { echo "byte $at"; cat said; false; }
        cmp whole.npz again.npz
    done
    for n in 0 7 100 $((size - 1)); do # cut off
        head -c "$n" good >ck
        resume
        grep -q '^zt-train: ck: .*; using ck.before instead$' said
        cmp whole.npz again.npz
    done
    cp good ck
    resume
    [ ! -s said ]
    cmp whole.npz again.npz
    cp good ck
    cp good.before ck.before
    for f in ck ck.before; do flip $f 100 0; done
    run -65 --separate-stderr fit --epochs 6 --checkpoint ck --resume -f -o again.npz
    one_message zt-train
}

@test "another run's checkpoint is 64, and SIGINT leaves one to go on from" {
    fit --epochs 2 --checkpoint ck -o out.npz >/dev/null
    run -64 --separate-stderr fit --epochs 3 --batch 8 --checkpoint ck --resume -f -o out.npz
    one_message zt-train
    [[ $stderr == *"of another run"* ]]
    rm -f ck ck.before out.npz
    run -130 --separate-stderr interrupt_when '[ -s ck ]' zt-train -m net.zt -i train.csv \
        --loss cross_entropy --epochs 100000 --checkpoint ck -o out.npz
    one_message zt-train
    [ -f ck ] && [ ! -e out.npz ]
}

@test "bad data is 65 with its place" {
    sed '17s/^[^,]*/abc/' train.csv >bad.csv
    run -65 --separate-stderr zt-train -m net.zt -i bad.csv --loss cross_entropy -o o.npz
    [ "$stderr" = "zt-train: bad.csv:17: column 1: 'abc' is not a valid number" ]
    sed '5s/,[0-9]*$/,1.5/' train.csv >bad.csv
    run -65 --separate-stderr zt-train -m net.zt -i bad.csv --loss cross_entropy -o o.npz
    [ "$stderr" = "zt-train: bad.csv:5: column 5: '1.5' is not a valid integer" ]
    sed '9s/,[^,]*$//' train.csv >bad.csv
    run -65 --separate-stderr zt-train -m net.zt -i bad.csv --loss cross_entropy -o o.npz
    [ "$stderr" = "zt-train: bad.csv:9: 4 columns, but the inputs need 5" ]
    sed '9s/,[0-9]*$/,3/' train.csv >bad.csv
    run -65 --separate-stderr zt-train -m net.zt -i bad.csv --loss cross_entropy -o o.npz
    one_message zt-train
    echo '{"x": [1, 2, 3], "label": 0}' >bad.ndjson
    run -65 --separate-stderr zt-train -m net.zt -i bad.ndjson --loss cross_entropy -o o.npz
    [ "$stderr" = "zt-train: bad.ndjson:1: input 'x' has 3 numbers, expected 4" ]
    echo '{"x": [1, 2, [3, "a"]], "label": 0}' >bad.ndjson
    run -65 --separate-stderr zt-train -m net.zt -i bad.ndjson --loss cross_entropy -o o.npz
    [ "$stderr" = "zt-train: bad.ndjson:1: input 'x': a value is not a valid number" ]
    : >empty.csv
    run -65 --separate-stderr zt-train -m net.zt -i empty.csv -o o.npz
    one_message zt-train
    run -66 --separate-stderr zt-train -m net.zt -i nowhere.csv -o o.npz
    one_message zt-train
    [ ! -e o.npz ]
}

@test "misuse is 64; what is there is 73 before any work" {
    for options in '-m net.zt' '-i train.csv' '-m net.zt -i train.csv' '-m net.zt -i train.csv -o o.npz --optim best' \
        '-m net.zt -i train.csv -o o.npz --schedule up' '-m net.zt -i train.csv -o o.npz --method target-prop' \
        '-m net.zt -i train.csv -o o.npz --resume'; do
        run -64 --separate-stderr zt-train $options
        one_message zt-train
    done
    { echo 'zt program 1'
        for i in {1..65}; do echo "in x$i: f32[n,1]"; done
        printf 'data w: f32[1,1] "w"\ny = linear x1 w\nout y = y\n'; } >many.zt
    run -64 --separate-stderr zt-train -m many.zt -i train.csv -o o.npz
    one_message zt-train
    [[ $stderr == *"too many inputs: at most 64"* ]]
    echo old >o.npz
    run -73 --separate-stderr fit -o o.npz
    one_message zt-train
    [ -z "$output" ]
    [ "$(cat o.npz)" = old ]
}

@test "a loss that is no number any more is 65, and nothing is written" {
    printf 'zt program 1\nin x: f32[n,4]\ndata w: f32[1,4] "w"\ny = linear x w\nout y = y\n' >line.zt
    run -65 --separate-stderr zt-train -q -m line.zt -i train.csv --lr 1e6 -o o.npz
    one_message zt-train
    [[ $stderr == *"the loss is"* ]]
    [ ! -e o.npz ]
}

@test "--lr-find: rising rates, a suggestion that learns, a plot; the same for any number of threads" {
    printf '%s\n' 'zt program 1' 'in x: f32[n,2]' 'data w: f32[8,2] "w"' 'data b: f32[8] "b"' 'data v: f32[2,8] "v"' \
        'h = linear x w b' 'a = tanh h' 'y = linear a v' 'out y = y' >xor.zt
    awk 'BEGIN {srand(3); for (i = 0; i < 64; i++) {a = rand() > .5; b = rand() > .5; print a "," b "," (a != b)}}' >xor.csv
    find=(-m xor.zt -i xor.csv --loss cross_entropy --optim adam --batch 16)
    zt-train -q "${find[@]}" --lr-find 60 -t 1 --plot r.svg >one
    zt-train -q "${find[@]}" --lr-find 60 -t 2 >two
    cmp one two
    xmllint --noout r.svg
    rate=$(perl -MJSON::PP -ne 'push @l, decode_json($_); END {my $s = pop @l; die "rates" if abs($l[0]{lr} - 1e-7) > 1e-12 || @l != $s->{steps};
        for (1 .. $#l) {die "not geometric" if abs($l[$_]{lr} / $l[$_ - 1]{lr} / 1e8 ** (1 / 59) - 1) > 1e-9}
        die "suggestion $s->{suggested_lr}" if $s->{suggested_lr} < 1e-4 || $s->{suggested_lr} > 3; print $s->{suggested_lr}}' one)
    zt-train -q "${find[@]}" --lr "$rate" --epochs 60 -o o.npz >history
    perl -MJSON::PP -e '@l = <>; exit !(decode_json($l[-1])->{loss} < .8 * decode_json($l[0])->{loss})' history
    zt-train -q "${find[@]}" --lr-find 2000 >long
    [ "$(wc -l <long)" -le 2001 ]
    for option in "-o x.npz" "--epochs 3" "--lr .1" "--schedule cosine" "--checkpoint ck" "--patience 2"; do
        run -64 --separate-stderr zt-train -q "${find[@]}" --lr-find 60 $option
        one_message zt-train
    done
    run -64 --separate-stderr zt-train -q "${find[@]}" --lr-find 9
}

# Events go into a FIFO, so that the run waits for this test.
@test "SIGUSR1 saves a checkpoint at the next step, and the run goes on; resumed from it, the same bytes" {
    awk 'BEGIN {srand(3); for (i = 0; i < 1200; i++) print rand() "," rand() "," rand() "," rand() "," (rand() > .5)}' >long.csv
    long=(-q --new sequential --set dModel=4 --set numClasses=2 -i long.csv --loss cross_entropy --batch 2 -t 1 --epochs 1)
    zt-train "${long[@]}" -o whole.json >/dev/null
    mkfifo events
    zt-train "${long[@]}" --checkpoint ck --observe events -o on.json >/dev/null 3>&- &
    pid=$!
    exec 8<events
    read -r -u 8
    [ ! -e ck ]
    kill -USR1 "$pid"
    while [ ! -e ck ]; do read -r -u 8; done
    cp ck saved
    [ "$(cat <&8 | wc -l)" -gt 0 ] # it was not the end of the epoch
    exec 8<&-
    wait "$pid"
    cmp whole.json on.json
    rm ck ck.before
    mv saved ck
    zt-train "${long[@]}" --checkpoint ck --resume -o part.json >/dev/null
    cmp whole.json part.json
}
