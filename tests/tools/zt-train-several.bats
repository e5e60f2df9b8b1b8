#!/usr/bin/env bats
# zt-train --eval of several networks: pairs, votes, the majority. Formulas: tests/train/ensemble.c.

load ../common/helper

# Three networks of one input and three classes; the rows say what each of them gives for 0, 1, 2 ...
setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    table a 0 1 2 0 1 2
    table b 0 1 1 1 1 1
    table c 2 1 2 1 0 0
    printf '%s\n' 0,0 1,1 2,2 3,1 4,0 5,0 >rows.csv
}

# A network that gives for i the class that the i-th argument names.
table() {
    perl -MMIME::Base64 -e '
        my $name = shift; my @rows = map { my $c = $_; map { $_ == $c ? 1 : 0 } 0 .. 2 } @ARGV;
        printf q({"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"Embedding","vocab_size":%d,"embedding_dim":3,"weights":"%s"}]}),
            scalar @ARGV, encode_base64(pack("f<*", @rows), "")' "$@" >"$1.json"
}

several() { zt-train -t 1 --eval -m a.json -m b.json -m c.json -i rows.csv "$@"; }

@test "pairs: coverage falls, then overlap rises; similarity is the cosine of what is right" {
    # right: a 0 1 2, b 0 1 3, c 1 2 3 4 5
    several --ensemble pairs >pairs
    diff pairs - <<'END'
a	b	coverage	overlap	similarity
a.json	c.json	1	0.3333333333	0.5163977795
b.json	c.json	1	0.3333333333	0.5163977795
a.json	b.json	0.6666666667	0.3333333333	0.6666666667
END
    several --ensemble pairs --min-coverage .9 | diff - <(sed 4d pairs)
    [ "$(several --ensemble pairs --min-coverage 1 | wc -l)" -eq 3 ]
}

@test "votes: what most networks say, and of equals what the first one says" {
    several --ensemble votes >votes
    diff votes - <<'END'
sample	output	expected	majority	supporters	a.json	b.json	c.json
0	0	0	0	2	0	0	2
1	0	1	1	3	1	1	1
2	0	2	2	2	2	1	2
3	0	1	1	2	0	1	1
4	0	0	1	2	1	1	0
5	0	0	2	1	2	1	0
END
    several --ensemble majority | grep -qx 'correct.4'
    several --format json >all
    json '$j->{ensemble}{majority}{correct} == 4 && "@{$j->{ensemble}{majority}{votes}}" eq "0 1 2 1 1 2"
        && @{$j->{ensemble}{pairs}} == 3 && $j->{ensemble}{pairs}[2]{coverage} < .67 && @{$j->{networks}} == 3' <all
}

@test "values have pairs, within ten per cent, and no votes; what does not apply is refused" {
    dense='{"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"Dense","input_height":1,"output_height":1,"activation":"Linear","weights":"'
    for factor in 1 1.09 2; do
        printf '%s%s"}]}' "$dense" "$(perl -MMIME::Base64 -e 'print encode_base64(pack("f<", $ARGV[0]), "")' $factor)" >$factor.json
    done
    printf '%s\n' 1,1 2,2 3,3 4,8 >values.csv
    zt-train --eval -m 1.json -m 1.09.json -m 2.json -i values.csv --ensemble pairs >pairs
    [ "$(sed -n 2p pairs)" = "$(printf '1.json\t2.json\t1\t0\t0')" ]
    [ "$(tail -1 pairs)" = "$(printf '1.json\t1.09.json\t0.75\t0.75\t1')" ]
    zt-train --eval -m 1.json -m 2.json -i values.csv --format json | json '!exists $j->{ensemble}{majority}'
    while read -r wrong; do
        run -64 --separate-stderr zt-train --eval -i values.csv $wrong
        one_message zt-train
    done <<'END'
-m 1.json -m 2.json --ensemble votes
-m 1.json -m 2.json --ensemble majority
-m 1.json --ensemble pairs
-m 1.json --min-coverage .5
-m 1.json -m 2.json --min-coverage .5
-m 1.json -m 2.json --ensemble pairs --format json
-m 1.json -m 2.json --ensemble pairs --min-coverage 2
-m 1.json -m a.json --ensemble pairs
END
    run -64 --separate-stderr zt-train -m 1.json -i values.csv --ensemble pairs -o out.json
    one_message zt-train
}
