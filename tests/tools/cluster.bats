#!/usr/bin/env bats
# examples/cluster: requests of --jsonl in parts, by GNU parallel and by a Slurm array (of a made sbatch): the answers of one
# machine, in order, whatever fails on the way.

load ../common/helper

setup_file() {
    make_models
    cd "$BATS_FILE_TMPDIR" || exit
    for i in {1..23}; do echo "{\"id\":$i,\"prompt\":\"the house $i\",\"n\":9,\"temp\":0.9,\"seed\":$i}"; done >requests
    sed -i '15s/.*/{bad/; 4s/$/\n/' requests
    printf '{"id":24,"prompt":"the last, without an end of line","n":3}' >>requests
    ln -s "$tiny" model.gguf
    zt-run -q -m model.gguf --jsonl -i requests 2>/dev/null | without_times >whole || [ $? -eq 65 ]
    [ "$(wc -l <whole)" -eq 24 ]
}

without_times() { sed -E 's/"[a-z_]+_s":[-0-9.e]+,?//g'; }

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    cp "$BATS_FILE_TMPDIR"/{requests,whole} .
    ln -s "$tiny" model.gguf
    cluster=$repo/examples/cluster
    export PAUSE=0
    # zt-run that fails as often as the file `failures` says, in the part with the id `bad`
    cat >flaky <<'END'
#!/bin/bash
input=$(cat; echo .)
if [[ $input == *"\"id\":$(cat bad),"* ]] && [ "$(wc -l <failed)" -lt "$(cat failures)" ]; then
    echo x >>failed
    echo '{"id":0}'
    exit 74
fi
printf %s "${input%.}" | zt-run "$@"
END
    chmod +x flaky
    : >failed
    export ZT=$PWD/flaky
}

need_parallel() { parallel --version 2>/dev/null | grep -q 'GNU parallel' || skip "no GNU parallel"; }

@test "GNU parallel: the answers of one machine, for any number of parts, one of which fails twice" {
    need_parallel
    echo 9 >bad
    echo 2 >failures
    for parts in 1 5 40; do
        : >failed
        run -65 "$cluster/jsonl-parallel" model.gguf requests answers.$parts "$parts" -j 2
        [ "$(wc -l <failed)" -eq 2 ]
        without_times <answers.$parts | cmp - whole
        [ ! -e answers.$parts.parts ]
    done
    grep -v '{bad' requests >good
    "$cluster/jsonl-parallel" model.gguf good answers 3
    [ "$(wc -l <answers)" -eq 23 ]
}

@test "GNU parallel: a part that fails always is named, nothing is merged, and the same command continues" {
    need_parallel
    echo 9 >bad
    echo 99 >failures
    run -75 "$cluster/jsonl-parallel" model.gguf requests answers 5 -j 2
    [[ $output == *'part 1: zt-run failed 3 times, at last with 74'* ]]
    [ ! -e answers ]
    [ "$(ls answers.parts)" = $'0\n2\n3\n4\nlog' ]
    stamps=$(stat -c '%n %Y %i' answers.parts/[0234])
    run -75 "$cluster/jsonl-parallel" model.gguf requests answers 5 -j 2
    [ "$stamps" = "$(stat -c '%n %Y %i' answers.parts/[0234])" ] # only what is missing is computed
    echo 8 >failures
    run -65 "$cluster/jsonl-parallel" model.gguf requests answers 5 -j 2
    without_times <answers | cmp - whole
}

# As sbatch: copies the script, prints a number; runs the tasks of an array in another order, and what depends on it after it.
make_sbatch() {
    mkdir -p bin spool
    cat >bin/sbatch <<'END'
#!/bin/bash
array= log=/dev/null
while [[ $1 == --* ]]; do
    case $1 in --array=*) array=${1#*=} ;; --output=*) log=${1#*=} ;; --dependency=afterany:7 | --parsable | --requeue | --job-name=*) ;;
    --mem=*) ;; *) echo "sbatch: $1?" >&2; exit 1 ;; esac
    shift
done
cp "$1" spool/slurm_script
shift
if [ -n "$array" ]; then
    for ((i = ${array#*-}; i >= ${array%-*}; i--)); do SLURM_ARRAY_TASK_ID=$i spool/slurm_script "$@" >"${log/\%a/$i}" 2>&1; done
    echo '7;cluster'
else
    spool/slurm_script "$@" >"$log" 2>&1
    echo 8
fi
END
    chmod +x bin/sbatch
    PATH=$PWD/bin:$PATH
}

@test "Slurm: tasks of an array, in any order, and a job that merges; what is missing is computed by the same command" {
    make_sbatch
    echo 9 >bad
    echo 99 >failures
    "$cluster/jsonl-slurm" model.gguf requests answers 5 --mem=4G
    [ ! -e answers ]
    grep -q 'part 1 of 5 is missing' answers.parts/log.merge
    grep -q 'part 1: zt-run failed 3 times' answers.parts/log.1
    [ "$(wc -l <failed)" -eq 3 ]
    echo 4 >failures
    "$cluster/jsonl-slurm" model.gguf requests answers 5 --mem=4G
    without_times <answers | cmp - whole
    [ ! -e answers.parts ]
    run -64 "$cluster/slurm-part" "$cluster" model.gguf requests d 5
}
