#!/usr/bin/env bats
# zt-dna compare: overlaps, what has changed, what has moved, between any formats.

load ../common/helper

setup_file() {
    make_models
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    ln -s "$tiny" a.gguf
}

# columns of the row whose name is $1
row() { # name file
    awk -F'\t' -v n="$1" '$1 == n' "$2"
}

@test "a model with itself, in any container: all the same, exit 0" {
    zt-convert a.gguf a.safetensors
    zt-convert a.gguf a.npz
    for b in a.gguf a.safetensors a.npz; do
        zt-dna compare -q a.gguf "$b" --format json >got
        json '$j->{schema} eq "zt.dna/1" && $j->{overlap} == 1 && $j->{alike} && $j->{rel_l2} == 0 &&
              $j->{same} == @{$j->{layers}} && $j->{only_a} == 0 && @{$j->{shifts}} == 0 &&
              !grep {$_->{overlap} != 1 || $_->{cosine} != 1 || $_->{rel_l2} != 0 || $_->{changed}} @{$j->{layers}}' <got
    done
    zt-dna compare - a.npz <a.gguf >got
    [ "$(tail -n +2 got | cut -f8 | sort -u)" = yes ]
    [ "$(zt-dna compare a.gguf a.npz --by block 2>/dev/null | tail -n +2 | cut -f4-9 | sort -u | wc -l)" -le 3 ]
    [ -z "$(zt-dna compare -q a.gguf a.npz --map | head -n -1 | awk '{print $2}' | tr -d '=.\n')" ]
}

@test "a Hugging Face directory with GGUF: the same model" {
    zt-convert --dtype f32 a.gguf b.gguf
    zt-convert --to hf b.gguf dir
    zt-dna compare -q dir b.gguf --format json |
        json '$j->{same} == @{$j->{layers}} && @{$j->{layers}} > 10 && $j->{only_a} == 0 && $j->{only_b} == 0'
}

@test "numbers are those that perl finds" {
    zt-convert --dtype f32 --select '*ffn_up*' a.gguf a.safetensors
    noisy a.safetensors b.safetensors . 0.5
    zt-dna compare -q a.safetensors b.safetensors --format json >got || true
    json 'my %x; for my $f ("a", "b") {
            open my $h, "<:raw", "$f.safetensors" or die; local $/; my $all = <$h>;
            my $n = unpack "Q<", $all; my $head = substr $all, 8, $n;
            while ($head =~ /"([^"]+)":\{[^{}]*"data_offsets":\[(\d+),(\d+)\]/g) {
                $x{$1}{$f} = [unpack "f<*", substr $all, 8 + $n + $2, $3 - $2] } }
          my $bad = 0; my $mean = 0;
          for my $l (@{$j->{layers}}) {
            my ($a, $b) = @{$x{$l->{name}}}{"a", "b"}; my ($aa, $bb, $ab, $dd, $a1, $b1, $most) = (0) x 7;
            for (0 .. $#$a) { my ($u, $v) = ($a->[$_], $b->[$_]); my $d = abs($u - $v);
              $aa += $u*$u; $bb += $v*$v; $ab += $u*$v; $dd += $d*$d; $a1 += $u; $b1 += $v; $most = $d if $d > $most }
            my $n = @$a;
            my $cos = $ab / sqrt($aa * $bb); $mean += $cos / @{$j->{layers}};
            my $spread = sqrt($bb/$n - ($b1/$n)**2) / sqrt($aa/$n - ($a1/$n)**2);
            $bad++ if abs($l->{cosine} - $cos) > 1e-9 || abs($l->{overlap} - $cos) > 1e-9 || abs($l->{rel_l2} - sqrt($dd/$aa)) > 1e-9
              || abs($l->{spread} - $spread) > 1e-9 || abs($l->{max_diff} - $most) > 1e-9;
          }
          !$bad && @{$j->{layers}} && abs($j->{overlap} - $mean) < 1e-9' <got
}

@test "the rank of a matrix of one direction is 1, and of noise about all" {
    perl -e 'srand 3; my ($r, $c) = (256, 128); my @u = map {rand() - 0.5} 1..$r; my @v = map {rand() - 0.5} 1..$c;
        my $head = sprintf "{\"w\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}", $r, $c, 4*$r*$c;
        for (["one", sub {$u[$_[0]] * $v[$_[1]]}], ["all", sub {rand() - 0.5}]) {
            open my $f, ">:raw", "$_->[0].safetensors"; my $fn = $_->[1];
            print $f pack("Q<", length $head), $head;
            for my $i (0..$r-1) {print $f pack "f<*", map {$fn->($i, $_)} 0..$c-1} }'
    zt-dna compare -q one.safetensors all.safetensors --threshold -1 --format json |
        json 'my $l = $j->{layers}[0]; abs($l->{rank_a} - 1) < 0.4 && $l->{rank_b} > 60 && $l->{rank_b} < 128'
}

@test "finds the tensor with noise of 10 per cent between F16 and quantized" {
    zt-convert --dtype f32 a.gguf a.safetensors
    noisy a.safetensors b.safetensors '^blk\.1\.ffn_up' 0.1
    zt-convert --dtype f16 a.safetensors f16.gguf
    for type in q8_0 q5_0 q4_0; do
        zt-quant --type $type b.safetensors - 2>/dev/null | zt-dna compare -q f16.gguf - >got
        [ "$(awk -F'\t' '$9 == "yes" {print $1}' got)" = blk.1.ffn_up.weight ]
        zt-quant --type $type b.safetensors - 2>/dev/null | zt-dna compare -q --by block f16.gguf - >got
        [ "$(awk -F'\t' '$9 > 0 {print $1, $9}' got | tail -n +2)" = '1 1' ]
    done
}

@test "SmolLM2: finds layer 17, with noise of 10 per cent, between F16 and Q4_K_M" {
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "with a sanitizer this takes minutes"
    model=$("$repo/scripts/model" smollm2) || skip "no model: scripts/model smollm2 failed"
    zt-convert --dtype f32 --select 'blk.1?.*' "$model" a.safetensors # ten blocks are enough
    noisy a.safetensors b.safetensors '^blk\.17\.' 0.1
    zt-convert --dtype f16 a.safetensors f16.gguf
    zt-quant --type q4_k_m b.safetensors q4.gguf 2>/dev/null
    rm a.safetensors b.safetensors
    zt-dna compare -q f16.gguf q4.gguf >got
    diff <(awk -F'\t' '$9 == "yes" {print $1}' got) <(cut -f1 got | grep '^blk\.17\.')
    [ "$(grep -c '^blk\.17\.' got)" -eq 9 ]
    zt-dna compare -q --by block f16.gguf q4.gguf >got
    [ "$(tail -n +2 got | sort -t"$(printf '\t')" -k7,7g | tail -1 | cut -f1)" = 17 ]
    [ "$(tail -n +2 got | sort -t"$(printf '\t')" -k5,5g | head -1 | cut -f1)" = 17 ]
}

@test "finds blocks that have changed places" {
    zt-convert --rename 'blk.0.*=blk.9.*' a.gguf - | zt-convert --rename 'blk.1.*=blk.0.*' - - |
        zt-convert --rename 'blk.9.*=blk.1.*' - b.gguf
    zt-dna compare -q a.gguf b.gguf --shifts --threshold 0 >got
    for part in attn_q attn_output ffn_up ffn_down; do
        grep -q "^blk.0.$part.weight	blk.1.$part.weight	1.0000000$" got
        grep -q "^blk.1.$part.weight	blk.0.$part.weight	1.0000000$" got
    done
    run -1 --separate-stderr zt-dna compare a.gguf b.gguf --threshold 0.9
    zt-dna compare -q a.gguf b.gguf --threshold 0 --format json |
        json '@{$j->{shifts}} >= 8 && $j->{overlap} < 0.9 && !grep {$_->{source} eq $_->{target}} @{$j->{shifts}}'
}

@test "not alike is exit 1, and says nothing but that" {
    run -1 --separate-stderr zt-dna compare -q a.gguf "$tiny_spm"
    [ -z "$stderr" ]
    run -1 --separate-stderr zt-dna compare a.gguf "$tiny_spm"
    one_message zt-dna
    # nothing in common
    zt-convert --rename '*=x.*' a.gguf b.gguf
    run -1 --separate-stderr zt-dna compare a.gguf b.gguf --format json
    json '$j->{overlap} == 0 && !@{$j->{layers}} && $j->{only_a} > 0 && $j->{only_a} == $j->{only_b}' <<<"$output"
    zt-dna compare -q a.gguf b.gguf --threshold 0
}

@test "the same bytes for any number of threads" {
    zt-quant --type q4_0 a.gguf b.gguf 2>/dev/null
    zt-dna compare -q a.gguf b.gguf --format json -t 1 >want
    for t in 2 3 8 11; do
        zt-dna compare -q a.gguf b.gguf --format json -t $t | cmp - want
    done
}

@test "rounding, a change and another model are told apart" {
    changes() { zt-dna compare -q --threshold -1 --format tsv "$@" | tail -n +2 | grep -E '^blk.*(attn_|ffn_)[a-z]*\.weight' | grep -v norm | cut -f9 | sort | uniq -c | sed 's/^ *//'; }
    "$tests/mkmodel" --arch llama --ctx 256 --seed 7 other.gguf
    zt-convert --dtype f32 a.gguf f32.gguf
    zt-convert --dtype f32 other.gguf other32.gguf
    n=$(changes f32.gguf f32.gguf | cut -d' ' -f1)
    [ "$(changes f32.gguf f32.gguf)" = "$n no" ]
    for t in f16 bf16 q8_0 q5_0 q4_0 iq4_nl; do
        zt-quant -q -f --type $t f32.gguf r.gguf
        [ "$(changes f32.gguf r.gguf)" = "$n identical within rounding" ]
        zt-quant -q -f --type $t other32.gguf r.gguf
        [ "$(changes f32.gguf r.gguf)" = "$n unrelated" ]
    done
    [ "$(changes a.gguf other.gguf)" = "$n unrelated" ]
    # halfway to the other: neither
    zt-dna merge --method linear --weight 0.8,0.2 f32.gguf other32.gguf -o mixed.gguf
    [ "$(changes f32.gguf mixed.gguf)" = "$n yes" ]
    zt-dna compare -q f32.gguf r.gguf --format json --threshold -1 | json '(grep {$_->{change} eq "unrelated" && $_->{changed}} @{$j->{layers}}) > 10'
    zt-dna compare -q f32.gguf mixed.gguf --format json --threshold -1 | json '!grep {$_->{change} eq "unrelated"} grep {$_->{rank_a}} @{$j->{layers}}'
}

@test "blocks are in the order of their numbers, whatever the order of the file" {
    "$tests/mkmodel" --arch llama --ctx 64 --layers 12 deep.gguf
    # its tensors by name: block 10 before block 2
    zt-convert --dtype f32 deep.gguf deep.safetensors
    perl -MJSON::PP -e 'local $/; open my $f, "<:raw", "deep.safetensors"; my $all = <$f>; my $n = unpack "Q<", $all;
        my $head = JSON::PP->new->decode(substr $all, 8, $n); my ($data, $at) = ("", 0);
        my $meta = delete $head->{__metadata__};
        for my $name (sort keys %$head) { my ($from, $to) = @{$head->{$name}{data_offsets}};
            $data .= substr $all, 8 + $n + $from, $to - $from; $head->{$name}{data_offsets} = [$at, $at + $to - $from]; $at += $to - $from }
        my $text = JSON::PP->new->canonical->encode($head); $text .= " " x (-length($text) % 8);
        open $f, ">:raw", "other.safetensors"; print $f pack("Q<", length $text), $text, $data'
    [ "$(zt-convert --list other.safetensors | cut -f1 | grep -n -m 1 '^blk.10' | cut -d: -f1)" -lt \
        "$(zt-convert --list other.safetensors | cut -f1 | grep -n -m 1 '^blk.2' | cut -d: -f1)" ]
    zt-dna compare -q other.safetensors deep.gguf --by block --format tsv | tail -n +2 | cut -f1 >order
    diff order <(sort -n order)
    zt-dna compare -q other.safetensors deep.gguf --map | tail -n 1 | grep -q -- '-012345678901$'
    zt-dna compare -q other.safetensors deep.gguf --plot p.svg >/dev/null
    # a legend: a colour for each number of nines
    [ "$(grep -c '<title>[49] nines\|<title>the same\|<title>0\.9' p.svg)" -ge 4 ]
}

@test "a map is plain unless colour is asked for" {
    zt-quant --type q4_0 a.gguf b.gguf 2>/dev/null
    zt-dna compare a.gguf b.gguf --map >plain
    run ! grep -q "$(printf '\033')" plain
    zt-dna compare a.gguf b.gguf --map --color always >color
    grep -q "$(printf '\033')" color
    sed 's/\x1b\[[0-9;]*m//g' color | cmp - plain
    grep -qE '^blk\.\*\.attn_q\.weight  *\.[0-9]+$' plain
}

@test "a heat map as SVG: a cell for each layer, whole, not over an input nor unasked over a file" {
    zt-quant --type q4_0 a.gguf b.gguf 2>/dev/null
    zt-dna compare -q a.gguf b.gguf --plot m.svg >table
    [ "$(wc -l <table)" -gt 10 ]
    perl -e 'local $/; $_ = <STDIN>; my $n = () = /<title>blk\.[^<]*: [01]\.\d{7}/g; /^<svg|^<\?xml/ && /<\/svg>\s*$/ && $n == $ARGV[0] or die "$n\n"' \
        "$(grep -c '^blk' table)" <m.svg
    run -73 --separate-stderr zt-dna compare a.gguf b.gguf --plot m.svg
    run -73 --separate-stderr zt-dna compare a.gguf b.gguf -f --plot b.gguf
    one_message zt-dna
    zt-dna compare -q a.gguf b.gguf -f --plot m.svg --map | grep -q '^blk.*attn_q'
    zt-dna lineage a.gguf b.gguf --plot n.svg >/dev/null
    grep -q '<title>a.gguf, b.gguf: 0\.[0-9]*' n.svg
    printf '{"layers":[{"l":0,"type":"Dense","weights":"AACAPw=="},{"l":1,"type":"Dense","weights":"AACAPw=="}]}' >c.json
    [ "$(zt-dna compare -q c.json c.json --map | cut -c1-7,34- | xargs)" = 'layer 0= layer 1= block 0' ]
}

@test "networks: containers, dtypes by both rules" {
    net() { # dtype weights
        printf '{"layers":[{"z":0,"y":0,"x":0,"l":0,"type":"Dense","dtype":"%s","scale":0.5,"weights":"%s"},{"z":0,"y":0,"x":0,"l":1,"type":"Softmax"}]}' "$1" "$2"
    }
    net float32 AACAPwAAAEA= >a.json # 1 2
    net float32 AACAPwAAAMA= >b.json # 1 -2
    net int8 AACAPwAAAEA= >c.json
    zt-dna compare -q a.json b.json --threshold 0 --format json |
        json 'abs($j->{layers}[0]{overlap} + 0.6) < 1e-6 && $j->{layers}[1]{overlap} == 1 && abs($j->{overlap} - 0.2) < 1e-6'
    # another dtype: by the field's rule only rounding counts, by Loom's it is another layer
    zt-dna compare -q a.json c.json --format json | json '$j->{layers}[0]{overlap} > 0.99999 && $j->{layers}[0]{name} eq "0,0,0,0"'
    run -1 zt-dna compare -q a.json c.json --rule loom
    zt-dna compare -q a.json c.json --rule loom --format json --threshold 0 | json '$j->{layers}[0]{overlap} == 0 && $j->{overlap} == 0.5'
}

@test "misuse is one line and 64, bad files 65, missing ones 66" {
    head -c $(($(stat -Lc %s a.gguf) - 100)) a.gguf >cut.gguf
    all_refused zt-dna <<'END'
64|argument|compare a.gguf
64|argument|compare a.gguf a.gguf a.gguf
64|stdin|compare - -
64|exclude|compare --map --shifts a.gguf a.gguf
64|threshold|compare --threshold 2 a.gguf a.gguf
64|--map|layers --map a.gguf
65|cut.gguf|compare cut.gguf a.gguf
65|cut.gguf|compare a.gguf cut.gguf
66|none|compare a.gguf none.gguf
75|limit|compare a.gguf a.gguf --mem-limit 100k
END
}
