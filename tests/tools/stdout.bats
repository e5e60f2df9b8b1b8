#!/usr/bin/env bats
# stdout is data: with -o - the bytes of -o FILE and nothing else, in every tool and mode that writes one; what
# else there is to say goes to stderr. So it is with --plot - and the like, and no two outputs are stdout.

load ../common/helper

setup_file() {
    make_models
    cd "$BATS_FILE_TMPDIR" || exit
    "$tests/mkmodel" --arch llama --ctx 256 --seed 1 b.gguf
    printf 'hello on the she in there %d\n' 1 2 3 4 5 6 7 8 9 >text
    printf '1,2\n3,4\n' >in.csv
    printf '0.1,0.2,0\n0.3,0.1,1\n0.5,0.9,1\n0.2,0.2,1\n' >classes.csv
    printf '0.1,0.2,0,1\n0.3,0.1,1,0\n' >pairs.csv
    printf '%s\n' 'zt program 1' 'in x: f32[n,2]' 'y = silu x' 'out y = y' >one.zt
    printf '%s\n' 'zt program 1' 'in x: f32[n,2]' 'y = silu x' 'z = add y x' 'out y = y' 'out z = z' >two.zt
    printf '%s\n' 'zt program 1' 'in x: f32[n,2]' 'data w: f32[2,2] "w"' 'y = linear x w' 'out y = y' >learn.zt
    printf '%s' '{"id":"n","depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[' \
        '{"l":0,"type":"Dense","input_height":2,"output_height":1,"dtype":"float32","weights":"AACAPwAAAEA="},' \
        '{"l":1,"type":"Softmax"}]}' >net.json
    sed 's/AACAPwAAAEA=/AACAQAAAAEA=/' net.json >net2.json
    printf '%s' '{"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"Dense","input_height":2,"output_height":2}]}' >fresh.json
    zt-trace record -m "$tiny" -o m.zt
    zt-bench op 'silu f32[4]' -r 3 --no-roof --format json -q -o old.json --history h.sqlite
    zt-bench op 'silu f32[4]' -r 3 --no-roof --format json -q -o new.json --history h.sqlite
}

setup() {
    in_own_folder
    ln -s "$BATS_FILE_TMPDIR"/*.* "$BATS_FILE_TMPDIR/text" .
}

# Each line of stdin "SUFFIX|command": the command writes the same with -o FILE.SUFFIX and with -o -,
# however much it has to say. A command with OUT in it has its output there.
same_both_ways() {
    local suffix line file out code n=0
    while IFS='|' read -r suffix line; do
        n=$((n + 1))
        [[ $line == *OUT* ]] || line="$line -o OUT"
        file=${line//OUT/out$n.$suffix} out=${line//OUT/-}
        echo "$line"
        bash -c "$file" >/dev/null 2>words </dev/null || [ $? -eq 1 ] || { cat words; return 1; }
        code=0
        bash -c "$out -vv --progress always" >got 2>words </dev/null || code=$?
        if [ $code -eq 64 ]; then # a mode without a bar
            code=0
            bash -c "$out -vv" >got 2>words </dev/null || code=$?
        fi
        [ $code -le 1 ] || { cat words; return 1; }
        [ -s got ]
        cmp "out$n.$suffix" got
    done
    [ ! -e ./- ]
}

@test "zt-run" {
    same_both_ways <<'END'
txt|zt-run -m model.gguf -p hello -n 4 --raw
txt|zt-run -m model.gguf -p hello -n 4 --raw --stats --speculate
txt|zt-run -m model.gguf -p hello -n 4 --ids
txt|zt-run -m model.gguf -p hello -n 4 -f --logits l.npy --session s
txt|zt-run -m model.gguf -i text -n 2 --raw --chunk 2
txt|zt-run -m model.gguf -p hello --tokenize
txt|zt-run -m model.gguf -p '43 44' --detokenize
txt|zt-run -m model.gguf -p hello --count
npy|zt-run -m model.gguf -p hello --embed
json|zt-run -m model.gguf -p hello --embed --format json
json|zt-run -m model.gguf -i text --embed --format ndjson
tsv|zt-run -m model.gguf --perplexity text -c 20
json|zt-run -m model.gguf --perplexity text -c 20 --format json
npz|zt-run -m two.zt -i in.csv
csv|zt-run -m one.zt -i in.csv
csv|zt-run -m net.json -i in.csv
csv|zt-run -m net.json -i in.csv --chunk 1
END
    # those with times or free memory in them: an object, or a table, and nothing else
    zt-run -m model.gguf -p hello -n 2 --json -vv -o - 2>/dev/null | json '$j->{generated_tokens} == 2'
    echo '{"prompt": "hello", "n": 2}' | zt-run -m model.gguf --jsonl -vv -o - 2>/dev/null | json '$j->{generated_tokens} == 2'
    zt-run -m model.gguf --dry-run --format json -vv -o - 2>/dev/null | json '@{$j->{rows}} == 5'
    zt-run -m model.gguf -p hello -n 0 -f --logits l.npy
    zt-run -m model.gguf -p hello -n 0 -vv --stats --logits - 2>/dev/null | cmp - l.npy
    zt-run -m model.gguf -p hello -n 2 -vv --logits - -o text.out 2>/dev/null | cmp - l.npy
}

@test "zt-convert" {
    same_both_ways <<'END'
gguf|zt-convert --no-history --dtype f16 model.gguf OUT
gguf|zt-convert --no-history --set a=b --drop 'blk.1.*' model.gguf OUT
npz|zt-convert --no-history --to npz model.gguf OUT
safetensors|zt-convert --no-history --to safetensors model.gguf OUT
pt|zt-convert --no-history --to pt model.gguf OUT
json|zt-convert --no-history --to json net.json OUT
npy|zt-convert --cat output_norm.weight model.gguf
END
    all_refused zt-convert <<'END'
64|stdout|--to hf model.gguf -
64|stdout|--shard 100k model.gguf -
END
    [ ! -e ./- ]
}

@test "zt-quant" {
    same_both_ways <<'END'
gguf|zt-quant --no-history --type q4_k_m model.gguf OUT
gguf|zt-quant --no-history --type q4_0 --measure model.gguf OUT
gguf|zt-quant --no-history --type q4_0 --strict --measure --format json model.gguf
gguf|zt-quant --no-history --target-size 100k model.gguf OUT
npz|zt-quant --no-history --type q8_0 --to npz model.gguf OUT
json|zt-quant --no-history --type f16 --measure net.json OUT
dat|zt-quant --make-imatrix -m model.gguf -i text -c 20
END
    zt-quant --type q4_0 --measure --format json model.gguf - 2>words >/dev/null
    grep '"schema":"zt.quant-measure/1"' words
}

@test "zt-dna" {
    same_both_ways <<'END'
json|zt-dna extract net.json
npz|zt-dna extract --to npz net.json
gguf|zt-dna splice --no-history model.gguf b.gguf
json|zt-dna splice --no-history net.json net2.json --report report.json -f
json|zt-dna graft --no-history net.json net2.json
gguf|zt-dna merge --method linear model.gguf b.gguf
safetensors|zt-dna merge --method slerp --to safetensors --t 0.5 model.gguf b.gguf
gguf|zt-dna lora --rank 2 model.gguf b.gguf
END
    zt-dna splice --no-history model.gguf b.gguf -o child.gguf --report - -vv 2>/dev/null | json '$j->{mode} eq "blend"'
    all_refused zt-dna <<'END'
64|stdout|merge --method linear --to hf model.gguf b.gguf -o -
64|--output and --report name the same file, '-'|splice model.gguf b.gguf -o - --report -
END
    [ ! -e ./- ]
}

@test "zt-trace" {
    same_both_ways <<'END'
zt|zt-trace record -m model.gguf
zt|zt-trace record -m model.gguf -p hello --values v.npz --times t.json -f
txt|zt-trace show m.zt
zt|zt-trace show --plain m.zt
dot|zt-trace dot --bind n=1,m=1,ctx=64 m.zt
txt|zt-trace memory --bind n=1,m=1,ctx=64 m.zt
json|zt-trace memory --bind n=1,m=1,ctx=64 --format json m.zt
zt|zt-trace grad --wrt w learn.zt
zt|zt-trace compile --bind n=1,m=1,ctx=64 m.zt
END
    zt-trace compile --bind n=1,m=1,ctx=64 m.zt -o plan.zt
    zt-trace compile --bind n=1,m=1,ctx=64 --report m.zt 2>words | cmp - plan.zt
    grep -q '^pass ' words
    zt-trace stats --bind n=1,m=1,ctx=64 --format json m.zt -vv -o - 2>/dev/null | json '@{$j->{rows}} > 3'
    zt-trace chrome --bind n=1,m=1,ctx=64 m.zt -vv -o - 2>/dev/null | json '1'
    zt-trace record -m model.gguf -p hello -o r.zt --times - -vv 2>/dev/null | head -1 | json '$j->{step} == 0'
    all_refused zt-trace <<'END'
64|the same file|record -m model.gguf -p hello --values -
64|NAME.zt|diff one.zt --bind n=2 --engine ref,cpu --replay 3 -o -
END
}

@test "zt-train" {
    same_both_ways <<'END'
zt|zt-train -m learn.zt -i classes.csv --loss cross_entropy --epochs 2
json|zt-train -m fresh.json -i pairs.csv --epochs 2
json|zt-train -m fresh.json -i pairs.csv --epochs 2 --observe console
END
    # what goes to stdout elsewhere is on stderr then, and stays whole
    zt-train -m fresh.json -i pairs.csv --epochs 3 -o net.out.json >history
    zt-train -m fresh.json -i pairs.csv --epochs 3 -o - 2>words >/dev/null
    [ "$(grep -c '^{"epoch"' history)" -eq 3 ]
    [ "$(grep -c '^{"epoch"' words)" -eq 3 ]
    zt-train -m fresh.json -i pairs.csv --epochs 1 -o o.json --observe - 2>/dev/null >events
    run ! grep epoch events
    zt-train --eval -m o.json -i classes.csv -vv --format json 2>/dev/null | json '$j->{total} == 4'
    all_refused zt-train <<'END'
64|--output and --plot name the same file, '-'|-m fresh.json -i pairs.csv -o - --plot -
64|--plot and --observe name the same file, '-'|-m fresh.json -i pairs.csv -o n.json --plot - --observe fd:1
64|--output and --checkpoint name the same file, 'n.json'|-m fresh.json -i pairs.csv -o n.json --checkpoint n.json
64|--checkpoint|-m fresh.json -i pairs.csv -o n.json --checkpoint -
END
}

@test "zt-bench" {
    same_both_ways <<'END'
tsv|zt-bench compare old.json new.json
json|zt-bench compare old.json new.json --format json
tsv|zt-bench history h.sqlite
tsv|zt-bench kld model.gguf b.gguf -i text -c 20 -t 1
END
    for command in "model -m model.gguf -p 8 -n 2 -r 3 --no-roof" "op 'silu f32[4]' -r 3 --no-roof" "run -r 2 -- echo hi"; do
        [[ $command == run* ]] || command="$command -t 1"
        bash -c "zt-bench -o - -vv --format json --progress always $command" 2>/dev/null | json '@{$j->{results}} > 0'
    done
}

# Each line of stdin is a command that draws on stdout: the picture alone, and the table on stderr.
@test "a picture on stdout is alone there" {
    while read -r line; do
        echo "$line"
        bash -c "$line --plot -" >svg 2>words || [ $? -eq 1 ]
        [ "$(head -c 4 svg)" = '<svg' ]
        [ "$(tail -1 svg)" = '</svg>' ]
        [ "$(grep -c '</svg>' svg)" -eq 1 ]
        [ -s words ]
    done <<'END'
zt-dna compare model.gguf b.gguf
zt-dna compare --map model.gguf b.gguf
zt-dna lineage model.gguf b.gguf
zt-bench history h.sqlite
zt-train -q -m fresh.json -i pairs.csv --epochs 2 -o n.json
END
    run -64 --separate-stderr zt-bench history h.sqlite --plot - -o -
    one_message zt-bench
}

@test "every tool that takes -o is in these tests" {
    for tool in "$bin"/zt-*; do
        name=${tool##*/}
        "$tool" --help | grep -q -- --output || continue
        grep -q "^@test \"$name\"" "$BATS_TEST_FILENAME"
    done
}
