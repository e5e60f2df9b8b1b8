#!/usr/bin/env bats
# What all tools have in common about files: a model in several files is opened whole or not at all, a directory
# without weights is none, what stands in a model's place is named; outputs keep what belongs to the
# file that they replace; looks take many inputs.

load ../common/helper

setup_file() {
    make_models
    cd "$BATS_FILE_TMPDIR" || exit
    printf 'hello on the she in there %d\n' 1 2 3 4 5 6 7 8 9 >text
    printf '1,2\n3,4\n' >in.csv
    printf '0.1,0.2,0,1\n0.3,0.1,1,0\n' >pairs.csv
    printf '%s\n' 'zt program 1' 'in x: f32[n,2]' 'y = silu x' 'out y = y' >one.zt
    printf '%s' '{"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"Dense","input_height":2,"output_height":2}]}' >net.json
    printf '%s' '{"id":"n","depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[' \
        '{"l":0,"type":"Dense","input_height":2,"output_height":1,"dtype":"float32","weights":"AACAPwAAAEA="},' \
        '{"l":1,"type":"Softmax"}]}' >full.json
    zt-convert -q --to hf "$tiny" llama
    zt-convert -q --no-history llama/model.safetensors bin.pt
    zt-convert -q --to hf --dtype f32 "$tiny" other
}

setup() {
    in_own_folder
    ln -s "$BATS_FILE_TMPDIR"/*.* "$BATS_FILE_TMPDIR/text" .
    cp -r "$BATS_FILE_TMPDIR/llama" .
}

# Each line of stdin is a command that reads M: all refuse it with status CODE and one line that has each WORD.
all_say() { # code word...
    local code=$1 line word
    shift
    while IFS= read -r line; do
        echo "$line"
        run --separate-stderr bash -c "$line" </dev/null
        echo "$status: $stderr"
        [ "$status" -eq "$code" ]
        [ "${#stderr_lines[@]}" -eq 1 ]
        for word; do [[ $stderr == *"$word"* ]]; done
        [ ! -e out ]
    done
}

# Every way in which the tools read the model M.
readers() { # model
    sed "s|M|$1|g" <<'END'
zt-run -m M -p hello
zt-run -m M --tokenize -p hello
zt-run -m M --dry-run
zt-convert --to gguf M out
zt-convert --list M
zt-convert --meta M
zt-convert --hash M
zt-convert --cat w M
zt-convert --probe M
zt-quant --type q8_0 M out
zt-quant --make-imatrix -m M -i text -o out
zt-bench model -m M
zt-bench kld M model.gguf -i text
zt-trace record -m M -p hello
zt-dna extract M
zt-dna compare M model.gguf
zt-dna compare model.gguf M
zt-dna lineage M model.gguf
zt-dna splice M model.gguf -o out
zt-dna merge --method linear M model.gguf -o out
zt-train --text text -m M -o out
END
}

# ---- what stands in a model's place --------------------------------------------------------------------

pointer() {
    printf '%s\n' 'version https://git-lfs.github.com/spec/v1' "oid sha256:$(printf '%064d' 7)" 'size 4967215360'
}

@test "a Git LFS pointer is named for what it is, by every tool" {
    pointer >p.gguf
    readers p.gguf | all_say 65 p.gguf 'Git LFS pointer' 'git lfs pull'
    pointer >p.safetensors
    readers p.safetensors | grep -e ' --list' -e '^zt-run' | all_say 65 p.safetensors 'Git LFS pointer'
    run -65 --separate-stderr zt-convert --check p.gguf
    [[ $output == *'Git LFS pointer'* ]]
    for file in model.safetensors config.json; do
        cp -r llama dir
        pointer >dir/$file
        readers dir | grep -v -e --meta -e --hash -e kld -e 'gguf dir' | all_say 65 "dir/$file" 'Git LFS pointer'
        rm -r dir
    done
    pointer >llama/tokenizer.json
    for command in 'zt-run -m llama -p hello' 'zt-run -m llama --count -p hello' 'zt-convert --to gguf llama out' \
        'zt-run -m llama/tokenizer.json --count -p hello' 'zt-quant --type q8_0 llama out'; do
        echo "$command"
    done | all_say 65 llama/tokenizer.json 'Git LFS pointer'
    pointer >adapter.dat
    all_say 65 adapter.dat 'Git LFS pointer' <<'END'
zt-quant --type q4_k --imatrix adapter.dat model.gguf out
zt-run -m model.gguf --plan adapter.dat -p hello
zt-trace stats adapter.dat
zt-train -m adapter.dat -i pairs.csv -o out
END
}

# kind WORD ADVICE: what stdin is, under each name and as a stream, is said
kind() {
    cat >raw
    for name in m.gguf m.safetensors m.bin; do
        cp raw "$name"
        all_say 65 "$1" "$2" <<END
zt-run -m $name -p hello
zt-convert --list $name
zt-quant --type q8_0 $name out
END
        rm "$name"
    done
    all_say 65 stdin "$1" "$2" <<'END'
cat raw | zt-run -m - -p hello
cat raw | zt-convert --list -
cat raw | zt-convert --to gguf - out
END
}

@test "compressed files, archives and web pages are named, with what to do" {
    gzip -c "$tiny" | kind gzip 'gzip -d'
    xz -0c "$tiny" | kind xz 'xz -d'
    bzip2 -c "$tiny" | kind bzip2 'bzip2 -d'
    printf '\x28\xb5\x2f\xfd%0500d' 0 | kind zstd 'zstd -d'
    printf '7z\xbc\xaf\x27\x1c%0500d' 0 | kind 7z extract
    tar -chf - model.gguf | kind 'tar archive' extract
    printf '  <!DOCTYPE HTML>\n<html lang=en>' | kind 'HTML page' 'download'
    printf '<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>' | kind 'XML document' 'download'
    printf 'Entry not found' | kind "server's error message" 'download'
    command -v python3 >/dev/null || skip 'no python3 for a zip'
    python3 -c 'import sys, zipfile
with zipfile.ZipFile("z.zip", "w") as z: z.write("text"); z.writestr("model.gguf", b"GGUF")'
    kind 'zip archive' 'extract' <z.zip
}

@test "other files that are not what they stand for: templates, data, texts, what links lead to" {
    for kind in pointer 'gzip -c text'; do
        $kind >llama/chat_template.jinja
        readers llama | grep -e 'zt-run -m llama -p' -e --to | all_say 65 llama/chat_template.jinja
        rm llama/chat_template.jinja
        $kind >bad
        all_say 65 bad <<'END'
zt-run -m model.gguf --perplexity bad
zt-quant --make-imatrix -m model.gguf -i bad -o out
zt-bench kld model.gguf model.gguf -i bad
zt-train --text bad -m model.gguf -o out
zt-train -m net.json -i bad -o out
END
        cp bad bad.csv
        echo 'zt-run -m net.json -i bad.csv -o out' | all_say 65 bad.csv
    done
    pointer >bad.csv
    all_say 65 bad.csv 'Git LFS pointer' <<'END'
zt-run -m net.json -i bad.csv -o out
zt-train -m net.json -i bad.csv -o out
END
    rm llama/tokenizer.json
    ln -s nowhere llama/tokenizer.json
    readers llama | grep -e 'zt-run -m llama' -e --to | all_say 66 llama/tokenizer.json
    rm llama/tokenizer.json
    run -0 --separate-stderr zt-convert --to gguf llama out
    [ "${#stderr_lines[@]}" -eq 1 ]
    [[ $stderr == *'tokenizer.json and tokenizer.model are missing'* ]]
}

# ---- weights of a directory ------------------------------------------------------------------------------

@test "a directory's pytorch_model.bin is its weights, to every tool" {
    zt-convert --hash llama >want
    cp "$BATS_FILE_TMPDIR/bin.pt" llama/pytorch_model.bin
    ids=$(zt-run -m llama -p hello --raw --temp 0 -n 6 --ids)
    rm llama/model.safetensors
    [ "$(zt-run -m llama -p hello --raw --temp 0 -n 6 --ids)" = "$ids" ]
    [ "$(zt-run -m llama/pytorch_model.bin -p hello --raw --temp 0 -n 6 --ids)" = "$ids" ]
    zt-convert --hash llama | cmp - want
    zt-convert -q llama out.gguf
    zt-convert --hash out.gguf | cmp - want
    zt-convert --check llama
    zt-quant -q --type f32 llama q.gguf
    [ "$(zt-convert --list q.gguf | wc -l)" -eq "$(zt-convert --list out.gguf | wc -l)" ]
    zt-dna compare -q llama out.gguf --threshold 1
    zt-bench model -m llama -p 4 -n 1 -r 3 -q >/dev/null
}

@test "a directory without weights is 66, and nothing is made of it; its vocabulary is there" {
    rm llama/model.safetensors
    readers llama | grep -v -e --tokenize | all_say 66 llama 'no weights: searched for model.safetensors, ' pytorch_model.bin
    run -66 zt-convert --check llama
    [ "$(zt-run -m llama --count -p 'hello on')" = "$(zt-run -m model.gguf --count -p 'hello on')" ]
    [ "$(zt-run -m llama --tokenize -p 'hello on')" = "$(zt-run -m model.gguf --tokenize -p 'hello on')" ]
    [ "$(zt-run -m llama --detokenize -p '43 44')" = "$(zt-run -m model.gguf --detokenize -p '43 44')" ]
}

@test "an adapter in a model's place is named; beside a model's weights it is said that it is not applied" {
    mkdir alone
    echo '{"peft_type": "LORA", "r": 2, "lora_alpha": 2}' | tee alone/adapter_config.json >llama/adapter_config.json
    readers alone | grep -e 'zt-run -m alone -p' -e bench -e quant -e --to | all_say 66 alone 'is a LoRA adapter' --lora
    for command in 'zt-run -m llama -p hello -n 1 --raw' 'zt-convert --to gguf llama out' 'zt-quant --type q8_0 llama out2'; do
        run -0 --separate-stderr $command
        [ "${#stderr_lines[@]}" -eq 1 ]
        [[ $stderr == *'llama: the adapter in the directory'*'not applied'* ]]
    done
    rm out llama/model.safetensors
    echo 'zt-convert --to gguf llama out' | all_say 66 "no weights except a LoRA adapter (see --lora): searched for model.safetensors"
}

# ---- several files ---------------------------------------------------------------------------------------

@test "any part of a model in several files is the whole, to every tool" {
    zt-convert --hash model.gguf >want
    for c in gguf safetensors; do
        zt-convert -q --no-history --shard 100k model.gguf s.$c
        for part in s-*-of-*.$c; do
            zt-convert --hash "$part" | cmp - want
            zt-convert --check "$part"
            zt-convert -q -f "$part" out.gguf
            zt-convert --hash out.gguf | cmp - want
            ! zt-convert --meta out.gguf | grep '^split\.'
        done
        zt-quant -q -f --type f32 "$part" q.gguf
        ! zt-convert --meta q.gguf | grep '^split\.'
        [ "$(zt-convert --list q.gguf | wc -l)" -eq $(($(wc -l <want) + 1)) ]
        zt-dna compare -q "$part" model.gguf --threshold 1
        [ "$(zt-run -m "$part" -p hello --raw --temp 0 -n 6 --ids)" = "$(zt-run -m model.gguf -p hello --raw --temp 0 -n 6 --ids)" ]
        zt-bench model -m "$part" -p 4 -n 1 -r 3 -q >/dev/null
        rm -f s.safetensors.index.json
        zt-convert --hash "$part" | cmp - want
    done
}

@test "no part of an input is overwritten, by any tool" {
    "$tests/mkmodel" parts.gguf
    zt-convert -q --shard 100K parts.gguf in.gguf
    zt-convert -q --shard 100K parts.gguf in.safetensors
    for in in in.gguf in.safetensors; do
        local part=(in-*."${in##*.}") before
        before=$(cat "${part[@]}" | sha256sum)
        [ "${#part[@]}" -ge 2 ]
        while read -r command; do
            run --separate-stderr bash -c "$command"
            echo "$command: $status $stderr"
            [ "$status" -eq 73 ] && one_message "${command%% *}" && [[ $stderr == *"${part[1]}: is an input"* ]]
            [ "$(cat "${part[@]}" | sha256sum)" = "$before" ]
        done <<END
zt-convert -f ${part[0]} ${part[1]}
zt-quant -f --type q8_0 ${part[0]} ${part[1]}
zt-dna merge -f --method linear --weight 1 ${part[0]} ${part[0]} -o ${part[1]}
END
    done
}

@test "a part whose name or fellows are not right is refused by name" {
    zt-convert -q --no-history --shard 50k model.gguf s.gguf
    zt-convert -q --no-history --shard 50k model.gguf s.safetensors
    n=$(ls s-*.gguf | wc -l)
    last=$(ls s-*.gguf | tail -1)
    mkdir swap alone
    cp s-*.gguf swap
    (cd swap && mv "$last" x && mv s-00001-* "$last" && mv x "s-00001-of-$(printf %05d "$n").gguf")
    readers swap/s-00001-of-"$(printf %05d "$n")".gguf | grep -v check | all_say 65 "1 of $n by the file name" "$n of $n by split.no"
    cp "$last" alone
    readers "alone/$last" | all_say 65 "alone/$last" "alone/s-00001-of-"
    cp "$last" alone/renamed.gguf
    readers alone/renamed.gguf | all_say 65 renamed.gguf "shard $n of $n"
    echo "cat '$last' | zt-convert --list -" | all_say 65 stdin "shard $n of $n"
    cp "${last%gguf}safetensors" alone
    readers "alone/${last%gguf}safetensors" | sed '/zt-run/d; /zt-bench/d; /record/d; /imatrix/d; /text -m/d' | all_say 65 "alone/s-00001-of-"
    rm s-00002-*
    readers "$last" | all_say 66 s-00002-of-
}

@test "an index beside model.safetensors: a tensor that only its files have is not left out" {
    mv llama/model.safetensors one.safetensors
    zt-convert -q --no-history --select '*.layers.0.*' one.safetensors half.safetensors
    zt-convert -q --no-history --shard 50k one.safetensors llama/model.safetensors
    zt-convert --hash llama >want
    cp half.safetensors llama/model.safetensors
    readers llama | grep -v -e --tokenize | all_say 65 llama/model.safetensors 'is missing' 'the index in the same directory assigns it to llama/model-0000'
    rm llama/model-0000*
    zt-convert --list llama >rows # transformers too takes the one file, whatever stands in an index without files
    rm llama/model.safetensors
    echo 'zt-convert --list llama' | all_say 66 llama/model-0000
}

@test "any file that an index names is the whole, whatever it is called" {
    mv llama/model.safetensors one.safetensors
    zt-convert -q --no-history --shard 100k one.safetensors llama/model.safetensors
    for f in llama/model-0*; do
        no=${f%%-of-*}
        mv "$f" "llama/odd ${no##*0}.safetensors"
        sed -i "s|${f##*/}|odd ${no##*0}.safetensors|" llama/model.safetensors.index.json
    done
    zt-convert --hash llama/model.safetensors.index.json >want
    [ "$(wc -l <want)" -eq "$(zt-convert --hash one.safetensors | wc -l)" ]
    for f in llama/odd*; do
        zt-convert --hash "$f" | cmp - want
        zt-convert -q -f "$f" out.npz
        zt-convert --hash out.npz | cmp - want
    done
    cp one.safetensors llama/other.safetensors # not in the index
    zt-convert --hash llama/other.safetensors | cmp - want
    rm "$f"
    zt-convert --hash llama/other.safetensors | cmp - want
    echo 'zt-convert --list "llama/'"$(ls llama | grep '^odd')"'"' | all_say 66 llama/odd
    echo nonsense >llama/model.safetensors.index.json
    zt-convert --list "llama/$(ls llama | grep '^odd')"
}

@test "an index that names a tensor that its file lacks: 65, both by name" {
    mv llama/model.safetensors one.safetensors
    zt-convert -q --no-history --shard 50k one.safetensors llama/model.safetensors
    sed -i 's/"weight_map": *{/&"extra.weight":"model-00001-of-0000'"$(ls llama/model-0* | wc -l)"'.safetensors",/' llama/model.safetensors.index.json
    readers llama | grep -v -e --tokenize | all_say 65 llama/model.safetensors.index.json extra.weight model-00001-of-
}

@test "a tensor in two parts is 65 and names both" {
    gguf() { # file no count tensor...
        perl -e 'sub str { pack "Q<a*", length $_[0], $_[0] }
            my ($file, $no, $count, @t) = @ARGV;
            my $h = "GGUF" . pack("L<Q<Q<", 3, scalar @t, 4) . str("general.architecture") . pack("L<", 8) . str("x")
                . str("split.no") . pack("L<S<", 2, $no) . str("split.count") . pack("L<S<", 2, $count)
                . str("split.tensors.count") . pack("L<l<", 5, 2);
            $h .= str($t[$_]) . pack("L<Q<L<Q<", 1, 8, 0, 32 * $_) for 0 .. $#t;
            open my $f, ">", $file; print $f $h, "\0" x (-length($h) % 32), pack("f<*", 1 .. 8 * @t)' "$@"
    }
    gguf d-1-of-2.gguf 0 2 a
    gguf d-2-of-2.gguf 1 2 a
    for part in d-1-of-2.gguf d-2-of-2.gguf; do
        for command in 'zt-convert --list' 'zt-convert --to gguf' 'zt-quant --type f16' 'zt-dna extract'; do
            [[ $command == *list* || $command == *extract* ]] && echo "$command $part" || echo "$command $part out"
        done
    done | all_say 65 d-1-of-2.gguf d-2-of-2.gguf "tensor 'a'"
    gguf d-2-of-2.gguf 1 2 b
    [ "$(zt-convert --list d-2-of-2.gguf | wc -l)" -eq 3 ]
    gguf merged.gguf 0 0 a # as gguf-split leaves what it has merged
    [ "$(zt-convert --list merged.gguf | wc -l)" -eq 2 ]
    gguf part-1-of-2.gguf 0 1 a # by its keys all of a model
    [ "$(zt-convert --list part-1-of-2.gguf | wc -l)" -eq 2 ]
    gguf part-2-of-2.gguf 0 1 b
    for part in part-1-of-2.gguf part-2-of-2.gguf; do
        echo "zt-convert --to gguf $part out"
    done | all_say 65 ' of 2 by the file name' part-1-of-2.gguf part-2-of-2.gguf
    gguf d-1-of-3.gguf 0 3 a # two by split.tensors.count
    gguf d-2-of-3.gguf 1 3 b
    gguf d-3-of-3.gguf 2 3 b
    echo 'zt-convert --list d-1-of-3.gguf' | all_say 65 d-2-of-3.gguf d-3-of-3.gguf "tensor 'b'"
    gguf odd-1-of-1.gguf 3 0 a
    echo 'zt-convert --list odd-1-of-1.gguf' | all_say 65 'invalid split.no 3'
}

# ---- a far alignment -------------------------------------------------------------------------------------

@test "a stream of an alignment of 2 GiB is passed over in 16 MiB" {
    perl -e 'sub str { pack "Q<a*", length $_[0], $_[0] }
        my $h = "GGUF" . pack("L<Q<Q<", 3, 1, 2) . str("general.architecture") . pack("L<", 8) . str("x")
            . str("general.alignment") . pack("L<L<", 4, 2**31) . str("t") . pack("L<Q<L<Q<", 1, 8, 0, 0);
        open my $f, ">", "far.gguf"; print $f $h; truncate $f, 2**31; seek $f, 2**31, 0; print $f pack("f<*", 1 .. 8)'
    cat far.gguf | zt-convert --mem-limit 16MiB - near.safetensors
    [ "$(zt-convert --cat t near.safetensors | tail -c 32 | od -An -v -f -w32 | xargs)" = '1 2 3 4 5 6 7 8' ]
    rm far.gguf
}

# ---- many inputs -----------------------------------------------------------------------------------------

@test "--list, --meta, --check and --hash take many files; the exit status is the worst" {
    zt-convert -q --no-history model.gguf b.safetensors
    for look in --list --meta '--list --by dtype' '--list --by layer'; do
        zt-convert $look model.gguf b.safetensors >both
        for f in model.gguf b.safetensors; do
            awk -F'\t' -v f="$f" '$1 == f' both | cut -f 2- | cmp - <(zt-convert $look "$f" | tail -n +2)
        done
        [ "$(head -1 both)" = "$(printf 'file\t'; zt-convert $look model.gguf | head -1)" ]
        zt-convert $look --format json model.gguf b.safetensors | json '$j->{rows}[0]{file} eq "model.gguf" && $j->{rows}[-1]{file} eq "b.safetensors"'
    done
    zt-convert --hash model.gguf b.safetensors >both
    diff <(sed -n 's/  b.safetensors  /  /p' both) <(zt-convert --hash b.safetensors)
    [ "$(wc -l <both)" -eq $((2 * $(zt-convert --hash model.gguf | wc -l))) ]

    [ -z "$(zt-convert --check model.gguf b.safetensors)" ]
    cp b.safetensors bad.safetensors
    truncate -s -1 bad.safetensors
    run -65 --separate-stderr zt-convert --check bad.safetensors model.gguf
    [ "${#stderr_lines[@]}" -eq 1 ]
    [[ $stderr == 'zt-convert: bad.safetensors: '* ]]
    for look in --list --meta --hash; do
        run -66 --separate-stderr zt-convert $look nowhere bad.safetensors model.gguf
        [ "${#stderr_lines[@]}" -eq 2 ]
        [[ ${stderr_lines[0]} == *nowhere* && ${stderr_lines[1]} == *bad.safetensors* && $output == *model.gguf* ]]
        [[ $output != *bad.safetensors* ]]
    done
    zt-convert --list - b.safetensors < <(cat model.gguf) | cut -f 1 | sort -u | xargs >names
    [ "$(cat names)" = '- b.safetensors file' ]
    all_refused zt-convert <<'END'
64|stdin is given 2 times|--list - -
64|expected one|--probe model.gguf b.safetensors
64|expected one|--cat x model.gguf b.safetensors
64|no input|--hash
END
}

# ---- what outputs keep -----------------------------------------------------------------------------------

# Each line of stdin "FILE|command": the command writes FILE anew where it was: mode and attributes stay.
all_keep() {
    local file line
    while IFS='|' read -r file line; do
        echo "$line"
        [ -e "$file" ] || echo old >"$file"
        chmod 0640 "$file"
        mark "$file"
        bash -c "umask 022; $line" >/dev/null 2>words </dev/null || { cat words; return 1; }
        [ "$(stat -c %a "$file")" = 640 ]
        [ "$(head -c 4 "$file")" != "old" ]
        marked "$file"
        ln -sf "$file" link
        bash -c "umask 077; ${line//$file/link}" >/dev/null 2>words </dev/null || { cat words; return 1; }
        [ -L link ]
        [ "$(stat -c %a "$file")" = 640 ]
        rm -f link
    done
}

mark() { :; }
marked() { :; }
attributes() {
    python3 -c 'import os; os.setxattr("text2", "user.zt", b"kept")' 2>/dev/null || return 0
    mark() { python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.zt", b"kept")' "$1"; }
    marked() { python3 -c 'import os, sys; assert os.getxattr(sys.argv[1], "user.zt") == b"kept"' "$1"; }
}

@test "outputs keep mode and attributes of what they replace; new ones follow umask" {
    cp text text2
    attributes
    zt-trace record -m model.gguf -q -o m.zt
    zt-run -m model.gguf -p hello -n 2 --raw --session o.session >raw
    "$tests/mkmodel" --arch llama --ctx 256 --seed 1 second.gguf
    all_keep <<'END'
o.txt|zt-run -m model.gguf -p hello -n 2 --raw -f -o o.txt
o.npy|zt-run -m model.gguf -p hello -n 0 -f --logits o.npy
o.npz|zt-run -m one.zt -i in.csv -f -o o.npz
o.session|zt-run -m model.gguf -p hello -n 2 --raw --session o.session
o.gguf|zt-convert -f model.gguf o.gguf
o.gguf|zt-convert --set general.name=a_longer_name_than_there_was o.gguf
o.gguf|zt-quant -f --type q8_0 model.gguf o.gguf
o.dat|zt-quant --make-imatrix -m model.gguf -i text -c 20 -f -o o.dat
o.zt|zt-trace record -m model.gguf -f -o o.zt
o.dot|zt-trace dot m.zt -f -o o.dot
o.json|zt-dna extract full.json -f -o o.json
o.svg|zt-dna compare -f --plot o.svg model.gguf model.gguf
c.gguf|zt-dna splice -f model.gguf model.gguf -o c.gguf
merged.gguf|zt-dna merge -f --method linear model.gguf second.gguf -o merged.gguf
n.json|zt-train -m net.json -i pairs.csv --epochs 1 -f -o n.json
END
    umask 027
    zt-convert model.gguf new.gguf
    [ "$(stat -c %a new.gguf)" = 640 ]
    umask 077
    zt-convert --to hf model.gguf newdir
    [ "$(stat -c %a newdir)" = 700 ]
    mkdir -m 750 kept
    zt-convert --to hf model.gguf kept
    [ "$(stat -c %a kept)" = 750 ]
}
