#!/usr/bin/env bats
# mpirun zt-train: one set of weights for any number of ranks, checkpoints and resuming by other numbers of ranks, ranks that die
# or differ.

load ../common/helper
load ../common/ranks

setup_file() {
    need_mpi
    cd "$BATS_FILE_TMPDIR" || exit
    printf '%s\n' 'zt program 1' 'in x: f32[n,4]' 'data w0: f32[16,4] "first.w"' 'data b0: f32[16] "first.b"' \
        'data w1: f32[3,16] "second.w"' 'h = linear x w0 b0' 'a = tanh h' 'y = linear a w1' 'out y = y' >net.zt
    awk 'BEGIN {srand(5); for (i = 0; i < 205; i++) {m = 0; line = ""
        for (k = 0; k < 4; k++) {v[k] = int(2000 * rand() - 1000) / 1000; line = line v[k] ","}
        for (k = 1; k < 3; k++) if (v[k] > v[m]) m = k
        print line m}}' >data.csv
    head -n 204 data.csv >other.csv
    printf 'The cat sleeps. The dog barks. The bird sings in the tree.\n%.0s' {1..60} >text.txt
}

setup() { cd "$BATS_FILE_TMPDIR" || exit; }

common=(-q -f -m net.zt --loss cross_entropy --optim adam --lr .01 --clip 1)

fit() { # RANKS OPTION...
    on_ranks "$1" zt-train "${common[@]}" -i "${data:-data.csv}" "${@:2}"
}

@test "a network has the same weights and history on 1, 2, 3 and 4 ranks, and without mpirun" {
    zt-train "${common[@]}" -i data.csv --accumulate 7 --epochs 3 --valid other.csv -o alone.npz | sed 's/"seconds":.*//' >alone
    [ "$(wc -l <alone)" -eq 3 ]
    for ranks in 1 2 3 4; do
        fit $ranks --accumulate 7 --epochs 3 --valid other.csv -o on.npz | sed 's/"seconds":.*//' >on
        cmp alone.npz on.npz
        cmp alone on
    done
}

@test "a language model has the same bytes on 1 to 4 ranks" {
    for ranks in 1 2 3 4; do
        on_ranks $ranks zt-train -q -f --text text.txt --size 60K --vocab 290 -c 32 --batch 8 --epochs 1 --accumulate 4 \
            -o on.$ranks.gguf >/dev/null
    done
    [ "$(sha256sum on.?.gguf | cut -d' ' -f1 | sort -u | wc -l)" -eq 1 ]
}

@test "a receipt has the same bytes on 1 to 3 ranks, which verify it and find what was changed" {
    fit 1 --accumulate 3 --epochs 4 -o out.npz --checkpoint receipt.ck --receipt alone.json >/dev/null
    for ranks in 2 3; do
        fit $ranks --accumulate 3 --epochs 4 -o out.npz --receipt on.json >/dev/null
        cmp alone.json on.json
    done
    verify() { # RANKS RECEIPT OPTION...
        on_ranks "$1" zt-train -q "${common[@]:2}" -i "${data:-data.csv}" --accumulate 3 --verify "${@:2}"
    }
    checked() { verify "$@" | tail -1 | tr '\t' ' '; } # the row of the table
    [ "$(checked 2 alone.json --epochs 4)" = "same 0 28 28  " ]
    [ "$(checked 3 alone.json --epochs 4 --checkpoint receipt.ck --resume)" = "same 28 28 28  " ]
    [ "$(checked 2 alone.json --epochs 3)" = "different 0 21 28 steps 21" ]
    [ "$(data=other.csv checked 2 alone.json --epochs 4)" = "different 0 0 28 data " ]
    perl -MJSON::PP -0777 -ne '$r = decode_json($_); $r->{chain}[2] =~ tr/0-9a-f/1-9a-f0/; print encode_json($r)' alone.json >link.json
    [ "$(checked 2 link.json --epochs 4)" = "different 0 16 28 states 16" ]
    run -1 --separate-stderr verify 2 link.json --epochs 4
    run -65 --separate-stderr verify 2 data.csv --epochs 4
    one_message zt-train
}

@test "resumed by another number of ranks, a run has the same bits" {
    fit 1 --accumulate 4 --epochs 4 -o whole.npz >/dev/null
    rm -f ck ck.before
    fit 3 --accumulate 4 --epochs 1 --checkpoint ck -o part.npz >/dev/null
    fit 2 --accumulate 4 --epochs 3 --checkpoint ck --resume -o part.npz >/dev/null
    zt-train "${common[@]}" -i data.csv --accumulate 4 --epochs 4 --checkpoint ck --resume -o part.npz >/dev/null
    cmp whole.npz part.npz
}

@test "a rank that is killed ends the run with one line; nothing after the last checkpoint is lost" {
    fit 1 --accumulate 4 --epochs 300 -o whole.npz >/dev/null
    rm -f ck ck.before killed.npz
    # the second rank is killed as soon as there is a checkpoint
    cat >rank.sh <<'END'
if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then { until [ -s ck ]; do sleep .05; done; kill -KILL $$; } & fi
exec zt-train "$@"
END
    run --separate-stderr on_ranks 3 bash rank.sh "${common[@]}" -i data.csv --accumulate 4 --epochs 1000000 --checkpoint ck -o killed.npz
    [ "$status" -eq 137 ]
    one_message zt-train
    [[ $stderr == *'a rank died'* ]]
    [ ! -e killed.npz ]
    [ -s ck ]
    fit 2 --accumulate 4 --epochs 300 --checkpoint ck --resume -o killed.npz >/dev/null
    cmp whole.npz killed.npz
}

@test "ranks with other data, options or weights, and a rank that fails, are one line each" {
    differs() { # WORDS OPTION... : those of the third rank
        run -64 --separate-stderr on_ranks 2 zt-train "${common[@]}" -i data.csv --accumulate 4 -o no.npz : \
            -n 1 zt-train "${common[@]}" --accumulate 4 -o no.npz "${@:2}"
        one_message zt-train
        [[ $stderr == *"rank 2: $1 differ from those of rank 0"* ]]
    }
    differs 'the data' -i other.csv
    differs 'the options' -i data.csv --batch 16
    differs 'the network, loss or engine' -i data.csv --weight-decay .5
    differs 'the initial weights' -i data.csv --data alone.npz
    run -66 --separate-stderr on_ranks 2 zt-train "${common[@]}" -i data.csv --accumulate 4 -o no.npz : \
        -n 1 zt-train "${common[@]}" --accumulate 4 -o no.npz -i absent.csv
    one_message zt-train
    [[ $stderr == *'rank 2: absent.csv: '* ]]
    [ ! -e no.npz ]
}

@test "what does not run on several ranks is refused by name, once" {
    refused() { # WORDS OPTION...
        run -64 --separate-stderr on_ranks 3 zt-train "${@:2}"
        one_message zt-train
        [[ $stderr == *"$1"* ]]
    }
    refused '3 ranks need --accumulate 3 or more, got 2' "${common[@]}" -i data.csv --accumulate 2 -o no.npz
    refused 'from standard input' "${common[@]}" -i - --accumulate 3 -o no.npz
    refused "--observe does not run on several ranks (mpirun started 3)" --new sequential -i data.csv --observe console \
        --accumulate 3 -o no.json
    refused '--eval does not run on several ranks' --eval -m net.zt -i data.csv
    refused "unknown option '--none'" --none
}

@test "without Open MPI's library the message names it" {
    for library in /nonexistent/libmpi.so libz.so.1; do
        ZT_LIBMPI=$library run -69 --separate-stderr on_ranks 2 -x ZT_LIBMPI zt-train "${common[@]}" -i data.csv --accumulate 2 -o no.npz
        one_message zt-train
        [[ $stderr == *"$library"* ]]
    done
}
