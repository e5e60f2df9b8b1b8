#!/usr/bin/env bats
# zt-train cluster: samples in every form, outputs of a network, tables, and what is refused.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    # Three groups far from each other, in turn, and the number of the group.
    awk 'BEGIN {srand(7); for (i = 0; i < 90; i++) print 10 * (i % 3) + rand() "," rand() "," 5 * (i % 3) + rand() "," i % 3}' >labelled.csv
    cut -d, -f1-3 labelled.csv >points.csv
}

clusters() { # OPTION...: the cluster of each sample
    zt-train -q cluster "$@" | tail -n +2 | cut -f2
}

@test "k-means and every linkage find groups that are far from each other" {
    for options in "" "--start random" "--distance cosine" "--linkage single" "--linkage complete" "--linkage average" "--linkage ward"; do
        clusters -i points.csv --clusters 3 $options >found
        [ "$options" = "--distance cosine" ] || cmp found <(awk 'BEGIN {for (i = 0; i < 90; i++) print i % 3}')
        [ "$(sort -u found | wc -l)" = 3 ]
    done
    clusters -i points.csv --linkage single --threshold 4 >found
    cmp found <(awk 'BEGIN {for (i = 0; i < 90; i++) print i % 3}')
}

@test "the same answer for CSV, NDJSON, npy and standard input" {
    clusters -i points.csv --clusters 3 >want
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 'out x = x' >x.zt
    zt-run -m x.zt -i points.csv -o points.npy
    sed 's/.*/[&]/' points.csv >lists.ndjson
    sed 's/.*/{"x":[&]}/' points.csv >objects.ndjson
    for data in points.npy lists.ndjson objects.ndjson; do clusters -i $data --clusters 3 | cmp - want; done
    clusters -i - --clusters 3 <points.csv | cmp - want
}

@test "threads change no byte" {
    for options in "--clusters 7" "--linkage average --clusters 5"; do
        zt-train cluster -i points.csv $options -t 1 >one 2>one.note
        zt-train cluster -i points.csv $options -t 3 >three 2>three.note
        cmp one three
        cmp one.note three.note
    done
}

@test "labels: purity and the adjusted Rand index" {
    zt-train cluster -i labelled.csv --labels --clusters 3 --show clusters --format csv >table 2>note
    [ "$(cut -d, -f1,2,4,5 table)" = "$(printf 'cluster,size,label,purity\n0,30,0,1\n1,30,1,1\n2,30,2,1')" ]
    grep -q 'purity 1.0000, adjusted Rand index 1.0000$' note
    zt-train cluster -i labelled.csv --labels --clusters 2 2>&1 >/dev/null | grep -q 'purity 0.6667, adjusted Rand index 0.5'
    cut -d, -f4 labelled.csv >only.csv
    printf '%s\n' 'zt program 1' 'in y: f32[n]' 'out y = y' >y.zt
    zt-run -m y.zt -i only.csv -o y.npy
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 'out x = x' >x.zt
    zt-run -m x.zt -i points.csv -o x.npy
    zt-train cluster -i x.npy --target y.npy --labels --clusters 3 2>&1 >/dev/null | grep -q 'purity 1.0000'
}

@test "silhouettes: of all samples, of some, of none" {
    zt-train cluster -i points.csv --clusters 3 2>note | tail -n +2 | cut -f3 >all
    grep -q 'silhouette 0.9' note
    [ "$(grep -c . all)" = 90 ]
    zt-train cluster -i points.csv --clusters 3 --silhouette 10 2>note | tail -n +2 | cut -f3 >some
    grep -q '10 of 90 samples, drawn at random' note
    [ "$(grep -c . some)" = 10 ]
    [ "$(paste some all | awk -F'\t' '$1 != "" && $1 != $2' | wc -l)" = 0 ]
    zt-train cluster -i points.csv --clusters 3 --silhouette 0 2>&1 >/dev/null | grep -vq silhouette
}

@test "the steps of a linkage have falling numbers of clusters and rising distances" {
    zt-train -q cluster -i points.csv --linkage ward --clusters 3 --show steps >steps
    [ "$(wc -l <steps)" = 90 ]
    [ "$(tail -n 1 steps | cut -f4)" = 90 ]
    tail -n +2 steps | cut -f3 | LC_ALL=C sort -g -c
}

@test "outputs of a network and of its layers" {
    zt-train -q --new sequential --set dModel=3 --set numClasses=3 -i labelled.csv --loss cross_entropy --epochs 30 --lr 0.05 -o net.json >log
    zt-train cluster -m net.json -i labelled.csv --labels --clusters 3 2>note >/dev/null
    grep -q 'adjusted Rand index' note
    zt-train cluster -q -m net.json -i points.csv --clusters 3 --show clusters --format csv >result
    last=$(zt-dna layers net.json | tail -n 1 | cut -f9)
    zt-train cluster -q -m net.json --layer "$last" -i points.csv --clusters 3 --show clusters --format csv | cmp - result
    zt-train cluster -q -m net.json --layer 0,0,0,0 -i points.csv --clusters 3 --show clusters --format csv >first
    ! cmp -s first result
}

@test "plots: samples on principal components, and trees" {
    zt-train -q cluster -i points.csv --clusters 3 --plot points.svg >/dev/null
    zt-train -q cluster -i points.csv --linkage average --clusters 3 --plot tree.svg >/dev/null
    xmllint --noout points.svg tree.svg
    [ "$(grep -o '<circle' points.svg | wc -l)" = 90 ]
    [ "$(grep -o '<polyline\|<path' tree.svg | wc -l)" -ge 89 ]
}

@test "what is refused" {
    printf '1,2\n3,nan\n' >nan.csv
    printf '1,2\n3,4,5\n' >ragged.csv
    printf '1\n2\n' >one.csv
    printf '{"z":[1]}\n' >other.ndjson
    : >empty.csv
    : >there.svg
    all_refused zt-train <<'LIST'
64|cluster needs --clusters|cluster -i points.csv
64|needs --clusters or --threshold|cluster -i points.csv --linkage ward
64|needs --distance euclidean|cluster -i points.csv --linkage ward --distance cosine --clusters 2
64|--show steps needs --linkage|cluster -i points.csv --clusters 2 --show steps
64|no data|cluster --clusters 2
64|unknown command 'clutser'|clutser --clusters 2
64|needs|cluster -i points.csv --clusters 2 --layer 0,0,0,0
65|too few for 91 clusters|cluster -i points.csv --clusters 91
65|nan.csv: number 1 of sample 1 is not finite|cluster -i nan.csv --clusters 1
65|ragged.csv:2: 3 columns, but the inputs need 2|cluster -i ragged.csv --clusters 1
65|one.csv: the first sample has no numbers|cluster -i one.csv --labels --clusters 1
65|empty.csv: the first sample has no numbers|cluster -i empty.csv --clusters 1
65|other.ndjson: the first sample has no numbers|cluster -i other.ndjson --clusters 1
66|none.csv|cluster -i none.csv --clusters 1
75|out of memory|cluster -i points.csv --linkage ward --clusters 2 --mem-limit 20K
LIST
    run zt-train -q cluster -i points.csv --clusters 3 --plot there.svg
    [ "$status" = 73 ]
}
