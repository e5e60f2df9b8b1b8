#!/usr/bin/env bats
# zt-train compare: runs, measures, the verdict. Statistics: tests/train/compare.c.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    printf '%s\n' a,b,one,label 0,0,1,0 0,1,1,1 1,0,1,1 1,1,1,0 >xor.csv
    cat >xor.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[
{"type":"Dense","l":0,"input_height":3,"output_height":16,"activation":"ReLU"},
{"type":"Dense","l":1,"input_height":16,"output_height":2}]}
END
}

compare() { zt-train compare -q -t 1 -m xor.json -i xor.csv --loss cross_entropy --optim adam "$@"; }

@test "a row for each method, one of them the best, and a run of each has the losses of zt-train" {
    compare --epochs 40 --lr .02 --seeds 2 >table
    [ "$(cut -f1 table | xargs)" = "method backprop target-prop-chain target-prop systolic systolic-target-prop" ]
    [ "$(cut -f13 table | grep -c best)" -eq 1 ]
    compare --epochs 40 --lr .02 --seeds 2 --methods target-prop,backprop --seed 3 --format ndjson >runs
    zt-train -q -t 1 -m xor.json -i xor.csv --valid xor.csv --loss cross_entropy --optim adam --epochs 40 --lr .02 --seed 4 \
        --method target-prop -o out.json >history
    perl -MJSON::PP -e '
        my ($runs, $history) = map { local @ARGV = $_; [map { decode_json($_) } <>] } @ARGV;
        my $verdict = pop @$runs;
        join(" ", map { "$_->{method} $_->{seed}" } @$runs) eq "target-prop 3 target-prop 4 backprop 3 backprop 4" or die "runs";
        my ($run) = grep { $_->{method} eq "target-prop" && $_->{seed} == 4 } @$runs;
        my $text = sub { join " ", map { sprintf "%.9g", $_ } @_ };
        $text->(@{$run->{loss_history}}) eq $text->(map { $_->{loss} } @$history) or die "losses";
        $text->(@{$run->{valid_loss_history}}) eq $text->(map { $_->{valid_loss} } @$history) or die "validation";
        $run->{steps} == 40 && $run->{memory_peak_mb} > .1 && $run->{loss} == $run->{valid_loss_history}[-1] or die "measures";
        for my $run (@$runs) {
            my ($first) = grep { $run->{accuracy_history}[$_] >= 70 } 0 .. 39;
            $run->{milestones}{70} == $run->{time_history}[$first] or die "milestone";
            $run->{time_total} == $run->{time_history}[-1] or die "time";
        }
        my $v = $verdict->{verdict};
        $v->{best} ne $v->{runner_up} && $v->{probability} >= 0 && $v->{probability} <= 1 or die "verdict";
        $v->{loss_difference}{low} <= $v->{loss_difference}{mean} && $v->{loss_difference}{mean} <= $v->{loss_difference}{high} or die "interval";
    ' runs history
}

@test "one seed has no uncertainty; the same seeds have the same verdict; json is one object" {
    compare --epochs 30 --lr .02 --seeds 1 --methods backprop,target-prop --format json >one
    json '$j->{schema} eq "zt.compare/1" && $j->{name} eq "xor.json" && $j->{num_layers} == 2 && @{$j->{runs}} == 2
        && !defined $j->{verdict}{probability} && !defined $j->{verdict}{loss_difference}{low} && defined $j->{verdict}{loss_difference}{mean}' <one
    for i in 1 2; do compare --epochs 30 --lr .02 --seeds 4 --methods backprop,target-prop --format ndjson | tail -1 >$i; done
    cmp 1 2
}

@test "a method that diverges is noted and is not the best; one that cannot train the network is left out or refused" {
    printf '%s\n' a,b,one,x,y 0,0,1,1,0 0,1,1,0,1 1,0,1,0,1 1,1,1,1,0 >values.csv
    sed 's/ReLU/Linear/' xor.json >linear.json
    zt-train compare -t 1 -m linear.json -i values.csv --methods backprop:1e4,target-prop:0.05 --epochs 60 --seeds 2 --format json >got 2>err
    [ "$(grep -c '^zt-train: backprop, seed [01]: the loss is not finite in epoch' err)" -eq 2 ]
    json '$j->{verdict}{best} eq "target-prop" && (grep { $_->{diverged} && !defined $_->{loss} } @{$j->{runs}}) == 2' <got
    sed 's/"Dense","l":0,"input_height":3,"output_height":16/"SwiGLU","l":0,"input_height":3,"output_height":4/; s/"input_height":16/"input_height":3/' xor.json >glu.json
    zt-train compare -t 1 -m glu.json -i - --loss cross_entropy --epochs 2 --seeds 1 <xor.csv >table 2>err
    [ "$(tail -n +2 table | cut -f1 | xargs)" = "backprop target-prop-chain systolic" ]
    [ "$(grep -c 'is left out: glu.json: layers.0 (SwiGLU)' err)" -eq 2 ]
    zt-train compare -q -t 1 -m glu.json -i <(cat xor.csv) --loss cross_entropy --epochs 2 --seeds 1 >piped
    [ "$(cut -f1,3 piped)" = "$(cut -f1,3 table)" ]
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 'data w: f32[2,3] "w"' 'y = linear x w' 'out y = y' >p.zt
    zt-train compare -q -t 1 -m p.zt -i xor.csv --loss cross_entropy --epochs 2 --seeds 1 >table
    [ "$(tail -n +2 table | cut -f1)" = backprop ]
    echo nan,1,1,0 >nan.csv
    run -65 --separate-stderr zt-train compare -q -t 1 -m xor.json -i nan.csv --loss cross_entropy --epochs 2
    one_message zt-train
    [[ $stderr == *"every run diverged"* ]]
    run -69 --separate-stderr zt-train compare -t 1 -m glu.json -i xor.csv --loss cross_entropy --methods target-prop --epochs 2
    one_message zt-train
}

@test "a plot has a line and a name for each method; misuse is refused" {
    compare --epochs 5 --seeds 2 --methods backprop,systolic --plot losses.svg >/dev/null
    [ "$(grep -c '>backprop<\|>systolic<' losses.svg)" -ge 1 ]
    grep -q '>systolic<' losses.svg
    while read -r wrong; do
        run -64 --separate-stderr zt-train compare -m xor.json -i xor.csv --loss cross_entropy $wrong
        one_message zt-train
    done <<'END'
--methods tween
--methods backprop,
--methods backprop:fast
--methods backprop:-1
--methods backprop:nan
--methods backprop,backprop,backprop,backprop,backprop,backprop,backprop,backprop,backprop
--seeds 0
--seeds 1001
--epochs 0
--target-accuracy 101
--method target-prop
--checkpoint ck
-o out.json
--resume
--momentum 0.5 --optim adam
END
    run -64 --separate-stderr zt-train compare -i xor.csv
    one_message zt-train
    run -73 --separate-stderr zt-train compare -m xor.json -i xor.csv --loss cross_entropy --epochs 1 --plot losses.svg
    one_message zt-train
    run -66 --separate-stderr zt-train compare -m xor.json -i none.csv --epochs 1
    one_message zt-train
    run -64 --separate-stderr zt-train contrast -m xor.json -i xor.csv
    one_message zt-train
    [[ $stderr == *"unknown command 'contrast'"* ]]
}
