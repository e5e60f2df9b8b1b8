#!/usr/bin/env bats
# zt-quant on networks: the 21 storage types by either rule, the frame around them, what is refused.

load ../common/helper


# A network of two layers, one in the other's branches; each of 9 weights, members in many places.
setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    perl -MMIME::Base64 -e '
        my @x = (0, 0.5, -0.25, 1, -1, 0.75, 0.125, -0.625, 0.9375);
        my $w = encode_base64(pack("f<*", @x), "");
        my $v = encode_base64(pack("f<*", map { 4 * $_ } @x), "");
        print qq({"id": "n", "depth": 1, "rows": 1, "cols": 1, "layers_per_cell": 1,\n "layers": [{"z": 0,) .
            qq( "weights": "$w", "type": "Dense", "parallel_branches": [{"type": "Dense", "dtype": "int8",) .
            qq( "scale": 0.05, "weights": "$v"}], "dtype": "float32", "note": "as it \\"is\\""}]}\n)' >net.json
}

# The layers of a network: "dtype native rule scale numbers of the weights", a line each.
layers() { # FILE TEMPLATE
    perl -MJSON::PP -MMIME::Base64 -e 'local $/; my ($t) = @ARGV;
        sub show { my $l = shift;
            print join(" ", $l->{dtype}, $l->{native} ? "native" : "-", $l->{"zt.rule"} // "-", $l->{scale} // "-",
                       map { 0 + sprintf("%.7g", $_) } unpack($t, decode_base64($l->{weights}))), "\n";
            show($_) for @{$l->{parallel_branches} // []} }
        show($_) for @{decode_json(<STDIN>)->{layers}}' "$2" <"$1"
}

@test "integers, by the field's rule: the nearest, of a scale of the largest; all else stands as it was" {
    zt-quant -q --no-history --type int8 net.json out.json
    layers out.json 'c*' >got
    diff - got <<'END'
int8 native - 0.007874016 0 64 -32 127 -127 95 16 -79 119
int8 native - 0.031496063 0 64 -32 127 -127 95 16 -79 119
END
    strip() { perl -0777 -pe 's/"weights": "[^"]*"(,"native":true)?(,"scale":0.007874016)?//g; s/"scale": 0\.[0-9]+//; s/"dtype": "\w+"//g' "$1"; }
    diff <(strip net.json) <(strip out.json)
    zt-quant -q --no-history --type i8 net.json again.json
    cmp out.json again.json
    zt-quant -q --no-history --type float32 out.json back.json
    [ "$(layers back.json 'f<*' | cut -d' ' -f1-4,8)" = "$(printf 'float32 - - 1 1\nfloat32 - - 1 4')" ]
    zt-quant -q --no-history --type int8 out.json same.json
    cmp out.json same.json
    zt-quant -q --no-history --type uint8 net.json out.json -f
    [ "$(layers out.json 'C*' | head -1)" = "uint8 native field 0.003921569 0 127 0 255 0 191 32 0 239" ]
}

@test "small codes: the first in the highest bits, and what the last byte lacks is 0" {
    hex() { perl -MJSON::PP -MMIME::Base64 -e 'local $/; print unpack("H*", decode_base64(decode_json(<STDIN>)->{layers}[0]{weights}))' <"$1"; }
    # 0 .5 -.25 1 -1 .75 .125 -.625 .9375, in sevenths; in E2M1 of sixths; in mean magnitudes of 0.576; its sign
    zt-quant -q --no-history --type int4 net.json i4.json
    [ "$(hex i4.json)" = 03e7951c70 ]
    zt-quant -q --no-history --type fp4 net.json fp4.json
    [ "$(hex fp4.json)" = 05b7f62e70 ] && grep -q '"zt.rule":"field"' fp4.json
    zt-quant -q --no-history --type ternary net.json ternary.json
    [ "$(hex ternary.json)" = 11d340 ]
    zt-quant -q --no-history --type binary net.json binary.json
    [ "$(hex binary.json)" = d680 ]
}

@test "floats of 8 bits are OCP's, of 16 are held in 32, and a safetensors of them has its own dtypes" {
    zt-quant -q --no-history --type fp8e4m3 net.json out.json
    [ "$(layers out.json 'C*' | head -1)" = "fp8e4m3 native field 0.002232143 0 118 238 126 254 122 102 249 125" ]
    zt-convert --no-history out.json out.safetensors
    grep -aq '"layers.0.weights":{"dtype":"F8_E4M3","shape":\[9\]' out.safetensors
    zt-convert --no-history out.safetensors back.json
    cmp out.json back.json
    zt-quant -q --no-history --type bf16 net.json bf16.json
    [ "$(layers bf16.json 'f<*' | head -1)" = "bfloat16 native - 1 0 0.5 -0.25 1 -1 0.75 0.125 -0.625 0.9375" ]
    zt-quant -q --no-history --type f32 out.json f32.json
    ! grep -q '"native":true\|"field"' f32.json
}

@test "a network in a GGUF, from a pipe, to a pipe, and to a GGUF: the same document" {
    zt-quant -q --no-history --type int4 net.json direct.json
    zt-convert --no-history net.json net.gguf
    zt-quant -q --no-history --type int4 net.gguf a.json
    zt-quant -q --no-history --type int4 - - <net.json | cat >b.json
    cat net.gguf | zt-quant -q --no-history --type int4 - out.gguf
    zt-convert --no-history out.gguf c.json
    for f in a b c; do cmp direct.json $f.json; done
    zt-quant -q --type int4 net.json noted.json
    zt-convert --meta noted.json | grep -q 'Z: --type int4'
}

@test "Loom's rule counts in the layer's own scale, towards zero, and wraps" {
    zt-quant -q --no-history --rule loom --type int8 net.json out.json
    layers out.json 'c*' >got
    diff - got <<'END'
int8 native - 1 0 0 0 1 -1 0 0 0 0
int8 native - 0.05 0 40 -20 80 -80 60 10 -50 75
END
    sed 's/"scale": 0.05/"scale": 0.01/' net.json >small.json
    zt-quant -q --no-history --rule loom --type int8 small.json out.json -f
    [ "$(layers out.json 'c*' | tail -1)" = "int8 native - 0.01 0 -56 -100 -112 112 44 50 6 119" ]
}

@test "tables: the plan, losses, a type for some layers, the list" {
    zt-quant -q --type int8 --tensor-type '*branches*=f32' --dry-run net.json >plan
    diff - <(cut -f1,3,4,6,7 plan) <<END
tensor	from	to	bytes	new_bytes
layers.0.weights	float32	int8	36	9
layers.0.parallel_branches.0.weights	float32	float32	36	36
total			72	45
END
    zt-quant -q --type ternary --measure net.json | tail -1 | awk -F '\t' '{exit !($4 > 0.1 && $6 > 0.7)}'
    [ "$(zt-quant --list-types | grep -c 'networks$')" -eq 21 ]
    while read -r type; do
        zt-quant -q -f --no-history --type "$type" net.json out.json
        zt-convert --check out.json
    done < <(zt-quant --list-types | awk -F '\t' '$6 == "networks" {print $1; if ($2) print $2}')
}

@test "misuse, packed codes, a scale below 0, what is not finite" {
    zt-quant -q --no-history --type int4 net.json packed.json
    sed 's/0\.05/-0.05/' net.json >below.json
    perl -MMIME::Base64 -pe 's/"weights": "(\w\S+?)"/sprintf(q("weights": "%s"), encode_base64(pack("f<", 9**9**9 \/ 9**9**9) . substr(decode_base64($1), 4), ""))/e' net.json >nan.json
    "$tests/mkmodel" --type f16 model.gguf
    printf 'some words %.0s' {1..20} >text.txt
    zt-quant --make-imatrix -m model.gguf -i text.txt -c 16 -o im.gguf
    while IFS='|' read -r code args; do
        run --separate-stderr bash -c "zt-quant $args"
        echo "zt-quant $args: $status $stderr"
        [ "$status" -eq "$code" ]
        one_message zt-quant
    done <<'END'
64|--type int8 model.gguf out.json
64|--rule loom --type q8_0 model.gguf out.gguf
64|--type q8_0 --tensor-type '*=ternary' model.gguf out.gguf
64|--type int8 --tensor-type '*=q8_0' net.json out.json
64|--type int8 --tensor-type 'blk*=int4' net.json out.json
64|--type int8 --imatrix im.gguf net.json out.json
64|--target-size 10K net.json out.json
64|--bpw 4 net.json out.json
64|--type q4_k net.json out.json
64|--type fp8_e4m3 --scale row net.json out.json
64|--rule other --type int8 net.json out.json
64|--type int7 net.json out.json
65|--rule loom --type int8 below.json out.json
65|--type int8 nan.json out.json
65|--type float32 nan.json out.json
69|--type int8 packed.json out.json
73|--type int8 net.json packed.json
END
    [ ! -e out.json ]
}

@test "killed at any call that writes, the target is old or new" {
    command -v strace >/dev/null || skip "no strace"
    strace -qq -o trace true || skip "strace may not trace here"
    kills=0
    zt-quant -q --no-history --type int8 net.json new
    killed_everywhere net.json new t.json zt-quant -q --no-history -f --type int8 net.json t.json
    [ $kills -ge 2 ]
}

# Of each network with its masters, and each list of values, in a golden file: N.json, all of it in
# f32, N.wishes, N.want: what weights and dtype each layer shall have.
loom_nets() { # FILE DIRECTORY
    perl -MJSON::PP -MMIME::Base64 -e '
        my ($file, $dir) = @ARGV; my $n = 0;
        open my $f, "<", $file or die; local $/; my $all = decode_json(<$f>);
        sub bytes { encode_base64(pack("f<*", map { /nan|inf/ ? die : $_ } @{$_[0]}), "") }
        sub put { my ($net, $wishes, $want) = @_; $n++;
            for (["json", encode_json($net)], ["wishes", $wishes], ["want", $want]) {
                open my $o, ">", "$dir/$n.$_->[0]" or die; print $o $_->[1] } }
        sub layer_want { my ($i, $l) = @_; ("--tensor-type\nlayers.$i.weights=$l->{dtype}\n",
            join("\t", $i, $l->{dtype}, $l->{native} ? 1 : 0, $l->{weights}) . "\n") }
        sub network { my $v = shift; my ($w, $t) = ("", ""); my $layers = $v->{network}{layers};
            for my $i (0 .. $#$layers) { my $l = $layers->[$i]; next unless $l->{native} && $v->{masters}[$i][0];
                my ($wish, $want) = layer_want($i, $l); $w .= $wish; $t .= $want;
                delete $l->{native}; $l->{weights} = bytes($v->{masters}[$i][0]) }
            put($v->{network}, $w, $t) if $t }
        sub values_of { my $v = shift; my ($w, $t, $i) = ("", "", 0); my @layers;
            for my $d (sort keys %{$v->{dtypes}}) { my $c = $v->{dtypes}{$d};
                my ($wish, $want) = layer_want($i++, {dtype => $d, native => $c->{persisted_native}, weights => $c->{persisted_base64}});
                $w .= $wish; $t .= $want;
                push @layers, {type => "Dense", dtype => $d, scale => $v->{scale}, weights => bytes($v->{values})} }
            put({id => "n", layers_per_cell => 1, layers => \@layers}, $w, $t) }
        sub walk { my $v = shift;
            if (ref $v eq "HASH") {
                return network($v) if $v->{masters} && $v->{network} && $v->{network}{layers};
                my ($any) = ref $v->{dtypes} eq "HASH" ? values %{$v->{dtypes}} : ();
                return values_of($v) if ref $any eq "HASH" && exists $any->{persisted_base64} && $v->{values};
                walk($v->{$_}) for sort keys %$v }
            elsif (ref $v eq "ARRAY") { walk($_) for @$v } }
        walk($all)' "$1" "$2"
}

@test "golden networks of Loom's: the same weights from the masters by its rule" {
    golden=${ZT_GOLDEN:-$repo/../shared/golden}
    [ -d "$golden/loom" ] || skip "no golden loom here"
    n=0
    while read -r file; do
        rm -rf nets && mkdir nets
        loom_nets "$file" nets
        for net in nets/*.json; do
            [ -e "$net" ] || continue
            readarray -t wishes <"${net%.json}.wishes"
            zt-quant -q -f --no-history --rule loom --type float32 "${wishes[@]}" "$net" out.json
            perl -MJSON::PP -e 'local $/; my $l = decode_json(<STDIN>)->{layers};
                for (split /\n/, $ARGV[0]) { my ($i, $dtype, $native, $weights) = split /\t/;
                    print "$ARGV[1]: layer $i, $dtype\n" and $bad = 1
                        if $l->[$i]{dtype} ne $dtype || !!$l->[$i]{native} != !!$native || $l->[$i]{weights} ne $weights }
                exit($bad ? 1 : 0)' "$(<"${net%.json}.want")" "$file" <out.json
            n=$((n + $(wc -l <"${net%.json}.want")))
        done
    done < <(grep -rlE '"persisted_base64"|"native":' "$golden/loom" | sort)
    echo "$n layers"
    [ $n -gt 0 ]
}
