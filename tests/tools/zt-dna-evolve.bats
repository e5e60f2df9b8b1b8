#!/usr/bin/env bats
# zt-dna evolve: populations that commands measure, killed and resumed. Fitness here is cheap: the lengths of a file's lines.

load ../common/helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    cat >net.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":3,"layers":[
{"l":0,"type":"Dense","activation":"Tanh","input_height":3,"output_height":3},
{"l":1,"type":"Dense","activation":"Tanh","input_height":3,"output_height":3},
{"l":2,"type":"Dense","activation":"Tanh","input_height":3,"output_height":1}]}
END
    # shellcheck disable=SC2016
    size='n=0; while read -r l; do n=$((n + ${#l} % 97)); done <{}; echo $n'
}

# The usual options, but those that are given.
evolve() { # OPTION... OPERAND...
    local usual=(--population 12 --generations 5 --kind-rate 0.5 --seed 3 --fitness "$size") some=()
    for ((i = 0; i < ${#usual[@]}; i += 2)); do
        [[ " $* " == *" ${usual[i]} "* ]] || some+=("${usual[@]:i:2}")
    done
    ${as-} zt-dna evolve -q "${some[@]}" "$@" # as=exec: in the background, so that $! is its process
}

@test "the same champion for any number of workers; a line for each generation" {
    evolve net.json -o one >one.ndjson
    evolve net.json -o four -j 4 >four.ndjson
    cmp one.ndjson four.ndjson
    cmp one/champion.json four/champion.json
    cmp one.ndjson one/generations.ndjson
    [ "$(wc -l <one.ndjson)" -eq 5 ]
    json '$j->{schema} eq "zt.dna.evolve/1" && $j->{generation} == 4 && $j->{evaluations} == 12 + 4 * 9 && $j->{failed} == 0 &&
          $j->{best} == $j->{champion}{fitness} && $j->{mean} <= $j->{best} && $j->{worst} <= $j->{mean} && $j->{species} >= 1' < <(tail -1 one.ndjson)
    # elites keep the best: it never falls; the champion is the file of its generation
    perl -MJSON::PP -ne '$b = decode_json($_)->{best}; die if defined $last && $b < $last; $last = $b' one.ndjson
    printf '1,2,3\n' | zt-run -m one/champion.json -i - >/dev/null
    ! cmp -s one/champion.json net.json
    evolve net.json -o other --seed 4 >/dev/null
    ! cmp -s one/champion.json other/champion.json
    [ ! -e one/gen/0002 ] && [ -e one/gen/0003/011.json ] && [ -e one/gen/0004/000.json ]
    evolve --generations 3 --keep net.json -o kept >/dev/null
    [ "$(ls kept/gen | wc -l)" -eq 3 ]
}

@test "killed at random moments and resumed: the same champion, byte for byte" {
    evolve net.json -o whole >whole.ndjson
    for i in $(seq "${ZT_EVOLVE_KILLS:-4}"); do
        rm -rf run
        for part in 1 2; do
            as=exec evolve --resume net.json -o run -j 2 >>parts.ndjson &
            pid=$!
            perl -e 'select undef, undef, undef, rand 0.7'
            kill -9 $pid 2>/dev/null || true
            wait $pid 2>/dev/null || true
        done
        if [ -e run/state.json ]; then zt-dna evolve -q --resume --generations 5 -o run >/dev/null; else evolve --resume net.json -o run >/dev/null; fi
        if [ "$(tail -1 run/generations.ndjson | grep -c '"generation":4')" -eq 0 ]; then zt-dna evolve -q --resume --generations 5 -o run >/dev/null; fi
        cmp whole/champion.json run/champion.json
        cmp whole.ndjson run/generations.ndjson
    done
}

@test "an interrupt ends the commands, with 130, and the run can be resumed" {
    evolve net.json -o whole >/dev/null
    # shellcheck disable=SC2016
    slow='sh -c "echo $$ >>pids; sleep 20" & wait; '"$size"
    code=0
    interrupt_when '[ "$(cat pids 2>/dev/null | wc -l)" -eq 2 ]' zt-dna evolve -q --population 12 --generations 5 --kind-rate 0.5 --seed 3 \
        --fitness "[ -e go ] || { $slow; }; $size" net.json -o run -j 2 >/dev/null 2>err || code=$?
    [ $code -eq 130 ]
    grep -q interrupted err
    for p in $(cat pids); do ! kill -0 "$p" 2>/dev/null; done
    touch go
    zt-dna evolve -q --resume --generations 5 -o run >/dev/null
    cmp whole/champion.json run/champion.json
}

@test "commands that fail, hang or lie are counted and named, and do not stop it" {
    cat >score.sh <<'END'
case $1 in
*000.json) exit 3 ;;
*001.json) echo nan ;;
*002.json) echo 5 apples ;;
*003.json) kill -SEGV $$ ;;
*004.json) sleep 60 ;;
*005.json) ;;
*006.json) yes | head -c 100000 ;;
*007.json) (trap '' TERM; sleep 60) & wait ;;
*008.json) sleep 60 >&- & echo 2 ;;
*009.json) printf ' \n 1e3\t\n' ;;
*) echo 1 ;;
esac
END
    zt-dna evolve --fitness 'sh score.sh {}' --population 12 --generations 1 --timeout 8 -j 12 net.json -o run 2>said >line
    cat said
    json '$j->{failed} == 2 && $j->{timeout} == 2 && $j->{invalid} == 4 && $j->{best} == 1000 && $j->{champion}{member} == 9 && $j->{evaluations} == 12' <line
    json 'my %r = map {$_->{member} => $_->{reason}} @{$j->{failures}}; $r{0} eq "exit status 3" && $r{1} =~ /^nan: must be a finite/ &&
          $r{2} =~ /^.5 apples.: must be one number/ && $r{3} =~ /signal 11 \(SIGSEGV\)|exit status 139/ && $r{4} eq "no result after 8 s" &&
          $r{5} =~ /no output/ && $r{6} =~ /4096 bytes or more/ && $r{7} eq "no result after 8 s"' <line
    grep -q 'generation 0, member [0-9]*: ' said
    # none has a fitness
    run -65 zt-dna evolve -q --population 3 --generations 2 --fitness 'false {}' net.json -o none
    [[ $output == *"no member of generation 0 has a fitness"* ]]
}

@test "names are quoted for the shell" {
    evolve net.json -o "a b'c\$(touch pwned);d" >one
    evolve net.json -o -dash --fitness "${size/<\{\}/<\"{\}\"}" >/dev/null
    [ ! -e pwned ] && [ -e "a b'c\$(touch pwned);d/champion.json" ] && [ -e ./-dash/champion.json ]
    evolve net.json -o plain >two
    cmp one two
}

@test "scores from outside: pending members, --resume, the same champion" {
    evolve net.json -o inside >/dev/null
    zt-dna evolve -q --population 12 --generations 5 --kind-rate 0.5 --seed 3 net.json -o run >out
    [ ! -s out ] && [ "$(wc -l <run/pending)" -eq 12 ]
    run -1 zt-dna evolve -q --resume -o run
    while [ -s run/pending ]; do
        while read -r f; do sh -c "${size/\{\}/\$1}" sh "$f" >"${f%.json}.score"; done <run/pending
        zt-dna evolve -q --resume --generations 5 -o run >>out
    done
    cmp inside/champion.json run/champion.json
    cmp inside/generations.ndjson out
    # a text that is no number is a member without fitness
    zt-dna evolve -q --population 3 --generations 1 net.json -o texts
    echo broken >texts/gen/0000/000.score; echo 1 >texts/gen/0000/001.score; echo 'failed: node died' >texts/gen/0000/002.score
    zt-dna evolve -q --resume -o texts >line
    json '$j->{invalid} == 1 && $j->{failed} == 1 && $j->{failures}[1]{reason} eq "node died" && $j->{best} == 1' <line
}

# The champion and the lines of a run in `run` are those of one that was scored inside.
same_as_inside() {
    evolve net.json -o inside >/dev/null
    cmp inside/champion.json run/champion.json
    cmp inside/generations.ndjson run/generations.ndjson
}

@test "examples/evolve: GNU parallel scores the members" {
    parallel --version 2>/dev/null | grep -q 'GNU parallel' || skip "no GNU parallel"
    zt-dna evolve -q --population 12 --generations 5 --kind-rate 0.5 --seed 3 net.json -o run
    "$repo/examples/evolve/evolve-parallel" run "$size" 2 -j 2 >lines
    "$repo/examples/evolve/evolve-parallel" run "$size" 5 -j 2 --retries 2 >>lines
    cmp lines run/generations.ndjson
    same_as_inside
    # a command that fails is a member without fitness; an apostrophe, and both ways to write the file
    zt-dna evolve -q --population 3 --generations 1 net.json -o failing
    "$repo/examples/evolve/evolve-parallel" failing "case '{}' in *1.json) exit 4 ;; esac; [ -e {} ] && echo \"it's\" | wc -c" 1 >line
    json '$j->{failed} == 1 && $j->{failures}[0]{reason} eq "exit status 4" && $j->{best} == 5' <line
}

@test "examples/evolve: a Slurm array scores the members" {
    timeout 10 sinfo -h 2>/dev/null | grep -q . || skip "no Slurm cluster"
    zt-dna evolve -q --population 12 --generations 5 --kind-rate 0.5 --seed 3 net.json -o run
    "$repo/examples/evolve/evolve-slurm" run "$size" 5
    for _ in {1..300}; do [ -s run/pending ] || break; sleep 1; done
    [ ! -s run/pending ]
    same_as_inside
}

@test "without mutations a child of two is their splice, also of layers inside others" {
    cat >nested.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[
{"l":0,"type":"Parallel","combine_mode":"add","parallel_branches":[{"type":"Dense","input_height":3,"output_height":3},
  {"type":"Sequential","sequential_layers":[{"type":"Dense","input_height":3,"output_height":5},{"type":"Dense","input_height":5,"output_height":3}]}]},
{"l":1,"type":"Dense","input_height":3,"output_height":2}]}
END
    none="--activation-rate 0 --kind-rate 0 --toggle-rate 0 --link-add-rate 0 --link-drop-rate 0"
    for seed in 1 2; do zt-dna mutate $none --seed $seed nested.json -o $seed.json; done
    zt-dna evolve -q --population 4 --generations 2 --species -1 --crossover 1 $none --perturb-rate 0 --elites 1 --survivors 1 --mode point \
        --ratio 0.3 --fitness 'wc -c <{}' 1.json 2.json -o run >/dev/null
    zt-dna splice --mode point --ratio 0.3 1.json 2.json -o 12.json
    zt-dna splice --mode point --ratio 0.3 2.json 1.json -o 21.json
    for i in 1 2 3; do zt-dna compare -q --threshold 1 12.json run/gen/0001/00$i.json || zt-dna compare -q --threshold 1 21.json run/gen/0001/00$i.json; done
}

@test "at most so many species" {
    evolve --species 0.99 --population 40 --generations 3 net.json -o run >lines
    json '$j->{species} == 2' < <(tail -1 lines)
    evolve --species 0.99 --species-limit 7 --population 40 --generations 3 net.json -o seven >lines
    json '$j->{species} == 7' < <(head -1 lines)
}

@test "merge recipes: their numbers change, within their ranges; groups of layers" {
    cat >recipe.yaml <<'END'
merge_method: ties
base_model: base.gguf
models:
  - model: a.gguf
    parameters: {weight: 0.5, density: [1, 0.5]}
  - model: b.gguf
    parameters: {weight: [{filter: mlp, value: 0.3}, {value: 0.7}], density: 0.5}
parameters: {normalize: true, lambda: 1}
dtype: float16
END
    evolve --population 6 --groups 3 --perturb-scale 0.4 recipe.yaml -o run >/dev/null
    for f in run/gen/*/*.json; do
        json 'my @w = (@{$j->{models}[0]{parameters}{weight}}, @{$j->{models}[0]{parameters}{density}}, @{$j->{models}[1]{parameters}{density}},
                  map {@{$_->{value}}} @{$j->{models}[1]{parameters}{weight}});
              @w == 15 && !(grep {$_ < 0 || $_ > 1} @w) && $j->{parameters}{lambda} == 1 && $j->{parameters}{normalize} && $j->{dtype} eq "float16"' <"$f"
    done
    zt-dna evolve -q --population 2 --generations 1 --genes lambda=0..2 --fitness 'echo 1; : {}' recipe.yaml -o first --keep >/dev/null
    json '$j->{models}[0]{parameters}{weight} == 0.5 && $j->{parameters}{lambda} == 1' <first/gen/0000/000.json
    json '$j->{parameters}{lambda} != 1' <first/gen/0000/001.json
    run -65 zt-dna evolve -q --genes epsilon=0..1 --fitness 'echo 1; : {}' recipe.yaml -o none
    [[ $output == *"no numbers that evolve"* ]] && [ ! -e none ]
}

@test "a run that is there is kept, resumed with its options, or replaced" {
    evolve net.json -o run >/dev/null
    cp run/champion.json before.json
    run -73 zt-dna evolve --fitness 'echo 1; : {}' net.json -o run
    [[ $output == *"--resume"* ]]
    run -64 zt-dna evolve --resume --population 13 -o run
    [[ $output == *"'--population'"*"'12'"* ]]
    run -64 zt-dna evolve --resume --fitness 'echo 1; : {}' -o run
    run -64 zt-dna evolve --resume other.json -o run
    cmp before.json run/champion.json
    evolve --generations 7 --resume -o run >more
    [ "$(wc -l <more)" -eq 2 ] && [ "$(wc -l <run/generations.ndjson)" -eq 7 ]
    run -0 zt-dna evolve --resume --generations 7 -o run
    [ -z "$output" ]
    evolve --force --seed 9 --generations 2 net.json -o run >/dev/null
    [ "$(wc -l <run/generations.ndjson)" -eq 2 ]
    # one process at a time
    exec 9>>run/lock
    flock -n 9
    run -73 zt-dna evolve --resume --generations 9 -o run
    [[ $output == *"another zt-dna evolve"* ]]
}

@test "a target: status 1 where it is not reached" {
    evolve --target 1 net.json -o run >out
    [ "$(wc -l <out)" -eq 1 ]
    run -1 zt-dna evolve -q --population 4 --generations 2 --target 1e9 --fitness 'echo 1; : {}' net.json -o not
    evolve --minimize --target 1e9 net.json -o low >/dev/null
}

@test "misuse, bad operands, damaged states, full disks: one line, nothing left" {
    fails() { run -"$1" zt-dna evolve "${@:3}"; [[ $output == *"$2"* ]] && [ "${#lines[@]}" -eq 1 ] || { echo "$output"; false; }; }
    fails 64 "no directory" net.json
    fails 64 "no network or recipe" -o run
    fails 64 "has no {}" --fitness 'echo 1' net.json -o run
    fails 64 "must be fewer" --population 4 --elites 4 net.json -o run
    fails 64 "not NAME=LOW..HIGH" --genes weight --population 2 recipe.yaml -o run || fails 66 recipe --genes weight recipe.yaml -o run
    fails 64 "from 2 to" --population 1 net.json -o run
    fails 66 "none.json" none.json -o run
    printf '{"layers":[]}' >bad.json
    fails 65 "bad.json" bad.json -o run
    [ ! -e run ]
    evolve --generations 2 net.json -o run >/dev/null
    for state in '' '{}' '[' '{"options":{},"operands":["net.json"],"evolution":{}}' "$(sed 's/"generation":2/"generation":-2/' run/state.json)" \
        "$(sed 's/"population":12/"population":12000000/' run/state.json)" "$(sed 's/^\[[0-9]*,/[99,/' run/state.json)" "$(head -c 900 run/state.json)"; do
        printf '%s' "$state" >run/state.json.new
        cp run/state.json good; mv run/state.json.new run/state.json
        fails 65 "not a state of zt-dna evolve" --resume --generations 4 -o run
        cp good run/state.json
    done
    evolve --resume --generations 3 -o run >/dev/null
    if unshare -rm true 2>/dev/null; then
        mkdir small
        unshare -rm sh -c 'mount -t tmpfs -o size=64k none small && zt-dna evolve -q --population 200 --generations 2 --fitness "echo 1; : {}" net.json -o small/run' >out 2>err && false
        grep -q 'No space left on device' err && [ "$(wc -l <err)" -eq 1 ]
    fi
}
