#!/usr/bin/env bats
# Networks of less than a byte a weight: made float again, spliced, merged and grafted.

load ../common/helper

types='int4 uint4 fp4 int2 uint2 ternary binary'

# A network of 4 x 5, a branch of 5 x 3 and a norm of 3, of a seed and a size of its weights.
network() { # SEED SIZE
    perl -MMIME::Base64 -e 'my ($seed, $size) = @ARGV;
        sub w { encode_base64(pack("f<*", map { $seed = ($seed * 1103515245 + 12345) % 2147483648; ($seed / 1073741824 - 1) * $size } 1 .. $_[0]), "") }
        printf q({"depth":1,"rows":1,"cols":1,"layers_per_cell":3,"layers":[
{"type":"Dense","input_height":4,"output_height":5,"activation":"Tanh","weights":"%s"},
{"type":"Parallel","l":1,"combine_mode":"concat","parallel_branches":[{"type":"Dense","input_height":5,"output_height":3,"weights":"%s"}]},
{"type":"RMSNorm","l":2,"input_height":3,"weights":"%s"}]}), w(20), w(15), w(3)' "$@"
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    network 1 1 >a.json
    network 2 3 >b.json
}

# Each layer's dtype, scale and weights as floats, of codes by the document's own words: the first code in
# the highest bits, signed, of the field's rule where the layer says so.
decoder='use JSON::PP; use MIME::Base64;
    my %bits = qw(int4 4 uint4 4 fp4 4 int2 2 uint2 2 ternary 2 binary 1);
    my @fp4 = (0, .5, 1, 1.5, 2, 3, 4, 6);
    sub value { my ($t, $field, $c, $bits) = @_;
        return $c ? 1 : -1 if $t eq "binary";
        return $c & 8 ? -$fp4[$c & 7] : $fp4[$c] if $t eq "fp4" && $field;
        return $c if $t =~ /^u/ && $field;
        $c >= 1 << ($bits - 1) ? $c - (1 << $bits) : $c }
    sub floats { my ($l, $n) = @_; my $raw = decode_base64($l->{weights}); my $t = $l->{dtype} // "float32";
        return unpack "f<*", $raw unless $l->{native};
        my $b = $bits{$t} or die $t; my @c;
        for my $byte (unpack "C*", $raw) { for (my $at = 8 - $b; $at >= 0; $at -= $b) { push @c, $byte >> $at & (1 << $b) - 1 } }
        map { $l->{scale} * value($t, ($l->{"zt.rule"} // "") eq "field", $_, $b) } @c[0 .. $n - 1] }
    sub layers { my $f = shift; open my $h, "<", $f or die $f; local $/; my $j = decode_json(<$h>); my @n = (20, 15, 3);
        my @l = ($j->{layers}[0], $j->{layers}[1]{parallel_branches}[0], $j->{layers}[2]);
        map { { dtype => $l[$_]{dtype} // "float32", scale => $l[$_]{scale}, x => [floats($l[$_], $n[$_])] } } 0 .. 2 }
    sub largest { my $m = 0; for (@_) { $m = abs if abs > $m } $m }
    sub mean { my $s = 0; $s += abs for @_; $s / @_ }
    '

@test "made float again: the same values, in JSON and in safetensors, in and out" {
    echo 0.5,-1,2,0.25 >x.csv
    for type in $types; do
        zt-quant -q -f --type $type a.json q.json
        zt-convert -f --dtype f32 q.json f.json
        zt-convert -f --dtype f32 q.json f.safetensors
        zt-convert -f q.json q.safetensors
        zt-convert -f --dtype f32 q.safetensors back.json
        [ "$(zt-convert --list f.safetensors | cut -f2,3 | tr '\n\t' '  ')" = "dtype shape f32 [20] f32 [15] f32 [3] " ]
        perl -e "$decoder"'my @q = layers("q.json"); $q[0]{dtype} eq "'$type'" or die;
            for my $f ("f.json", "back.json") { my @f = layers($f);
                for my $i (0 .. 2) { $f[$i]{dtype} eq "float32" or die "$f: $f[$i]{dtype}";
                    for (0 .. $#{$q[$i]{x}}) { abs($f[$i]{x}[$_] - $q[$i]{x}[$_]) <= 1e-6 * abs($q[$i]{x}[$_]) or die "$f $i $_" } } }'
        cmp <(zt-run -m q.json -i x.csv) <(zt-run -m f.json -i x.csv)
        cmp <(zt-convert --hash f.json) <(zt-convert --hash f.safetensors)
    done
    run --separate-stderr zt-convert --dtype f16 q.json f16.json
    [ "$status" -eq 64 ] && one_message zt-convert && [[ $stderr == *"is a network"*"zt-quant --type f16"* ]] && [ ! -e f16.json ]
    run --separate-stderr zt-convert --dtype f32 --drop '*0*' q.json less.safetensors
    [ "$status" -eq 64 ] && one_message zt-convert && [ ! -e less.safetensors ]
    # how many there are is not guessed
    sed 's/"input_height":4,//' q.json >unsaid.json
    run --separate-stderr zt-convert --dtype f32 unsaid.json float.json
    [ "$status" -eq 69 ] && one_message zt-convert && [[ $stderr == *"layers.0.weights"* ]] && [ ! -e float.json ]
}

# The child's codes are the nearest to SHARE of A and the rest of B, in a scale of its own weights.
nearest='my ($share, $child) = @ARGV; my ($a, $b, $c) = map { [layers($_)] } "qa.json", "qb.json", $child;
    for my $i (0 .. 2) { my $t = $c->[$i]{dtype}; $t eq $a->[$i]{dtype} or die "$i is $t";
        my @want = map { $share * $a->[$i]{x}[$_] + (1 - $share) * $b->[$i]{x}[$_] } 0 .. $#{$a->[$i]{x}};
        my %most = (int4 => 7, uint4 => 15, fp4 => 6, int2 => 1, uint2 => 3); my $s = $c->[$i]{scale};
        my $scale = $most{$t} ? largest(@want) / $most{$t} : mean(@want);
        abs($s - $scale) < 1e-5 * $scale or die "$child $t $i: scale $s, not $scale";
        my @can = map { $s * $_ } $t eq "fp4" ? map({ ($_, -$_) } @fp4) : $t eq "binary" ? (1, -1) : $t eq "ternary" || $t eq "int2" ? (-1 .. 1)
                : $t eq "int4" ? (-8 .. 7) : $t eq "uint4" ? (0 .. 15) : (0 .. 3);
        push @can, -2 * $s if $t eq "int2";
        for my $k (0 .. $#want) { my $best = 9e9; for (@can) { my $d = abs($_ - $want[$k]); $best = $d if $d < $best }
            abs(abs($c->[$i]{x}[$k] - $want[$k]) - $best) < 1e-5 or die "$child $t $i $k: $c->[$i]{x}[$k] for $want[$k]" } }'

@test "spliced and merged: codes nearest to the mix, however unlike the scales are" {
    for type in $types; do
        zt-quant -q -f --type $type a.json qa.json
        zt-quant -q -f --type $type b.json qb.json
        zt-dna splice qa.json qb.json --alpha 0.25 -f -o child.json
        perl -e "$decoder$nearest" 0.75 child.json
        zt-dna merge --method linear --weight 0.25 --weight 0.75 qa.json qb.json -f -o child.json
        perl -e "$decoder$nearest" 0.25 child.json
        # a parent of floats beside one of codes
        zt-dna merge --method linear --weight 0.25 --weight 0.75 qa.json b.json -f -o mixed.json
        perl -e "$decoder"'my ($a, $c) = map { [layers($_)] } "qa.json", "mixed.json"; $c->[$_]{dtype} eq $a->[$_]{dtype} or die for 0 .. 2'
        zt-dna splice qa.json qb.json --mode point --ratio 1 -f -o all-a.json
        zt-dna compare -q qa.json all-a.json --threshold 0.99
        zt-dna merge qa.json -f -o same.json
        cmp <(zt-convert --hash qa.json) <(zt-convert --hash same.json)
        zt-dna graft qa.json qb.json -f -o both.json
        echo 0.5,-1,2,0.25 >x.csv
        [ "$(zt-run -m both.json -i x.csv)" = "$(zt-run -m qa.json -i x.csv),$(zt-run -m qb.json -i x.csv)" ]
    done
}

@test "codes of bytes merged do not wrap where the second parent's scale is larger" {
    network 3 100 >b.json
    for rule in field loom; do
        for type in int8 uint8 fp8e4m3 int16; do
            zt-quant -q -f --rule $rule --type $type a.json qa.json
            zt-quant -q -f --type $type b.json qb.json
            zt-dna merge --method linear --weight 0.5 --weight 0.5 qa.json qb.json -f -o child.json
            zt-convert -f --dtype f32 qa.json fa.json
            zt-convert -f --dtype f32 qb.json fb.json
            zt-convert -f --dtype f32 child.json fc.json
            perl -e "$decoder"'my ($a, $b, $c) = map { [layers($_)] } "fa.json", "fb.json", "fc.json";
                for my $i (0 .. 2) { my @want = map { ($a->[$i]{x}[$_] + $b->[$i]{x}[$_]) / 2 } 0 .. $#{$a->[$i]{x}};
                    for (0 .. $#want) { my $e = abs($c->[$i]{x}[$_] - $want[$_]);
                        $e < 0.04 * largest(@want) or die "'"$rule $type"' $i $_: $c->[$i]{x}[$_] for $want[$_]" } }'
        done
    done
}
