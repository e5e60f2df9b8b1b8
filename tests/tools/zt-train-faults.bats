#!/usr/bin/env bats
# zt-train while memory or disk is short: each of its modes, with one allocation refused, and with files that cannot grow.

load ../common/helper
load ../common/faults

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    awk 'BEGIN {srand(5); for (i = 0; i < 24; i++) {a = rand(); b = rand(); print a "," b "," rand() "," (a > b)}}' >data.csv
    cut -d, -f1-3 data.csv >points.csv
    printf 'The text of a small house, and the words in the house.\n%.0s' {1..20} >text.txt
    zt-train -q --new sequential --set dModel=3 --set numClasses=2 -i data.csv --loss cross_entropy --epochs 1 -o net.json >/dev/null
    zt-train -q --new sequential --set dModel=3 --set numClasses=2 -i data.csv --loss cross_entropy --epochs 1 --seed 1 -o other.json >/dev/null
    zt-train -q --text text.txt --size 60K --vocab 290 -c 16 --batch 8 --epochs 0 -o tiny.gguf >/dev/null
    export from=$BATS_FILE_TMPDIR
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    cp "$from"/*.* .
    make_refusing
}

# Times differ.
differs() { diff -r <(sed 's/"seconds":[0-9.e-]*//' "want/$1") <(sed 's/"seconds":[0-9.e-]*//' "$1") >/dev/null; }

fit="-q -t 1 --new sequential --set dModel=3 --set numClasses=2 -i data.csv --loss cross_entropy --epochs 2"

@test "memory: training by every method" {
    # the network stays where only the chart or the events of a finished training fail; it is then whole
    while_failed() { [ ! -e new.json ] || cmp -s new.json want/new.json; }
    may_stay='new\.json' refusals=8 refuse_allocations <<END
zt-train $fit --optim adam -o new.json --plot new.svg --valid data.csv
zt-train $fit --accumulate 2 --observe new.ndjson -o new.json
END
    while_failed() { :; }
    refusals=8 refuse_allocations <<END
zt-train $fit --method target-prop-chain -o new.json
zt-train $fit --method target-prop -o new.json
zt-train $fit --method systolic -o new.json
zt-train $fit --method systolic-target-prop -o new.json
zt-train $fit --no-shuffle --track 5 --tasks 12 -o new.json
zt-train ${fit/--epochs 2/} --lr-find 10 --plot new.svg
END
}

@test "memory: evaluation, comparison, clusters" {
    refuse_allocations <<'END'
zt-train -q -t 1 --eval -m net.json -m other.json -i data.csv
zt-train -q -t 1 --eval -m net.json -m other.json -i data.csv --ensemble pairs
zt-train -q -t 1 --eval -m net.json -m other.json -i data.csv --ensemble votes
zt-train -q -t 1 --eval -m net.json -m other.json -i data.csv --ensemble majority
zt-train cluster -q -t 1 -i points.csv --clusters 2 --plot new.svg
zt-train cluster -q -t 1 -i points.csv --linkage ward --threshold 1 --show steps --plot new.svg
zt-train cluster -q -t 1 -m net.json -i points.csv --clusters 2
END
    refusals=6 refuse_allocations <<'END'
zt-train compare -q -t 1 -m net.json -i data.csv --loss cross_entropy --epochs 1 --seeds 2 --plot new.svg
END
}

@test "memory: language models and adapters" {
    refusals=6 refuse_allocations <<'END'
zt-train -q -t 1 --text text.txt --size 60K --vocab 290 -c 16 --batch 8 --epochs 1 -o new.gguf
zt-train -q -t 1 --text text.txt -m tiny.gguf -c 16 --batch 8 --epochs 1 --lora 2,4 -o new.gguf
zt-train -q -t 1 --text text.txt -m tiny.gguf -c 16 --batch 8 --epochs 1 --lora 2,4 -o new/
END
}

# A checkpoint and a page that were complete stay.
@test "memory: checkpoints and pages stay whole" {
    while_failed() {
        [ ! -e ck ] || zt-train $fit --checkpoint ck --resume -o - >/dev/null 2>&1 || return 1
        [ ! -e page/run.js ] || { grep -q '^const run = {' page/run.js && [ "$(tail -c 3 page/run.js)" = '};' ]; } || return 1
        [ ! -e new.json ] || cmp -s new.json want/new.json || return 1
        rm -rf ck ck.before page
    }
    may_stay='ck|ck.before|page|new\.json' refusals=8 refuse_allocations <<END
zt-train $fit --checkpoint ck --checkpoint-every 1 -o new.json
zt-train $fit --report page -o new.json
END
}

@test "memory: a server that is not there" {
    run --separate-stderr zt-train $fit --observe http://127.0.0.1:9/ -o probe.json
    [ "$status" != 69 ] || skip "zt was built without libcurl, or the library is not there"
    rm -f probe.json
    refusals=4 ZT_LONG='' refuse_allocations <<END
zt-train $fit --observe http://127.0.0.1:9/ -o new.json
END
}

# Each line "OUTPUT|arguments": no file can grow.
@test "a full disk: one line, 74, and no part of a file" {
    while IFS='|' read -r output arguments; do
        before=$(ls -A)
        code=0 shown=/dev/null
        [ "$output" != stdout ] || shown=out
        bash -c "ulimit -f 0; trap '' XFSZ; exec zt-train $arguments" 2>&1 >$shown </dev/null | cat >err || code=$?
        rm -f out
        fails_with 74 zt-train "$output" || { echo "$code $(cat err): $arguments"; false; }
        rm -f err
        [ "$before" = "$(ls -A)" ] || { echo "left by $arguments: $(ls -A)"; false; }
    done <<END
new.json|$fit -o new.json
new.svg|${fit/--epochs 2/} --lr-find 200 --plot new.svg
ck|$fit --checkpoint ck -o new.json
new.ndjson|-q -t 1 --eval -m net.json -i data.csv --observe new.ndjson
stdout|$fit -o new.json
stdout|-q -t 1 --eval -m net.json -i data.csv --format json
new.gguf|-q -t 1 --text text.txt --size 60K --vocab 290 -c 16 --batch 8 --epochs 0 -o new.gguf
new.gguf|-q -t 1 --text text.txt -m tiny.gguf -c 16 --batch 8 --epochs 0 --lora 4,4 -o new.gguf
new.svg|cluster -q -t 1 -i points.csv --clusters 2 --plot new.svg
new.svg|compare -q -t 1 -m net.json -i data.csv --loss cross_entropy --epochs 1 --methods backprop --seeds 1 --plot new.svg
END
    [ -w /dev/full ] || return 0
    for arguments in "$fit -o /dev/full -f" "$fit -o new.json --plot /dev/full -f" "$fit --observe /dev/full -o new.json -f"; do
        run --separate-stderr zt-train $arguments
        [ "$status" -eq 74 ] && one_message zt-train && [[ $stderr == *"No space left"* ]] || { echo "$arguments: $status $stderr"; false; }
    done
    run --separate-stderr bash -c "zt-train compare -q -t 1 -m net.json -i data.csv --loss cross_entropy --epochs 1 --methods backprop >/dev/full"
    [ "$status" -eq 74 ] && one_message zt-train
}

# Samples that stop in the middle of a line: 65 and the line, whatever is cut.
@test "streams that are cut" {
    awk -F, '{print "{\"input\":[" $1 "," $2 "," $3 "],\"label\":" $4 "}"}' data.csv >whole.ndjson
    zt-train $fit -o whole.json >/dev/null
    for form in ndjson csv; do
        [ $form = ndjson ] && cp whole.ndjson samples || cp data.csv samples
        size=$(stat -c %s samples)
        for cut in 1 7 20 $((size / 2)) $((size - 3)); do
            head -c "$cut" samples >cut
            code=0
            zt-train ${fit/data.csv/-} -o new.json <cut >out 2>err || code=$?
            if [ $code -eq 0 ]; then # the cut has left whole numbers
                [ $form = csv ] && [ "$(tail -1 cut | tr -cd , | wc -c)" -eq 3 ] || { echo "$form, $cut: accepted"; false; }
                rm new.json
            else
                fails_with 65 zt-train stdin || { echo "$form, $cut: $code $(cat err)"; false; }
                [ ! -e new.json ]
            fi
        done
    done
}
