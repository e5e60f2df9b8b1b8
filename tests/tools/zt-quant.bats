#!/usr/bin/env bats
# zt-quant: files, types, fallbacks, tables, sizes, importance, what is refused.

load ../common/helper

setup_file() {
    wide=$BATS_FILE_TMPDIR/wide.gguf     # rows of whole blocks of 256, and layers enough for the rules of mixes
    blocks=$BATS_FILE_TMPDIR/blocks.gguf # one layer of such rows
    three=$BATS_FILE_TMPDIR/three.gguf   # three
    small=$BATS_FILE_TMPDIR/small.gguf
    "$tests/mkmodel" --type f16 "$small"
    "$tests/mkmodel" --type f32 --width 256 --ffn 512 --head 64 --layers 8 --untied "$wide"
    "$tests/mkmodel" --type f32 --width 256 --ffn 256 --head 64 --layers 1 --untied "$blocks"
    "$tests/mkmodel" --type f32 --width 256 --ffn 512 --head 64 --layers 3 --untied "$three"
    export small wide blocks three
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    ln -sf "$small" model.gguf
    printf 'A text of some words, and a few more words.\n%.0s' {1..40} >text.txt
}

# Column N of a table in TSV, of the row that begins so.
cell() { # ROW COLUMN
    awk -F '\t' -v row="$1" -v n="$2" '$1 == row {print $n}'
}

@test "the man page has the options of --help, in that order" {
    man_is_true zt-quant
}

@test "the man page's examples run" {
    man_examples_run zt-quant
}

@test "every type of --list-types makes a model that runs" {
    n=0 model=$blocks
    [ "${ZT_LONG-}" != 1 ] || model=$wide
    zt-quant -q --make-imatrix -m "$model" -i text.txt -o im.gguf
    while read -r type; do
        with=()
        case $type in iq1_* | iq2_* | iq3_x*) with=(--imatrix im.gguf) ;; esac
        zt-quant -q --type "$type" "${with[@]}" "$model" "$type.gguf"
        zt-run -m "$type.gguf" --raw -p hello -n 2 --ids >ids
        [ "$(wc -w <ids)" -eq 2 ]
        n=$((n + 1))
    done < <(zt-quant --list-types | awk -F '\t' '$6 == "models" {print $1}' | grep -v fp8)
    [ "$n" -ge 35 ]
}

@test "the plan, the table of losses and the file say the same types and sizes" {
    zt-quant -q --type q4_0 --dry-run "$wide" >plan
    zt-quant -q --type q4_0 --measure "$wide" out.gguf >losses
    [ "$(cell blk.3.attn_q.weight 4 <plan)" = q4_0 ]
    [ "$(cell blk.3.attn_q.weight 2 <losses)" = q4_0 ]
    [ "$(cell blk.3.attn_q.weight 7 <plan)" -eq $((256 * 256 / 32 * 18)) ]
    [ "$(cell blk.3.attn_norm.weight 4 <plan)" = f32 ]
    ! grep -q attn_norm losses
    zt-quant -q --type q4_0 --dry-run out.gguf >again
    diff <(grep -v ^file plan | cut -f1,4,7 | tail -n +2) <(grep -v ^file again | cut -f1,3,6 | tail -n +2)
    [ "$(stat -c %s out.gguf)" -gt "$(cell total 7 <plan)" ]
}

@test "losses: a copy has none, fewer bits have more, and the numbers go together" {
    zt-quant -q --type f32 --measure "$wide" | cell total 4 | grep -qx 0
    for type in q8_0 q5_1 q4_1; do
        zt-quant -q --type $type --pure --measure --format json "$wide" >$type.json
        json 'my @r = @{$j->{rows}}; my $good = @r > 50;
              for (@r) { $good &&= $_->{rmse} > 0 && $_->{max} >= $_->{rmse} && $_->{cosine} < 1
                         && abs((1 - $_->{cosine}**2) - 10 ** (-$_->{snr_db} / 10)) < 2e-3 } $good' <$type.json
    done
    snr() { perl -MJSON::PP -e 'local $/; print((decode_json(<STDIN>))->{rows}[-1]{snr_db})' <"$1".json; }
    perl -e 'exit !($ARGV[0] > $ARGV[1] + 10 && $ARGV[1] > $ARGV[2] + 4)' "$(snr q8_0)" "$(snr q5_1)" "$(snr q4_1)"
}

@test "--tensor-type: of those that match the last holds, and one that matches nothing is told" {
    zt-quant -q --type q4_0 --tensor-type '*=q5_0' --tensor-type 'blk.1.attn_?.weight=q8_0' --dry-run "$wide" >plan
    [ "$(cell blk.1.attn_q.weight 4 <plan)" = q8_0 ]
    [ "$(cell blk.0.attn_q.weight 4 <plan)" = q5_0 ]
    [ "$(cell output_norm.weight 4 <plan)" = f32 ]
    run --separate-stderr zt-quant --type q4_0 --tensor-type 'blk.9.*=q8_0' model.gguf out.gguf
    [ "$status" -eq 64 ] && one_message zt-quant && [[ $stderr == *"'blk.9.*=q8_0'"* || $stderr == *"'blk.9.*'"* ]]
    [ ! -e out.gguf ]
}

@test "what falls back is said aloud; --strict exits 1, and the file is there" {
    run --separate-stderr zt-quant --type q4_0 model.gguf out.gguf
    [ "$status" -eq 0 ] && one_message zt-quant && [[ $stderr == *"1 of 20 tensors use a fallback type"*"1 q8_0 for q6_k" ]]
    run zt-quant --type q4_0 --strict -f model.gguf out.gguf
    [ "$status" -eq 1 ] && [ -s out.gguf ]
    run -0 --separate-stderr zt-quant --type q4_0 --strict --tensor-type 'token_embd*=q8_0' -f model.gguf out.gguf
    [ -z "$stderr" ]
}

@test "what was fallen back to is searched for; asked by name it is the format's own" {
    rmse() { zt-quant -q "$@" --measure --format tsv model.gguf | tail -n +2 | grep '^blk.0.attn_q' | cut -f4; }
    for pair in q5_k:q5_1 q4_k:q5_0 q3_k:q4_0 q6_k:q8_0; do
        own=$(rmse --type "${pair#*:}" --pure) fell=$(rmse --type "${pair%:*}" --pure)
        perl -e 'exit !($ARGV[0] > 0 && $ARGV[0] < 0.99 * $ARGV[1])' "$fell" "$own"
        [ "$(rmse --type "${pair%:*}" --pure --tensor-type "*=${pair#*:}")" = "$own" ]
    done
}

@test "every type of a language model, as llama.cpp sizes it: a row of 256 of each type" {
    for pair in q2_k:84 q3_k:110 q4_k:144 q5_k:176 q6_k:210 iq4_xs:136 nvfp4:144 tq1_0:54 tq2_0:66 \
        iq1_s:50 iq1_m:56 iq2_xxs:66 iq2_xs:74 iq2_m:82 iq3_xxs:98 iq3_m:110; do
        zt-quant -q --type "${pair%:*}" --pure --dry-run "$wide" >plan
        [ "$(cell blk.0.attn_q.weight 7 <plan)" -eq $((256 * ${pair#*:})) ]
    done
}

@test "a model of one or two bits needs an importance matrix, of every matrix but the embedding and the output" {
    zt-quant -q --make-imatrix -m "$blocks" -i text.txt -o im.gguf
    run -64 zt-quant -q --type iq2_xxs "$blocks" out.gguf
    [[ $output == *"'blk."*"': iq2_xxs requires an importance matrix (--imatrix)"* ]]
    [ ! -e out.gguf ]
    zt-quant -q --type q8_0 --tensor-type 'token_embd*=iq1_s' "$blocks" out.gguf
    run -64 zt-quant -q -f --type q8_0 --tensor-type '*attn_q*=iq2_s' "$blocks" out.gguf
    [[ $output == *": iq2_s requires an importance matrix"* ]] # the type, not the mix of that name
    zt-quant -q -f --no-history --type iq1_m --imatrix im.gguf -t 1 "$blocks" one.gguf
    zt-quant -q -f --no-history --type iq1_m --imatrix im.gguf -t 3 "$blocks" three.gguf
    cmp one.gguf three.gguf
}

@test "bytes do not depend on threads, pipes or where they go" {
    zt-quant -q --no-history --type q4_0 -t 1 "$wide" one.gguf
    zt-quant -q --no-history --type q4_0 -t 3 "$wide" -o three.gguf
    cat "$wide" | zt-quant -q --no-history --type q4_0 - - | cat >pipe.gguf
    cmp one.gguf three.gguf
    cmp one.gguf pipe.gguf
}

# A matrix of floats, of a name and sizes, in safetensors: by a recurrence, column 5 a tenth as large.
matrix() { # NAME ROWS COLUMNS EXPERTS
    perl -e 'my ($name, $rows, $n, $experts) = @ARGV; my $s = 7;
             my $x = join "", map { my $i = $_; $s = ($s * 1103515245 + 12345) % 2147483648;
                 pack "f<", ($s / 1073741824 - 1) * ($i % $n == 5 ? 0.1 : 1) } 0 .. $rows * $n * $experts - 1;
             my $shape = $experts > 1 ? "$experts,$rows,$n" : "$rows,$n";
             my $h = sprintf q({"%s":{"dtype":"F32","shape":[%s],"data_offsets":[0,%d]}}), $name, $shape, length $x;
             print pack("Q<", length $h), $h, $x' "$@"
}
# What column 5 of the first rows loses, of what all columns do: root mean squares.
column() { # SOURCE QUANTIZED COLUMNS ROWS
    zt-quant -q -f --no-history --type f32 "$2" back.safetensors
    perl -e 'my ($n, $rows, @f) = @ARGV; my @m = map { open my $h, "<:raw", $_; local $/; my $d = <$h>;
                 [unpack "f<" . $n * $rows, substr $d, 8 + unpack "Q<", $d] } @f; my ($all, $one) = (0, 0);
             for (0 .. $n * $rows - 1) { my $e = ($m[0][$_] - $m[1][$_]) ** 2; $all += $e; $one += $e if $_ % $n == 5 }
             print sqrt($one * $n / $all)' "$3" "$4" "$1" back.safetensors
}

@test "a column that is small in all rows is kept better, where codes are searched for and rows are many" {
    for name in blk.0.attn_v.weight blk.0.attn_q.weight; do
        matrix $name 96 256 1 >many.safetensors
        matrix $name 63 256 1 >few.safetensors
        for type in q4_k iq4_nl; do
            zt-quant -q -f --no-history --type $type --pure -t 1 many.safetensors many.gguf
            zt-quant -q -f --no-history --type $type --pure few.safetensors few.gguf
            perl -e 'exit !($ARGV[0] < 0.8 * $ARGV[1])' "$(column many.safetensors many.gguf 256 63)" \
                "$(column few.safetensors few.gguf 256 63)"
            zt-quant -q --no-history --type $type --pure - - -t 3 <many.safetensors | cmp - many.gguf
        done
        zt-quant -q -f --no-history --type q4_0 --pure many.safetensors many.gguf
        zt-quant -q -f --no-history --type q4_0 --pure few.safetensors few.gguf
        [ "$(column many.safetensors many.gguf 256 63)" = "$(column few.safetensors few.gguf 256 63)" ]
    done
}

@test "experts of one tensor are weighed each by itself; what is not finite is told all the same" {
    matrix blk.0.ffn_up_exps.weight 600 64 3 >three.safetensors
    zt-quant -q --no-history --type iq4_nl --pure three.safetensors three.gguf
    size=$((600 * 64 / 32 * 18))
    tail -c $((3 * size)) three.gguf >codes
    for i in 0 1 2; do
        perl -e 'my $i = $ARGV[0]; my $n = 600 * 64 * 4; local $/; my $d = <STDIN>; my $x = substr $d, length($d) - (3 - $i) * $n, $n;
                 my $h = qq({"blk.0.ffn_up_exps.weight":{"dtype":"F32","shape":[600,64],"data_offsets":[0,$n]}});
                 print pack("Q<", length $h), $h, $x' $i <three.safetensors >one.safetensors
        zt-quant -q -f --no-history --type iq4_nl --pure one.safetensors one.gguf
        cmp <(tail -c $size one.gguf) <(tail -c +$((i * size + 1)) codes | head -c $size)
    done
    perl -0777 -pe 'substr($_, -8, 4) = pack("V", 0x7fc00000)' one.safetensors >nan.safetensors
    run --separate-stderr zt-quant -q --type iq4_nl --pure nan.safetensors nan.gguf
    [ "$status" -eq 65 ] && one_message zt-quant && [[ $stderr == *"row 599, column 62 is NaN" ]] && [ ! -e nan.gguf ]
}

@test "what llama-quantize writes down of itself" {
    zt-quant -q --type q5_1 model.gguf out.gguf
    grep -aq 'zt-quant [0-9.]* 20..-..-..T..:..:..Z: --type q5_1' out.gguf
    zt-quant -q --type q8_0 out.gguf more.gguf
    grep -ac 'Z: --type q5_1.*Z: --type q8_0' more.gguf
    grep -c general.file_type out.gguf
    perl -0777 -ne '/general\.file_type(.{4})(.{4})/s && unpack("V", $1) == 4 && unpack("V", $2) == 9
                    && /general\.quantization_version(.{4})(.{4})/s && unpack("V", $2) == 2 or exit 1' out.gguf
}

@test "--target-size: below, by less than a hundredth, and better than one type of that size" {
    zt-quant -q --no-history --type q5_0 --pure --measure "$three" even.gguf >even
    size=$(stat -c %s even.gguf)
    zt-quant -q --no-history --target-size "$size" --measure "$three" fits.gguf >chosen
    perl -e 'exit !($ARGV[0] > $ARGV[1] + 0.5)' "$(cell total 7 <chosen)" "$(cell total 7 <even)"
    fits=$(stat -c %s fits.gguf)
    [ "$fits" -le "$size" ] && [ "$fits" -gt $((size * 99 / 100)) ]
    cat "$three" | zt-quant -q --no-history --target-size "$size" - - >pipe.gguf
    cmp fits.gguf pipe.gguf
    run --separate-stderr zt-quant --target-size 1000 "$three" none.gguf
    [ "$status" -eq 64 ] && one_message zt-quant && [[ $stderr == *"three.gguf: "* ]] && [ ! -e none.gguf ]
}

@test "--target-size: the least size that is named is that of a whole file, works when given back, and one byte less does not" {
    for out in out.gguf out.safetensors out.npz out.pt; do
        for also in '' '--no-history --tensor-type token_embd*=f32'; do
            run --separate-stderr zt-quant -q $also --target-size 99 model.gguf $out
            [ "$status" -eq 64 ] && one_message zt-quant && [[ $stderr == *"model.gguf: --target-size: 99 bytes"* ]]
            least=${stderr##* }
            zt-quant -q -f $also --target-size "$least" model.gguf $out
            [ "$(stat -c %s $out)" -eq "$least" ]
            run --separate-stderr zt-quant -q -f $also --target-size $((least - 1)) model.gguf $out
            [ "$status" -eq 64 ] && [ "${stderr##* }" -eq "$least" ]
            for size in $((least * 11 / 10)) $((least * 3 / 2)); do
                zt-quant -q -f $also --target-size $size model.gguf $out
                [ "$(stat -c %s $out)" -le $size ] && [ "$(stat -c %s $out)" -gt $((size * 95 / 100)) ]
                [ "$(zt-quant -q $also --target-size $size --dry-run model.gguf $out | cell file 7)" -eq "$(stat -c %s $out)" ]
            done
            rm $out
        done
    done
}

@test "--target-size: a matrix with numbers beyond f16 has another type" {
    perl -e 'my $x = join "", map { pack "f<", $_ == 70 ? 1e5 : sin($_) } 0 .. 64 * 256 - 1;
             my $h = sprintf q({"blk.0.ffn_up.weight":{"dtype":"F32","shape":[64,256],"data_offsets":[0,%d]}}), length $x;
             print pack("Q<", length $h), $h, $x' >large.safetensors
    zt-quant -q --target-size 60K large.safetensors large.gguf
    zt-convert --list large.gguf | awk 'NR == 2 {print $2}' | grep -qx 'q8_0\|q6_k\|q5_k'
    perl -0777 -pe 'substr($_, -8, 4) = pack("V", 0x7fc00000)' large.safetensors >nan.safetensors
    run --separate-stderr zt-quant -q --target-size 60K nan.safetensors nan.gguf
    [ "$status" -eq 65 ] && one_message zt-quant && [[ $stderr == *NaN* ]] && [ ! -e nan.gguf ]
}

@test "--bpw: bits of all tensors' data per weight, never above, and the least one works when given back" {
    bits() { # FILE: 8 times all bytes of tensors, over the weights of model.gguf
        echo $((8 * $(zt-convert --list "$1" | awk -F '\t' '{n += $4} END {print n}'))) \
            "$(zt-convert --list "$three" | awk -F '\t' '{n += $4 / 4} END {print n}')"
    }
    run --separate-stderr zt-quant -q --bpw 1 "$three" out.gguf
    [ "$status" -eq 64 ] && one_message zt-quant && [[ $stderr == *"three.gguf: --bpw: 1 bits"* ]] && [ ! -e out.gguf ]
    least=${stderr##* }
    for x in "$least" 4.5; do
        zt-quant -q -f --bpw "$x" "$three" out.gguf
        read -r bits weights < <(bits out.gguf)
        perl -e 'exit !($ARGV[0] <= $ARGV[2] * $ARGV[1] && $ARGV[0] > 0.99 * $ARGV[2] * $ARGV[1])' "$bits" "$weights" "$x"
    done
    grep -aq -- '--bpw 4.5' out.gguf
}

@test "--dry-run: the size of every tensor, scales too, and of the file is what is written" {
    for type in q4_k_m fp8_e4m3; do
        for out in out.gguf out.safetensors out.npz; do
            zt-quant -q --dry-run --type $type model.gguf $out >plan
            zt-quant -q -f --type $type model.gguf $out
            diff <(grep -v '^total\|^file\|^tensor' plan | cut -f1,7 | sort) <(zt-convert --list $out | tail -n +2 | cut -f1,4 | sort)
            [ "$(cell file 7 <plan)" -eq "$(stat -c %s $out)" ]
            [ "$(cell total 7 <plan)" -eq "$(zt-convert --list $out | awk -F '\t' '{n += $4} END {print n}')" ]
            rm $out
        done
    done
}

@test "an importance matrix: made, heeded, and of another model refused" {
    zt-quant --make-imatrix -m model.gguf -i text.txt -c 64 -o im.gguf
    zt-quant --make-imatrix -m model.gguf -i text.txt -c 64 -t 1 -o - | cat >again.gguf
    cmp im.gguf again.gguf
    grep -q blk.1.ffn_down.weight.in_sum2 im.gguf
    run -0 --separate-stderr zt-quant --type q8_0 --imatrix im.gguf model.gguf out.gguf
    [[ $stderr == *"im.gguf: no importance values for 1 of 15 matrices"* ]]
    grep -q quantize.imatrix.entries_count out.gguf
    run --separate-stderr zt-quant --type q8_0 --imatrix im.gguf "$wide" other.gguf
    [ "$status" -eq 65 ] && [ ! -e other.gguf ]
    run --separate-stderr zt-quant --type q8_0 --imatrix text.txt model.gguf other.gguf
    [ "$status" -eq 65 ] && one_message zt-quant
}

# An importance matrix in the form before GGUF: of each NAME the importance of its values, in one row.
dat() { # NAME VALUES...
    perl -e 'my @e; while (@ARGV) { my ($name, $v) = splice @ARGV, 0, 2; my @v = eval $v;
                 push @e, pack("l</a* l< l< f<*", $name, 2, scalar @v, map { 2 * $_ } @v) }
             print pack("l<", scalar @e), @e, pack("l< l</a*", 5, "text")' "$@"
}

# The same as GGUF, of one weight: sums [matrices, columns] and counts of rows.
imatrix_gguf() { # NAME MATRICES COLUMNS SUMS COUNTS
    perl -e 'my ($name, $n, $columns, $sums, $counts) = @ARGV; my @s = eval $sums; my @c = eval $counts;
             sub text { pack "Q</a*", $_[0] }
             my $size = (4 * @s + 31) & ~31;
             my $h = "GGUF" . pack("L< Q< Q<", 3, 2, 1) . text("general.type") . pack("L<", 8) . text("imatrix")
                   . text("$name.in_sum2") . pack("L< Q< Q< L< Q<", 2, $columns, $n, 0, 0)
                   . text("$name.counts") . pack("L< Q< Q< L< Q<", 2, 1, $n, 0, $size);
             my $pad = sub { $_[0] . "\0" x (-length($_[0]) % 32) };
             print $pad->($h), $pad->(pack "f<*", @s), $pad->(pack "f<*", @c)' "$@"
}

@test "an importance matrix of stacked experts: each has its slice, in both forms; wrong counts are refused" {
    up=blk.0.ffn_up_exps.weight
    matrix $up 40 256 3 >three.safetensors
    # Expert 0 by its columns, expert 1 never used, expert 2 by the squares of its columns.
    values='((map { $_ + 1 } 0 .. 255), (0) x 256, (map { $_ * $_ } 1 .. 256))'
    dat $up "$values" >three.dat
    imatrix_gguf $up 3 256 "((map { 4 * (\$_ + 1) } 0 .. 255), (0) x 256, (map { 7 * \$_ * \$_ } 1 .. 256))" '(4, 0, 7)' >three.im
    imatrix_gguf $up 1 768 "$values" '(1)' >row.im
    for im in three.dat three.im row.im; do
        zt-quant -q -f --no-history --type q4_k --pure --imatrix $im three.safetensors ${im/./-}.gguf
        tail -c $((3 * 40 * 144)) ${im/./-}.gguf >${im/./-}.codes
    done
    cmp three-dat.codes three-im.codes
    cmp three-dat.codes row-im.codes
    for i in 0 1 2; do
        perl -e 'my $i = $ARGV[0]; my $n = 40 * 256 * 4; local $/; my $d = <STDIN>; my $x = substr $d, length($d) - (3 - $i) * $n, $n;
                 my $h = qq({"blk.0.ffn_up.weight":{"dtype":"F32","shape":[40,256],"data_offsets":[0,$n]}});
                 print pack("Q<", length $h), $h, $x' $i <three.safetensors >one.safetensors
        dat blk.0.ffn_up.weight "$(sed -n "$((i + 1))p" <<<$'(1 .. 256)\n(1) x 256\nmap { $_ * $_ } 1 .. 256')" >one.dat
        zt-quant -q -f --no-history --type q4_k --pure --imatrix one.dat one.safetensors one.gguf
        cmp <(tail -c $((40 * 144)) one.gguf) <(tail -c +$((i * 40 * 144 + 1)) three-dat.codes | head -c $((40 * 144)))
    done
    for n in 256 767 769 1024; do
        dat $up "(1) x $n" >wrong.dat
        run --separate-stderr zt-quant -q --type q4_k --imatrix wrong.dat three.safetensors wrong.gguf
        [ "$status" -eq 65 ] && one_message zt-quant && [[ $stderr == *"wrong.dat: "*"'$up'"*"1 x $n "*"3 x 256"* ]] && [ ! -e wrong.gguf ]
    done
    imatrix_gguf $up 2 256 '(1) x 512' '(1, 1)' >wrong.im
    run --separate-stderr zt-quant -q --type q4_k --imatrix wrong.im three.safetensors wrong.gguf
    [ "$status" -eq 65 ] && one_message zt-quant && [[ $stderr == *"'$up'"*"[2,256]"*"[3,256]"* ]] && [ ! -e wrong.gguf ]
}

@test "an importance matrix whose entries name no tensor is of another model; some, and it is said" {
    matrix blk.0.attn_q.weight 8 256 1 >one.safetensors
    dat blk.7.other.weight '(1) x 256' blk.8.other.weight '(1) x 256' >other.dat
    run --separate-stderr zt-quant -q --type q4_k --imatrix other.dat one.safetensors out.gguf
    [ "$status" -eq 65 ] && one_message zt-quant && [[ $stderr == *"other.dat: "*"different model"*"'blk.7.other.weight'"* ]] && [ ! -e out.gguf ]
    dat blk.7.other.weight '(1) x 256' blk.0.attn_q.weight '(1) x 256' >some.dat
    run -0 --separate-stderr zt-quant --type q4_k --imatrix some.dat one.safetensors out.gguf
    one_message zt-quant && [[ $stderr == *"1 of 2 entries ('blk.7.other.weight') match no tensor"* ]]
    printf '\0\0\0\0' >none.dat
    run --separate-stderr zt-quant -q --type q4_k --imatrix none.dat one.safetensors none.gguf
    [ "$status" -eq 65 ] && one_message zt-quant && [ ! -e none.gguf ]
}

@test "safetensors: matrices of any name" {
    perl -e 'my $x = join("", map { pack("f<", sin($_)) } 1 .. 64 * 96); my $y = pack("f<*", 1 .. 96);
             my $h = qq({"a/kernel":{"dtype":"F32","shape":[64,96],"data_offsets":[0,24576]},) .
                     qq("a/norm":{"dtype":"F32","shape":[96],"data_offsets":[24576,24960]}});
             print pack("Q<", length $h), $h, $x, $y' >in.safetensors
    zt-quant -q --no-history --type q8_0 in.safetensors out.gguf
    zt-quant -q --type q8_0 --dry-run out.gguf >plan
    [ "$(cell a/kernel 3 <plan)" = q8_0 ] && [ "$(cell a/norm 3 <plan)" = f32 ]
    zt-quant -q --no-history --type bf16 in.safetensors out.safetensors
    perl -e 'my $h = qq({"v":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}});
             print pack("Q<", length $h), $h, pack("f<*", 1 .. 8)' >vector.safetensors
    run -0 --separate-stderr zt-quant --type q8_0 vector.safetensors vector.gguf
    one_message zt-quant && [[ $stderr == *"nothing to quantize" ]]
    grep -q '"BF16"' out.safetensors
}

@test "fp8: codes and their scales, a row or a tensor; the same through a GGUF and a pipe" {
    zt-quant -q --no-history --type fp8_e4m3 --measure model.gguf row.safetensors >row
    zt-quant -q --no-history --type fp8_e4m3 --scale tensor --measure model.gguf all.safetensors >all
    grep -aq '"blk.0.attn_k.weight":{"dtype":"F8_E4M3","shape":\[32,64\]' row.safetensors
    grep -aq '"blk.0.attn_k.weight_scale":{"dtype":"F32","shape":\[32,1\]' row.safetensors
    grep -aq '"blk.0.attn_k.weight_scale":{"dtype":"F32","shape":\[1\]' all.safetensors
    # Three bits of fraction: an error of a uniform 2^-4 at most, 2^-4 / sqrt(3) by the square.
    perl -e 'exit !($ARGV[0] > 30 && $ARGV[0] < 34 && $ARGV[0] > $ARGV[1])' "$(cell total 7 <row)" "$(cell total 7 <all)"
    zt-quant -q --no-history --type fp8_e4m3 -t 3 model.gguf file.gguf
    zt-quant -q --no-history --type fp8_e4m3 - - <model.gguf | cat >pipe.gguf
    cmp file.gguf pipe.gguf
    zt-quant -q --type f32 --dry-run file.gguf >plan
    [ "$(cell blk.1.ffn_up.weight 3 <plan)" = f8_e4m3 ] && [ "$(cell blk.1.ffn_up.weight_scale 2 <plan)" = 128x1 ]
    zt-quant -q --type fp8_e5m2 --measure model.gguf >e5m2
    perl -e 'exit !($ARGV[0] > 24 && $ARGV[0] < 28)' "$(cell total 7 <e5m2)"
}

# Safetensors with a matrix w and a vector b of 64 times 1.5, in the dtype of these letters.
vectors() { # LETTERS METADATA
    perl -e 'my ($t, $meta) = @ARGV;
        my $one = {F16 => "\0\x3e", BF16 => "\xc0\x3f", F64 => pack("d<", 1.5), I32 => pack("l<", 7)}->{$t};
        my $n = 64 * length $one;
        my $h = qq({"__metadata__":{$meta},"b":{"dtype":"$t","shape":[64],"data_offsets":[0,$n]},) .
                qq("w":{"dtype":"F32","shape":[32,32],"data_offsets":[$n,) . ($n + 4096) . "]}}";
        $h .= " " x (-length($h) % 8);
        print pack("Q<", length $h), $h, $one x 64, pack("f<", 0.5) x 1024' "$@"
}

@test "a language model's vectors become f32, whatever floats they are; others' stay" {
    for pair in f16:F16 bf16:BF16 f64:F64; do
        vectors ${pair#*:} '"general.architecture":"llama"' >llm.safetensors
        zt-quant -q --type q8_0 --dry-run llm.safetensors >plan
        [ "$(cell b 3 <plan)" = ${pair%:*} ] && [ "$(cell b 4 <plan)" = f32 ] && [ "$(cell b 7 <plan)" -eq 256 ]
        zt-quant -q -f --type q8_0 --measure llm.safetensors llm.gguf >losses
        [ -z "$(cell b 2 <losses)" ]
        [ "$(zt-convert --list llm.gguf | awk '$1 == "b" {print $2}')" = f32 ]
        zt-convert --cat b llm.gguf | tail -c 256 | cmp - <(perl -e 'print pack("f<", 1.5) x 64')
        vectors ${pair#*:} '' >net.safetensors
        zt-quant -q --type q8_0 --dry-run net.safetensors >plan
        [ "$(cell b 4 <plan)" = ${pair%:*} ]
    done
    vectors I32 '"general.architecture":"llama"' >llm.safetensors
    zt-quant -q --type q8_0 --dry-run llm.safetensors >plan
    [ "$(cell b 4 <plan)" = i32 ]
    vectors F64 '"general.architecture":"llama"' | perl -0777 -pe 's/\0{6}\xf8\x3f/\0\0\0\0\0\0\xf8\x7f/' >nan.safetensors
    run --separate-stderr zt-quant -q --type q8_0 nan.safetensors nan.gguf
    [ "$status" -eq 65 ] && one_message zt-quant && [[ $stderr == *"'b'"*NaN* ]] && [ ! -e nan.gguf ]
}

@test "what is not finite is refused, with its tensor and place" {
    # The first weight of a tensor in the middle becomes NaN; a norm, infinite.
    cp "$small" nan.gguf
    chmod u+w nan.gguf
    end=$(stat -c %s nan.gguf)
    printf '\0\0\200\177' | dd of=nan.gguf bs=1 seek=$((end - 8)) conv=notrunc status=none
    run --separate-stderr zt-quant --type q4_0 nan.gguf out.gguf
    [ "$status" -eq 65 ] && [[ ${stderr_lines[-1]} == *"'output_norm.weight'"*62* ]] && [ ! -e out.gguf ]
    cp "$small" nan.gguf
    printf '\0\176' | dd of=nan.gguf bs=1 seek=$((end - 256 - 64)) conv=notrunc status=none
    run --separate-stderr zt-quant --type q4_0 -t 2 nan.gguf out.gguf
    [ "$status" -eq 65 ] && [[ ${stderr_lines[-1]} == *"'blk.1.ffn_down.weight'"*"is NaN" ]] && [ ! -e out.gguf ]
}

@test "misuse, an output that is there, the input as output" {
    while IFS='|' read -r code args; do
        run --separate-stderr bash -c "zt-quant $args"
        echo "zt-quant $args: $status $stderr"
        [ "$status" -eq "$code" ]
        one_message zt-quant
    done <<'END'
64|model.gguf out.gguf
64|--type q9_k model.gguf out.gguf
64|--type q8_0 model.gguf
64|--type q8_0
64|--type q8_0 --target-size 80K model.gguf out.gguf
64|--type q8_0 --bpw 4 model.gguf out.gguf
64|--bpw 4 --target-size 80K model.gguf out.gguf
64|--bpw 4 --pure model.gguf out.gguf
64|--bpw 0 model.gguf out.gguf
64|--bpw nan model.gguf out.gguf
64|--make-imatrix --bpw 4 -m model.gguf -i text -o im.gguf
64|--type q8_0 --tensor-type q8_0 model.gguf out.gguf
64|--type q8_0 --tensor-type '*=q9' model.gguf out.gguf
64|--type q8_0 --dry-run --measure model.gguf
64|--target-size 0 model.gguf out.gguf
64|--type q8_0 --scale row model.gguf out.gguf
64|--make-imatrix --pure -m model.gguf -i text -o im.gguf
64|--type q8_0 --to tar model.gguf out.gguf
64|--type q8_0 -m model.gguf model.gguf out.gguf
64|--type q8_0 model.gguf out.gguf -o out.gguf
64|--make-imatrix -m model.gguf -o im.gguf
64|--make-imatrix -m - -i - -o im.gguf
64|--list-types model.gguf
66|--type q8_0 none.gguf out.gguf
65|--type q8_0 text.txt out.gguf
73|--type q8_0 model.gguf text.txt
73|--type q8_0 -f model.gguf model.gguf
73|--type q8_0 model.gguf none/out.gguf
65|-q --type q8_0 --imatrix model.gguf model.gguf out.gguf
END
    [ ! -e out.gguf ]
}

@test "a Hugging Face directory: in one pipe of three tools, and by itself the same" {
    dir=$tests/../whole/llama3
    zt-convert "$dir/" - | zt-quant -q --type q4_k_m - - | zt-run -m - --raw -p 'Why is the sky blue?' -n 3 --ids >ids
    [ "$(wc -w <ids)" -eq 3 ]
    zt-convert --no-history "$dir/" - | zt-quant -q --no-history --type q8_0 - pipe.gguf
    zt-quant -q --no-history --type q8_0 "$dir" alone.gguf
    cmp pipe.gguf alone.gguf
    cp -r "$dir" mine
    zt-quant -q --type q8_0 mine mine/small.gguf
    cp mine/model.safetensors before
    run --separate-stderr zt-quant -q -f --type q8_0 mine mine/model.safetensors
    [ "$status" -eq 73 ] && one_message zt-quant && cmp before mine/model.safetensors
}

@test "an interrupt leaves nothing behind" {
    run interrupt_when true "$bin/zt-quant" --type q8_0 - out.gguf < <(head -c 20000 model.gguf; exec sleep 20 3>&-)
    [ "$status" -eq 130 ]
    [ ! -e out.gguf ] && ! ls -A | grep -q 'out\|tmp'
}

@test "killed at any call that writes, the target is old or new" {
    command -v strace >/dev/null || skip "no strace"
    strace -qq -o trace true || skip "strace may not trace here"
    kills=0
    zt-quant -q --no-history --type q8_0 model.gguf old
    zt-quant -q --no-history --type q4_0 model.gguf new
    killed_everywhere old new t.gguf zt-quant -q --no-history -f --type q4_0 model.gguf t.gguf
    [ $kills -ge 4 ]
    zt-quant -q --no-history -f --type fp8_e4m3 --to safetensors model.gguf new
    killed_everywhere old new t zt-quant -q --no-history -f --type fp8_e4m3 --to safetensors model.gguf t
    [ $kills -ge 8 ]
}

@test "a full disk leaves nothing behind" {
    [ -w /dev/full ] || skip "no /dev/full"
    run --separate-stderr bash -c 'zt-quant --type q8_0 model.gguf - >/dev/full'
    [ "$status" -eq 74 ]
    one_message zt-quant
}
