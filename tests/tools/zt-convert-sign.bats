#!/usr/bin/env bats
# zt-convert --sign and --verify-signature: signatures of the reference implementation (tests/sign/make.py), those of zt, and what is
# found in a changed model or signature.

bats_require_minimum_version 1.5.0
load ../common/helper

setup() {
    cp -r "$repo/tests/sign/reference" "$BATS_TEST_TMPDIR/r"
    cd "$BATS_TEST_TMPDIR/r"
    chmod -R u+w .
}

verify() { zt-convert --verify-signature "$@"; } # SIG --public-key KEY MODEL
# refused STATUS MESSAGE: verify's status, and its one line, without the name of the tool
refused() {
    local wanted=$1 message=$2
    shift 2
    run --separate-stderr -"$wanted" zt-convert --verify-signature "$@"
    one_message zt-convert
    [[ $stderr == "zt-convert: "$message ]] || { echo "$stderr" && return 1; }
    [ -z "$output" ]
}

@test "signatures of the reference: each curve, a file, a directory, a receipt" {
    for curve in p256 p384 p521; do
        verify folder-$curve.sig --public-key $curve.pub model
        verify file-$curve.sig --public-key $curve.pub model/model.safetensors
    done
    verify receipt.sig --public-key p256.pub receipt.json
}

@test "signatures of zt: each kind of key, a file, a directory, a receipt of zt-run" {
    for key in p256 p384 p521 ed25519; do
        for model in model model/model.safetensors receipt.json; do
            zt-convert --sign $key.pem -o x.sig -f $model
            verify x.sig --public-key $key.pub $model
            refused 1 "x.sig: signed with another key than signer.pub" x.sig --public-key <(openssl pkey -in signer.pem -pubout) $model ||
                [[ $stderr == *"signed with another key than /dev/fd/"* ]]
        done
    done
    "$ZT_TESTS/mkmodel" --arch llama --ctx 64 m.gguf
    zt-run -q -m m.gguf --raw -p hello -n 20 --receipt run.json >/dev/null
    zt-convert --sign ed25519.pem run.json
    verify run.json.sig --public-key ed25519.pub run.json
    sed -i 's/"seed":"/"seed":"1/' run.json
    refused 1 "run.json: not what was signed: SHA-256 * signed *" run.json.sig --public-key ed25519.pub run.json
}

@test "Ed25519 has the same bytes each time; ECDSA has others, which verify" {
    zt-convert --sign ed25519.pem model -o a.sig
    zt-convert --sign ed25519.pem model/ -o b.sig
    cmp a.sig b.sig
    for name in a b; do zt-convert --sign p256.pem model -o $name.sig -f; done
    ! cmp -s a.sig b.sig
    verify a.sig --public-key p256.pub model
}

@test "the bundle and its statement are those of zt-formats(5)" {
    zt-convert --sign ed25519.pem receipt.json
    sum=$(sha256sum <receipt.json | cut -d' ' -f1)
    all=$(printf "${sum//??/\\x&}" | sha256sum | cut -d' ' -f1)
    hint=$(sha256sum <ed25519.pub | cut -d' ' -f1)
    payload='{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"receipt.json","digest":{"sha256":"'$all'"}}],"predicateType":"https://model_signing/signature/v1.0","predicate":{"resources":[{"algorithm":"sha256","digest":"'$sum'","name":"."}],"serialization":{"allow_symlinks":false,"hash_type":"sha256","ignore_paths":[".git",".gitattributes",".github",".gitignore"],"method":"files"}}}'
    printf 'DSSEv1 28 application/vnd.in-toto+json %d %s' ${#payload} "$payload" >signed
    openssl pkeyutl -sign -rawin -inkey ed25519.pem -in signed -out signature
    printf '{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":"%s"},"tlogEntries":[]},"dsseEnvelope":{"payload":"%s","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"%s","keyid":""}]}}\n' \
        "$hint" "$(printf %s "$payload" | base64 -w0)" "$(base64 -w0 signature)" | cmp - receipt.json.sig
}

@test "a changed, a missing, an added file: 1, and its name" {
    for sig in folder-p256.sig zt.sig; do
        [ -e $sig ] || zt-convert --sign p256.pem model -o $sig
        cp -r model changed
        perl -pi -e 's/space/spacf/' "changed/with a space"
        refused 1 "changed/with a space: not what was signed: SHA-256 *, signed *" $sig --public-key p256.pub changed
        rm "changed/with a space"
        refused 1 "changed/with a space: is signed, but missing" $sig --public-key p256.pub changed
        cp "model/with a space" changed
        touch changed/sub/new
        refused 1 "changed/sub/new: is not signed" $sig --public-key p256.pub changed
        rm changed/sub/new
        ln -s config.json changed/link
        refused 1 "changed/link: is a symbolic link" $sig --public-key p256.pub changed
        rm changed/link
        mkfifo changed/pipe
        refused 1 "changed/pipe: is neither a file nor a directory" $sig --public-key p256.pub changed
        rm changed/pipe
        verify $sig --public-key p256.pub changed
        refused 1 "model/config.json: a file, but the signature is of a directory" $sig --public-key p256.pub model/config.json
        rm -r changed
    done
    refused 1 "model: a directory, but the signature is of a file" file-p256.sig --public-key p256.pub model
}

@test "a bit of each file, and of the signature's bytes" {
    for file in model/model.safetensors model/sub/tokenizer.json model/sub-b; do
        cp $file kept
        perl -0777 -pi -e 'substr($_, length() / 2, 1) ^= chr 1' $file
        refused 1 "$file: not what was signed: *" folder-p384.sig --public-key p384.pub model
        cp kept $file
    done
    for sig in folder-p256 folder-p521 file-p384; do
        for at in 0 7 -1; do
            perl -MJSON::PP -MMIME::Base64 -0777 -ne '$b = decode_json($_); $s = $b->{dsseEnvelope}{signatures}[0];
                $x = decode_base64($s->{sig}); substr($x, '$at', 1) ^= chr 1; $s->{sig} = encode_base64($x, ""); print encode_json($b)' $sig.sig >x.sig
            model=model/model.safetensors
            [[ $sig == file* ]] || model=model
            refused 1 "x.sig: not a signature by ${sig#*-}.pub of what it states" x.sig --public-key ${sig#*-}.pub $model
        done
    done
}

@test "a changed statement, another key" {
    perl -MJSON::PP -MMIME::Base64 -0777 -ne '$b = decode_json($_); $e = $b->{dsseEnvelope}; $p = decode_base64($e->{payload});
        $p =~ s/sub-b/sub-c/; $e->{payload} = encode_base64($p, ""); print encode_json($b)' folder-p256.sig >x.sig
    refused 1 "x.sig: not a signature by p256.pub of what it states" x.sig --public-key p256.pub model
    refused 1 "folder-p256.sig: signed with another key than p384.pub" folder-p256.sig --public-key p384.pub model
    sed 's/"hint":"[0-9a-f]*"/"hint":""/' folder-p256.sig >x.sig
    verify x.sig --public-key p256.pub model
    refused 1 "x.sig: not a signature by p384.pub of what it states" x.sig --public-key p384.pub model
}

@test "git's files and the signature inside a directory are ignored, others are not" {
    mkdir model/.git
    touch model/.git/config model/.gitignore
    zt-convert --sign ed25519.pem model -o model/my.sig
    verify model/my.sig --public-key ed25519.pub model
    (cd model && verify my.sig --public-key ../ed25519.pub .)
    verify folder-p256.sig --public-key p256.pub model 2>/dev/null && false
    refused 1 "model/my.sig: is not signed" folder-p256.sig --public-key p256.pub model
    rm model/my.sig
    verify folder-p256.sig --public-key p256.pub model
    mkdir model/sub/.git
    touch model/sub/.git/x
    refused 1 "model/sub/.git/x: is not signed" folder-p256.sig --public-key p256.pub model
}

@test "paths that a signature ignores" {
    mkdir model/.github
    touch model/.github/x
    verify with-git.sig --public-key p256.pub model # it names none: those of git by default
    rm -r model/.github
    rm -r model/sub model/config.json
    verify without-config.sig --public-key p256.pub model
    refused 1 "model/config.json: is signed, but missing" folder-p256.sig --public-key p256.pub model
}

@test "symbolic links: refused, or signed with --allow-symlinks" {
    mv model/config.json real.json
    ln -s ../real.json model/config.json
    run --separate-stderr -65 zt-convert --sign p256.pem model
    [ "$stderr" = "zt-convert: model: 'config.json' is a symbolic link, which cannot be signed" ]
    [ ! -e model.sig ]
    verify symlinks.sig --public-key p256.pub model
    zt-convert --sign p256.pem --allow-symlinks model
    verify model.sig --public-key p256.pub model
    ln -s . model/loop
    run --separate-stderr -65 zt-convert --sign p256.pem --allow-symlinks model -f
    [ "$stderr" = "zt-convert: model: 'loop' is a symbolic link to a directory, which cannot be signed" ]
    refused 1 "model/loop: is a symbolic link to a directory" model.sig --public-key p256.pub model
}

@test "certificates: trusted by a root, by none, and not for signatures" {
    verify certificate.sig --ca-certificates root.crt model
    verify certificate.sig --ca-certificates <(cat signer.crt root.crt) model
    refused 1 "certificate.sig: the signer's certificate is not trusted: *" certificate.sig --ca-certificates signer.crt model
    refused 1 "server.sig: the signer's certificate is not for digital signatures or code signing" server.sig --ca-certificates root.crt model
    refused 65 "p256.pub: no certificate in PEM format" certificate.sig --ca-certificates p256.pub model
    refused 64 "certificate.sig: signed with a certificate, but no trusted certificates are given" certificate.sig --public-key p256.pub model
    refused 64 "folder-p256.sig: signed with a key, but no public key is given" folder-p256.sig --ca-certificates root.crt model
    echo x >>model/sub-b
    refused 1 "model/sub-b: not what was signed: *" certificate.sig --ca-certificates root.crt model
}

@test "keys: encrypted, of another kind, public for private" {
    echo "open sesame" >password
    zt-convert --sign encrypted.pem --password-file password receipt.json
    verify receipt.json.sig --public-key p256.pub receipt.json
    fails() { # status, message, arguments
        run --separate-stderr -"$1" zt-convert "${@:3}" -f receipt.json </dev/null
        [ "$stderr" = "zt-convert: $2" ] || { echo "$stderr" && return 1; }
    }
    fails 64 "encrypted.pem: the key is encrypted, and no password is given" --sign encrypted.pem
    fails 65 "encrypted.pem: the password does not decrypt the key" --sign encrypted.pem --password-file receipt.json
    fails 69 "rsa.pem: the key is of a kind that is not supported, expected ECDSA P-256, P-384, P-521 or Ed25519" --sign rsa.pem
    fails 65 "p256.pub: a public key, expected a private key" --sign p256.pub
    fails 65 "receipt.json: not a private key in PEM format, expected ECDSA P-256, P-384, P-521 or Ed25519" --sign receipt.json
    fails 66 "none.pem: No such file or directory" --sign none.pem
    refused 65 "p256.pem: a private key, expected a public key" folder-p256.sig --public-key p256.pem model
    refused 69 "*: the key is of a kind that is not supported, expected *" folder-p256.sig \
        --public-key <(openssl pkey -in rsa.pem -pubout) model
    openssl ecparam -name secp256k1 -genkey -noout -out koblitz.pem
    fails 69 "koblitz.pem: the key is of a kind that is not supported, expected ECDSA P-256, P-384, P-521 or Ed25519" --sign koblitz.pem
}

@test "an existing signature, no model, stdin, an empty directory, one shard" {
    zt-convert --sign p256.pem receipt.json
    run --separate-stderr -73 zt-convert --sign p256.pem receipt.json
    one_message zt-convert
    run --separate-stderr -66 zt-convert --sign p256.pem none
    one_message zt-convert
    run --separate-stderr -64 zt-convert --sign p256.pem - -o x.sig
    one_message zt-convert
    run --separate-stderr -64 zt-convert --sign p256.pem model/..
    one_message zt-convert
    mkdir empty
    run --separate-stderr -65 zt-convert --sign p256.pem empty
    [ "$stderr" = "zt-convert: empty: there is no file to sign" ]
    cp receipt.json m-00001-of-00002.gguf
    run --separate-stderr -0 zt-convert --sign p256.pem m-00001-of-00002.gguf
    [[ $stderr == *"only this file is signed"* ]]
    refused 64 "option '--verify-signature' needs '--public-key' or '--ca-certificates'" m.sig model
}

@test "other forms of signatures are refused by name: 69" {
    refused 69 "shards.sig: method 'shards' is not supported, expected 'files'" shards.sig --public-key p256.pub model
    refused 69 "blake2.sig: hash_type 'blake2b' is not supported, expected 'sha256'" blake2.sig --public-key p256.pub model
    refused 69 "blake3.sig: hash_type 'blake3' is not supported, expected 'sha256'" blake3.sig --public-key p256.pub model
    sed 's/"publicKey":{[^}]*}/"certificate":{"rawBytes":"AAAA"}/' folder-p256.sig >x.sig
    refused 69 "x.sig: keyless signatures by Sigstore are not supported, only keys and chains of certificates" x.sig --public-key p256.pub model
    ZT_LIBCRYPTO=/none.so refused 69 "a signature needs libcrypto, not found as /none.so: install the package libssl3" \
        folder-p256.sig --public-key p256.pub model
}

@test "malformed signatures: 65, one line" {
    while IFS= read -r change; do
        perl -MJSON::PP -MMIME::Base64 -0777 -ne '$b = decode_json($_); $m = $b->{verificationMaterial}; $e = $b->{dsseEnvelope}; '"$change"'; print ref $b ? encode_json($b) : $b' \
            folder-p256.sig >x.sig
        refused 65 "x.sig: *" x.sig --public-key p256.pub model || { echo "$change" && return 1; }
    done <<'END'
$b = ""
$b = "null"
$b = "[]"
$b = substr($_, 0, length() / 2)
$b = substr($_, 0, -2)
$b = "[" x 100000
$b = '{"mediaType":' . "[" x 5000 . "]" x 5000 . "}"
$b->{mediaType} = "application/json"
$b->{mediaType} = 3
delete $b->{mediaType}
$b->{verificationMaterial} = []
delete $m->{publicKey}
$m->{certificate} = {}
$m->{publicKey} = "x"
$m->{publicKey}{hint} = 7
delete $m->{publicKey}; $m->{x509CertificateChain} = {certificates => []}
delete $m->{publicKey}; $m->{x509CertificateChain} = {certificates => [(({rawBytes => "AAAA"}) x 17)]}
delete $m->{publicKey}; $m->{x509CertificateChain} = {certificates => ["AAAA"]}
$b->{dsseEnvelope} = "x"
$e->{payloadType} = "text/plain"
delete $e->{payload}
$e->{payload} = {}
$e->{payload} = "a*b="
$e->{payload} = "A"
$e->{signatures} = []
$e->{signatures} = [{sig => "AAAA"}, {sig => "AAAA"}]
$e->{signatures} = ["AAAA"]
$e->{signatures}[0]{sig} = "===="  . "A" x 5
$b = $_; $b =~ s/^\{/{"mediaType":"a",/
END
}

@test "malformed statements that are signed: 65, one line" {
    while IFS= read -r change; do
        perl -MJSON::PP -MMIME::Base64 -0777 -ne '$p = decode_json(decode_base64(decode_json($_)->{dsseEnvelope}{payload}));
            $r = $p->{predicate}{resources}; $s = $p->{predicate}{serialization}; '"$change"'; $p = encode_json($p) if ref $p;
            print "DSSEv1 28 application/vnd.in-toto+json ", length $p, " $p"; open F, ">payload"; print F encode_base64($p, "")' folder-p256.sig >signed
        openssl dgst -sha256 -sign p256.pem -out signature signed
        perl -MJSON::PP -e 'local $/; $b = decode_json(<STDIN>); $b->{dsseEnvelope}{payload} = `cat payload`;
            $b->{dsseEnvelope}{signatures}[0]{sig} = `base64 -w0 signature`; print encode_json($b)' <folder-p256.sig >x.sig
        refused 65 "x.sig: *" x.sig --public-key p256.pub model || { echo "$change" && return 1; }
    done <<'END'
$p = ""
$p = "{"
$p = "[1]"
$p->{_type} = "x"
$p->{_type} = 1
$p->{predicateType} = "x"
delete $p->{predicateType}
$p->{predicate} = 1
delete $s->{method}
$s->{allow_symlinks} = "false"
$s->{ignore_paths} = "x"
$s->{ignore_paths} = [1]
$s->{ignore_paths} = ["."]
$s->{ignore_paths} = ["sub"]
$p->{predicate}{resources} = {}
@$r = ()
$r->[0] = "x"
$r->[0]{name} = "../x"
$r->[0]{name} = "/etc/passwd"
$r->[0]{name} = "sub//x"
$r->[0]{name} = ""
$r->[0]{digest} = "00"
$r->[0]{digest} = uc $r->[0]{digest}
$r->[0]{digest} = $r->[1]{digest}
$r->[1] = $r->[0]
$p->{subject} = []
$p->{subject}[0]{digest} = {}
$p->{subject}[0]{digest}{sha256} = "0" x 64
END
}

@test "interrupted: no signature, 130" {
    truncate -s 8G big
    run --separate-stderr -130 interrupt_when true zt-convert --sign ed25519.pem big
    [ -z "$(ls -A | grep 'big.sig')" ]
}

@test "model-signing verifies what zt signs, where it is installed" {
    "${ZT_PYTHON:-python3}" -c 'import model_signing' 2>/dev/null || skip "no model_signing: pip install model-signing"
    run -0 "${ZT_PYTHON:-python3}" "$repo/tests/sign/make.py" --check
    [[ $output == *"18 signatures verified, model-signing "* ]]
}
