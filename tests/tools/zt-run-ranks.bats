#!/usr/bin/env bats
# mpirun zt-run: a model's layers divided among ranks give the logits and texts of one process, in a share of its memory.

load ../common/helper
load ../common/ranks

setup_file() {
    need_mpi
    tiny=$BATS_FILE_TMPDIR/tiny.gguf
    "$tests/mkmodel" --arch llama --layers 6 --ctx 256 "$tiny"
    export tiny
}

long=(--raw -p 'the house and the tree and the river' -n 12 --temp 0 -f)

@test "logits and text are those of one process, on 1 to 4 ranks" {
    zt-run -m model.gguf "${long[@]}" --logits alone.npy >alone
    for ranks in 1 2 3 4; do
        on_ranks $ranks zt-run -m model.gguf "${long[@]}" --logits on.npy >on
        cmp alone on
        cmp alone.npy on.npy
    done
}

@test "also of tied and gathered tables, experts, recurrent layers, latent attention and shared caches" {
    for arch in gemma3n gpt-oss qwen3next deepseek2; do
        "$tests/mkmodel" --arch "$arch" --ctx 256 "$arch.gguf"
        zt-run -m "$arch.gguf" "${long[@]}" --logits alone.npy >alone
        on_ranks 2 zt-run -m "$arch.gguf" "${long[@]}" --logits on.npy >on
        cmp alone on
        cmp alone.npy on.npy
    done
}

without_times() { sed -E 's/"[a-z_]+_s":[-0-9.e]+,?//g'; }

@test "sampling, chunks, drafts, --jsonl, --perplexity and --embed give the same" {
    printf 'the house and the tree and the river, and the bird in the house.\n%.0s' {1..20} >text
    printf '{"id":%d,"prompt":"the house %d","n":9,"temp":0.9,"seed":%d}\n' 1 1 1 2 2 2 3 3 3 >requests
    same() { # OPTION...
        zt-run -m model.gguf "$@" 2>&1 | without_times >alone
        on_ranks 3 zt-run -m model.gguf "$@" 2>&1 | without_times >on
        [ -s alone ]
        cmp alone on
    }
    same --raw -p 'the house' -n 20 --seed 5 --temp 1.2 --json
    same --raw -p 'the house and the tree' -n 8 --temp 0 --chunk 3 --exact
    same --raw -p 'the tree the tree the tree' -n 20 --temp 0 --speculate
    same --raw -p 'the house' -n 3 --temp 0 --no-kv-cache
    same --jsonl -i requests
    same --perplexity text
    same --embed -p 'the house' --format ndjson
    echo 'the house' | zt-run -m model.gguf --raw -n 4 --temp 0 >alone
    echo 'the house' | on_ranks 2 zt-run -m model.gguf --raw -n 4 --temp 0 >on
    cmp alone on
}

@test "a rank has a share of the memory" {
    "$tests/mkmodel" --layers 12 --width 512 --ffn 2048 --heads 8 --kv-heads 8 --type f32 --ctx 256 large.gguf
    [ "$(stat -c %s large.gguf)" -gt 100000000 ]
    cat >measure.py <<'END'
import os, resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
open("kib." + os.environ.get("OMPI_COMM_WORLD_RANK", "0"), "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
END
    most() { for f in kib.?; do cat "$f"; echo; done | sort -n | tail -n 1; }
    python3 measure.py zt-run -t 1 -m large.gguf --raw -p 'the house' -n 2 --temp 0 >alone
    whole=$(most)
    on_ranks 4 python3 measure.py zt-run -t 1 -m large.gguf --raw -p 'the house' -n 2 --temp 0 >on
    cmp alone on
    [ "$(ls kib.? | wc -l)" -eq 4 ]
    # the library of MPI takes some 20 MB a rank
    [ $(($(most) * 2)) -lt "$whole" ]
}

@test "what needs one process is refused by name, once" {
    refused() { # CODE WORDS OPTION...
        run "-$1" --separate-stderr on_ranks 2 zt-run "${@:3}"
        one_message zt-run
        [[ $stderr == *"$2"* ]]
    }
    refused 64 '--serve does not run on several ranks' -m model.gguf --serve
    refused 64 '--session does not run on several ranks' -m model.gguf -p x --session s
    refused 64 '--tokenize does not run on several ranks' -m model.gguf --tokenize -p x
    refused 64 '--dry-run does not run on several ranks' -m model.gguf --dry-run
    printf '%s\n' 'zt program 1' 'in x: f32[2]' 'out y = x' >x.zt
    refused 64 'a network or program does not run on several ranks' -m x.zt -i x.csv
    refused 66 'absent.gguf' -m absent.gguf -p x
    "$tests/mkmodel" --arch llama --layers 1 --ctx 256 one.gguf
    run -64 --separate-stderr on_ranks 5 zt-run -m one.gguf -p x -n 3
    one_message zt-run
    [[ $stderr == *'can be divided among at most '*' ranks, not 5'* ]]
}

@test "ranks with another model, program or instruction set are refused; a rank that is killed is one line" {
    "$tests/mkmodel" --arch llama --layers 6 --ctx 256 --seed 9 other.gguf
    run -64 --separate-stderr on_ranks 1 zt-run -m model.gguf -p x : -n 1 zt-run -m other.gguf -p x
    one_message zt-run
    [[ $stderr == *"rank 1: the model's files differ from those of rank 0"* ]]
    run -64 --separate-stderr on_ranks 1 zt-run --isa scalar -m model.gguf -p x : -n 1 zt-run --isa scalar --engine ref -m model.gguf -p x
    one_message zt-run
    [[ $stderr == *'rank 1: the engine'*' differ from those of rank 0'* ]]
    printf '{"prompt":"the house","n":200,"ignore_eos":true,"temp":0.9,"seed":%d}\n' {1..3000} >requests
    cat >rank.sh <<'END'
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || { until [ -s answers ]; do sleep .05; done; kill -KILL $$; } &
exec zt-run "$@"
END
    killed() { on_ranks 3 bash rank.sh -m model.gguf --jsonl -i requests >answers; }
    run --separate-stderr killed
    [ "$status" -eq 137 ]
    one_message zt-run
    [[ $stderr == *'a rank died'* ]]
    [ "$(wc -l <answers)" -lt 3000 ]
}
