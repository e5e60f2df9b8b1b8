#!/usr/bin/env bats
# zt-train --receipt and --verify: a run is checked by training again, and what is changed is found where it was changed.

bats_require_minimum_version 1.5.0
load ../common/helper

setup_file() {
    cd "$BATS_FILE_TMPDIR"
    perl -e 'srand 4; for (1 .. 90) { my @x = map { sprintf "%.3f", rand } 1 .. 4; print join(",", @x, $x[0] + $x[1] > 1 ? 1 : 0), "\n" }' >data.csv
    perl -pe 's/^0/1/ if $. == 37' data.csv >row.csv
    zt-train -q "${net[@]}" -o out.json --receipt r.json --checkpoint ck --checkpoint-every 16 >history
}

setup() { cd "$BATS_FILE_TMPDIR"; }

net=(--new sequential --set dModel=4 --set numClasses=2 -i data.csv --loss cross_entropy --optim adam --epochs 4 --batch 6 --seed 3)

# verify FILE OPTION... : the row of the table without its head
verify() { zt-train -q "${net[@]}" --verify "$@" | tail -1 | tr '\t' ' '; }
# verify_as OLD NEW : what differs where the run's command line has NEW in place of OLD
verify_as() {
    local all="${net[*]}"
    # shellcheck disable=SC2086
    zt-train -q ${all/$1/$2} --verify r.json | tail -1 | cut -f1,5 | tr '\t' ' '
}
# edit PERL: r.json changed
edit() { perl -MJSON::PP -0777 -ne '$j = JSON::PP->new->canonical; $r = $j->decode($_); '"$1"'; print $j->encode($r)' r.json >edited.json; }
# seal PERL: the same, with the digest of the changed head
seal() { edit "$1; my %head = %\$r; delete @head{qw(steps chain)}; use Digest::SHA 'sha256_hex'; \$r->{chain}[0] = sha256_hex(\$j->encode(\\%head))"; }

@test "a run is verified, with any number of threads and micro-batches' ranks, and from a checkpoint" {
    [ "$(perl -MJSON::PP -0777 -ne '$r = decode_json($_); print "$r->{schema} $r->{steps} ", scalar @{$r->{chain}}' r.json)" = "zt.train-receipt/1 60 5" ]
    [ "$(verify r.json)" = "same 0 60 60  " ]
    [ "$(verify r.json -t 1)" = "same 0 60 60  " ]
    zt-train -q -f "${net[@]}" -t 2 -o out.json --receipt again.json >history.2
    cmp r.json again.json
    [ "$(verify r.json --checkpoint ck --resume)" = "same 60 60 60  " ]
    cp ck.before ck.48
    row=$(verify r.json --checkpoint ck.48 --resume)
    [[ $row =~ ^"same "[1-9][0-9]*" 60 60" ]]
}

@test "what is changed is found, and where" {
    edit '$r->{seed} = "4"'
    [ "$(verify edited.json)" = "different 0 0 60 head " ]
    seal '$r->{seed} = "4"'
    [ "$(verify edited.json)" = "different 0 0 60 seed " ]
    seal '$r->{options} =~ s/ 6 / 7 /'
    [ "$(verify edited.json)" = "different 0 0 60 options " ]
    edit '$r->{chain}[2] =~ tr/0-9a-f/1-9a-f0/'
    [ "$(verify edited.json)" = "different 0 16 60 states 16" ]
    edit '$r->{steps} = 48; pop @{$r->{chain}}'
    [ "$(verify edited.json)" = "different 0 48 48 steps 48" ]
    [ "$(verify_as '--epochs 4' '--epochs 2')" = "different steps" ]
    [ "$(verify_as data.csv row.csv)" = "different data" ]
    [ "$(verify_as '--seed 3' '--seed 4')" = "different seed" ]
    [ "$(verify_as '--batch 6' '--batch 6 --lr .1')" = "different options" ]
    [ "$(verify_as adam sgd)" = "different program" ]
    run -1 --separate-stderr zt-train -q "${net[@]}" --verify edited.json
}

@test "a checkpoint and a network that are not the run's" {
    zt-train -q "${net[@]/#3/5}" -o other.json --checkpoint other.ck >/dev/null
    run -64 --separate-stderr zt-train "${net[@]}" --verify r.json --checkpoint other.ck --resume
    seal '1; $r->{chain}[-1] =~ tr/0-9a-f/1-9a-f0/' # as a checkpoint of other weights
    [ "$(verify edited.json --checkpoint ck --resume)" = "different 60 60 60 checkpoint 60" ]
    zt-train -q -f "${net[@]/#4/0}" -o start.json >/dev/null
    zt-train -q -f -m start.json "${net[@]:6}" -o out.json --receipt m.json >/dev/null
    [ "$(zt-train -q -m start.json "${net[@]:6}" --verify m.json | tail -1 | cut -f1)" = same ]
    [ "$(zt-train -q -m out.json "${net[@]:6}" --verify m.json | tail -1 | cut -f1,5)" = "different	start" ]
}

@test "files that are no receipts, and what is refused: 64, 65, 66, 69, 73" {
    for change in '$r->{schema} = "zt.receipt/1"' '$r->{every} = 0' '$r->{every} = 1e9' '$r->{steps} = -1' '$r->{steps} = 1e17' '$r->{chain} = []' \
        '$r->{chain}[1] = "ff"' '$r->{chain} = 5' '$r->{arithmetic} = "x"' '$r = [$r]'; do
        edit "$change"
        run -65 --separate-stderr zt-train "${net[@]}" --verify edited.json
        [ "$(wc -l <<<"$stderr")" -eq 1 ]
    done
    edit '$r->{arithmetic} = 99'
    run -69 --separate-stderr zt-train "${net[@]}" --verify edited.json
    run -66 --separate-stderr zt-train "${net[@]}" --verify none.json
    run -69 --separate-stderr zt-train "${net[@]}" --engine ref --verify r.json
    run -69 --separate-stderr env ZT_LIBCRYPTO=/none.so zt-train "${net[@]}" --verify r.json
    run -64 --separate-stderr zt-train "${net[@]}" --verify r.json --receipt x.json
    run -73 --separate-stderr zt-train "${net[@]}" -o new.json --receipt r.json
}

@test "receipts of random settings are verified, and what is changed in them is found" {
    in_own_folder
    perl "$BATS_TEST_DIRNAME/train_receipts.pl" "$([ -n "${ZT_LONG-}" ] && echo 200 || echo 10)"
}
