#!/usr/bin/env bats
# mpirun zt-dna evolve: the population of one process, measured by ranks.

load ../common/helper
load ../common/ranks

setup_file() { need_mpi; }

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    cat >net.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":3,"layers":[
{"l":0,"type":"Dense","activation":"Tanh","input_height":3,"output_height":3},
{"l":1,"type":"Dense","activation":"Tanh","input_height":3,"output_height":3},
{"l":2,"type":"Dense","activation":"Tanh","input_height":3,"output_height":1}]}
END
    # shellcheck disable=SC2016
    size='echo $OMPI_COMM_WORLD_RANK >>who; n=0; while read -r l; do n=$((n + ${#l} % 97)); done <{}; [ $((n % 7)) -gt 0 ] || exit 3; echo $n'
    how=(evolve -q --population 12 --kind-rate 0.5 --seed 3)
}

@test "the same champion and lines for any number of ranks and commands; rank 0 measures nothing" {
    zt-dna "${how[@]}" --generations 4 --fitness "$size" net.json -o alone >alone.ndjson
    grep -q '"reason":"exit status 3"' alone.ndjson
    for ranks in 1 2 3 4; do
        rm -f who
        on_ranks $ranks zt-dna "${how[@]}" --generations 4 --fitness "$size" -j $((ranks % 2 + 1)) net.json -o on.$ranks >on.ndjson
        cmp alone.ndjson on.ndjson
        cmp alone/champion.json on.$ranks/champion.json
        [ "$(sort -u who | paste -sd ' ')" = "$([ $ranks -eq 1 ] && echo 0 || seq -s ' ' 1 $((ranks - 1)))" ]
    done
}

@test "a rank that is killed ends the run with one line; resumed on another number of ranks, the champion is the same" {
    cat >rank.sh <<'END'
if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then { until [ -s run/generations.ndjson ]; do sleep .05; done; kill -KILL $$; } & fi
exec zt-dna "$@"
END
    run --separate-stderr on_ranks 3 bash rank.sh "${how[@]}" --generations 10000 --fitness "sleep .01; $size" net.json -o run
    [ "$status" -eq 137 ]
    [[ $stderr == *'a rank died'* ]]
    [ -s run/generations.ndjson ]
    generations=$(($(wc -l <run/generations.ndjson) + 2))
    on_ranks 2 zt-dna evolve -q --resume --generations $generations -o run >/dev/null
    zt-dna "${how[@]}" --generations $generations --fitness "$size" net.json -o alone >/dev/null
    cmp alone/generations.ndjson run/generations.ndjson
    cmp alone/champion.json run/champion.json
}

@test "what does not run on several ranks is refused by name, once" {
    refused() { # WORDS OPTION...
        run -64 --separate-stderr on_ranks 2 zt-dna "${@:2}"
        one_message zt-dna
        [[ $stderr == *"$1"* ]]
    }
    refused 'evolve without --fitness does not run on several ranks' "${how[@]}" net.json -o run
    refused 'compare does not run on several ranks' compare net.json net.json
    refused 'the command has no {}' "${how[@]}" --fitness 'echo 1' net.json -o run
}
