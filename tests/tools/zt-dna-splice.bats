#!/usr/bin/env bats
# zt-dna splice: children of checkpoints and of networks, reports, and what is refused.

load ../common/helper

setup_file() {
    make_models
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    # two float models of one shape: the second has its two blocks exchanged
    zt-convert --no-history --dtype f32 "$tiny" a.gguf
    zt-convert --rename 'blk.0.*=blk.9.*' a.gguf - | zt-convert --rename 'blk.1.*=blk.0.*' - - |
        zt-convert --no-history --rename 'blk.9.*=blk.1.*' - b.gguf
}

# Tensors of files, each as a list of floats, for perl: $x{FILE}{NAME}.
floats='my %x; for my $f (@files) {
    my $all = `zt-convert --to safetensors --dtype f32 $f -`; my $n = unpack "Q<", $all; my $head = substr $all, 8, $n;
    while ($head =~ /"([^"]+)":\{"dtype":"F32"[^{}]*"data_offsets":\[(\d+),(\d+)\]/g) {
        $x{$f}{$1} = [unpack "f<*", substr $all, 8 + $n + $2, $3 - $2] } }
    my @names = grep {$x{$files[1]}{$_}} sort keys %{$x{$files[0]}}; @names > 10 or die "no tensors"; '

# of every number of the child ($c), A ($a) and B ($b), at $i of $n, a condition is true
holds() { # CHILD A B CONDITION
    perl -e 'my @files = @ARGV[0..2]; '"$floats"'
        for my $t (@names) { my $n = @{$x{$files[0]}{$t}};
            for my $i (0..$n-1) { my ($c, $a, $b) = map {$x{$_}{$t}[$i]} @files;
                ('"$4"') or die "$t $i: $c $a $b\n" } }' "$1" "$2" "$3"
}

@test "blend: between the two, in f32, for any alpha" {
    zt-dna splice a.gguf b.gguf -o c.gguf
    holds c.gguf a.gguf b.gguf 'abs($c - ($a + $b) / 2) < 1e-6'
    zt-dna splice a.gguf b.gguf --alpha 0.25 -o d.gguf
    holds d.gguf a.gguf b.gguf 'abs($c - (0.75 * $a + 0.25 * $b)) < 1e-6'
    zt-dna splice a.gguf b.gguf --alpha 0 --no-history -o e.gguf
    cmp e.gguf a.gguf
    # it runs, and remembers
    zt-run -m c.gguf -p hello -n 3 --temp 0 --ids | grep -qE '^[0-9]+ [0-9]+ [0-9]+$'
    zt-convert --meta c.gguf | grep -q 'zt.history.*blend'
}

@test "blend with fitness: B's share by fitness and similarity" {
    zt-dna splice a.gguf b.gguf --fitness-a 1 --fitness-b 3 -o c.gguf --report r.json
    json '$j->{schema} eq "zt.dna.splice/1" && $j->{mixed} == @{$j->{layers}} && $j->{child_vs_a} < 1 && $j->{child_vs_b} < 1 &&
          !grep {abs($_->{alpha} - 0.75 * (0.5 + 0.5 * $j->{similarities}{$_->{name}})) > 1e-9} @{$j->{layers}}' <r.json
    json 'my @n = map {$_->{name}} @{$j->{dna_a}}; @n == @{$j->{layers}} && @{$j->{dna_child}} == @n && !exists $j->{dna_a}[0]{weights}' <r.json
}

@test "point: the first numbers are A's, the rest B's" {
    for ratio in 0 0.3 1 1.5; do
        zt-dna splice a.gguf b.gguf --mode point --ratio $ratio -f -o c.gguf
        holds c.gguf a.gguf b.gguf '$c == ($i < int($n * '$ratio') ? $a : $b)'
    done
}

@test "uniform: each number is one parent's, by the seed" {
    zt-dna splice a.gguf b.gguf --mode uniform --seed 5 --no-history -o c.gguf
    holds c.gguf a.gguf b.gguf '$c == $a || $c == $b'
    zt-dna splice a.gguf b.gguf --mode uniform --seed 5 --no-history -t 3 -o - | cmp - c.gguf
    run ! cmp -s c.gguf <(zt-dna splice a.gguf b.gguf --mode uniform --seed 6 --no-history -o -)
    zt-dna splice a.gguf b.gguf --mode uniform --fitness-a 3 --fitness-b 1 -o d.gguf
    # A's share is 3/4, within 4 sigma
    perl -e 'my @files = @ARGV; '"$floats"'
        my ($of_a, $all) = (0, 0);
        for my $t (@names) { for my $i (0..$#{$x{$files[0]}{$t}}) { my ($c, $a, $b) = map {$x{$_}{$t}[$i]} @files;
            next if $a == $b; $all++; $of_a += $c == $a } }
        abs($of_a - 0.75 * $all) <= 4 * sqrt(0.1875 * $all) or die "$of_a of $all\n"' d.gguf a.gguf b.gguf
    zt-dna splice a.gguf b.gguf --mode uniform --fitness-a 0 --fitness-b 1 -o e.gguf
    holds e.gguf a.gguf b.gguf '$c == $b'
}

@test "quantized parents: the child has A's types" {
    zt-quant --type q8_0 a.gguf qa.gguf
    zt-quant --type q4_0 b.gguf qb.gguf
    zt-dna splice qa.gguf qb.gguf -o c.gguf
    diff <(zt-convert --list c.gguf | cut -f1-3) <(zt-convert --list qa.gguf | cut -f1-3)
    zt-dna splice a.gguf b.gguf -o want.gguf
    zt-dna compare -q want.gguf c.gguf --threshold 0.99
    zt-dna splice qa.gguf qb.gguf -o - --to safetensors | zt-dna compare -q c.gguf - --threshold 1
}

@test "what B lacks or has otherwise stays A's" {
    zt-convert --drop '*ffn_up*' --rename '*attn_q.weight=*attn_k.weight_' b.gguf less.gguf
    zt-dna splice a.gguf less.gguf -o c.gguf --report r.json
    zt-dna compare -q a.gguf c.gguf --threshold 0 >got
    [ "$(awk -F'\t' '$1 ~ /ffn_up|attn_q/ && $8 != "yes"' got | wc -l)" -eq 0 ]
    [ "$(awk -F'\t' '$1 ~ /ffn_down/ && $8 == "yes"' got | wc -l)" -eq 0 ]
    json '!grep {$_->{name} =~ /ffn_up|attn_q/ ? $_->{mixed} || $_->{in_b} : !$_->{mixed}} @{$j->{layers}}' <r.json
}

# A network of a layer, a container and a layer without weights.
net() { # dtype weights inner [scale]
    printf '{"layers":[{"z":0,"y":0,"x":0,"l":0,"type":"Dense","dtype":"%s","scale":%s,"weights":"%s"},{"z":0,"y":0,"x":0,"l":1,"type":"Parallel","parallel_branches":[{"type":"Dense","weights":"%s"}]},{"z":0,"y":0,"x":0,"l":2,"type":"Softmax"}]}' \
        "$1" "${4:-1}" "$2" "$3"
}

@test "networks: the same document with other weights; containers by either rule" {
    net float32 AACAPwAAAEA= AACAPw== >a.json # 1 2, 1
    net float32 AABAQAAAAMA= AABAQA== >b.json # 3 -2, 3
    zt-dna splice a.json b.json --no-history -o c.json --report r.json
    net float32 AAAAQAAAAAA= AAAAQA== | cmp - c.json # 2 0, 2
    json '$j->{mixed} == 2 && $j->{dna_child}[0]{weights}[0] == 1 && $j->{dna_child}[0]{length} == 2 && $j->{dna_a}[2]{weights}[0] == 1' <r.json
    zt-dna splice a.json b.json --rule loom --no-history -o - | cmp - <(net float32 AAAAQAAAAAA= AACAPw==)
    # another dtype stays A's
    net float16 AABAQAAAAMA= AABAQA== >h.json
    zt-dna splice a.json h.json --no-history -o - | cmp - <(net float32 AACAPwAAAEA= AAAAQA==)
}

@test "networks in codes: the larger scale, and nothing is cut off" {
    net float32 AACAPwAAAEA= AACAPw== >a.json
    net float32 AADIQgAASMM= AABAQA== >b.json # 100 -200, 3
    zt-quant --type i8 a.json qa.json
    zt-quant --type i8 b.json qb.json
    zt-dna splice qa.json qb.json --alpha 1 -o c.json
    zt-dna compare -q c.json qb.json --threshold 0.9999
}

@test "misuse and bad parents: one line, and nothing is written" {
    head -c $(($(stat -c %s b.gguf) - 100)) b.gguf >cut.gguf
    zt-convert --rename '*=x.*' b.gguf x.gguf
    printf '{"layers":[{"type":"Dense","weights":"AACAPw=="}]}' >one.json
    printf '{"layers":[{"type":"Dense","weights":"AACAPwAAAEA="}]}' >two.json
    cp a.gguf want
    ls -A >before
    all_refused zt-dna splice <<'END'
64|output|a.gguf b.gguf
64|argument|a.gguf -o c
64|stdin|- - -o c
64|fitness|a.gguf b.gguf -o c --fitness-a 1
64|ratio|a.gguf b.gguf -o c --mode point --ratio -1
64|mode|a.gguf b.gguf -o c --mode half
64|the same file|a.gguf b.gguf -o c --report c
64|--to|a.gguf b.gguf -o c --to x
64|--map|a.gguf b.gguf -o c --map
65|cut.gguf|a.gguf cut.gguf -o c --report r
65|cut.gguf|cut.gguf b.gguf -o c --report r
65|matches a layer|a.gguf x.gguf -o c --report r
65|matches a layer|one.json two.json -o c --report r
65|matches a layer|one.json a.gguf -o c --report r
66|none.gguf|a.gguf none.gguf -o c
73|a.gguf|a.gguf b.gguf -f -o a.gguf
73|b.gguf|a.gguf b.gguf -f -o b.gguf
73|b.gguf|a.gguf b.gguf -o c --report b.gguf -f
73|want|a.gguf b.gguf -o want --report r
75|limit|a.gguf b.gguf -o c --report r --mem-limit 300k
END
    cmp a.gguf want
    ls -A | diff before -
}

@test "trained networks: their child keeps links, gate, mask, what is disabled, and runs" {
    cat >full.json <<'END'
{"id":"full","depth":1,"rows":2,"cols":1,"layers_per_cell":3,"layers":[
{"l":0,"type":"Dense","activation":"tanh","input_height":4,"output_height":4},
{"l":1,"type":"Parallel","combine_mode":"filter","filter_gate":{"type":"Dense","input_height":4,"output_height":2},
 "parallel_branches":[{"type":"Dense","is_remote_link":true,"target_l":0},{"type":"Dense","input_height":4,"output_height":4,"dtype":"int8"}]},
{"l":2,"type":"Sequential","sequential_layers":[{"type":"RMSNorm","input_height":4},{"type":"Residual"}]},
{"y":1,"l":0,"type":"MHA","d_model":4,"num_heads":2,"is_disabled":true},
{"y":1,"l":1,"type":"Dense","input_height":4,"output_height":3,"is_remote_link":true,"target_l":0},
{"y":1,"l":2,"type":"Softmax","softmax_type":"Masked","mask":[true,false,true]}]}
END
    awk 'BEGIN { srand(3); for (i = 0; i < 60; i++) { a = rand(); b = rand(); print a "," rand() "," b "," rand() "," (a > b ? 0 : 2) } }' >d.csv
    cut -d, -f1-4 d.csv | head -3 >x.csv
    zt-train -q -m full.json -i d.csv --loss cross_entropy --epochs 2 --optim adam -o a.json >/dev/null
    zt-train -q -m a.json -i d.csv --loss cross_entropy --epochs 9 --optim adam --lr .02 -o b.json >/dev/null
    zt-dna extract a.json | json '@{$j->{layers}} == 6 && $j->{layers}[1]{n} == 24 && $j->{layers}[4]{n} == 12'
    zt-dna compare a.json b.json --threshold -1 --format json 2>/dev/null | json '$j->{overlap} > .5 && $j->{overlap} < 1 && @{$j->{layers}} == 6'
    zt-dna lineage a.json b.json | grep -q "^b.json.a.json"
    # half way between its parents
    zt-dna splice a.json b.json --mode blend --alpha 0.5 -o c.json
    zt-dna merge --method linear --weight 1 --weight 1 a.json b.json -o m.json
    for net in c m; do
        perl -MJSON::PP -e '
            my ($p, $c) = map { decode_json(do { local (@ARGV, $/) = $_; <> }) } @ARGV;
            my ($l, $k) = ($p->{layers}, $c->{layers});
            exit !(@$l == @$k && $k->[1]{filter_gate} && $k->[1]{parallel_branches}[0]{is_remote_link} && $k->[3]{is_disabled} &&
                   $k->[4]{is_remote_link} && @{$k->[5]{mask}} == 3 && $k->[1]{parallel_branches}[1]{dtype} eq "int8")' a.json $net.json
        zt-run -m $net.json -i x.csv | awk -F, '{ if ($2 != 0 || ($1 + $3 - 1) ^ 2 > 1e-10) exit 1 } END { exit NR != 3 }'
        zt-bench op --bind n=3 $net.json >/dev/null
    done
}
