#!/usr/bin/env bats
# zt-convert and the golden sets of formats: hostile files, files that must be read, and what is
# written, by the libraries that others read it with.

load ../common/helper


# Sets of golden/formats: a folder each with valid.json and bad.json.
golden_sets() {
    golden=${ZT_GOLDEN:-$repo/../shared/golden}
    [ -d "$golden/formats" ] || skip "no golden formats here"
    for set in gguf safetensors npy pt; do
        [ ! -e "$golden/formats/$set/$1" ] || echo "$golden/formats/$set"
    done
}

# The golden sets' hostile files, unpacked: "VERDICT SET/FILE" lines, with a tab, in the file cases.
hostile_files() {
    sets=$(golden_sets bad.json)
    [ -n "$sets" ] || skip "no golden hostile files here"
    for set in $sets; do
        name=$(basename "$set")
        mkdir "$name"
        tar -C "$name" -xzf "$set/bad.tar.gz"
        perl -MJSON::PP -e 'local $/; $set = shift;
            print "$_->{verdict}\t$set/$_->{file}\n" for @{decode_json(<STDIN>)->{cases}}' \
            "$name" <"$set/bad.json"
    done >cases
    [ -s cases ]
}

# Are they read as they come? npy, npz and pt are spooled; an index names files beside it.
is_streamed() { [[ $1 == gguf/* || $1 == safetensors/* ]] && [[ $1 != *.json ]]; }

# Two seconds of processor time, whatever else runs.
quick_convert() { (ulimit -t 2 && exec timeout 60 zt-convert --mem-limit 64MiB "$@"); }

@test "golden hostile files are refused: 65 in time and memory, nothing written" {
    hostile_files
    while IFS=$'\t' read -r verdict file; do
        code=0
        quick_convert "$file" out.gguf 2>err || code=$?
        if [ $code -eq 65 ] && [ "$(wc -l <err)" -eq 1 ] && is_streamed "$file"; then
            # the same as a stream, whose size is not known
            code=0
            quick_convert - out.gguf 2>err < <(cat "$file") || code=$?
        fi
        [ $code -eq 65 ] && [ "$(wc -l <err)" -eq 1 ] && [ ! -e out.gguf ] && continue
        [[ $code -eq 0 && $verdict == reject-or-safe ]] || { echo "$file: $code"; cat err; false; }
        rm out.gguf
    done <cases
}

@test "--check tells at least one fault of each golden hostile file, as a file and as a stream" {
    hostile_files
    while IFS=$'\t' read -r verdict file; do
        [[ $verdict == reject && $file != *.json ]] || continue
        for from in "$file" -; do
            code=0
            quick_convert --check "$from" >out 2>err < <(cat "$file") || code=$?
            { [ $code -eq 65 ] && [ -s out ] && [ "$(wc -l <err)" -eq 1 ]; } ||
                { echo "$from of $file: $code"; cat out err; false; }
            is_streamed "$file" || break
        done
    done <cases
}

@test "golden valid files go through each container, with equal hashes" {
    sets=$(golden_sets valid.json)
    [ -n "$sets" ] || skip "no golden valid files here"
    for set in $sets; do
        perl -MJSON::PP -e 'local $/; print "$_->{file}\n"
            for grep { ($_->{verdict} // "read") eq "read" } @{decode_json(<STDIN>)->{cases}}' <"$set/valid.json" >cases
        [ -s cases ]
        while read -r file; do
            zt-convert --hash "$set/$file" >hashes || { echo "$set/$file"; false; }
            in=$set/$file
            for c in safetensors npz gguf pt; do
                zt-convert --no-history -f "$in" "out.$c" || { echo "$set/$file to $c"; false; }
                diff hashes <(zt-convert --hash "out.$c") || { echo "$set/$file to $c"; false; }
                in=out.$c
            done
            diff <(zt-convert --meta "$set/$file") <(zt-convert --meta out.pt) || { echo "$set/$file"; false; }
        done <cases
    done
}

# Python's answer whether the files written from a golden set hold its expected arrays. Arguments: set, folder.
reference() { # gguf|safetensors
    cat <<'PY'
import json, sys, numpy
folder, out = sys.argv[1:3]
cases = json.load(open(folder + '/valid.json'))['cases']
expected = numpy.load(folder + '/expected.npz')
n = 0
for i, case in enumerate(cases):
    got = read(f'{out}/{i}')
    assert len(got) == len(case['tensors']), case['file']
    for t in case['tensors']:
        shape, data = got[t['name']]
        want = expected[t['key']]
        assert list(shape) == t['shape'], (case['file'], t['name'], shape)
        assert bytes(data) == want.tobytes(), (case['file'], t['name'])
        n += 1
assert n > 20
PY
}

@test "what is written, the reference libraries of GGUF and safetensors read to the golden arrays" {
    golden_sets valid.json >sets
    python=${ZT_PYTHON:-python3}
    for c in gguf safetensors; do
        set=$(grep "/$c\$" sets) || skip "no golden $c here"
        "$python" -c "import numpy, $c" 2>/dev/null || skip "no Python library $c here (ZT_PYTHON=... names one that has it)"
        mkdir "$c"
        i=0
        while read -r file; do
            zt-convert --no-history --to $c "$set/$file" "$c/$i"
            i=$((i + 1))
        done < <(perl -MJSON::PP -e 'local $/; print "$_->{file}\n" for @{decode_json(<STDIN>)->{cases}}' <"$set/valid.json")
        {
            if [ $c = gguf ]; then
                printf '%s\n' 'import gguf' 'def read(path):' \
                    '    return {t.name: ([int(x) for x in reversed(t.shape)], t.data.tobytes()) for t in gguf.GGUFReader(path).tensors}'
            else
                printf '%s\n' 'import safetensors' 'def read(path):' \
                    '    return {n: (t["shape"], t["data"]) for n, t in safetensors.deserialize(open(path, "rb").read())}'
            fi
            reference
        } >read.py
        "$python" read.py "$set" "$c"
    done
}
