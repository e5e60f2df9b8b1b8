# sandbox.bats - what a reader can do that a hostile file has taken over: in each tool, by tests/tools/plant/reader.c.
load ../common/helper

setup_file() {
    make_models
    mkdir -p "$BATS_FILE_TMPDIR/reader"
    for tool in "$bin"/zt-*; do ln -s "$(realpath "$tests/zt-reader")" "$BATS_FILE_TMPDIR/reader/${tool##*/}"; done
    cd "$BATS_FILE_TMPDIR"
    zt-convert -q "$tiny" model.safetensors
    zt-convert -q --to hf "$tiny" folder/
    zt-train --new sequential --set inputSize=2 --set hiddenSize=4 --set outputSize=1 --epochs 0 -i <(printf 'x,y,z\n1,2,3\n') -o net.json 2>/dev/null ||
        printf '{"id":"n","depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"z":0,"y":0,"x":0,"l":0,"type":"DENSE","activation":"LINEAR","dtype":"FLOAT32","input_height":2,"output_height":1}]}' >net.json
    printf '1,2,3\n2,3,4\n' >data.csv
    printf '1,2,3,4\n' >x.csv
    printf 'zt program 1\nin x: f32[4]\ny = neg x\nout y = y\n' >p.zt
    printf 'some text of a few words\n' >text
}

has_sandbox() { zt-convert --sandbox on --list "$tiny" >/dev/null 2>&1; }

# Runs TOOL WORD... with the planted reader; its deeds in ./deeds. A port on which somebody listens is $ZT_PORT.
planted() { # tool word...
    mkdir -p "$BATS_TEST_TMPDIR/secrets"
    printf 'secret\n' >"$BATS_TEST_TMPDIR/secrets/file"
    rm -f deeds
    local tool=$1
    shift
    ZT_PLANTED=3 ZT_SECRET=$BATS_TEST_TMPDIR/secrets/file perl -MIO::Socket::INET -e '
        my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1") or die $!;
        $ENV{ZT_PORT} = $server->sockport;
        my $status = system(@ARGV);
        exit($status & 127 ? 128 + ($status & 127) : $status >> 8)' "$BATS_FILE_TMPDIR/reader/$tool" "$@" 3>deeds >out 2>err </dev/null
}

in_folder() {
    mkdir -p "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work"
    ln -sf "$BATS_FILE_TMPDIR"/{model.safetensors,folder,net.json,data.csv,x.csv,p.zt,text} "$tiny" .
    ln -sf "$tiny" model.gguf
    cp "$tiny" second.gguf
}

@test "without a sandbox the planted reader has its way" {
    in_folder
    planted zt-convert --sandbox off --list model.gguf
    for deed in 'reads a file' 'reads /etc/passwd' 'writes a file' 'creates a file' 'executes a program' 'connects' 'removes a file' \
        'makes code' 'signals its parent'; do
        grep -qx "$deed" deeds || { echo "not done: $deed"; cat deeds err; false; }
    done
    [ ! -e "$BATS_TEST_TMPDIR/secrets/file" ]
}

@test "the planted reader gets nothing, in every tool" {
    has_sandbox || skip "$(zt-convert --sandbox on --list "$tiny" 2>&1)"
    in_folder
    while read -r line; do
        planted $line || { echo "fails: $line"; cat err; false; }
        [ "$(cat deeds)" = 'tried 24' ] || { echo "$line:"; cat deeds; false; }
        [ "$(cat "$BATS_TEST_TMPDIR/secrets/file")" = secret ]
    done <<'END'
zt-run -m model.gguf -p word -n 2 --raw
zt-run -m folder -p word -n 2 --raw -o answer
zt-run -m model.gguf --tokenize -p word
zt-run -m model.gguf --perplexity text -c 8
zt-run -m model.gguf -p word -n 2 --raw --session s --logits l.npy --kv-store store --receipt r.json
zt-run -m p.zt -i x.csv -o y.npz
zt-convert --list model.gguf
zt-convert --check model.safetensors
zt-convert model.safetensors new.gguf
zt-convert folder new.safetensors
zt-convert model.gguf other/
zt-quant --type q8_0 model.gguf small.gguf
zt-quant --make-imatrix -m model.gguf -i text -c 4 -o imatrix
zt-bench kld model.gguf model.gguf -i text -c 4
zt-trace record -m model.gguf -p word -o program.zt
zt-trace stats p.zt
zt-trace diff --engine ref,cpu p.zt
zt-dna compare model.gguf model.gguf
zt-dna merge --method linear model.gguf second.gguf -o merged.gguf
zt-dna transplant model.gguf second.gguf -o transplanted.gguf
zt-train --eval -m net.json -i data.csv
zt-train -m net.json -i data.csv --epochs 1 -o trained.json --plot loss.svg --report page
zt-train --text text -m model.gguf --lora 2,4 --epochs 1 -c 4 --batch 1 -o adapter/
END
}

# Recipes name models, which are read inside: files are readable, and nothing else is done.
@test "the planted reader of a mixture's recipe reads files, no more" {
    has_sandbox || skip "$(zt-convert --sandbox on --list "$tiny" 2>&1)"
    in_folder
    echo '{"base_model": "model.gguf", "gate_mode": "random", "experts": [{"source_model": "model.gguf"}, {"source_model": "second.gguf"}]}' >experts.json
    planted zt-dna moe -q experts.json -o mixture.gguf || { cat err; false; }
    [ "$(grep -cvE '^(reads|lists) ' deeds)" = 1 ] && grep -qx 'tried 24' deeds || { cat deeds; false; }
    [ "$(cat "$BATS_TEST_TMPDIR/secrets/file")" = secret ]
}

@test "ptrace ends the process" {
    has_sandbox || skip "no sandbox"
    in_folder
    export ZT_PTRACE=1
    local code=0
    planted zt-convert --list model.gguf || code=$?
    [ "$code" -eq 159 ] # SIGSYS
    [ ! -s deeds ]
}

@test "--sandbox on, off and auto: what -v prints, what is refused" {
    in_folder
    zt-convert -v --list model.gguf 2>err >/dev/null
    grep -q '^zt-convert: sandbox: ' err
    zt-convert -v --sandbox off --list model.gguf 2>err >/dev/null
    ! grep -q sandbox err
    run --separate-stderr zt-bench run --sandbox on -r 1 -- true
    [ "$status" -eq 64 ]
    one_message zt-bench
    zt-bench run -v -r 1 -- true 2>err >/dev/null
    grep -q '^zt-bench: sandbox: none' err
    has_sandbox || skip "$(zt-convert --sandbox on --list "$tiny" 2>&1)"
    zt-convert -v --sandbox on --list model.gguf 2>err >/dev/null
    grep -qE '^zt-convert: sandbox: files by Landlock [0-9]+, system calls by a seccomp filter$' err
}

# A library that is found by its own path alone, as in a kernel without Landlock, is not tried here: its version is the kernel's.
@test "links, pipes, sockets of a shell and other directories work inside" {
    in_folder
    mkdir -p elsewhere deep/er
    ln -s ../elsewhere/result.gguf deep/link.gguf
    zt-convert -f model.safetensors deep/link.gguf
    [ -s elsewhere/result.gguf ] && [ -L deep/link.gguf ]
    zt-convert model.safetensors - | zt-convert --hash - >one
    zt-convert --hash <(cat model.gguf) >two
    cmp one two
    zt-run -m model.gguf -p word -n 2 --raw -o /dev/stdout | grep -q .
    zt-run -m model.gguf -i <(printf word) -n 2 --raw -o deep/er/answer
    [ -s deep/er/answer ]
}
