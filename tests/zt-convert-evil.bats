#!/usr/bin/env bats
# zt-convert and checkpoints that mean harm (tests/ptw.h): every one is bad data, and nothing is
# started, connected to or written on the way.

load helper

setup_file() {
    [ -x "$bin/zt-convert" ] || skip "no zt-convert in $bin"
    mkdir "$BATS_FILE_TMPDIR/evil"
    "$tests/pt" --evil "$BATS_FILE_TMPDIR/evil"
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    evil=$BATS_FILE_TMPDIR/evil
    # What torch.save would make of an object whose __reduce__ is (os.system, ("touch pwned",)).
    printf '\x80\x02cposix\nsystem\nq\x00X\x0b\x00\x00\x00touch pwnedq\x01\x85q\x02Rq\x03.' >data.pkl
}

# Uncompressed, as PyTorch's are.
make_zip() {
    command -v python3 >/dev/null || skip "no python3 to make a zip"
    python3 -c 'import zipfile
z = zipfile.ZipFile("evil.pt", "w")
z.write("data.pkl", "archive/data.pkl")
z.writestr("archive/version", "3\n")
z.close()'
}

@test "each is 65, one line, and leaves nothing" {
    [ "$(ls "$evil" | wc -l)" -gt 150 ]
    for f in "$evil"/*.pt; do
        run -65 --separate-stderr zt-convert "$f" out.gguf
        one_message zt-convert || { echo "$f: $stderr"; false; }
        [ -z "$output" ]
    done
    [ ! -e out.gguf ]
}

@test "evil.pt calls nothing: strace sees one program, no connection, no file made" {
    command -v strace >/dev/null || skip "no strace"
    make_zip
    for how in --list --check --hash; do
        code=0
        strace -f -o log -e trace=execve,execveat,fork,vfork,socket,connect,unlink,rename,openat \
            zt-convert $how evil.pt >/dev/null 2>&1 || code=$?
        grep -q 'ptrace' log && skip "no ptrace here"
        [ "$code" -eq 65 ] || { echo "$how: $code"; false; }
        [ "$(grep -c 'execve' log)" -eq 1 ]
        ! grep -E 'fork|socket|connect|O_CREAT|O_WRONLY|O_RDWR' log
    done
    [ ! -e pwned ]
}

@test "the message names what it asked for" {
    make_zip
    run -65 --separate-stderr zt-convert evil.pt out.safetensors
    [[ $stderr == *"posix.system"* ]]
    [ ! -e pwned ] && [ ! -e out.safetensors ]
}
