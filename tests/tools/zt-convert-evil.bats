#!/usr/bin/env bats
# zt-convert and checkpoints that mean harm (tests/io/pt_writer.h): every one is bad data, and nothing is
# started, connected to or written on the way.

load ../common/helper

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
        traced -o log -e trace=execve,execveat,fork,vfork,socket,connect,unlink,rename,openat \
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

@test "--check tells all faults of archives, not the first alone" {
    command -v python3 >/dev/null || skip "no python3 to make a zip"
    python3 - <<'P'
import zipfile
def npy(shape, data):
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % shape
    return b'\x93NUMPY\x01\x00' + bytes([len(head) + 1, 0]) + head + b'\n' + data
z = zipfile.ZipFile('a.npz', 'w')
z.writestr('good.npy', npy(b'(1,)', b'\0\0\0\0'))
z.writestr('short.npy', npy(b'(2,)', b'\0\0\0\0'))
z.writestr('head.npy', b'\x93NUMPY\x07\x00')
z.writestr('sum.npy', npy(b'(1,)', b'\x01\x02\x03\x04'))
z.writestr('nan.npy', npy(b'(1,)', b'\0\0\xc0\x7f'))
z.close()
b = open('a.npz', 'rb').read()
open('a.npz', 'wb').write(b.replace(b'\x01\x02\x03\x04', b'\x01\x02\x03\x05'))
def tensor(key):
    u = lambda s: b'\x8c' + bytes([len(s)]) + s
    storage = b'(' + u(b'storage') + b'ctorch\nFloatStorage\n' + u(key) + u(b'cpu') + b'K\x01tQ'
    return u(b't' + key) + b'ctorch._utils\n_rebuild_tensor_v2\n(' + storage + b'K\x00))\x89NtR'
z = zipfile.ZipFile('a.pt', 'w')
z.writestr('a/data.pkl', b'\x80\x02}(' + tensor(b'0') + tensor(b'1') + tensor(b'2') + b'u.')
z.writestr('a/version', '3\n')
z.writestr('a/data/0', b'\0\0\0\0')
z.writestr('a/data/1', b'\0\0')
z.close()
P
    run -65 --separate-stderr zt-convert --check a.npz
    for fault in "'short.npy': expected 8 bytes of data, got 4" "'head.npy': truncated npy file (8 bytes)" "'sum.npy': CRC-32 mismatch" \
        "'nan': 1 NaN"; do
        [[ $output == *"$fault"* ]] || { echo "$output"; false; }
    done
    [ "${#lines[@]}" -eq 4 ]
    run -65 --separate-stderr zt-convert --check a.pt
    [[ $output == *"storage '1' has 4 bytes, but its zip member has 2"* && $output == *"'t2': storage '2' is not in the file"* ]]
    [ "${#lines[@]}" -eq 2 ]
    run -65 zt-convert --list a.pt
    run -65 zt-convert --list a.npz
}

@test "a dtype is its letters: space before the closing quote is not a part that may be left out" {
    npy() { # DESCR
        local head="{'descr': '$1', 'fortran_order': False, 'shape': (1,), }"
        printf '\x93NUMPY\x01\x00\x'"$(printf %02x $((${#head} + 1)))"'\x00%s\n\x00\x00\x00\x00' "$head"
    }
    npy '<f4' >good.npy
    zt-convert --list good.npy
    for descr in '<f4 ' $'<f4\n' '<f4"'; do
        npy "$descr" >bad.npy
        run -65 zt-convert --list bad.npy
        [ "${#lines[@]}" -eq 1 ]
    done
}

@test "weights beside unknown globals: one warning names them, and every way serves the weights" {
    python3 -c '
import struct, zipfile
u = lambda s: b"X" + struct.pack("<I", len(s)) + s
storage = b"(" + u(b"storage") + b"ctorch\nFloatStorage\n" + u(b"0") + u(b"cpu") + b"K\x0ctQ"
w = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00K\x03K\x04\x86K\x04K\x01\x86\x89NtR"
args = b"cargparse\nNamespace\n)\x81}" + u(b"lr") + b"G?\xb9\x99\x99\x99\x99\x99\x9asb"
attack = b"cposix\nsystem\n" + u(b"touch pwned") + b"\x85R"
sparse = b"ctorch._utils\n_rebuild_sparse_tensor\nN)\x86R"
z = zipfile.ZipFile("a.pt", "w")
z.writestr("a/data.pkl", b"\x80\x02}(" + u(b"args") + args + u(b"w") + w + u(b"x") + attack + u(b"s") + sparse + b"u.")
z.writestr("a/version", "3\n")
z.writestr("a/data/0", struct.pack("<12f", *range(12)))' || skip "no python3 to make a zip"
    for how in --list --check --hash "--cat w"; do
        run -0 --separate-stderr zt-convert $how a.pt
        [[ $stderr == *"unknown globals"*": argparse.Namespace, posix.system; tensors that cannot be read: 's' (a sparse tensor)" ]]
        one_message zt-convert
    done
    zt-convert -q a.pt a.safetensors
    [ "$(zt-convert --list a.safetensors | tail -n +2)" = $'w\tf32\t[3,4]\t48' ]
    diff <(zt-convert -q --cat w a.pt) <(zt-convert --cat w a.safetensors)
    [ ! -e pwned ]
}
