#!/usr/bin/env bats
# zt-convert: any model file in, any out; what is listed, hashed, checked; edits; streams; misuse.

load ../common/helper

setup_file() {
    make_models
}

@test "globs that match no tensor are named" {
    perl -e 'my $h = q({"a.w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}); print pack("Q<", length $h), $h, pack("f<2", 1, 2)' >w.safetensors
    while IFS='|' read -r said args; do
        run -0 --separate-stderr bash -c "zt-convert $args -f w.safetensors out.gguf"
        [[ "${stderr_lines[0]}" == "zt-convert: $said matches no tensor" ]]
    done <<'END'
--drop 'b.*'|--drop 'b.*'
--select 'b.*'|--select 'a*' --select 'b.*'
--rename 'x*=y*'|--rename 'x*=y*'
END
    run -0 --separate-stderr zt-convert --select 'a*' --rename 'a.*=b.*' --drop '*.b' -f w.safetensors out.gguf
    one_message zt-convert
    run -0 --separate-stderr zt-convert --select 'a*' --rename 'a.*=b.*' -f w.safetensors out.gguf
    [ -z "$stderr" ]
}

@test "the man page has the options of --help, in that order" {
    man_is_true zt-convert zt-formats.5
}

@test "the man page's examples run" {
    cp "$tiny" m && rm model.gguf && mv m model.gguf
    cp -r "$repo/tests/sign/reference/model" signed
    cp "$repo"/tests/sign/reference/{root.crt,certificate.sig} .
    man_examples_run zt-convert
}

@test "each container holds all of a GGUF, and gives it back to the byte" {
    zt-convert --hash model.gguf >hashes
    zt-convert --meta model.gguf >meta
    zt-convert --no-history model.gguf first.gguf
    [ "$(wc -l <hashes)" -gt 10 ]
    for c in safetensors npz pt pth; do
        zt-convert --no-history first.gguf "a.$c"
        diff hashes <(zt-convert --hash "a.$c")
        diff meta <(zt-convert --meta "a.$c")
        zt-convert --no-history "a.$c" "$c.gguf"
        cmp first.gguf "$c.gguf"
    done
    zt-convert --no-history npz.gguf b.npz
    cmp a.npz b.npz
}

@test "safetensors made of a GGUF run by themselves" {
    zt-convert model.gguf m.safetensors
    [ "$(zt-run -m m.safetensors -p 'a b' --raw --temp 0 -n 8 --ids)" = \
      "$(zt-run -m model.gguf -p 'a b' --raw --temp 0 -n 8 --ids)" ]
}

@test "shards, in and out" {
    zt-convert --hash model.gguf >hashes
    for c in gguf safetensors; do
        zt-convert --no-history --shard 50000 model.gguf s.$c
        [ "$(ls s-*-of-*.$c | wc -l)" -gt 2 ]
        [ ! -e s.$c ]
        first=$(ls s-00001-of-*.$c)
        diff hashes <(zt-convert --hash "$first")
        diff <(zt-convert --meta model.gguf) <(zt-convert --meta "$first")
    done
    diff hashes <(zt-convert --hash s.safetensors.index.json)
    zt-convert --no-history --shard 50000 --drop '*attn_k*' model.gguf d.safetensors
    diff <(grep -v attn_k hashes) <(zt-convert --hash d.safetensors.index.json)
    for part in s-00001-of-*.* s.safetensors.index.json; do
        run --separate-stderr zt-convert --set a=b "$part"
        [ "$status" -eq 64 ]
        [[ $stderr == *'several files'* ]]
    done
    rm s-00002-of-*.gguf
    run --separate-stderr zt-convert --list s-00001-of-*.gguf
    [ "$status" -eq 66 ]
    one_message zt-convert
}

@test "pipes and FIFOs stream: bytes come out before the input ends" {
    zt-convert --no-history model.gguf m.safetensors
    for c in gguf safetensors; do
        f=model.gguf
        [ $c = gguf ] || f=m.safetensors
        cmp <(cat $f | zt-convert --no-history --to $c - -) $f
        mkfifo in.$c
        size=$(stat -Lc %s $f)
        # The last byte is held back until half of the output is there.
        { head -c $((size - 1)) $f; for _ in {1..1200}; do [ -e go.$c ] && break; sleep 0.05; done
            [ -e go.$c ] && tail -c 1 $f; } >in.$c &
        zt-convert --no-history --to $c in.$c - | { head -c $((size / 2)); touch go.$c; cat; } | cmp - $f
        wait
    done
}

@test "no temporary file while a stream goes through" {
    mkdir t
    chmod 555 t
    TMPDIR=$PWD/t zt-convert --no-history - out.gguf < <(cat model.gguf)
    cmp <(zt-convert --no-history model.gguf -) out.gguf
}

@test "--list, --by, --meta in every form" {
    zt-convert --list --format json model.gguf >out
    json '$j->{schema} eq "zt.convert.list/1" && @{$j->{rows}} > 10
          && !grep { !$_->{name} || !$_->{dtype} || $_->{shape} !~ /^\[\d+(,\d+)*\]$/ || $_->{bytes} <= 0 } @{$j->{rows}}' <out
    all=$(zt-convert --list model.gguf | awk -F'\t' 'NR > 1 {n += $4} END {print n}')
    for by in layer dtype; do
        [ "$(zt-convert --list --by $by model.gguf | awk -F'\t' 'NR > 1 {n += $4} END {print n}')" = "$all" ]
    done
    zt-convert --list --by layer model.gguf | grep -q '^blk.0	'
    [ "$(zt-convert --list --select 'blk.0.*' --drop '*norm*' model.gguf | grep -c '^blk.0')" -gt 3 ]
    run grep -E 'norm|blk.1' <(zt-convert --list --select 'blk.0.*' --drop '*norm*' model.gguf)
    [ "$status" -eq 1 ]
    zt-convert --meta --format json model.gguf >out
    json '$j->{schema} eq "zt.convert.meta/1" && $j->{rows}[0]{key} eq "general.architecture"
          && $j->{rows}[0]{type} eq "str" && $j->{rows}[0]{value} eq "llama"' <out
}

@test "--dtype casts floats and blocks, and leaves what is none" {
    zt-convert --dtype f32 model.gguf f.gguf
    run grep -vE '	f32	|^name' <(zt-convert --list f.gguf)
    [ "$status" -eq 1 ]
    zt-convert --dtype f64 f.gguf d.safetensors
    zt-convert --dtype f32 d.safetensors g.gguf
    diff <(zt-convert --hash f.gguf) <(zt-convert --hash g.gguf)
    zt-convert --dtype bf16 f.gguf b.gguf
    zt-convert --list b.gguf | awk -F'\t' 'NR > 1 && $2 != ($3 ~ /,/ ? "bf16" : "f32") {bad = 1} END {exit bad}'
    [ -n "$(zt-run -m b.gguf -p 'a b' --raw --temp 0 -n 4 --ids)" ]
    run grep -v '	bf16	' <(zt-convert --unset general.architecture f.gguf - | zt-convert --dtype bf16 - - | zt-convert --list - | tail -n +2)
    [ "$status" -eq 1 ]
    [ "$(zt-convert --meta b.gguf | awk -F'\t' '$1 == "general.file_type" {print $3}')" = \
      "$(zt-convert --meta model.gguf | awk -F'\t' '$1 == "general.file_type" {print 32}')" ]
    for t in q4_0 i32 none; do
        run --separate-stderr zt-convert --dtype $t model.gguf n.gguf
        [ "$status" -eq 64 ]
        one_message zt-convert
        [ ! -e n.gguf ]
    done
}

@test "--cat is the tensor as npy" {
    zt-convert --cat output_norm.weight model.gguf >x.npy
    zt-convert --no-history --select output_norm.weight model.gguf y.npy
    cmp x.npy y.npy
    zt-convert --cat token_embd.weight -o e.npy model.gguf
    zt-convert --list e.npy | grep -q '^arr_0	f32	'
    run --separate-stderr zt-convert --cat none model.gguf
    [ "$status" -eq 66 ]
    one_message zt-convert
}

@test "names: --select, --drop, --rename" {
    zt-convert --select 'blk.*' --drop '*norm*' --rename 'blk.*.attn_*.weight=l*/a_*' model.gguf r.safetensors
    zt-convert --list r.safetensors | grep -q '^l0/a_q	'
    run grep norm <(zt-convert --list r.safetensors)
    [ "$status" -eq 1 ]
    [ "$(zt-convert --list --select 'l0/*' r.safetensors | wc -l)" -lt "$(zt-convert --list r.safetensors | wc -l)" ]
    run --separate-stderr zt-convert --hash --select x r.safetensors
    [ "$status" -eq 64 ]
    [[ $stderr == *"'--select' does not apply to --hash; it applies to a conversion or --list" ]]
    run --separate-stderr zt-convert --rename 'blk.*=one' model.gguf n.gguf
    [ "$status" -eq 65 ]
    for bad in one =x a= 'a=*'; do
        run --separate-stderr zt-convert --rename "$bad" model.gguf n.gguf
        [ "$status" -eq 64 ]
    done
    [ ! -e n.gguf ]
}

@test "several inputs become one" {
    zt-convert --select 'blk.0.*' model.gguf a.gguf
    zt-convert --drop 'blk.0.*' model.gguf b.safetensors
    zt-convert --no-history b.safetensors a.gguf c.npz
    diff <(zt-convert --hash model.gguf) <(zt-convert --hash c.npz)
    run --separate-stderr zt-convert a.gguf model.gguf d.gguf
    [ "$status" -eq 65 ]
    [[ $stderr == *"duplicate tensor 'blk.0."* ]]
    zt-convert --cat output_norm.weight -o x.npy model.gguf
    zt-convert --cat blk.0.attn_norm.weight -o y.npy model.gguf
    zt-convert x.npy y.npy z.npz
    [ "$(zt-convert --list z.npz | cut -f1 | xargs)" = 'name x y' ]
}

@test "--set and --unset: kinds named, kept and guessed" {
    zt-convert --set general.name=x --set a.int=7 --set a.neg=-7 --set a.real=0.5 --set a.bool=true --set 'a.text=some text' \
        --set a.u8=u8:200 --set 'a.list=[1, 2, 3]' --set 'a.words=[x,y]' --set llama.block_count=9 --unset 'tokenizer.*' \
        --no-history model.gguf s.gguf
    zt-convert --meta s.gguf >out
    while IFS='|' read -r key kind value; do
        grep -qxF "$key	$kind	$value" out || { echo "$key"; cat out; false; }
    done <<'X'
a.int|u32|7
a.neg|i32|-7
a.real|f32|0.5
a.bool|bool|true
a.text|str|some text
a.u8|u8|200
a.list|u32[3]|[1, 2, 3]
a.words|str[2]|["x", "y"]
llama.block_count|u32|9
general.name|str|x
X
    run grep tokenizer out
    [ "$status" -eq 1 ]
    for bad in a.x=u8:300 llama.block_count=many =5 x; do
        run --separate-stderr zt-convert --set "$bad" model.gguf n.gguf
        [ "$status" -eq 64 ]
        one_message zt-convert
    done
}

@test "a file edited where it is: in place where it fits, else whole anew" {
    cp "$tiny" e.gguf
    zt-convert --set general.name=abcd e.gguf
    inode=$(stat -c %i e.gguf)
    zt-convert --set general.name=efgh e.gguf
    [ "$(stat -c %i e.gguf)" = "$inode" ]
    zt-convert --meta e.gguf | grep -qx 'general.name	str	efgh'
    zt-convert --set "general.name=$(printf '%5000s' x)" e.gguf
    [ "$(stat -c %i e.gguf)" != "$inode" ]
    diff <(zt-convert --hash "$tiny") <(zt-convert --hash e.gguf)
    zt-convert --set a=b --no-history e.gguf f.safetensors
    zt-convert --rename token_embd.weight=token_embf.weight f.safetensors
    zt-convert --list f.safetensors | grep -q '^token_embf.weight'
    [ "$(ls -A | grep -c tmp)" -eq 0 ]
}

@test "history: a line a run, none with --no-history, and then the same bytes twice" {
    zt-convert model.gguf 1.gguf
    zt-convert --dtype f16 1.gguf 2.safetensors
    zt-convert --meta 2.safetensors | grep -qE '^zt.history	str\[2\]	.*zt-convert .*model.gguf.*, .*1.gguf --dtype f16'
    zt-convert --no-history model.gguf 3.gguf
    zt-convert --no-history model.gguf 4.gguf
    cmp 3.gguf 4.gguf
    cmp <(zt-convert --meta model.gguf) <(zt-convert --meta 3.gguf)
}

@test "--check finds NaN, infinities, bad scales, cut and twisted files" {
    run --separate-stderr zt-convert --check model.gguf
    [ "$status" -eq 0 ]
    [ -z "$output$stderr" ]
    perl -e 'my $h = q({"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"y":{"dtype":"F64","shape":[1],"data_offsets":[16,24]},"z":{"dtype":"BF16","shape":[1],"data_offsets":[24,26]}});
        print pack("Q<", length $h), $h, pack("V4", 0, 0x7fc00000, 0xff800000, 0), pack("d<", 1e300), pack("v", 0x7f80)' >nan.safetensors
    run --separate-stderr zt-convert --check nan.safetensors
    [ "$status" -eq 65 ]
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[0]} == *"'x': 1 NaN, 1 infinite, first at element 1"* ]]
    [[ ${lines[1]} == *"'z': 0 NaN, 1 infinite"* ]]
    one_message zt-convert
    [[ $stderr == *"2 faults"* ]]
    head -c $(($(stat -Lc %s model.gguf) - 100)) model.gguf >cut.gguf
    run --separate-stderr zt-convert --check cut.gguf
    [ "$status" -eq 65 ]
    [ "${#lines[@]}" -eq 1 ]
    run --separate-stderr zt-convert --check - < <(cat cut.gguf)
    [ "$status" -eq 65 ]
    one_message zt-convert
}

@test "--check tells all faults of a structure, not the first alone" {
    perl -e 'my $h = q({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[3],"data_offsets":[4,12]},"c":{"dtype":"F9","shape":[1],"data_offsets":[12,16]},"d":{"dtype":"U8","shape":[1],"data_offsets":[900,901]},"a":{"dtype":"U8","shape":[4],"data_offsets":[12,16]}});
        print pack("Q<", length $h), $h, "\0" x 20' >bad.safetensors
    run --separate-stderr zt-convert --check bad.safetensors
    [ "$status" -eq 65 ]
    for fault in "duplicate tensor 'a'" "'b': 8 bytes of data, but the shape needs 12" "'b': data starts at byte 4, expected 8" "'c': unknown dtype" \
        "'d': data_offsets [900, 901] are out of range" '20 bytes of data, but the tensors use 16'; do
        [[ $output == *"$fault"* ]] || { echo "$output"; false; }
    done
    [ "${#lines[@]}" -eq 6 ]
    one_message zt-convert
    run --separate-stderr zt-convert --list bad.safetensors
    [ "$status" -eq 65 ]
    # GGUF: both tensors begin elsewhere than they should, and are named alike
    perl -e 'sub text { pack("Q</a*", $_[0]) } sub t { text("x") . pack("VQ<VQ<", 1, 4, 0, $_[0]) }
        my $h = "GGUF" . pack("VQ<Q<", 3, 2, 1) . text("k") . pack("VC", 7, 2) . t(32) . t(8);
        print $h, "\0" x (-length($h) % 32 + 48)' >bad.gguf
    run --separate-stderr zt-convert --check bad.gguf
    [ "$status" -eq 65 ]
    for fault in "'k': invalid bool 2" "'x': data offset is 32, expected 0" "'x': data offset is 8, expected 32" "duplicate tensor 'x'"; do
        [[ $output == *"$fault"* ]] || { echo "$output"; false; }
    done
    [ "${#lines[@]}" -eq 4 ]
}

@test "every truncation of a small file is refused, or read; never a signal" {
    zt-convert --no-history --select output_norm.weight --unset 'tokenizer*' model.gguf t.gguf
    for c in gguf safetensors npz pt; do
        [ $c = gguf ] || zt-convert --no-history t.gguf t.$c
        size=$(stat -c %s t.$c)
        for ((n = 0; n < size; n += 1 + size / 150)); do
            head -c $n t.$c >cut.$c
            code=0
            zt-convert -f cut.$c out.gguf 2>/dev/null || code=$?
            [ $code -eq 65 ] || [ $code -eq 0 ] || { echo "$c cut at $n: $code"; false; }
        done
    done
}

@test "in = out is refused: by path, link and symbolic link" {
    cp "$tiny" a.gguf
    ln a.gguf b.gguf
    ln -s a.gguf c.gguf
    for to in a.gguf ./a.gguf b.gguf c.gguf; do
        for force in '' -f; do
            run --separate-stderr zt-convert $force a.gguf $to
            [ "$status" -eq 73 ]
            one_message zt-convert
        done
    done
    cmp a.gguf "$tiny"
}

@test "a full device, an interrupt" {
    run --separate-stderr zt-convert model.gguf /dev/full
    [ "$status" -eq 74 ]
    one_message zt-convert
    run --separate-stderr bash -c "zt-convert --list '$tiny' >/dev/full"
    [ "$status" -eq 74 ]
    # while it waits for the rest of its input
    run interrupt_when true "$bin/zt-convert" - out.gguf < <(head -c 5000 model.gguf; exec sleep 20 3>&-)
    [ "$status" -eq 130 ]
    ls -A >left; cat left
    run ! grep -qvxE 'model.gguf|left|separate-stderr.*' left
}

@test "misuse is one line and 64" {
    echo >there.gguf
    all_refused zt-convert <<'X'
64|no input|
64|no output|model.gguf
64|above 0|--shard 0 model.gguf out/
64|exclude each other|--list --meta model.gguf
64|expected one|--probe model.gguf model.gguf
64|--by|--by layer model.gguf o.gguf
64|--output|--list -o x model.gguf
64|unknown container 'nothing'|--to nothing model.gguf o
64|unknown container|model.gguf o.xyz
64|stdin|- - o.gguf
64|shards|--shard 1000 model.gguf -
64|npz does not support shards|--shard 1000 model.gguf o.npz
65|/dev/null: empty file|/dev/null o.gguf
66|none.gguf|none.gguf o.gguf
73|exists|model.gguf there.gguf
X
}

@test "a Hugging Face directory: in, out, and through a pipe into zt-run" {
    zt-convert --to hf model.gguf dir
    [ -s dir/config.json ] && [ -s dir/model.safetensors ]
    zt-convert --no-history dir/ back.gguf
    ids=$(zt-run -m model.gguf -p 'a b' --raw --temp 0 -n 8 --ids --exact)
    [ "$(zt-run -m back.gguf -p 'a b' --raw --temp 0 -n 8 --ids --exact)" = "$ids" ]
    [ "$(zt-convert dir - | zt-run -m - -p 'a b' --raw --temp 0 -n 8 --ids --exact)" = "$ids" ]
    mkdir none
    run --separate-stderr zt-convert none x.gguf
    [ "$status" -eq 66 ]
    run --separate-stderr zt-convert --select x --to hf model.gguf other
    [ "$status" -eq 64 ]
    [ ! -e other ]
}

@test "--check knows scales of blocks" {
    # q8_0: an infinite half and a NaN as scales of blocks 1 and 2
    perl -e 'sub text { pack("Q</a*", $_[0]) }
        my $h = "GGUF" . pack("VQ<Q<", 3, 1, 0) . text("w") . pack("VQ<Q<VQ<", 2, 32, 4, 8, 0);
        print $h, "\0" x (-length($h) % 32);
        print pack("v", $_), "\1" x 32 for 0x3c00, 0x7c00, 0x7e00, 0' >bad.gguf
    run --separate-stderr zt-convert --check bad.gguf
    [ "$status" -eq 65 ]
    [[ $output == *"'w': NaN or infinite scales, first in block 1 (64 values)"* ]]
}

@test "killed at any call that writes, the target is old or new" {
    command -v strace >/dev/null || skip "no strace"
    strace -qq -o trace true || skip "strace may not trace here"
    kills=0
    cp "$tiny" old.gguf
    zt-convert --no-history --set general.name=abcd old.gguf a.gguf
    zt-convert --no-history --set general.name=efgh old.gguf b.gguf
    killed_everywhere a.gguf b.gguf t.gguf zt-convert --no-history -f --set general.name=efgh old.gguf t.gguf
    [ $kills -ge 4 ]
    killed_everywhere a.gguf b.gguf t.gguf zt-convert --set general.name=efgh t.gguf
    [ $kills -ge 5 ]
    zt-convert --no-history a.gguf c.gguf
    zt-convert --set "general.name=$(printf '%5000s' x)" c.gguf
    killed_everywhere a.gguf c.gguf t.gguf zt-convert --set "general.name=$(printf '%5000s' x)" t.gguf
    [ $kills -ge 9 ]
}

@test "a file system without room: 74, and nothing is left there" {
    mkdir small
    mount -t tmpfs -o size=60k none small 2>/dev/null || skip "no tmpfs may be mounted here"
    failed=
    for c in gguf safetensors npz pt; do
        code=0
        zt-convert model.gguf small/o.$c 2>err || code=$?
        { [ $code -eq 74 ] && [ "$(wc -l <err)" -eq 1 ] && [ -z "$(ls -A small)" ]; } || failed="$failed $c:$code"
    done
    code=0
    zt-convert --shard 20000 model.gguf small/o.gguf 2>err || code=$?
    { [ $code -eq 74 ] && [ -z "$(ls -A small)" ]; } || failed="$failed shards:$code"
    zt-convert model.gguf m.npz
    code=0
    TMPDIR=small zt-convert - x.gguf <<<"$(:)" 2>err || code=$?
    [ $code -eq 65 ] || failed="$failed nothing:$code"
    code=0
    TMPDIR=small zt-convert - x.gguf 2>err < <(cat m.npz) || code=$?
    { [ $code -eq 74 ] && [ -z "$(ls -A small)" ] && [ ! -e x.gguf ]; } || failed="$failed spool:$code"
    umount small
    [ -z "$failed" ] || { echo "$failed"; false; }
}
