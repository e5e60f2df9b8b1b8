#!/usr/bin/env bats
# zt-train --track: the accuracy over a stream of samples, before each is learned. The tracker: tests/train/track.c.

load ../common/helper

# Two classes by the sign of a; with sample 300 they are exchanged.
setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    awk 'BEGIN {srand(4); for (i = 0; i < 600; i++) {a = 2 * rand() - 1; print a "," 2 * rand() - 1 "," ((a > 0) != (i >= 300))}}' >stream.csv
    printf '{"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"Dense","input_height":2,"output_height":2}]}' >net.json
}

track() { zt-train -q -t 1 -m net.json --loss cross_entropy --epochs 1 --no-shuffle --batch 4 --lr ${rate:-.5} -f -o out.json "$@"; }

@test "accuracy rises, falls as the task changes, and recovers" {
    track -i stream.csv --track 50 --tasks 300 | tail -1 >adaptation
    json 'my $a = $j->{adaptation}; my @w = map { $_->{accuracy} } @{$a->{windows}}; my ($c) = @{$a->{task_changes}};
        $a->{total_outputs} == 600 && @w == 12 && $w[5] > 90 && $w[6] < 70 && $w[11] > 90
        && $c->{at} == 300 && $c->{pre_change_window} == 5 && $c->{post_change_window} == 6 && $c->{pre_accuracy} == $w[5]
        && $c->{post_accuracy} == $w[6] && $c->{recovery} > 50 && $c->{recovery} % 50 == 0
        && $a->{windows}[5]{task_id} == 0 && $a->{windows}[6]{task_id} == 1' <adaptation
    # tracked or not, the same steps; for any method
    for method in backprop target-prop; do
        track -i stream.csv --method $method >plain
        cp out.json plain.json
        track -i stream.csv --method $method --track 7 >tracked
        cmp plain.json out.json
        diff <(sed 's/"seconds.*//' plain) <(head -1 tracked | sed 's/"seconds.*//')
        [ "$(wc -l <tracked)" -eq 2 ]
    done
}

@test "what is predicted is what the weights before the step give" {
    head -40 stream.csv >few.csv
    rate=0 track -i few.csv --track 10 | tail -1 >adaptation
    zt-train --eval -m out.json -i few.csv --format json >scores
    perl -MJSON::PP -e '
        my ($a, $s) = map { local (@ARGV, $/) = $_; decode_json(scalar <>) } @ARGV;
        for my $w (0 .. 3) {
            my $right = grep { $_->{actual} == $_->{expected} } @{$s->{results}}[10 * $w .. 10 * $w + 9];
            $a->{adaptation}{windows}[$w]{correct} == $right or die "window $w";
        }' adaptation scores
}

@test "misuse is refused" {
    while read -r wrong; do
        run -64 --separate-stderr zt-train -m net.json -i stream.csv --loss cross_entropy -o none.json $wrong
        one_message zt-train
    done <<'END'
--track 5
--track 0 --no-shuffle
--tasks 5 --no-shuffle
--track 5 --no-shuffle --tasks 0
--track 5 --no-shuffle --tasks 9,8
--track 5 --no-shuffle --tasks 9,
--track 5 --no-shuffle --tasks nine
--track 5 --no-shuffle --checkpoint ck
END
    run -64 --separate-stderr zt-train --eval -m net.json -i stream.csv --track 5
    one_message zt-train
    [ ! -e none.json ]
}
