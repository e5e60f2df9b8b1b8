#!/usr/bin/env bats
# zt-train: volumetric networks; openfluke/loom's recorded training and evaluation (golden set loom,
# which is not in the repository); the example of the digits.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    golden=${ZT_GOLDEN:-$repo/tests/golden}
}

samples() { # rows of x y x label of the largest number
    awk -v rows="$1" -v wide="$2" 'BEGIN {srand(3)
        for (i = 0; i < rows; i++) {
            m = 0; line = ""
            for (k = 0; k < wide; k++) {v[k] = rand(); line = line v[k] ","}
            for (k = 1; k < 3; k++) if (v[k] > v[m]) m = k
            print line m
        }}'
}

@test "a new network of each builder is trained and comes back as JSON that predicts" {
    for set in "sequential --set dModel=16 --set inputSize=16" "cnn --set inputSize=6" \
        "transformer --set dModel=16 --set numHeads=2 --set layersPerCell=2"; do
        loss=cross_entropy
        if [[ $set == cnn* ]]; then samples 300 36; else samples 300 16; fi >t.csv
        zt-train -q --new $set --set numClasses=3 -i t.csv --loss $loss --optim adam --lr .01 --epochs 12 -f -o net.json >history
        perl -MJSON::PP -ne 'push @l, decode_json($_)->{loss}; END {exit !($l[-1] < .8 * $l[0])}' history
        zt-train --eval -m net.json -i t.csv --format json >scores
        json '$j->{total} == 300 && $j->{correct} > 150' <scores
        zt-train -q -m net.json -i t.csv --loss $loss --epochs 1 -f -o weights.safetensors >/dev/null
        [ "$(zt-convert --list --format tsv weights.safetensors | wc -l)" -gt 3 ]
    done
}

@test "a document that is no network is 65; --set and --new misused are 64" {
    samples 9 4 >t.csv
    echo '{"layers": [{"type": "Nothing"}], "depth": -1}' >bad.json
    run -65 --separate-stderr zt-train -m bad.json -i t.csv -o o.json
    one_message zt-train
    for options in '--new great' '--new cnn -m bad.json' '-m bad.json --set dModel=4' '--new cnn --set dModel' '--new cnn --set depth=x'; do
        run -64 --separate-stderr zt-train $options -i t.csv -o o.json
        one_message zt-train
    done
    [ ! -e o.json ]
}

# ---- --observe -----------------------------------------------------------------------------------

observed() { # OPTION...
    zt-train -q --new sequential --set dModel=8 --set inputSize=8 --set layersPerCell=3 --set numClasses=3 \
        -i t.csv --loss cross_entropy --epochs 2 --batch 32 "$@"
}

@test "--observe FILE: S3's members, forward in the layers' order, backward in the other; the same bits" {
    samples 50 8 >t.csv
    observed -o plain.json >plain
    observed -o seen.json --observe events.ndjson >seen
    cmp plain.json seen.json
    diff <(sed 's/"seconds.*//' plain) <(sed 's/"seconds.*//' seen)
    perl -MJSON::PP -e '
        my @e = map {decode_json($_)} <>;
        @e == 2 * 2 * 6 or die scalar @e;
        for my $i (0 .. $#e) {
            my ($e, $k) = ($e[$i], $i % 6);
            join(",", sort keys %$e) eq "l,layer_type,mode,model_id,stats,step_count,type,x,y,z" or die "members";
            join(",", sort keys %{$e->{stats}}) eq "active,avg,max,min,total" or die "of stats";
            $e->{mode} eq "train" && $e->{type} eq ($k < 3 ? "forward" : "backward") or die "type $i";
            $e->{l} == ($k < 3 ? $k : 5 - $k) && $e->{z} + $e->{y} + $e->{x} == 0 or die "place $i";
            $e->{layer_type} == 0 && $e->{model_id} =~ /^[0-9a-f]{32}$/ or die "layer $i";
            $e->{step_count} == 1 + int($i / 6) or die "step $i";
            my $rows = $e->{step_count} % 2 ? 32 : 18;
            $e->{stats}{total} == $rows * ($e->{l} == 2 ? 3 : 8) or die "total $i";
        }' events.ndjson
}

@test "--observe tells what the layers give, and the gradient of the loss by it" {
    # y = 2 a - b and relu of it; the loss is the mean of squares
    cat >net.json <<'END'
{"id": "n", "depth": 1, "rows": 1, "cols": 2, "layers_per_cell": 1, "layers": [
 {"x": 0, "type": "Dense", "activation": "Linear", "dtype": "float32", "input_height": 2, "output_height": 1,
  "native": false, "weights": "AAAAQAAAgL8="},
 {"x": 1, "type": "Dense", "activation": "ReLU", "dtype": "float32", "input_height": 1, "output_height": 1,
  "native": false, "weights": "AACAPw=="}]}
END
    printf '1,0.5,1\n0,3,2\n2,0,3\n0.5,1,0\n' >t.csv # y 1.5 -3 4 0; relu 1.5 0 4 0; d .25 -1 .5 0
    zt-train -q -m net.json -i t.csv --no-shuffle --batch 4 --epochs 1 --observe fd:3 -o out.json >/dev/null 3>events
    perl -MJSON::PP -e '
        my @want = ([forward => 0, .625, 4, -3, 3], [forward => 1, 1.375, 4, 0, 2],
            [backward => 1, -.0625, .5, -1, 3], [backward => 0, .1875, .5, 0, 2]);
        while (my $e = <STDIN>) {
            $e = decode_json($e);
            my ($w, $s) = (shift @want, $e->{stats});
            my @got = ($e->{type}, $e->{x}, @$s{qw(avg max min active)});
            "@got" eq "@$w" && $s->{total} == 4 or die "@got and @$w";
        }
        exit scalar @want' <events
    zt-train -q --eval -m net.json -i t.csv --batch 4 --observe - --format tsv >scores
    [ "$(grep -c '^{"mode":"eval","type":"forward"' scores)" -eq 2 ]
    grep -q '^samples.4$' scores
    zt-train -q -m net.json -i t.csv --no-shuffle --batch 4 --epochs 1 --observe console -f -o out.json >/dev/null 2>said
    grep -qx 'step 1 forward (0,0,1,0) Dense: avg=1.375 max=4 min=0 active=2/4' said
    [ "$(wc -l <said)" -eq 4 ]
    sed -i 's/"x": 0, /&"is_disabled": true, /; s/"input_height": 1, "output_height": 1/"input_height": 2, "output_height": 1/; s/AACAPw==/AAAAQAAAgL8=/' net.json
    zt-train -q -m net.json -i t.csv --batch 4 --epochs 1 --observe - -f -o out.json | grep '"mode"' >events
    [ "$(wc -l <events)" -eq 2 ]
    ! grep -q '"x":0' events
}

@test "--observe and a run that stopped: watched or not, it is the same run" {
    samples 50 8 >t.csv
    observed -o whole.json >/dev/null
    zt-train -q --new sequential --set dModel=8 --set inputSize=8 --set layersPerCell=3 --set numClasses=3 -i t.csv \
        --loss cross_entropy --epochs 1 --batch 32 --checkpoint ck -o part.json >/dev/null
    observed --checkpoint ck --resume --observe events -f -o part.json >/dev/null
    cmp whole.json part.json
    [ "$(head -1 events | grep -c '"step_count":3')" -eq 1 ]
}

@test "--observe misused: 64; a place that cannot be written: 73" {
    samples 50 8 >t.csv
    printf 'zt program 1\nin x: f32[n,8]\ndata w: f32[1,8] "w"\ny = linear x w\nout y = y\n' >line.zt
    run -64 --separate-stderr zt-train -m line.zt -i t.csv --observe console -o o.json
    one_message zt-train
    run -64 --separate-stderr zt-train --text t.csv --observe console -o o.gguf
    one_message zt-train
    for number in x '' -1 99999999999; do
        run -64 --separate-stderr observed --observe "fd:$number" -o o.json
        one_message zt-train
    done
    run -73 --separate-stderr observed --observe fd:57 -o o.json
    one_message zt-train
    run -73 --separate-stderr observed --observe fd:57 -o o.json 57</dev/null
    one_message zt-train
    echo old >events
    run -73 --separate-stderr observed --observe events -o o.json
    one_message zt-train
    [ "$(cat events)" = old ]
    run -73 --separate-stderr observed --observe t.csv -f -o o.json
    one_message zt-train
    run -74 --separate-stderr observed --observe fd:5 -o o.json 5>/dev/full
    one_message zt-train
    [ ! -e o.json ]
}

# The golden case's network and its batches as net.json and rows.csv; the rows of a batch.
unpack_training() { # case
    perl -MJSON::PP -e '
        my $d = decode_json(do {local (@ARGV, $/) = shift; <>});
        open F, ">", "net.json"; print F encode_json($d->{start}{network});
        open F, ">", "rows.csv";
        for my $b (@{$d->{batches}}) {
            my $n = $b->{input}{shape}[0];
            my ($x, $y) = ([@{$b->{input}{data}}], [@{$b->{target}{data}}]);
            my ($w, $v) = (@$x / $n, @$y / $n);
            print F join(",", splice(@$x, 0, $w), splice(@$y, 0, $v)), "\n" for 1 .. $n;
        }
        print "--batch $d->{batches}[0]{input}{shape}[0] --lr $d->{learning_rate} --epochs $d->{epochs} --loss $d->{loss}"' "$1"
}

# Losses by epochs and the masters at the end, within 1e-4.
compare_training() { # case history net
    perl -MJSON::PP -MMIME::Base64 -e '
        my ($d, $h, $net) = map {local (@ARGV, $/) = $_; scalar <>} @ARGV;
        $d = decode_json($d);
        my @l = map {decode_json($_)->{loss}} split /\n/, $h;
        my @want = @{$d->{loss_history}};
        die "@l and @want" if @l != @want;
        abs($l[$_] - $want[$_]) <= 1e-4 * $want[$_] or die "loss $_: $l[$_], $want[$_]" for 0 .. $#l;
        my $i = 0;
        for my $layer (@{decode_json($net)->{layers}}) {
            my @w = unpack "f<*", decode_base64($layer->{weights});
            my @m = map {ref $_ ? map {ref $_ ? @$_ : $_} @$_ : $_} $d->{end_masters}[$i++];
            die "layer $i: " . @w . " and " . @m if @w != @m;
            abs($w[$_] - $m[$_]) <= 1e-4 * (1 + abs $m[$_]) or die "layer $i, $_: $w[$_], $m[$_]" for 0 .. $#w;
        }' "$@"
}

@test "golden loom training: losses and masters at the end" {
    [ -d "$golden/loom/training" ] || skip "no golden loom here"
    n=0
    for case in "$golden"/loom/training/*.json; do
        zt-train -q -m net.json -i rows.csv --no-shuffle $(unpack_training "$case") -f -o end.json >history
        compare_training "$case" history end.json
        n=$((n + 1))
    done
    [ "$n" -gt 0 ]
}

# An embedding of 5 ids in 2 numbers, (id, 10 id), and what comes behind it.
embedding() { # LAYERS...
    perl -MMIME::Base64 -e 'my $w = encode_base64(pack("f<*", map { ($_, 10 * $_) } 0 .. 4), "");
        printf q({"depth":1,"rows":1,"cols":1,"layers_per_cell":%d,"layers":[{"type":"Embedding","vocab_size":5,"embedding_dim":2,"weights":"%s"}%s]}),
            1 + @ARGV, $w, join("", map { ",$_" } @ARGV)' "$@"
}

@test "an embedding of several ids a row: run, trained and judged, as many as the layer behind has a place for" {
    ones=$(perl -MMIME::Base64 -e 'print encode_base64(pack("f<*", 1, 1, 100, 100, 10000, 10000), "")')
    embedding '{"type":"Dense","l":1,"input_height":6,"output_height":1,"weights":"'"$ones"'"}' >sum.json
    # 11 (a + 100 b + 10000 c)
    [ "$(printf '%s\n' 1,2,3 4,0,1 | zt-run -m sum.json | xargs)" = "332211 110044" ]
    # two embeddings of one id beside each other are not one of two ids
    table=$(embedding | sed 's/.*"layers":\[\(.*\)\]}/\1/')
    printf '{"depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[{"type":"Parallel","parallel_branches":[%s,%s]},%s]}' "$table" "$table" \
        '{"type":"Dense","l":1,"input_height":4,"output_height":1,"weights":"'"$(perl -MMIME::Base64 -e 'print encode_base64(pack("f<*", 1, 0, 0, 1), "")')"'"}' >beside.json
    [ "$(printf '%s\n' 1 2 3 | zt-run -m beside.json | xargs)" = "11 22 33" ]
    embedding '{"type":"Dense","l":1,"input_height":6,"output_height":5}' >bag.json
    # the class is the second id
    perl -e 'for my $i (0 .. 124) { printf "%d,%d,%d,%d\n", $i % 5, $i / 5 % 5, $i / 25, $i / 5 % 5 }' >bag.csv
    zt-train -q -m bag.json -i bag.csv --loss cross_entropy --optim adam --lr .05 --epochs 120 -o learned.json >/dev/null
    zt-train --eval -m learned.json -i bag.csv --format json >scores
    json '$j->{total} == 125 && $j->{accuracy} > 95' <scores
    sed -E 's/(.*),(.)$/{"input":[\1],"label":\2}/' bag.csv | zt-train -q -m bag.json -i - --loss cross_entropy --optim adam \
        --lr .05 --epochs 120 -o same.json >/dev/null
    cmp learned.json same.json
    run --separate-stderr zt-train -m bag.json -i bag.csv -o out.json
    [ "$status" -eq 64 ] && one_message zt-train && [[ $stderr == *"use --loss cross_entropy"* ]]
}

@test "an embedding of as many ids a row as the data have, with a class for each" {
    embedding '{"type":"Dense","l":1,"input_height":2,"output_height":5}' >token.json
    # the class of each of three ids is the next number
    perl -e 'for my $i (0 .. 124) { my @x = ($i % 5, $i / 5 % 5, $i / 25); print join(",", map({ int } @x), map { (int($_) + 1) % 5 } @x), "\n" }' >next.csv
    zt-train -q -m token.json -i next.csv --loss cross_entropy --optim adam --lr .05 --epochs 60 -o learned.json >/dev/null
    zt-train --eval -m learned.json -i next.csv --format json >scores
    json '$j->{total} == 375 && $j->{accuracy} == 100 && @{$j->{outputs}} == 3 && $j->{outputs}[2]{total} == 125' <scores
    # a line of three ids is three rows of what one id gives
    diff <(echo 0,1,4 | zt-run -m learned.json | tr , '\n') <(printf '%s\n' 0 1 4 | zt-run -m learned.json | tr , '\n')
    run --separate-stderr zt-train -m token.json -i <(head -4 next.csv | cut -d, -f1-5) --loss cross_entropy -o out.json
    [ "$status" -eq 65 ] && one_message zt-train
}

@test "gumbel's noise is drawn anew in each step, and the same again from the seed" {
    printf '{"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"Softmax","softmax_type":"Gumbel","gumbel_noise":true,"input_height":3}]}' >soft.json
    printf '%s\n' 1,2,3 1,2,3 1,2,3 >x.csv
    zt-run -m soft.json -i x.csv >once
    [ "$(sort -u once | wc -l)" -eq 3 ]
    zt-run -m soft.json -i x.csv | cmp - once
    zt-run -m soft.json -i x.csv --chunk 1 >steps
    [ "$(sort -u steps | wc -l)" -eq 3 ] && [ "$(head -1 steps)" = "$(head -1 once)" ]
    # the counter of a file is that of the first step
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 'out x = x' >x.zt
    printf '%s\n' 'zt program 1' 'in i: i64[n]' 'counter = reshape i shape=[]' 'out counter = counter' >c.zt
    zt-run -m x.zt -i x.csv -o x.npy
    echo 1 | zt-run -m c.zt -o counter.npy
    zt-convert x.npy counter.npy in.npz
    zt-run -m soft.json -i in.npz -o y.npz
    zt-run -m x.zt -i <(zt-convert --rename y=x y.npz - --to npz) -o second.csv
    ! cmp -s second.csv once
    # behind a layer that learns nothing at a rate of 0: the loss is another in each epoch, of one batch
    printf '{"depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[{"type":"Dense","input_height":3,"output_height":3},{"type":"Softmax","l":1,"softmax_type":"Gumbel","gumbel_noise":true,"input_height":3}]}' >net.json
    printf '%s\n' 1,2,3,0 3,1,2,1 >d.csv
    losses() { perl -MJSON::PP -ne 'print decode_json($_)->{loss}, "\n"' "$@"; }
    zt-train -q -m net.json -i d.csv --loss cross_entropy --lr 0 --epochs 4 --checkpoint a.ck -o a.json | losses >whole
    [ "$(sort -u whole | wc -l)" -eq 4 ]
    zt-train -q -m net.json -i d.csv --loss cross_entropy --lr 0 --epochs 2 --checkpoint b.ck -o b.json | losses >begun
    zt-train -q -m net.json -i d.csv --loss cross_entropy --lr 0 --epochs 4 --checkpoint b.ck --resume -f -o b.json | losses >>begun
    cmp whole begun
    zt-train --eval -m a.json -i d.csv --batch 1 >scores
    zt-train --eval -m a.json -i d.csv --batch 1 | cmp - scores
}

@test "golden loom eval_network: predictions, buckets, score" {
    [ -d "$golden/loom/eval_network" ] || skip "no golden loom here"
    for case in "$golden"/loom/eval_network/*.json; do
        perl -MJSON::PP -e '
            my $d = decode_json(do {local (@ARGV, $/) = shift; <>});
            open F, ">", "net.json"; print F encode_json($d->{network});
            open F, ">", "rows.csv"; my $i = 0;
            print F join(",", @$_, $d->{expected}[$i++]), "\n" for @{$d->{inputs}}' "$case"
        zt-train --eval -m net.json -i rows.csv --format json >got
        perl -MJSON::PP -e '
            my ($d, $g) = map {local (@ARGV, $/) = $_; decode_json(scalar <>)} @ARGV;
            for my $k (qw(accuracy score avg_deviation)) {
                abs($d->{$k} - $g->{$k}) <= 1e-5 * (1 + abs $d->{$k}) or die "$k: $g->{$k}, $d->{$k}";
            }
            for my $i (0 .. $#{$d->{results}}) {
                my ($a, $b) = ($d->{results}[$i], $g->{results}[$i]);
                abs($a->{actual} - $b->{actual}) <= 1e-5 && $a->{bucket} eq $b->{bucket} or die "row $i";
            }' "$case" got
    done
}

@test "the example of the digits: two epochs, from CSV and from npy" {
    [ -f "$golden/data/digits/digits_train.csv" ] || skip "no digits here"
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "with a sanitizer this takes minutes"
    cp -r "$repo/examples/digits" .
    mkdir data
    cp "$golden"/data/digits/digits_train_[xy].npy data
    for held in x y; do cp "data/digits_train_$held.npy" "data/digits_test_$held.npy"; done
    csv=$(make -s -C digits ZT="$(realpath "$bin")" DATA="$golden/data/digits" HELD="$PWD/data" EPOCHS=2 accuracy | tail -1)
    make -s -C digits clean
    npy=$(make -s -C digits ZT="$(realpath "$bin")" DATA="$PWD/data" HELD="$PWD/data" EPOCHS=2 accuracy | tail -1)
    [ "$csv" = "$npy" ]
    awk -v a="$csv" 'BEGIN {exit !(a > .8 && a <= 1)}'
    grep -q '<svg' digits/loss.svg
}

@test "layers learn in their own dtype, and what is written has the loss that was reached" {
    samples 200 8 >t.csv
    samples 50 8 >v.csv
    for dtype in float32 bfloat16 int8 int4 fp4 ternary binary uint8; do
        zt-train -q --new sequential --set dModel=8 --set inputSize=8 --set numClasses=3 --set layersPerCell=2 \
            --set dtype=$dtype -i t.csv --valid v.csv --loss cross_entropy --optim adam --lr .02 --epochs 15 -f -o net.json >history
        perl -MJSON::PP -ne 'push @l, decode_json($_)->{loss}; END {exit !($l[-1] < .8 * $l[0])}' history
        # from there, with no step taken, the loss of the same samples is that of the last epoch's end
        zt-train -q -m net.json -i v.csv --loss cross_entropy --lr 0 --epochs 1 --batch 50 --no-shuffle -f -o again.json >one
        perl -MJSON::PP -e '
            my @l = map { decode_json($_) } do { local @ARGV = @ARGV; <> };
            my ($was, $is) = ($l[14]{valid_loss}, $l[15]{loss});
            exit !(abs($was - $is) < 1e-5 * $was)' history one
        cmp net.json again.json
        # and codes made of the masters compute the same
        cut -d, -f1-8 v.csv >x.csv
        zt-quant -q --type $dtype -f net.json codes.json
        zt-run -m net.json -i x.csv -f -o want.csv
        zt-run -m codes.json -i x.csv | cmp - want.csv
    done
}

@test "links in a circle are refused, in one line" {
    cat >circle.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[
{"l":0,"type":"Parallel","parallel_branches":[{"type":"Dense","is_remote_link":true,"target_l":1}]},
{"l":1,"type":"Sequential","sequential_layers":[{"type":"Dense","is_remote_link":true,"target_l":0},{"type":"Softmax"}]}]}
END
    samples 9 4 >t.csv
    for what in '-i t.csv -o o.json' '--eval -i t.csv'; do
        run -65 --separate-stderr zt-train -m circle.json $what
        one_message zt-train
        [[ $stderr == "zt-train: circle.json: layers."*"the link forms a cycle"* ]]
    done
    [ ! -e o.json ]
}
