#!/usr/bin/env bats
# zt-train --accumulate: a batch in micro-batches learns the same, with bits of its own that threads, checkpoints and resuming do not
# change; observers see whole batches.

load ../common/helper

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    printf '%s\n' 'zt program 1' 'in x: f32[n,4]' 'data w0: f32[16,4] "first.w"' 'data b0: f32[16] "first.b"' \
        'data w1: f32[3,16] "second.w"' 'h = linear x w0 b0' 'a = tanh h' 'y = linear a w1' 'out y = y' >net.zt
    awk 'BEGIN {srand(5); for (i = 0; i < 205; i++) {m = 0; line = ""
        for (k = 0; k < 4; k++) {v[k] = int(2000 * rand() - 1000) / 1000; line = line v[k] ","}
        for (k = 1; k < 3; k++) if (v[k] > v[m]) m = k
        print line m}}' >data.csv
    printf 'The cat sleeps. The dog barks. The bird sings in the tree.\n%.0s' {1..60} >text.txt
}

setup() { cd "$BATS_FILE_TMPDIR" || exit; }

fit() { # OPTION...
    zt-train -q -f -m net.zt -i data.csv --loss cross_entropy --optim adam --lr .01 --clip 1 --epochs "${epochs:-3}" "$@"
}

text() { # OPTION...
    zt-train -q -f --text text.txt --size 60K --vocab 290 -c 32 --batch 8 --epochs 2 "$@"
}

# The last losses of two histories differ by less than a share of 1e-5, and are not the same number.
within_rounding() { # history history
    perl -MJSON::PP -e 'my ($a, $b) = map {local (@ARGV) = $_; my @l = <>; decode_json($l[-1])->{loss}} @ARGV;
        exit !($a != $b && abs($a - $b) < 1e-5 * $a)' "$@"
}

@test "a network and a language model learn the same within rounding, for any N" {
    fit -o one.npz >one
    text -o one.gguf >text.one
    for n in 2 3 8 100; do
        fit --accumulate $n -o net.$n.npz >net.$n
        within_rounding one net.$n
    done
    text --accumulate 4 -o text.4.gguf >text.4
    within_rounding text.one text.4
}

@test "the bits do not depend on threads, nor on where the run was stopped; another N is another run" {
    fit --accumulate 3 -t 1 -o a.npz >/dev/null
    fit --accumulate 3 -t 3 -o b.npz >/dev/null
    cmp a.npz b.npz
    rm -f ck ck.before
    epochs=1 fit --accumulate 3 --checkpoint ck --checkpoint-every 2 -o c.npz >/dev/null
    fit --accumulate 3 --checkpoint ck --resume -o c.npz >/dev/null
    cmp a.npz c.npz
    run -64 --separate-stderr fit --accumulate 4 --checkpoint ck --resume -o d.npz
    one_message zt-train
    [[ $stderr == *'checkpoint of another run'* ]]
}

@test "a network's layers are observed by whole batches: the values are those without --accumulate" {
    cut -d, -f1-4 data.csv | awk -F, '{print $0 "," $1 "," $2 "," $3 "," $4}' >wide.csv
    zt-train -q -f --new sequential --set dModel=4 --set numClasses=4 -i wide.csv --loss mse --epochs 1 --observe e1 -o o.json >/dev/null
    zt-train -q -f --new sequential --set dModel=4 --set numClasses=4 -i wide.csv --loss mse --epochs 1 --observe e4 --accumulate 4 \
        -o o.json >/dev/null
    [ "$(wc -l <e1)" -gt 4 ]
    perl -MJSON::PP -e 'my ($a, $b) = map {local (@ARGV) = $_; [map {decode_json($_)} <>]} @ARGV; exit 1 if @$a != @$b;
        for my $i (0 .. $#$a) { for (qw(avg max min)) {
            my ($p, $q) = map {$_->[$i]{stats}} $a, $b; exit 2 if $p->{total} != $q->{total};
            exit 3 if abs($p->{$_} - $q->{$_}) > 1e-4 * (abs($p->{$_}) + 1e-2) } }' e1 e4
}

@test "what cannot be split is refused: a program of a fixed number of rows" {
    sed 's/f32\[n,4\]/f32[5,4]/' net.zt >fixed.zt
    run -64 --separate-stderr zt-train -q -m fixed.zt -i data.csv --loss cross_entropy --batch 5 --accumulate 2 -o o.npz
    one_message zt-train
    [[ $stderr == *'cannot be split into micro-batches'* ]]
    [ ! -e o.npz ]
}
