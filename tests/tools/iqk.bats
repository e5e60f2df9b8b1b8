#!/usr/bin/env bats
# Files in the types of ik_llama.cpp: read, converted, quantized, run; those with a scale for each row are read as f32, or copied.

load ../common/helper

setup_file() {
    for type in iq2_k iq3_k iq4_k iq5_k iq6_k; do
        "$tests/mkmodel" --type $type --width 256 --ffn 256 --head 64 --layers 1 "$BATS_FILE_TMPDIR/$type.gguf"
    done
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    ln -sf "$BATS_FILE_TMPDIR"/*.gguf .
}

@test "a model of each type runs as its numbers in f32 do, and converts and quantizes" {
    for type in iq2_k:76 iq3_k:110 iq4_k:144 iq5_k:176 iq6_k:212; do
        name=${type%:*}
        zt-convert --check "$name.gguf"
        zt-convert --list "$name.gguf" | grep -q "^blk.0.attn_q.weight"$'\t'"$name"$'\t'"\[256,256\]"$'\t'$((256 * ${type#*:}))
        zt-convert -q --dtype f32 "$name.gguf" "$name-f32.gguf"
        for model in "$name" "$name-f32"; do
            zt-run -q -m $model.gguf --exact --engine cpu --raw -p 'hello there' -n 8 --ignore-eos --ids --logits $model.npy >$model.ids
        done
        cmp "$name.ids" "$name-f32.ids"
        cmp "$name.npy" "$name-f32.npy"
        zt-run -q -m "$name.gguf" --engine cpu --raw -p 'hello there' -n 8 --ids >default
        [ "$(wc -w <default)" -eq 8 ]
        zt-convert -q "$name.gguf" "$name.safetensors"
        zt-convert -q --no-history "$name.safetensors" back.gguf -f
        cmp <(zt-convert --hash back.gguf) <(zt-convert --hash "$name.gguf")
        run -0 --separate-stderr zt-quant -f --type q8_0 "$name.gguf" q8.gguf
        [[ $stderr == *"are already quantized; requantizing compounds the error"* ]]
        [ "$(zt-convert --hash "$name.gguf" | wc -l)" -eq "$(zt-convert --hash q8.gguf | wc -l)" ]
    done
}

@test "they are read, not written: quantizing to one names what exists" {
    run --separate-stderr zt-quant --type iq4_k iq6_k.gguf out.gguf
    [ "$status" -eq 64 ] && one_message zt-quant && [[ $stderr == *"unknown type 'iq4_k'"* ]]
    [ ! -e out.gguf ]
    run --separate-stderr zt-quant --type q8_0 --tensor-type '*=iq5_k' iq6_k.gguf out.gguf
    [ "$status" -eq 64 ] && one_message zt-quant && [ ! -e out.gguf ]
}

# A GGUF of one tensor: number of its type, columns, rows, and bytes of data.
one_tensor() { # TYPE COLUMNS ROWS BYTES
    perl -e 'my ($type, $columns, $rows, $bytes) = @ARGV;
             my $h = pack("a4 L< Q< Q<", "GGUF", 3, 1, 0) . pack("Q</a* L< Q< Q< L< Q<", "w", 2, $columns, $rows, $type, 0);
             print $h, "\0" x (-length($h) % 32), map { chr($_ * 7 % 64) } 1 .. $bytes' "$@"
}

@test "rows that are no whole blocks, data cut short, and numbers without a type are refused" {
    for type in 137:76 138:110 139:144 140:176 141:212; do
        bytes=$((3 * ${type#*:}))
        one_tensor "${type%:*}" 256 3 $bytes >sound.gguf
        zt-convert --check sound.gguf
        zt-convert --cat w sound.gguf >w.npy
        for columns in 128 255 257 320; do
            one_tensor "${type%:*}" $columns 3 $((2 * bytes)) >odd.gguf
            run --separate-stderr zt-convert --list odd.gguf
            [ "$status" -eq 65 ] && one_message zt-convert && [[ $stderr == *"not a multiple of the block size 256"* ]]
        done
        for cut in 1 $((bytes - 1)) $bytes; do
            head -c -$cut sound.gguf >cut.gguf
            run --separate-stderr zt-convert --cat w cut.gguf
            [ "$status" -eq 65 ] && one_message zt-convert
        done
    done
    for number in 133 136 142 143 147 151 159 255 256 393; do
        one_tensor $number 256 1 512 >unknown.gguf
        run --separate-stderr zt-convert --list unknown.gguf
        [ "$status" -eq 65 ] && one_message zt-convert && [[ $stderr == *"unknown tensor type $number"* ]]
    done
}

@test "types with a scale for each row are listed and copied with their bytes" {
    for type in 134:iq1_bn:54 135:iq2_bn:68 144:iq4_ks:140 145:iq2_ks:72 146:iq4_kss:132 152:iq5_ks:172 153:iq2_kt:72 154:iq3_kt:104 \
        155:iq4_kt:132 156:iq3_ks:104 157:iq2_kl:88 158:iq1_kt:60; do
        IFS=: read -r number name bytes <<<"$type"
        one_tensor "$number" 256 3 $((3 * bytes)) >rows.gguf
        zt-convert --check rows.gguf
        zt-convert --list rows.gguf | grep -q "^w"$'\t'"$name"$'\t'"\[3,256\]"$'\t'$((3 * bytes))
        zt-convert -q -f --no-history rows.gguf copy.gguf
        tail -c $((3 * bytes)) rows.gguf >codes
        perl -0777 -e 'my ($codes, $copy) = map { open my $f, "<:raw", $_; <$f> } @ARGV; exit !(index($copy, $codes) > 0)' codes copy.gguf
        one_tensor "$number" 256 3 $((3 * bytes - 1)) >short.gguf
        run -65 zt-convert --check short.gguf
        run -65 zt-convert --cat w short.gguf
    done
}

@test "their numbers are f32, from any place of a file, but not from a pipe; those of trellises are refused by name" {
    for type in 134:iq1_bn:54 135:iq2_bn:68 144:iq4_ks:140 145:iq2_ks:72 146:iq4_kss:132 152:iq5_ks:172 156:iq3_ks:104 157:iq2_kl:88; do
        IFS=: read -r number name bytes <<<"$type"
        # rows of 66 blocks of 256 or more: the pieces that are read end inside of a row
        row=$(perl -e 'my ($name, $bytes) = @ARGV; my $scale = $name =~ /iq1_bn|iq2_k|iq3_k/ ? 2 : 4;
                       print $scale + 66 * ($bytes - $scale)' "$name" "$bytes")
        one_tensor "$number" $((66 * 256)) 3 $((3 * row)) >rows.gguf
        zt-convert --cat w rows.gguf >w.npy
        [ "$(stat -c %s w.npy)" -eq $((128 + 3 * 66 * 256 * 4)) ]
        zt-convert -q -f --no-history --dtype f32 rows.gguf f32.gguf
        zt-convert --cat w f32.gguf | cmp - w.npy
        zt-quant -q -f --no-history --type f32 rows.gguf quant.gguf
        zt-convert --cat w quant.gguf | cmp - w.npy
        # a row by itself is what it is among others
        perl -0777 -e 'my ($type, $row) = @ARGV; open my $f, "<:raw", "rows.gguf"; my $all = <$f>; my $data = substr $all, -3 * $row;
                       my $h = pack("a4 L< Q< Q<", "GGUF", 3, 1, 0) . pack("Q</a* L< Q< Q< L< Q<", "w", 2, 66 * 256, 1, $type, 0);
                       print $h, "\0" x (-length($h) % 32), substr $data, $row, $row' "$number" "$row" >second.gguf
        zt-convert --cat w second.gguf | tail -c $((66 * 256 * 4)) >second
        cmp -i $((128 + 66 * 256 * 4)):0 -n $((66 * 256 * 4)) w.npy second
        run -69 --separate-stderr bash -c 'cat rows.gguf | zt-convert --cat w -'
        one_message zt-convert && [[ $stderr == *"$name"* ]]
    done
    for number in 153 154 155 158; do
        one_tensor "$number" 256 3 400 >rows.gguf
        run -69 --separate-stderr zt-convert --cat w rows.gguf
        one_message zt-convert && [[ $stderr == *"kt, which is not supported"* ]]
    done
}

@test "a model with a scale for each row of a matrix runs as its numbers in f32 do" {
    "$tests/mkmodel" --type f16 --width 256 --ffn 256 --head 64 --layers 1 model.gguf
    zt-convert -q --drop blk.0.ffn_down.weight model.gguf rest.gguf
    perl -e 'srand 7; my $h = pack("a4 L< Q< Q<", "GGUF", 3, 1, 0) . pack("Q</a* L< Q< Q< L< Q<", "blk.0.ffn_down.weight", 2, 256, 256, 144, 0);
             print $h, "\0" x (-length($h) % 32), map { pack("f<", 1e-5 * (1 + $_)) . join "", map { chr int rand 256 } 1 .. 136 } 1 .. 256' >down.gguf
    zt-convert -q rest.gguf down.gguf rows.gguf
    zt-convert --list rows.gguf | grep -q "^blk.0.ffn_down.weight"$'\t'iq4_ks
    zt-convert -q --dtype f32 rows.gguf f32.gguf
    for model in rows f32; do
        zt-run -q -m $model.gguf --exact --engine cpu --raw -p 'hello there' -n 8 --ignore-eos --ids --logits $model.npy >$model.ids
    done
    cmp rows.npy f32.npy
    cmp rows.ids f32.ids
    zt-run -q -m model.gguf --exact --engine cpu --raw -p 'hello there' -n 8 --ignore-eos --ids --logits model.npy >model.ids
    run ! cmp -s rows.npy model.npy
    zt-quant -q --type q8_0 rows.gguf q8.gguf
    zt-run -q -m q8.gguf --engine cpu --raw -p 'hello there' -n 2 --ids >ids
    [ "$(wc -w <ids)" -eq 2 ]
    # the same in two files
    zt-convert -q --shard 300K rows.gguf shards.gguf
    [ -e shards-00002-of-0000[2-9].gguf ]
    zt-run -q -m shards-00001-of-*.gguf --exact --engine cpu --raw -p 'hello there' -n 8 --ignore-eos --ids --logits shards.npy >shards.ids
    cmp rows.npy shards.npy
}
